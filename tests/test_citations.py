"""What the tree cites exists: files, documents, sections, properties, modules and names in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from plugins.folders import REPOSITORY

FOLDERS = ("docs", "jtrans", "scripts", "tests")
KINDS = {".cff", ".css", ".html", ".js", ".md", ".py", ".sh", ".toml", ".yaml"}

# Names that stand for a reader's own file, or for one that a command makes.
EXAMPLES = re.compile(
    r"\b(yours|mine|my)\b|data/(prepared|downloads)\b|\b(?!README|CONTRIBUTING|CHANGELOG)[A-Z]{3,}|\*|\{"
)
# Files of the released Reformer code, and the group of entry points.
ELSEWHERE = {"scripts/train.sh", "scripts/nist-train.sh", "jtrans.systems"}

FILE = re.compile(
    r"(?<![\w/.-])((?:docs|jtrans|scripts|tests|data)/[\w./*{}-]*\w"  # of the tree
    r"\.(?:css|html|jinja|js|json|md|png|py|sh|svg|toml|txt|xz)\b"
    r"|[\w./-]*\w\.md\b)"  # any document
)
QUOTED = re.compile(r"`((?:docs|jtrans|scripts|tests|data)/[\w./*{}-]*)`")
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]+)?\)")
SECTIONS = re.compile(r"docs/systems\.md ((?:\d+(?:\.\d+)?(?:, | and )?)+)")
PROPERTIES = re.compile(r"(?:propert(?:y|ies) |# )((?:[EFGRT]\d+(?:, | and )?)+)(?![\w.])")
MODULE = re.compile(r"(?:`|python -m )((?:jtrans|scripts)(?:\.\w+)+)")


@cache
def texts() -> dict[Path, str]:
    """Return every text of the tree that may cite something."""
    files = [path for path in REPOSITORY.iterdir() if path.is_file()]
    files += [path for folder in FOLDERS for path in (REPOSITORY / folder).rglob("*")]
    chosen = sorted(path for path in files if path.suffix in KINDS and path != Path(__file__))
    return {path: path.read_text(encoding="utf-8") for path in chosen}


@cache
def headings(path: Path) -> list[str]:
    """Return the headings of a document."""
    return re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)


@cache
def anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a document."""
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings(path)}


def is_there(path: Path, cited: str) -> bool:
    """Say whether a file exists: in the tree, beside the citing one, or among the documents."""
    return any(
        (folder / cited).exists() for folder in (REPOSITORY, path.parent, REPOSITORY / "docs")
    )


def has_section(_: Path, number: str) -> bool:
    titles = headings(REPOSITORY / "docs" / "systems.md")
    return any(re.match(rf"{re.escape(number)}\.? ", title) for title in titles)


def has_property(_: Path, name: str) -> bool:
    text = texts()[REPOSITORY / "docs" / "systems.md"]
    return (
        re.search(rf"^\| {name} \||\b{name} [a-z]|Property {name}:", text, re.MULTILINE) is not None
    )


def is_defined(_: Path, dotted: str) -> bool:
    """Say whether a dotted name is a module or package of the tree, or a name in one."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        folder = REPOSITORY.joinpath(*parts[:length])
        files = [folder.with_suffix(".py"), folder / "__init__.py"]
        if module := next((file for file in files if file.is_file()), None):
            code = module.read_text(encoding="utf-8")
            name = parts[length] if length < len(parts) else ""
            start = r"^(?: {4})?(?:def |class |from .*)?"
            return re.search(rf"{start}\b{name}\b", code, re.MULTILINE) is not None
    return False


def words(pattern: re.Pattern[str]) -> Callable[[str], Iterator[str]]:
    """Return what finds the items of the lists that a pattern matches."""
    return lambda text: (
        item for match in pattern.finditer(text) for item in re.split(", | and ", match[1]) if item
    )


CITATIONS: dict[str, tuple[Callable[[str], Iterator[str]], Callable[[Path, str], bool]]] = {
    "file": (words(FILE), is_there),
    "quoted path": (words(QUOTED), is_there),
    "section": (words(SECTIONS), has_section),
    "property": (words(PROPERTIES), has_property),
    "module": (words(MODULE), is_defined),
}


@pytest.mark.parametrize("kind", CITATIONS)
def test_everything_cited_exists(kind: str) -> None:
    find, exists = CITATIONS[kind]
    missing = [
        f"{path.relative_to(REPOSITORY)}: {cited}"
        for path, text in texts().items()
        for cited in find(text)
        if not EXAMPLES.search(cited) and cited not in ELSEWHERE and not exists(path, cited)
    ]
    assert not missing, "\n".join(missing)


def test_links_between_documents_lead_somewhere() -> None:
    broken = []
    for path in (path for path in texts() if path.suffix == ".md"):
        for target, anchor in LINK.findall(texts()[path]):
            if target.startswith("http"):
                continue
            file = path.parent / target if target else path
            if not file.exists() or (anchor and anchor[1:] not in anchors(file)):
                broken.append(f"{path.relative_to(REPOSITORY)}: {target}{anchor}")
    assert not broken, "\n".join(broken)


def test_every_kind_of_citation_is_found() -> None:
    for kind, (find, _) in CITATIONS.items():
        assert sum(1 for text in texts().values() for _ in find(text)) >= 5, kind

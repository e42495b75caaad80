"""Finding the files of a corpus among a user's folders and unpacked archives."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jtrans.corpora.entry import Entry, FileChoice, SplitPart
from jtrans.corpora.packed import PACKINGS
from jtrans.errors import CorpusError

# Originals lie a few folders deep; a whole disk given by mistake must not be searched.
DEEPEST = 8
MOST_FILES = 200_000
READY_NAMES = {"train": ("train",), "valid": ("valid", "val", "dev"), "test": ("test",)}


@dataclass(frozen=True)
class PartFiles:
    """The files of one part of a split.

    Attributes:
        choice: how they are read.
        sources: source files, sorted.
        targets: target files, sorted.
    """

    choice: FileChoice
    sources: list[Path]
    targets: list[Path]


class Places:
    """The files below some folders, searched by the ends of their paths."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = [_walk(folder) for folder in folders]

    def find(self, pattern: str) -> list[Path]:
        """Return the files whose path ends like `pattern`, packed or not, sorted by path.

        Case is ignored. The first of the folders that has any decides; without `*`, `?` and
        `[` the file nearest to its top. Packed beside unpacked counts once.
        """
        for files in self._folders:
            found: dict[str, Path] = {}
            for path, name in files:
                if fits(name, pattern):
                    found.setdefault(_bare(name), path)
            if found:
                paths = [found[name] for name in sorted(found)]
                is_one = not set("*?[") & set(pattern)
                return [next(iter(found.values()))] if is_one else paths
        return []

    def find_part(self, part: SplitPart) -> PartFiles | None:
        """Return the files of the first choice whose files are all there."""
        for choice in part.choices:
            sources = self.find(choice.source)
            targets = self.find(choice.target) if choice.target else []
            if sources and (targets or not choice.target):
                return PartFiles(choice, sources, targets)
        return None


def fits(name: str, pattern: str) -> bool:
    """Say whether the path `name`, packed or not, ends like `pattern`; case is ignored."""
    bare = _bare(f"/{name}")
    return fnmatch.fnmatchcase(bare, f"*/{pattern.lower()}")


def find_ready(entry: Entry, folder: Path) -> dict[str, tuple[Path, Path]]:
    """Find train.de, train.en, valid.de ... right in `folder`, packed or not.

    Returns:
        The two files of each split; empty unless there are train and valid.
    """
    there: dict[str, tuple[Path, Path]] = {}
    for split, names in READY_NAMES.items():
        for name in names:
            files = [_one(folder, f"{name}.{language}") for language in entry.languages]
            if files[0] and files[1] and split not in there:
                there[split] = (files[0], files[1])
    return there if {"train", "valid"} <= set(there) else {}


def _one(folder: Path, name: str) -> Path | None:
    candidates = (folder / f"{name}{ending}" for ending in ("", *PACKINGS))
    return next((path for path in candidates if path.is_file()), None)


def _bare(name: str) -> str:
    name = name.lower()
    return next((name.removesuffix(end) for end in PACKINGS if name.endswith(end)), name)


def _walk(folder: Path) -> list[tuple[Path, str]]:
    """List the files below a folder, each with its path in it; nearer ones first."""
    found: list[tuple[Path, str]] = []
    top = len(folder.parts)
    for place, folders, files in os.walk(folder):
        here = Path(place)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if len(here.parts) - top >= DEEPEST:
            folders.clear()
        for name in sorted(files):
            path = here / name
            found.append((path, path.relative_to(folder.parent).as_posix()))
        if len(found) > MOST_FILES:
            raise CorpusError(
                f"{folder} holds more than {MOST_FILES:,} files",
                hint="name the folder that holds the original files of the corpus",
                kind="corpus.too-many-files",
            )
    return sorted(found, key=lambda item: len(item[0].parts))

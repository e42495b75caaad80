"""Line files: PREFIX.de and PREFIX.en, plain or packed, with one sentence per line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from jtrans.corpora.lines import LineFile, Without, notes_of
from jtrans.corpora.pairing import check_counts
from jtrans.corpora.parallel import ParallelText, join_texts
from jtrans.errors import CorpusError, did_you_mean
from jtrans.files.packed import NOT_READ, PACKINGS, find_packed, without_packing

MOST_REFERENCES = 20  # up to this many are searched for a gap in their numbers


def read_pair(
    prefix: str,
    languages: tuple[str, str],
    *,
    with_references: bool = False,
    skips_bad: bool = False,
) -> ParallelText:
    """Read PREFIX.de and PREFIX.en.

    With references, PREFIX.0.en, PREFIX.1.en ... are read instead of PREFIX.en if they exist. Bad
    lines are left out if `skips_bad`.

    Raises:
        CorpusError: a file cannot be read, both are empty, or their line counts differ.
    """
    source = _find_file(prefix, languages[0], languages)
    targets = _find_references(prefix, languages[1]) if with_references else []
    if len(targets) < 2:
        targets = [_find_file(prefix, languages[1], languages)]
    return read_files([source], targets, origin=(prefix,), skips_bad=skips_bad)


def _find_references(prefix: str, language: str) -> list[Path]:
    """Return PREFIX.0.LANGUAGE, PREFIX.1.LANGUAGE ..., packed or not.

    Raises:
        CorpusError: a number is missing.
    """
    paths: list[Path] = []
    while (path := find_packed(Path(f"{prefix}.{len(paths)}.{language}"))) is not None:
        paths.append(path)
    # without PREFIX.0.LANGUAGE, numbers beside PREFIX.LANGUAGE may mean anything
    if not paths and find_packed(Path(f"{prefix}.{language}")) is not None:
        return paths
    gap = Path(f"{prefix}.{len(paths)}.{language}")
    for number in range(len(paths) + 1, MOST_REFERENCES):
        if (later := find_packed(Path(f"{prefix}.{number}.{language}"))) is not None:
            raise CorpusError(
                f"{later} is there, but {gap} is not",
                hint="several references are numbered from 0, without gaps",
                kind="corpus.missing-file",
            )
    return paths


def read_files(
    sources: Sequence[Path],
    targets: Sequence[Path],
    *,
    origin: tuple[str, ...] = (),
    skips_bad: bool = False,
) -> ParallelText:
    """Read line files and concatenate their pairs.

    Args:
        sources: source files.
        targets: the same number of target files or, for a single source file, several references.
        origin: the name of the text; by default the files.
        skips_bad: whether lines that are not text are left out of all files, and counted.

    Raises:
        CorpusError: a file cannot be read, both sides are empty, or line counts differ.
    """
    names = tuple(str(path) for path in (*sources, *targets))
    origin = origin or names
    files = [LineFile(path, skips_bad=skips_bad) for path in (*sources, *targets)]
    source, target = files[: len(sources)], files[len(sources) :]
    if len(sources) == 1 and len(targets) > 1:
        for lines in target:
            check_counts(source[0], lines, (names[0], str(lines.path)))
        text = ParallelText(source[0], target[0], origin, names, references=tuple(target))
        return _without_bad(text, files)
    if len(sources) != len(targets):
        raise CorpusError(
            f"{len(sources)} source files and {len(targets)} target files do not make pairs: "
            + ", ".join(names),
            kind="corpus.line-counts",
        )
    for sides in zip(source, target, strict=True):
        check_counts(*sides, (str(sides[0].path), str(sides[1].path)))
    parts = [
        _without_bad(ParallelText(*sides), sides) for sides in zip(source, target, strict=True)
    ]
    return replace(join_texts(parts), origin=origin, files=names)


def _without_bad(text: ParallelText, files: Sequence[LineFile]) -> ParallelText:
    """Note the oddities of the files, and leave out the pairs with a bad line in any of them."""
    text = replace(text, notes=notes_of(files))
    bad: dict[int, str] = {}
    for file in reversed(files):
        bad |= file.bad
    if not bad:
        return text
    references = tuple(Without(lines, bad) for lines in text.references)
    return replace(
        text,
        source=Without(text.source, bad),
        target=references[0] if references else Without(text.target, bad),
        references=references,
        skipped=Counter(bad.values()),
    )


def _find_file(prefix: str, language: str, languages: tuple[str, str]) -> Path:
    """Return PREFIX.LANGUAGE, or the packed PREFIX.LANGUAGE.gz (.xz, .zst) if only that exists.

    Raises:
        CorpusError: none of them exists.
    """
    path = Path(f"{prefix}.{language}")
    if (packed := find_packed(path)) is not None:
        return packed
    raise CorpusError(
        f"no such file: {path} (nor {', '.join(f'{path}{ending}' for ending in PACKINGS)})",
        hint=_missing_hint(prefix, language, languages),
        kind="corpus.missing-file",
    )


def _missing_hint(prefix: str, language: str, languages: tuple[str, str]) -> str:
    path = Path(prefix)
    unpacked = Path(without_packing(prefix))
    ending = unpacked.suffix.removeprefix(".")
    if ending in languages and find_packed(unpacked):
        return f"name the file without its language: {unpacked.with_suffix('')}"
    if path.is_file() and path.name.endswith(NOT_READ):
        return f"unpack it first, or compress it as {', '.join(PACKINGS)}"
    if path.is_file() and ending:
        of_catalogue = "; .sgm is read for corpora of the catalogue only"
        return (
            "a file that holds both sides must be .tsv, .jsonl, .tmx, .xml (of WMT) or .conllu; "
            f"any other name stands for NAME.{languages[0]} and NAME.{languages[1]}"
        ) + (of_catalogue if ending in ("sgm", "sgml") else "")
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    if (first := find_packed(Path(f"{prefix}.0.{language}"))) and language == languages[1]:
        single = f"{path}.{language}"
        return f"{first} is the first of several references; a single one is named {single}"
    names = [without_packing(file.name) for file in path.parent.iterdir()]
    sources, targets = (
        {name.removesuffix(f".{each}") for name in names if name.endswith(f".{each}")}
        for each in languages
    )
    targets |= {name.removesuffix(".0") for name in targets}
    near = did_you_mean(path.name, sorted(sources & targets))
    if near:
        return f"did you mean {path.with_name(near)}?"
    return f"files must be named PREFIX.{language} or PREFIX.{language}.gz"

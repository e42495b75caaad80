"""Line files: PREFIX.de and PREFIX.en, plain or packed, with one sentence per line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jtrans.corpora.lines import Chain, LineFile, notes_of
from jtrans.corpora.packed import PACKINGS, find_packed, without_packing
from jtrans.corpora.pairing import check_counts
from jtrans.corpora.parallel import ParallelText
from jtrans.errors import CorpusError, did_you_mean


def read_pair(
    prefix: str, languages: tuple[str, str], *, with_references: bool = False
) -> ParallelText:
    """Read PREFIX.de and PREFIX.en.

    With references, PREFIX.0.en, PREFIX.1.en ... are read instead of PREFIX.en if they exist.

    Raises:
        CorpusError: a file cannot be read, both are empty, or their line counts differ.
    """
    source = find_file(prefix, languages[0])
    references = _find_references(prefix, languages[1]) if with_references else []
    if len(references) > 1:
        return read_files([source], references, origin=(prefix,))
    return read_files([source], [find_file(prefix, languages[1])], origin=(prefix,))


def _find_references(prefix: str, language: str) -> list[Path]:
    """Return PREFIX.0.LANGUAGE, PREFIX.1.LANGUAGE ..., packed or not."""
    paths: list[Path] = []
    while (path := find_packed(Path(f"{prefix}.{len(paths)}.{language}"))) is not None:
        paths.append(path)
    return paths


def read_files(
    sources: Sequence[Path], targets: Sequence[Path], *, origin: tuple[str, ...] = ()
) -> ParallelText:
    """Read line files and concatenate their pairs.

    Args:
        sources: source files.
        targets: as many target files; or, for a single source file, several references.
        origin: the name of the text; by default the files.

    Raises:
        CorpusError: a file cannot be read, both sides are empty, or line counts differ.
    """
    names = tuple(str(path) for path in (*sources, *targets))
    origin = origin or names
    files = [LineFile(path) for path in (*sources, *targets)]
    source, target = files[: len(sources)], files[len(sources) :]
    notes = notes_of(files)
    if len(sources) == 1 and len(targets) > 1:
        for lines in target:
            check_counts(source[0], lines, (names[0], str(lines.path)))
        return ParallelText(source[0], target[0], origin, references=tuple(target), notes=notes)
    if len(sources) != len(targets):
        raise CorpusError(
            f"{len(sources)} source files and {len(targets)} target files do not make pairs: "
            + ", ".join(names),
            kind="corpus.line-counts",
        )
    for sides in zip(source, target, strict=True):
        check_counts(*sides, (str(sides[0].path), str(sides[1].path)))
    if len(files) == 2:
        return ParallelText(source[0], target[0], origin, notes=notes)
    return ParallelText(Chain(source), Chain(target), origin, notes=notes)


def find_file(prefix: str, language: str) -> Path:
    """Return PREFIX.LANGUAGE, or the packed PREFIX.LANGUAGE.gz (.xz, .zst) where only that exists.

    Raises:
        CorpusError: none of them exists.
    """
    path = Path(f"{prefix}.{language}")
    if (packed := find_packed(path)) is not None:
        return packed
    raise CorpusError(
        f"no such file: {path} (nor {', '.join(f'{path}{ending}' for ending in PACKINGS)})",
        hint=_missing_hint(prefix, language),
        kind="corpus.missing-file",
    )


def _missing_hint(prefix: str, language: str) -> str:
    path = Path(prefix)
    if path.is_file() and path.suffix:
        return f"name the file without its language: {without_packing(prefix).rsplit('.', 1)[0]}"
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    names = [without_packing(file.name) for file in path.parent.iterdir()]
    ending = f".{language}"
    prefixes = {name.removesuffix(ending) for name in names if name.endswith(ending)}
    near = did_you_mean(path.name, sorted(prefixes))
    if near:
        return f"did you mean {path.with_name(near)}?"
    return f"files must be named PREFIX.{language} or PREFIX.{language}.gz"

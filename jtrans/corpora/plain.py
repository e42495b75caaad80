"""Reading aligned line files: PREFIX.de and PREFIX.en, UTF-8, plain or gzip, one pair per line."""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path

from jtrans.corpora.parallel import Corpus, ParallelText
from jtrans.errors import CorpusError, did_you_mean


def read_corpus(
    name: str,
    languages: tuple[str, str],
    *,
    train: Sequence[str],
    valid: str,
    test: Sequence[str] = (),
) -> Corpus:
    """Read a corpus from line files.

    Args:
        name: what to call the corpus.
        languages: source and target, the endings of the files.
        train: prefixes of the training files; their pairs are put one after the other.
        valid: prefix of the validation files.
        test: prefixes of test files. A single one becomes the split "test"; several are named
            after their files.

    Raises:
        CorpusError: a file cannot be read, is empty, or has no partner for some line.
    """
    parts = [read_pair(prefix, languages) for prefix in train]
    whole = ParallelText(
        source=[line for part in parts for line in part.source],
        target=[line for part in parts for line in part.target],
        origin=tuple(train),
    )
    splits = {"train": whole, "valid": read_pair(valid, languages)}
    for split, prefix in zip(name_test_splits(test), test, strict=True):
        splits[split] = read_pair(prefix, languages)
    return Corpus(name, languages, splits)


def name_test_splits(prefixes: Sequence[str]) -> list[str]:
    """Name the test splits after their files; "test", "test2" ... where that is not possible."""
    names = [Path(prefix).name for prefix in prefixes]
    is_usable = len(set(names)) == len(names) and not {"train", "valid"} & set(names)
    if len(names) > 1 and is_usable:
        return names
    return ["test" if i == 0 else f"test{i + 1}" for i in range(len(names))]


def read_pair(prefix: str, languages: tuple[str, str]) -> ParallelText:
    """Read the two files of a prefix.

    Raises:
        CorpusError: a file cannot be read, both are empty, or their line counts differ.
    """
    paths = [find_file(prefix, language) for language in languages]
    source, target = (read_lines(path) for path in paths)
    if len(source) != len(target):
        raise CorpusError(
            f"{paths[0]} has {len(source):,} lines, {paths[1]} has {len(target):,}: "
            "line i of one must be the translation of line i of the other",
            hint=f"compare the ends of the two files: tail -n 3 {paths[0]} {paths[1]}"
            if not any(path.suffix == ".gz" for path in paths)
            else "make the two files again from the same source",
            kind="corpus.line-counts",
        )
    if not source:
        raise CorpusError(
            f"{paths[0]} and {paths[1]} are empty",
            hint="choose files with one sentence per line",
            kind="corpus.empty",
        )
    return ParallelText(source, target, (prefix,))


def find_file(prefix: str, language: str) -> Path:
    """Return PREFIX.LANGUAGE, or PREFIX.LANGUAGE.gz where only that exists.

    Raises:
        CorpusError: there is neither.
    """
    path = Path(f"{prefix}.{language}")
    packed = Path(f"{prefix}.{language}.gz")
    if path.exists():
        return path
    if packed.exists():
        return packed
    raise CorpusError(
        f"no such file: {path} (nor {packed})",
        hint=_missing_hint(prefix, language),
        kind="corpus.missing-file",
    )


def read_lines(path: Path) -> list[str]:
    r"""Read the lines of a UTF-8 file, gzip where its name ends in .gz.

    Lines end at "\n" only, a "\r" before it is dropped: other separators that Unicode knows
    (U+2028 and others) occur inside sentences and would break the alignment. A byte order mark
    at the beginning is dropped.

    Raises:
        CorpusError: the file is missing, a folder, not readable, damaged or not UTF-8 text.
    """
    data = _read_bytes(path)
    _refuse_utf16(path, data)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CorpusError(
            f"{path} is not UTF-8 text: byte 0x{data[error.start]:02x} in line {line:,}",
            where=f"{path}:{line}",
            hint=f"convert it, if it is Latin-1: iconv -f ISO-8859-1 -t UTF-8 {path} > NEW",
            kind="corpus.not-utf8",
        ) from error
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if "\r" in text:
        lines = [line.removesuffix("\r") for line in lines]
    return lines


def _read_bytes(path: Path) -> bytes:
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rb") as handle:
                return handle.read()
        return path.read_bytes()
    except FileNotFoundError as error:
        raise CorpusError(f"no such file: {path}", kind="corpus.missing-file") from error
    except IsADirectoryError as error:
        raise CorpusError(
            f"{path} is a folder, not a file",
            hint="name a file with one sentence per line",
            kind="corpus.folder",
        ) from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise CorpusError(
            f"{path} is not a whole gzip file: {error}",
            hint="get the file again, or rename it if it is not packed",
            kind="corpus.gzip",
        ) from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CorpusError(f"cannot read {path}: {reason}", kind="corpus.unreadable") from error


def _refuse_utf16(path: Path, data: bytes) -> None:
    """Refuse UTF-16 and binary files: both hold bytes that no UTF-8 text has."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise CorpusError(
            f"{path} is UTF-16, not UTF-8",
            hint=f"convert it: iconv -f UTF-16 -t UTF-8 {path} > NEW",
            kind="corpus.utf16",
        )
    zero = data.find(b"\0")
    if zero >= 0:
        line = data.count(b"\n", 0, zero) + 1
        raise CorpusError(
            f"{path} is binary or UTF-16, not UTF-8 text: zero byte in line {line:,}",
            where=f"{path}:{line}",
            hint=f"convert it, if it is UTF-16: iconv -f UTF-16LE -t UTF-8 {path} > NEW",
            kind="corpus.binary",
        )


def _missing_hint(prefix: str, language: str) -> str:
    whole = Path(prefix)
    if whole.is_file() and whole.suffix:
        stem = prefix.removesuffix(".gz")
        return f"name the file without its language: {stem.rsplit('.', 1)[0]}"
    if not whole.parent.is_dir():
        return f"there is no folder {whole.parent}"
    endings = (f".{language}", f".{language}.gz")
    there = {
        file.name.removesuffix(".gz").removesuffix(f".{language}")
        for file in whole.parent.iterdir()
        if file.name.endswith(endings)
    }
    near = did_you_mean(whole.name, sorted(there))
    if near:
        return f"did you mean {whole.with_name(near)}?"
    return f"files must be named PREFIX.{language} or PREFIX.{language}.gz"

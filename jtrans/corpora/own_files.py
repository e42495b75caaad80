"""A corpus from a user's own files: line files by prefix, or one file that holds both sides."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jtrans.corpora.formats.conllu import ENDING, read_conllu
from jtrans.corpora.formats.jsonl import read_jsonl
from jtrans.corpora.formats.plain import read_pair
from jtrans.corpora.formats.tmx import read_tmx
from jtrans.corpora.formats.tsv import read_tsv
from jtrans.corpora.formats.wmt_xml import read_wmt_xml
from jtrans.corpora.parallel import Corpus, ParallelText, join_texts
from jtrans.errors import CorpusError, usage_error
from jtrans.files import path_hint
from jtrans.files.packed import find_packed, without_packing

# Formats that hold both sides, by the file's ending (before .gz, .xz, .zst).
LINE_FORMATS = {".tsv": read_tsv, ".jsonl": read_jsonl}
FORMATS = {".tmx": read_tmx, ".xml": read_wmt_xml, ENDING: read_conllu, **LINE_FORMATS}
# The kinds of errors in single lines, which can be left out.
LINE_ERRORS = (
    "corpus.binary",
    "corpus.not-utf8",
    "corpus.columns",
    "corpus.jsonl",
    "corpus.surrogate",
)


def hold_one_language(files: Sequence[str]) -> bool:
    """Return whether the sentences of all files are source and target at once (CoNLL-U)."""
    return all(_ending(file) == ENDING for file in files)


def _ending(file: str) -> str:
    """Return the ending that gives a file's format, in lower case."""
    return Path(without_packing(file)).suffix.lower()


@dataclass(frozen=True)
class OwnFiles:
    """The files of a corpus by split: prefixes of two files, or single files with both sides."""

    train: Sequence[str]  # their pairs are concatenated; empty if a pipeline is reused
    # concatenated, too; for valid and test, PREFIX.0.en, PREFIX.1.en ... are several references
    valid: Sequence[str] = ()
    # a single one becomes the split "test"; several are named after their files
    test: Sequence[str] = ()
    valid_size: int | None = None  # see `Corpus`
    skips_bad: bool = False  # whether bad lines are left out, with their partners, and counted

    def read(self, name: str, languages: tuple[str, str]) -> Corpus:
        """Read all files as the corpus `name`.

        Raises:
            CorpusError: a file cannot be read, is empty, or has no partner for some line.
            ConfigError: bad lines are to be left out, and no file is read line by line.
        """
        endings = {_ending(file) for file in (*self.train, *self.valid, *self.test)}
        if self.skips_bad and endings <= FORMATS.keys() - LINE_FORMATS.keys():
            raise usage_error(
                f"--skip-bad-lines has no effect on {' and '.join(sorted(endings))} files",
                "leave it out",
            )
        read = functools.partial(read_text, languages=languages, skips_bad=self.skips_bad)
        splits = {}
        if self.train:
            splits["train"] = join_texts([read(part) for part in self.train])
        with_references = functools.partial(read, with_references=True)
        if self.valid:
            splits["valid"] = _join_valid([with_references(part) for part in self.valid])
        for split, prefix in zip(name_test_splits(self.test), self.test, strict=True):
            splits[split] = with_references(prefix)
        return Corpus(name, languages, splits, valid_size=self.valid_size)


def _join_valid(parts: Sequence[ParallelText]) -> ParallelText:
    counts = [max(1, len(part.references)) for part in parts]
    if len(set(counts)) > 1:
        numbers = " and ".join(
            f"{part.origin[0]} {count}" for part, count in zip(parts, counts, strict=True)
        )
        raise CorpusError(
            f"validation files with different numbers of references cannot be joined: {numbers}",
            where="--valid",
            hint="give one of them with --valid, and the other with --test",
            kind="corpus.references",
        )
    return join_texts(parts)


def read_text(
    prefix: str,
    languages: tuple[str, str],
    *,
    with_references: bool = False,
    skips_bad: bool = False,
) -> ParallelText:
    """Read PREFIX.de and PREFIX.en (see `read_pair`), or a file in one of the `FORMATS`.

    Raises:
        CorpusError: a file cannot be read, is empty, or has no partner for some line.
    """
    ending, path = _ending(prefix), Path(prefix)
    if ending in LINE_FORMATS and path.exists():
        return LINE_FORMATS[ending](path, languages, skips_bad=skips_bad)
    if ending in FORMATS and path.exists():
        return FORMATS[ending](path, languages)
    sides = (Path(f"{prefix}.{language}") for language in languages)
    if ending in FORMATS and not any(map(find_packed, sides)):  # it is no prefix, either
        raise CorpusError(f"no such file: {path}", hint=path_hint(path), kind="corpus.missing-file")
    return read_pair(prefix, languages, with_references=with_references, skips_bad=skips_bad)


def name_test_splits(prefixes: Sequence[str]) -> list[str]:
    """Name several test splits after their files, or "test", "test2" ... if names would clash.

    They clash if the files of two splits would have the same names: X.tok is the segmented text
    of X, X.0 its first reference, and some file systems do not distinguish X from x.
    """
    names = [_split_name(prefix) for prefix in prefixes]
    taken = Counter(["train", "valid", *(_file_stem(name) for name in names)])
    derived = (re.fullmatch(r"(.+)\.(?:tok|[0-9]+)", name) for name in map(_file_stem, names))
    is_usable = (
        all(names)
        and max(taken.values()) == 1
        and not any(match and match[1] in taken for match in derived)
    )
    if len(names) > 1 and is_usable:
        return names
    return ["test" if i == 0 else f"test{i + 1}" for i in range(len(names))]


def _file_stem(name: str) -> str:
    """Return a name without the differences of case and Unicode form that file systems ignore."""
    return unicodedata.normalize("NFC", name).casefold()


def _split_name(prefix: str) -> str:
    """Return the file's name without its folder and the ending of its format."""
    path = Path(without_packing(prefix))
    return path.stem if _ending(prefix) in FORMATS else Path(prefix).name

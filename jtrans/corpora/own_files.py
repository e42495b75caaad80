"""A corpus from a user's own files: line files by prefix, or one file that holds both sides."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jtrans.corpora.formats.jsonl import read_jsonl
from jtrans.corpora.formats.plain import read_pair
from jtrans.corpora.formats.tmx import read_tmx
from jtrans.corpora.formats.tsv import read_tsv
from jtrans.corpora.formats.wmt_xml import read_wmt_xml
from jtrans.corpora.packed import without_packing
from jtrans.corpora.parallel import Corpus, ParallelText, join_texts

# Formats that hold both sides, by the file's ending (before .gz, .xz, .zst).
FORMATS = {".tsv": read_tsv, ".tmx": read_tmx, ".jsonl": read_jsonl, ".xml": read_wmt_xml}


def read_corpus(
    name: str,
    languages: tuple[str, str],
    *,
    train: Sequence[str],
    valid: str,
    test: Sequence[str] = (),
) -> Corpus:
    """Read a corpus from files.

    Args:
        name: what to call the corpus.
        languages: source and target.
        train: prefixes of the training files (or files that hold both sides); their pairs
            are concatenated.
        valid: the same for validation; here and in tests PREFIX.0.en, PREFIX.1.en ... are
            several references.
        test: the same for tests. A single one becomes the split "test"; several are named
            after their files.

    Raises:
        CorpusError: a file cannot be read, is empty, or has no partner for some line.
    """
    splits = {
        "train": join_texts([read_text(part, languages) for part in train]),
        "valid": read_text(valid, languages, with_references=True),
    }
    for split, prefix in zip(name_test_splits(test), test, strict=True):
        splits[split] = read_text(prefix, languages, with_references=True)
    return Corpus(name, languages, splits)


def read_text(
    prefix: str, languages: tuple[str, str], *, with_references: bool = False
) -> ParallelText:
    """Read PREFIX.de and PREFIX.en (see `read_pair`); or a .tsv, .tmx, .jsonl or (WMT) .xml file.

    Raises:
        CorpusError: a file cannot be read, is empty, or has no partner for some line.
    """
    reader = FORMATS.get(Path(without_packing(prefix)).suffix)
    if reader is not None and Path(prefix).exists():
        return reader(Path(prefix), languages)
    return read_pair(prefix, languages, with_references=with_references)


def name_test_splits(prefixes: Sequence[str]) -> list[str]:
    """Name the test splits after their files; "test", "test2" ... where that is not possible."""
    names = [_split_name(prefix) for prefix in prefixes]
    is_usable = len(set(names)) == len(names) and not {"train", "valid", ""} & set(names)
    if len(names) > 1 and is_usable:
        return names
    return ["test" if i == 0 else f"test{i + 1}" for i in range(len(names))]


def _split_name(prefix: str) -> str:
    """Return the file's name without its folder and the ending of its format."""
    path = Path(without_packing(prefix))
    return path.stem if path.suffix in FORMATS else Path(prefix).name

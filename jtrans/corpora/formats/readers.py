"""The readers of raw formats by name, as the catalogue's entries use them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from jtrans.corpora.entry import FileChoice, ReaderName
from jtrans.corpora.formats import plain, sgm, wit3
from jtrans.corpora.formats.jsonl import read_jsonl
from jtrans.corpora.formats.tmx import read_tmx
from jtrans.corpora.formats.tsv import read_tsv
from jtrans.corpora.parallel import ParallelText, join_texts

Paths = Sequence[Path]
Reader = Callable[[FileChoice, Paths, Paths, tuple[str, str]], ParallelText]


def read_choice(
    choice: FileChoice, sources: Paths, targets: Paths, languages: tuple[str, str]
) -> ParallelText:
    """Read files as an entry of the catalogue says.

    Args:
        choice: what the entry says.
        sources: the source files, sorted.
        targets: the target files, sorted.
        languages: source and target.

    Raises:
        CorpusError: the files cannot be read or do not belong together.
    """
    return READERS[choice.reader](choice, sources, targets, languages)


def _plain(_choice: FileChoice, sources: Paths, targets: Paths, _: tuple[str, str]) -> ParallelText:
    return plain.read_files(sources, targets)


def _tags(_choice: FileChoice, sources: Paths, targets: Paths, _: tuple[str, str]) -> ParallelText:
    return wit3.read_tags(*sources, *targets)


def _xml(_choice: FileChoice, sources: Paths, targets: Paths, _: tuple[str, str]) -> ParallelText:
    return wit3.read_xml(*sources, *targets)


def _sgm(_choice: FileChoice, sources: Paths, targets: Paths, _: tuple[str, str]) -> ParallelText:
    return sgm.read_sgm(sources[0], targets)


def _tsv(choice: FileChoice, paths: Paths, _: Paths, languages: tuple[str, str]) -> ParallelText:
    return join_texts([read_tsv(path, languages, columns=choice.columns) for path in paths])


def _tmx(_choice: FileChoice, paths: Paths, _: Paths, languages: tuple[str, str]) -> ParallelText:
    return join_texts([read_tmx(path, languages) for path in paths])


def _jsonl(_choice: FileChoice, paths: Paths, _: Paths, languages: tuple[str, str]) -> ParallelText:
    return join_texts([read_jsonl(path, languages) for path in paths])


READERS: dict[ReaderName, Reader] = {
    "plain": _plain,
    "wit3-tags": _tags,
    "wit3-xml": _xml,
    "sgm": _sgm,
    "tsv": _tsv,
    "tmx": _tmx,
    "jsonl": _jsonl,
}

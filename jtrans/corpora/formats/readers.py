"""The readers of raw formats by name, as the catalogue's entries use them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jtrans.corpora.entry import FileChoice
from jtrans.corpora.formats.jsonl import read_jsonl
from jtrans.corpora.formats.plain import read_files
from jtrans.corpora.formats.sgm import read_sgm
from jtrans.corpora.formats.tmx import read_tmx
from jtrans.corpora.formats.tsv import read_tsv
from jtrans.corpora.formats.wit3 import read_tags, read_xml
from jtrans.corpora.formats.wmt_xml import read_wmt_xml
from jtrans.corpora.parallel import ParallelText, join_texts


def read_choice(
    choice: FileChoice, sources: Sequence[Path], targets: Sequence[Path], languages: tuple[str, str]
) -> ParallelText:
    """Read files as a catalogue entry specifies; files with both sides are `sources`.

    Raises:
        CorpusError: the files cannot be read or do not belong together.
    """
    match choice.reader:
        case "plain":
            return read_files(sources, targets)
        case "wit3-tags":
            return read_tags(*sources, *targets)
        case "wit3-xml":
            return read_xml(*sources, *targets)
        case "sgm":
            return read_sgm(sources[0], targets)
        case "tsv":
            texts = [read_tsv(path, languages, columns=choice.columns) for path in sources]
        case "tmx":
            texts = [read_tmx(path, languages) for path in sources]
        case "wmt-xml":
            texts = [read_wmt_xml(path, languages) for path in sources]
        case "jsonl":
            texts = [read_jsonl(path, languages) for path in sources]
    return join_texts(texts)

"""The WIT3 release of TED talks (IWSLT), read exactly as fairseq 0.6's preparation script does.

Published IWSLT14 scores are measured on the output of that script, so its quirks are reproduced:

* `train.tags.*`: lines with a url, talkid or keywords tag are dropped; title and description
  lose only their tags.
* `IWSLT*.xml`: only lines with a seg tag are read; the typographic apostrophe becomes ', unlike in
  the training text.
* Entities stay as they are, so that the tokeniser splits `&amp;` into `& amp ;`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from jtrans.corpora.lines import LineFile, notes_of
from jtrans.corpora.pairing import check_counts
from jtrans.corpora.parallel import ParallelText
from jtrans.errors import CorpusError

_DROPPED = ("<url>", "<talkid>", "<keywords>")
_UNWRAPPED = re.compile("</?(?:title|description)>")
# The script uses sed, whose white space is that of ASCII.
_SEGMENT_BEGIN = re.compile(r'<seg id="[0-9]*">[ \t\v\f\r]*')
_SEGMENT_END = re.compile(r"[ \t\v\f\r]*</seg>[ \t\v\f\r]*")


def read_tags(source: Path, target: Path) -> ParallelText:
    """Read the training text `train.tags.*`.

    Raises:
        CorpusError: a file cannot be read, or the two differ in their number of lines.
    """
    return _pair(source, target, _tags)


def read_xml(source: Path, target: Path) -> ParallelText:
    """Read a development or test set `IWSLT*.xml`.

    Raises:
        CorpusError: a file cannot be read or holds no segments, or their numbers differ.
    """
    return _pair(source, target, _xml)


def _pair(source: Path, target: Path, read: Callable[[LineFile], list[str]]) -> ParallelText:
    files, names = (LineFile(source), LineFile(target)), (str(source), str(target))
    sides = read(files[0]), read(files[1])
    check_counts(*sides, names, "segment")
    return ParallelText(*sides, names, notes=notes_of(files))


def _tags(lines: LineFile) -> list[str]:
    return [
        _UNWRAPPED.sub("", line).strip()
        for line in lines
        if not any(tag in line for tag in _DROPPED)
    ]


def _xml(lines: LineFile) -> list[str]:
    segments = [
        _SEGMENT_END.sub("", _SEGMENT_BEGIN.sub("", line)).replace("’", "'").strip()
        for line in lines
        if "<seg id" in line
    ]
    if not segments:
        raise CorpusError(
            f"{lines.path} holds no <seg id> lines",
            hint="choose the IWSLT*.xml files of a WIT3 release",
            kind="corpus.xml",
        )
    return segments

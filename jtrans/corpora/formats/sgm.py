"""NIST and WMT test sets (.sgm, mteval .xml): documents of segments, one or more references.

They are read with regular expressions: many of the published files are not well-formed XML.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from pathlib import Path

from jtrans.corpora.lines import LineFile, notes_of
from jtrans.corpora.pairing import check_counts
from jtrans.corpora.parallel import ParallelText
from jtrans.errors import CorpusError

_ITEM = re.compile(
    r"<(?P<tag>(?:src|ref|tst)set|doc)\b(?P<attributes>[^>]*)>"
    r"|<seg\b(?P<number>[^>]*)>(?P<text>.*?)</seg\s*>",
    re.IGNORECASE | re.DOTALL,
)
_ATTRIBUTE = re.compile(r"""([\w:]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]+))""")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#x[0-9a-f]{1,6}|\w{2,31});", re.IGNORECASE)

# Document and number of a segment.
Key = tuple[str, str]


def read_sgm(source: Path, targets: Sequence[Path]) -> ParallelText:
    """Read a test set: its source file, and one or more files with references.

    The references in one file differ by `refid` or `sysid`. Every reference is put into the
    order of the source.

    Raises:
        CorpusError: a file cannot be read, has no segments, or lacks segments of the source.
    """
    files = {path: LineFile(path) for path in (source, *targets)}
    translators = _segments(source, files[source])
    if len(translators) != 1:
        raise CorpusError(
            f"{source} holds {len(translators)} texts, not one source: {', '.join(translators)}",
            hint="name the source file (...-src...) first",
            kind="corpus.sgm",
        )
    original = next(iter(translators.values()))
    lines = list(original.values())
    references = [
        _in_order(original, segments, source, target)
        for target in targets
        for segments in _segments(target, files[target]).values()
    ]
    return ParallelText(
        lines,
        references[0],
        tuple(map(str, files)),
        references=tuple(references) if len(references) > 1 else (),
        notes=notes_of(files.values()),
    )


def _in_order(
    original: dict[Key, str], segments: dict[Key, str], source: Path, target: Path
) -> list[str]:
    check_counts(
        list(original.values()), list(segments.values()), (str(source), str(target)), "segment"
    )
    missing = [key for key in original if key not in segments]
    if missing:
        raise CorpusError(
            f"{target} has no segment {missing[0][1]} of document {missing[0][0]}, which {source} "
            f"has ({len(missing):,} missing)",
            hint="check that the two files belong to the same test set",
            kind="corpus.sgm",
        )
    return [segments[key] for key in original]


def _segments(path: Path, lines: LineFile) -> dict[str, dict[Key, str]]:
    """Return the segments of each translator (one for a source), in the order of the file."""
    text = "\n".join(lines)
    translators: dict[str, dict[Key, str]] = {}
    set_name, translator, document = "", "", ""
    for item in _ITEM.finditer(text):
        tag = (item["tag"] or "").lower()
        if tag:
            attributes = _attributes(item["attributes"])
            translator = attributes.get("sysid", attributes.get("refid", set_name))
        if tag == "doc":
            document = attributes.get("docid", "")
        elif tag:
            set_name = translator
        else:
            number = _attributes(item["number"]).get("id", "")
            segments = translators.setdefault(translator, {})
            if (document, number) in segments:
                raise CorpusError(
                    f"{path} has segment {number} of document {document} twice", kind="corpus.sgm"
                )
            segments[document, number] = " ".join(_ENTITY.sub(_character, item["text"]).split())
    if not translators:
        raise CorpusError(
            f"{path} holds no <seg> elements",
            hint="choose a test set in the format of NIST and WMT (.sgm)",
            kind="corpus.sgm",
        )
    return translators


def _attributes(text: str) -> dict[str, str]:
    return {name.lower(): a or b or c for name, a, b, c in _ATTRIBUTE.findall(text)}


def _character(entity: re.Match[str]) -> str:
    """Return the character of an HTML entity; an unknown entity stays as it is."""
    character = html.unescape(entity[0])
    return entity[0] if character in ("", "\ufffd") else character

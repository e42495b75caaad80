"""TMX (translation memory exchange), read as a stream."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from jtrans.corpora.formats.sides import fits_language, plain_tag
from jtrans.corpora.formats.xml_stream import read_xml_stream
from jtrans.corpora.lines import one_line
from jtrans.corpora.parallel import ParallelText
from jtrans.errors import CorpusError

# Inline elements whose content is code of the original document, not language.
CODES = frozenset({"bpt", "ept", "it", "ph", "ut"})
# Codes that separate words: white space, or elements of HTML that begin a line or a cell.
_SEPARATOR = re.compile(
    r"\s+|\\[nrt]|</?\s*(?:br|p|div|li|ul|ol|tr|td|th|table|h[1-6]|hr|tab)\b", re.IGNORECASE
)


def read_tmx(path: Path, languages: tuple[str, str]) -> ParallelText:
    """Read a TMX file.

    A unit yields one pair: its first text in each language, preferably without a region ("de"
    before "de-AT"). Units that lack a language are counted in the notes, as are the inline codes
    that were dropped.

    Raises:
        CorpusError: the file cannot be read, is not XML, declares entities, or has no pair.
    """
    units = _Units(languages)
    read_xml_stream(path, units)
    if not units.source:
        known = ", ".join(sorted(units.seen)) or "none"
        raise CorpusError(
            f"{path} holds no pair of {languages[0]} and {languages[1]}; its languages: {known}",
            hint="name the languages as the file does: --languages",
            kind="corpus.empty",
        )
    return ParallelText(units.source, units.target, (str(path),), notes=units.notes)


@dataclass
class _Segment:
    """The text of one segment.

    A code is dropped without joining the words beside it: a `ph` stands for something (a line
    break, an image), and other codes are formatting, which may lie within a word.
    """

    notes: Counter[str]
    words: str = ""
    _codes: list[str] = field(default_factory=list)  # the open codes, the outermost first
    _dropped: str = ""  # the content of the outermost
    _is_gap: bool = False  # whether a code lies between `words` and the text that follows

    def start(self, name: str) -> None:
        if name in CODES:
            self._codes.append(name)
        elif name == "sub" and self._codes:
            self.notes["text inside inline code dropped"] += 1

    def text(self, words: str) -> None:
        if self._codes:
            self._dropped += words
            return
        if self._is_gap and _is_word(self.words[-1:]) and _is_word(words[:1]):
            self.words += " "
        self._is_gap = False
        self.words += words

    def end(self, name: str) -> None:
        if name not in CODES or not self._codes:
            return
        self._codes.pop()
        if not self._codes:
            self.notes["inline code dropped"] += 1
            self._is_gap |= name == "ph" or _SEPARATOR.match(self._dropped) is not None
            self._dropped = ""


def _is_word(character: str) -> bool:
    """Return whether a character is part of a word that spaces separate from others."""
    return character.isalnum() and unicodedata.east_asian_width(character) not in ("W", "F")


@dataclass
class _Units:
    """Collects the pairs while the parser reads the file."""

    languages: tuple[str, str]
    source: list[str] = field(default_factory=list)
    target: list[str] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)
    seen: set[str] = field(default_factory=set)
    _unit: dict[str, str] = field(default_factory=dict)
    _language: str = ""
    _segment: _Segment | None = None

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "tu":
            self._unit = {}
        elif name == "tuv":
            self._language = attributes.get("xml:lang", attributes.get("lang", "")).lower()
            self.seen.add(self._language)
        elif name == "seg":
            self._segment = _Segment(self.notes)
        elif self._segment is not None:
            self._segment.start(name)

    def data(self, words: str) -> None:
        if self._segment is not None:
            self._segment.text(words)

    def end(self, name: str) -> None:
        if name == "tu":
            self._finish_unit()
        elif name == "seg" and self._segment is not None:
            words = one_line(self._segment.words)
            self._unit[self._language] = self._unit.get(self._language) or words
            self._segment = None
        elif self._segment is not None:
            self._segment.end(name)

    def _finish_unit(self) -> None:
        sources, targets = map(self._tags_of, self.languages)
        is_same = self.languages[0] == self.languages[1]
        pairs = ((s, t) for s in sources for t in targets if s != t or is_same)
        source, target = next(pairs, ("", ""))
        if source:
            self.source.append(self._unit[source])
            self.target.append(self._unit[target])
        else:
            self.notes["unit without both languages"] += 1

    def _tags_of(self, language: str) -> list[str]:
        """Return the unit's tags of a language: those of empty texts last, its exact tag first."""
        fitting = [tag for tag in self._unit if tag and fits_language(language, tag)]
        own = plain_tag(language)
        return sorted(fitting, key=lambda tag: (not self._unit[tag], plain_tag(tag) != own))

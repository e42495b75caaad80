"""TMX (translation memory exchange), read as a stream; no other file is ever opened."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from jtrans.corpora.lines import one_line
from jtrans.corpora.packed import read_chunks
from jtrans.corpora.parallel import ParallelText
from jtrans.errors import CorpusError

# Inline elements whose content is markup, not language.
CODES = frozenset({"bpt", "ept", "it", "ph", "ut"})


def read_tmx(path: Path, languages: tuple[str, str]) -> ParallelText:
    """Read a TMX file.

    A unit yields one pair: its first text in each language, where "de" includes "de-AT". Units
    that lack a language are counted in the notes.

    Raises:
        CorpusError: the file cannot be read, is not XML, declares entities, or has no pair.
    """
    units = _Units(path, languages)
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = units.start
    parser.EndElementHandler = units.end
    parser.CharacterDataHandler = units.text
    # entities let an XML file read other files and exhaust memory; no TMX file needs them
    parser.EntityDeclHandler = units.refuse_entity
    try:
        for chunk in read_chunks(path):
            parser.Parse(chunk)
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise CorpusError(
            f"{path} is not well-formed XML: {error}",
            where=f"{path}:{error.lineno}",
            hint="get the file again",
            kind="corpus.xml",
        ) from error
    if not units.source:
        known = ", ".join(sorted(units.seen)) or "none"
        raise CorpusError(
            f"{path} holds no pair of {languages[0]} and {languages[1]}; its languages: {known}",
            hint="name the languages as the file does: --languages",
            kind="corpus.empty",
        )
    return ParallelText(units.source, units.target, (str(path),), notes=units.notes)


@dataclass
class _Units:
    """Collects the pairs while the parser reads the file."""

    path: Path
    languages: tuple[str, str]
    source: list[str] = field(default_factory=list)
    target: list[str] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)
    seen: set[str] = field(default_factory=set)
    _unit: dict[str, str] = field(default_factory=dict)
    _language: str = ""
    _words: list[str] | None = None
    _codes: int = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "tu":
            self._unit = {}
        elif name == "tuv":
            self._language = attributes.get("xml:lang", attributes.get("lang", "")).lower()
            self.seen.add(self._language)
        elif name == "seg":
            self._words = []
        elif name in CODES:
            self._codes += 1

    def text(self, words: str) -> None:
        if self._words is not None and not self._codes:
            self._words.append(words)

    def end(self, name: str) -> None:
        if name in CODES:
            self._codes -= 1
        elif name == "seg" and self._words is not None:
            self._unit.setdefault(self._language, one_line("".join(self._words)))
            self._words = None
        elif name == "tu":
            self._finish_unit()

    def _finish_unit(self) -> None:
        texts = [self._text_in(language.lower()) for language in self.languages]
        if texts[0] is None or texts[1] is None:
            self.notes["unit without both languages"] += 1
        else:
            self.source.append(texts[0])
            self.target.append(texts[1])

    def _text_in(self, language: str) -> str | None:
        if language in self._unit:
            return self._unit[language]
        variants = (f"{language}-", f"{language}_")
        return next((text for key, text in self._unit.items() if key.startswith(variants)), None)

    def refuse_entity(self, name: str, *_rest: object) -> None:
        raise CorpusError(
            f"{self.path} declares the entity {name}: entities can read other files or "
            "exhaust memory, so it is refused",
            hint="remove the declarations between [ and ] at the beginning of the file",
            kind="corpus.entities",
        )

"""Test sets of WMT since 2021: one XML file with source, references and system outputs.

<dataset> (<collection>) <doc> <src lang> <p> <seg id>, <ref lang translator> ..., <hyp> ...
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from jtrans.corpora.formats.xml_stream import fits_language, read_xml_stream
from jtrans.corpora.lines import one_line
from jtrans.corpora.parallel import ParallelText
from jtrans.errors import CorpusError

# The segments of a text by number.
Segments = dict[str, str]


def read_wmt_xml(path: Path, languages: tuple[str, str]) -> ParallelText:
    """Read a test set.

    The translators who translated every document give the references, in the order of the file;
    if there is none, each document takes its first translation. Documents without a source or a
    translation in the two languages, and outputs of systems, are counted in the notes.

    Raises:
        CorpusError: the file cannot be read, is not XML, has no pair, or a translation lacks
            segments of its source.
    """
    documents = _Documents(path, languages)
    read_xml_stream(path, documents)
    if not documents.complete:
        known = ", ".join(sorted(documents.seen)) or "none"
        raise CorpusError(
            f"{path} holds no document with a source in {languages[0]} and a reference in "
            f"{languages[1]}; its texts: {known}",
            hint="choose a test set in the XML format of WMT (2021 or later) with references, and "
            "its languages: --languages",
            kind="corpus.empty",
        )
    return documents.join()


@dataclass
class _Document:
    name: str
    source: Segments = field(default_factory=dict)
    references: dict[str, Segments] = field(default_factory=dict)  # by translator


@dataclass
class _Documents:
    """Collects the documents while the parser reads the file."""

    path: Path
    languages: tuple[str, str]
    complete: list[_Document] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)
    seen: set[str] = field(default_factory=set)
    _document: _Document | None = None
    _segments: Segments | None = None  # of the text we are in, if it is used
    _number: str = ""
    _words: list[str] | None = None

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "doc":
            self._document = _Document(attributes.get("id", attributes.get("docid", "")))
        elif name in ("src", "ref", "hyp") and self._document is not None:
            self._segments = self._new_text(name, attributes, self._document)
        elif name == "seg" and self._segments is not None:
            self._number = attributes.get("id", str(len(self._segments) + 1))
            self._words = []

    def _new_text(
        self, name: str, attributes: dict[str, str], document: _Document
    ) -> Segments | None:
        language = attributes.get("lang", attributes.get("language", ""))
        self.seen.add(f"{name} in {language}")
        if name == "src" and fits_language(self.languages[0], language):
            return document.source
        if name == "ref" and fits_language(self.languages[1], language):
            return document.references.setdefault(attributes.get("translator", ""), {})
        if name == "hyp":
            self.notes["system output left out"] += 1
        return None

    def text(self, words: str) -> None:
        if self._words is not None:
            self._words.append(words)

    def end(self, name: str) -> None:
        if name == "seg" and self._words is not None and self._segments is not None:
            if self._number in self._segments:
                raise self._refused(f"segment {self._number} twice in one text")
            self._segments[self._number] = one_line("".join(self._words))
            self._words = None
        elif name in ("src", "ref", "hyp"):
            self._segments = None
        elif name == "doc" and self._document is not None:
            self._finish(self._document)
            self._document = None

    def _finish(self, document: _Document) -> None:
        if not document.source:
            self.notes["document without a source"] += 1
        elif not document.references:
            self.notes["document without a reference"] += 1
        else:
            self.complete.append(document)
        for segments in document.references.values() if document.source else ():
            odd = document.source.keys() ^ segments.keys()
            if odd:
                number = next(number for number in (*document.source, *segments) if number in odd)
                raise self._refused(f"segment {number} on one side only")

    def _refused(self, problem: str) -> CorpusError:
        name = self._document.name if self._document else ""
        return CorpusError(
            f"{self.path} has {problem}, in document {name}",
            hint="get the file again",
            kind="corpus.xml",
        )

    def join(self) -> ParallelText:
        translators = dict.fromkeys(name for doc in self.complete for name in doc.references)
        everywhere = [
            name for name in translators if all(name in doc.references for doc in self.complete)
        ]
        if partial := len(translators) - len(everywhere):
            self.notes["translator of some documents only"] = partial
        source: list[str] = []
        references: list[list[str]] = [[] for _ in everywhere or [""]]
        for document in self.complete:
            source += document.source.values()
            names = everywhere or list(document.references)[:1]
            for lines, name in zip(references, names, strict=True):
                lines += [document.references[name][number] for number in document.source]
        return ParallelText(
            source,
            references[0],
            (str(self.path),),
            references=tuple(references) if len(references) > 1 else (),
            notes=self.notes,
        )

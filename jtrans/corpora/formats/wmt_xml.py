"""Test sets of WMT since 2021: one XML file with source, references and system outputs.

<dataset> (<collection>) <doc> <src lang> <p> <seg id>, <ref lang translator> ..., <hyp> ...
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder

from jtrans.corpora.formats.sides import fits_language, plain_tag
from jtrans.corpora.formats.xml_stream import read_xml_stream
from jtrans.corpora.lines import one_line
from jtrans.corpora.parallel import ParallelText
from jtrans.errors import CorpusError

# The segments of a text by number.
Segments = dict[str, str]


def read_wmt_xml(path: Path, languages: tuple[str, str]) -> ParallelText:
    """Read a test set.

    Each translator who translated every document gives a reference, in the order of the file; if
    there is no such translator, the reference is the first translation of each document; a segment
    that a translator lacks is blank. Left out, as by sacreBLEU, and counted in the notes are
    documents of test suites, documents without a source or a translation in the two languages,
    segments without any translation, and outputs of systems.

    Raises:
        CorpusError: the file cannot be read, is not XML, has no pair, or a translation has segments
            that its source lacks.
    """
    tree = TreeBuilder()
    read_xml_stream(path, tree)
    notes, seen = Counter[str](), set[str]()
    documents: list[tuple[Segments, dict[str, Segments]]] = []
    for document in tree.close().iter("doc"):
        if document.get("testsuite") is not None:
            notes["document of a test suite"] += 1
            continue
        source: Segments = {}
        references: dict[str, Segments] = {}
        for text in document:
            language = text.get("lang", text.get("language", ""))
            seen.add(f"{text.tag} in {language}")
            if text.tag == "src" and _is_in(languages, 0, language):
                _add_segments(source, text, path, document)
            elif text.tag == "ref" and _is_in(languages, 1, language):
                segments = references.setdefault(text.get("translator", ""), {})
                _add_segments(segments, text, path, document)
            elif text.tag == "hyp":
                notes["system output left out"] += 1
        if source and references:
            for number in (number for each in references.values() for number in each):
                if number not in source:
                    raise _refused(f"segment {number} without a source", path, document)
            documents.append((source, references))
        else:
            notes[f"document without a {'reference' if source else 'source'}"] += 1
    parallel = _join(documents, str(path), notes)
    if not parallel.source:
        raise CorpusError(
            f"{path} holds no document with a source in {languages[0]} and a reference in "
            f"{languages[1]}; its texts: {', '.join(sorted(seen)) or 'none'}",
            hint="choose a test set in the XML format of WMT (2021 or later) with references, and "
            "its languages: --languages",
            kind="corpus.empty",
        )
    return parallel


def _is_in(languages: tuple[str, str], side: int, tag: str) -> bool:
    """Return whether text with a tag is on a side; text with the other side's exact tag is not."""
    own, other = languages[side], languages[1 - side]
    is_other = plain_tag(tag) == plain_tag(other) != plain_tag(own)
    return fits_language(own, tag) and not is_other


def _add_segments(segments: Segments, text: Element, path: Path, document: Element) -> None:
    for element in text.iter("seg"):
        number = element.get("id", str(len(segments) + 1))
        if number in segments:
            raise _refused(f"segment {number} twice in one text", path, document)
        segments[number] = one_line("".join(element.itertext()))


def _refused(problem: str, path: Path, document: Element) -> CorpusError:
    name = document.get("id", document.get("docid", ""))
    message = f"{path} has {problem}, in document {name}"
    return CorpusError(message, hint="get the file again", kind="corpus.xml")


def _join(
    documents: list[tuple[Segments, dict[str, Segments]]], origin: str, notes: Counter[str]
) -> ParallelText:
    translators = dict.fromkeys(name for _, references in documents for name in references)
    everywhere = [
        name for name in translators if all(name in references for _, references in documents)
    ]
    if partial := len(translators) - len(everywhere):
        notes["translator of some documents only"] = partial
    sides: list[list[str]] = [[] for _ in ("source", *(everywhere or ["the first"]))]
    for source, references in documents:
        texts = [references[name] for name in everywhere or list(references)[:1]]
        for number, line in source.items():
            translations = [text.get(number, "") for text in texts]
            if not any(translations):
                notes["segment without a translation"] += 1
                continue
            for lines, text in zip(sides, (line, *translations), strict=True):
                lines.append(text)
    several = tuple(sides[1:]) if len(sides) > 2 else ()
    return ParallelText(sides[0], sides[1], (origin,), references=several, notes=notes)

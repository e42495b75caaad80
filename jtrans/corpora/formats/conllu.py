"""CoNLL-U, the format of Universal Dependencies: sentences whose words have parts of speech.

One line per word, ten columns separated by tabs (ID FORM LEMMA UPOS ... MISC), a blank line after
each sentence. The part of speech is the fourth column; an entity is NER=B-PER (or ner=, Entity=) in
the last, by the scheme BIO, BIOES or BILOU. A multiword token ("zum") gets the tag of its first
word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from jtrans.corpora.lines import LineFile, one_line
from jtrans.corpora.parallel import Gold, ParallelText, Tagged
from jtrans.errors import CorpusError, how_many, usage_error

ENDING = ".conllu"
NO_TAG = "_"  # the tag of a word without a part of speech
_FORM, _UPOS, _MISC, _COLUMNS = 1, 3, 9, 10
_ID = re.compile(r"(\d{1,9})(?:-(\d{1,9})|(\.)\d+)?", re.ASCII)
_TAG = re.compile(r"[A-Z]+|_")
# "Entity=" may also annotate coreference, as in "(e1-person-new", which is no entity type
_ENTITY = re.compile(r"(?<![^\t|])(?:NER|ner)=([^\s|]+)|Entity=((?:[BI]-)?[A-Za-z_]+)")
_IN_BIO = {"S": "B", "U": "B", "E": "I", "L": "I"}  # of BIOES and BILOU


def read_conllu(path: Path, languages: tuple[str, str]) -> ParallelText:
    """Read the sentences of a CoNLL-U file as the source and, unchanged, as the target.

    A model learns to copy them, which is useful only for systems that also learn their tags.

    Raises:
        CorpusError: the file cannot be read, is not CoNLL-U, or holds no sentence.
        ConfigError: the two languages differ.
    """
    if languages[0] != languages[1]:
        raise usage_error(
            f"{path} holds sentences of one language, not pairs of {'-'.join(languages)}",
            f"to learn their tags, use them on both sides: --languages {languages[0]}",
        )
    sentences = list(read_sentences(path))
    text = [sentence.text for sentence in sentences]
    words = [" ".join(sentence.tagged.words) for sentence in sentences]
    tags = [" ".join(sentence.tagged.tags) for sentence in sentences]
    entities = [" ".join(sentence.tagged.entities) for sentence in sentences]
    gold = Gold(words, words, (), tags, entities if any(entities) else ())
    return ParallelText(text, text, (str(path),), gold=gold)


@dataclass(frozen=True)
class ConlluSentence:
    """One sentence: its text as it was written, and its words and tags."""

    text: str
    tagged: Tagged


def read_sentences(path: Path) -> Iterator[ConlluSentence]:
    """Yield the sentences of a CoNLL-U file.

    If any word has an entity, all sentences have entity labels ("O" for none), else none of them.

    Raises:
        CorpusError: the file cannot be read, a line is not CoNLL-U, or there is no sentence.
    """
    lines = LineFile(path)
    has_entities = any(_ENTITY.search(line) for line in lines)
    sentence, count = _Sentence(), 0
    for number, line in enumerate([*lines, ""], start=1):
        if not line.strip():
            if sentence.words:
                yield sentence.finished(has_entities=has_entities)
                count += 1
            sentence = _Sentence()
        elif line.startswith("#"):
            name, _, value = line[1:].partition("=")
            sentence.text = one_line(value) if name.strip() == "text" else sentence.text
        else:
            sentence.add(line, path, number)
    if not count:
        raise CorpusError(
            f"{path} holds no sentence",
            hint="a CoNLL-U file has a line of ten columns for each word",
            kind="corpus.conllu",
        )


def _entity(misc: str) -> str:
    """Return the label of a word's entity by the scheme BIO, "O" for none."""
    for match in map(_ENTITY.fullmatch, misc.split("|")):
        if match:
            label: str = match[1] or match[2]
            place, dash, kind = label.partition("-")
            return f"{_IN_BIO[place]}-{kind}" if dash and place in _IN_BIO else label
    return "O"


@dataclass
class _Sentence:
    """Collects the lines of a sentence."""

    text: str = ""
    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    entities: list[str] = field(default_factory=list)
    _parts: list[str] = field(default_factory=list)  # words with the space after them
    _covered: int = 0  # the number of the last word within a multiword token
    _is_waiting: bool = False  # whether that token still needs its tag

    def add(self, line: str, path: Path, number: int) -> None:
        """Read the line of a word."""
        columns = line.split("\t")
        if len(columns) != _COLUMNS:
            raise _refused(path, number, f"has {how_many(len(columns), 'column')} instead of 10")
        word_id = _ID.fullmatch(columns[0])
        if word_id is None:
            raise _refused(path, number, f"begins with {columns[0][:40]!r}, not with a word number")
        word, tag, misc = (columns[column] for column in (_FORM, _UPOS, _MISC))
        if not _TAG.fullmatch(tag):
            raise _refused(path, number, f"has {tag!r} as its part of speech")
        entity = _entity(misc)
        if word_id[3]:
            return  # an empty node is not in the text
        if word_id[2] or int(word_id[1]) > self._covered:
            form = "".join(word.split())  # "10 000" is one word, whatever kind of space it has
            if form:
                self.words.append(form)
                self.tags.append(tag)
                self.entities.append(entity)
            self._parts.append(word + ("" if "SpaceAfter=No" in misc.split("|") else " "))
            self._covered = int(word_id[2] or self._covered)
            self._is_waiting = bool(word_id[2] and form)
        elif self._is_waiting:
            self.tags[-1] = tag
            self.entities[-1] = entity if self.entities[-1] == "O" else self.entities[-1]
            self._is_waiting = False

    def finished(self, *, has_entities: bool) -> ConlluSentence:
        """Return the whole sentence."""
        text = self.text or "".join(self._parts).strip()
        return ConlluSentence(
            text, Tagged(self.words, self.tags, self.entities if has_entities else ())
        )


def _refused(path: Path, number: int, fault: str) -> CorpusError:
    return CorpusError(
        f"{path} is not CoNLL-U: line {number:,} {fault}",
        where=f"{path}:{number}",
        hint="columns are separated by tabs: ID FORM LEMMA UPOS ... MISC",
        kind="corpus.conllu",
    )

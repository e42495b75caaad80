"""The sources of labels: spaCy, or a CoNLL-U file."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from jtrans.corpora.lines import LineFile
from jtrans.errors import ConfigError, CorpusError
from jtrans.files import file_digest, short_digest
from jtrans.preparation.labels.project import Tagged
from jtrans.text.normalise import normalise

_FORM, _UPOS, _MISC, _COLUMNS = 1, 3, 9, 10
_BATCH = 256


def check_labels(name: str) -> None:
    """Check "spacy:MODEL" or "conllu:FILE" without loading it.

    Raises:
        ConfigError: it is neither of them, or spaCy is not installed.
        CorpusError: there is no such file.
    """
    kind, _, value = name.partition(":")
    if kind not in ("spacy", "conllu") or not value:
        raise ConfigError(
            f"--labels {name} is neither spacy:MODEL nor conllu:FILE",
            hint="for example --labels spacy:de_core_news_sm, or --labels conllu:train.conllu",
            kind="config.labels",
        )
    if kind == "spacy":
        _spacy()
    elif not Path(value).is_file():
        raise CorpusError(
            f"no such file: {value}",
            where="--labels",
            hint="it must be a CoNLL-U file with the source sentences",
            kind="corpus.missing-file",
        )


@functools.lru_cache(maxsize=1)
def open_labels(name: str) -> SpacyLabels | ConlluLabels:
    """Open "spacy:MODEL" or "conllu:FILE"; the last one is cached.

    Raises:
        ConfigError: spaCy or its model is not installed.
        CorpusError: the file cannot be used.
    """
    check_labels(name)
    kind, _, value = name.partition(":")
    return SpacyLabels(value) if kind == "spacy" else ConlluLabels(Path(value))


def labels_digest(name: str) -> str:
    """Return the digest of a CoNLL-U file, or the version of spaCy."""
    kind, _, value = name.partition(":")
    if kind == "conllu":
        return file_digest(Path(value))
    return str(_spacy().__version__)


class SpacyLabels:
    """Tags of a spaCy pipeline.

    Args:
        model: the name of an installed model, or its folder.

    Raises:
        ConfigError: spaCy or the model is not installed, or the model has no tagger.
    """

    def __init__(self, model: str) -> None:
        try:
            self._nlp: Any = _spacy().load(model, exclude=["lemmatizer"])
        except OSError as error:
            raise ConfigError(
                f"spaCy has no model {model}",
                where="--labels",
                hint=f"python -m spacy download {model}",
                kind="config.labels",
            ) from error
        self.entity_types: Sequence[str] = (
            list(self._nlp.get_pipe("ner").labels) if self._nlp.has_pipe("ner") else ()
        )

    def tag(self, lines: Sequence[str]) -> list[Tagged | None]:
        """Tag each line, raw and cased; None where it has no tags."""
        return list(map(self._tagged, self._nlp.pipe(map(normalise, lines), batch_size=_BATCH)))

    def _tagged(self, document: Any) -> Tagged | None:
        tokens = [token for token in document if not token.is_space]
        if not tokens:
            return None
        if not tokens[0].pos_:
            raise ConfigError(
                "this spaCy model does not tag parts of speech",
                where="--labels",
                hint="choose a model with a tagger, such as de_core_news_sm",
                kind="config.labels",
            )
        entities = [f"{token.ent_iob_}-{token.ent_type_}".strip("-") or "O" for token in tokens]
        return Tagged(
            [token.text for token in tokens],
            [token.pos_ for token in tokens],
            entities if self.entity_types else (),
        )


class ConlluLabels:
    """Tags from a CoNLL-U file, whose sentences, in any order, are looked up by their characters.

    The part of speech is the fourth column; an entity is NER=B-PER (or Entity=) in the last. A
    token of several words ("zum") gets the tag of the first.

    Args:
        path: the file, plain or packed.

    Raises:
        CorpusError: it cannot be read or is not CoNLL-U.
    """

    def __init__(self, path: Path) -> None:
        self._sentences = {_key(tagged.words): tagged for tagged in read_conllu(path)}
        if not self._sentences:
            raise CorpusError(f"{path} holds no sentence", where="--labels", kind="corpus.conllu")
        entities = (entity for tagged in self._sentences.values() for entity in tagged.entities)
        types = {entity.removeprefix("B-").removeprefix("I-") for entity in entities}
        self.entity_types: Sequence[str] = sorted(types - {"O", "_", ""})

    def tag(self, lines: Sequence[str]) -> list[Tagged | None]:
        """Look each line up; None where it has no tags."""
        return [self._sentences.get(_key([line])) for line in lines]


def read_conllu(path: Path) -> Iterator[Tagged]:
    """Yield the sentences of a CoNLL-U file.

    Raises:
        CorpusError: it cannot be read, or a line is not CoNLL-U; the error names it.
    """
    tokens: list[tuple[str, str, str]] = []  # word, tag and entity
    covered = 0  # the last word that belongs to a token of several words
    waiting = False  # whether such a token still needs its tag
    for number, line in enumerate([*LineFile(path)[:], ""], start=1):
        if not line.strip():
            if tokens:
                words, tags, entities = map(list, zip(*tokens, strict=True))
                yield Tagged(words, tags, entities if set(entities) != {"O"} else ())
            tokens, covered, waiting = [], 0, False
            continue
        if line.startswith("#"):
            continue
        columns = line.split("\t")
        if len(columns) != _COLUMNS:
            raise CorpusError(
                f"{path} is not CoNLL-U: line {number:,} has {len(columns)} columns instead of 10",
                where=f"{path}:{number}",
                hint="columns are separated by tabs: ID FORM LEMMA UPOS ... MISC",
                kind="corpus.conllu",
            )
        first, _, last = columns[0].partition("-")
        if "." in first:
            continue  # an empty node is not in the text
        word, tag, entity = columns[_FORM], columns[_UPOS], _entity(columns[_MISC])
        if last:
            tokens.append((word, "X", entity))
            covered, waiting = int(last), True
        elif int(first) > covered:
            tokens.append((word, tag, entity))
        elif waiting:
            token, _, known = tokens[-1]
            tokens[-1], waiting = (token, tag, entity if known == "O" else known), False


def _entity(misc: str) -> str:
    for item in misc.split("|"):
        name, _, value = item.partition("=")
        if name in ("NER", "Entity") and value:
            return value
    return "O"


def _key(words: Iterable[str]) -> bytes:
    text = "".join(normalise(word).replace(" ", "") for word in words).lower()
    return short_digest(text.encode("utf-8"))


def _spacy() -> Any:
    try:
        import spacy
    except ImportError as error:
        raise ConfigError(
            "spaCy is not installed",
            where="--labels",
            hint="pip install 'jtrans[labels]', then python -m spacy download MODEL",
            kind="config.missing-extra",
        ) from error
    return spacy

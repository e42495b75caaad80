"""The sources of labels: spaCy, or CoNLL-U files."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from jtrans.corpora.formats.conllu import NO_TAG, read_sentences
from jtrans.corpora.parallel import Tagged
from jtrans.errors import ConfigError, CorpusError, first_line
from jtrans.files import file_digest, short_digest, text_digest
from jtrans.text.normalise import normalise
from jtrans.text.widths import narrowed

_BATCH = 256
_JOINERS = re.compile("[\u200c\u200d]")


class LabelSource(Protocol):
    """Tags raw lines."""

    entity_types: Sequence[str]  # types that it may assign; empty if it labels no entities

    def tag(self, lines: Sequence[str]) -> list[Tagged | None]:
        """Tag each line, raw and cased; None where it has no tags."""
        ...


def check_labels(names: Iterable[str]) -> None:
    """Check sources such as "spacy:MODEL" or "conllu:FILE" without loading them.

    Raises:
        ConfigError: a name has neither form, or spaCy is not installed.
        CorpusError: there is no such file.
    """
    for name in names:
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
def open_labels(names: tuple[str, ...], _digest: str) -> LabelSource:
    """Open sources such as "spacy:MODEL" or "conllu:FILE"; those opened last are cached.

    The digest is that of `labels_digest`: a changed file is not taken from the cache.

    Raises:
        ConfigError: spaCy or its model is not installed.
        CorpusError: a file cannot be used.
    """
    check_labels(names)
    sources: list[LabelSource] = []
    for name in names:
        kind, _, value = name.partition(":")
        sources.append(SpacyLabels(value) if kind == "spacy" else ConlluLabels(Path(value)))
    return sources[0] if len(sources) == 1 else SeveralLabels(sources)


def labels_digest(names: Sequence[str]) -> str:
    """Return the digest of CoNLL-U files and folders of models, and the version of spaCy."""
    digests = []
    for name in names:
        kind, _, value = name.partition(":")
        is_file = kind == "conllu"
        digests.append(file_digest(Path(value)) if is_file else _model_digest(Path(value)))
    return digests[0] if len(digests) == 1 else text_digest("\n".join(digests))


def _model_digest(model: Path) -> str:
    """Return the version of spaCy; for a folder that may change, the digest of its files too."""
    version = str(_spacy().__version__)
    if not model.is_dir():
        return version
    files = sorted(path for path in model.rglob("*") if path.is_file())
    names = (f"{path.relative_to(model).as_posix()} {file_digest(path)}" for path in files)
    return text_digest("\n".join([version, *names]))


class SeveralLabels:
    """Several sources: a line has the tags of the first source that has any for it."""

    def __init__(self, sources: Sequence[LabelSource]) -> None:
        self._sources = sources
        types = {name for source in sources for name in source.entity_types}
        self.entity_types: Sequence[str] = sorted(types)

    def tag(self, lines: Sequence[str]) -> list[Tagged | None]:
        """Tag each line; None where no source has tags."""
        tagged: list[Tagged | None] = [None] * len(lines)
        for source in self._sources:
            missing = [i for i, known in enumerate(tagged) if known is None]
            for i, tags in zip(missing, source.tag([lines[i] for i in missing]), strict=True):
                tagged[i] = tags
        return tagged


class SpacyLabels:
    """Tags of a spaCy pipeline.

    Args:
        model: the name of an installed model, or its folder.

    Raises:
        ConfigError: spaCy or the model is not installed, or the model is damaged or tags nothing.
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
        except Exception as error:  # spaCy raises any kind for a folder without a usable model
            raise ConfigError(
                f"spaCy cannot load {model}: {first_line(error)}",
                where="--labels",
                hint="train the model again with this version of spaCy, or choose another",
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
        if not document.has_annotation("POS"):
            raise ConfigError(
                "this spaCy model does not tag parts of speech",
                where="--labels",
                hint="choose a model with a morphologizer, or a tagger and an attribute ruler, "
                "such as de_core_news_sm",
                kind="config.labels",
            )
        entities = [f"{token.ent_iob_}-{token.ent_type_}".strip("-") or "O" for token in tokens]
        return Tagged(
            [token.text for token in tokens],
            [token.pos_ or NO_TAG for token in tokens],
            entities if self.entity_types else (),
        )


class ConlluLabels:
    """Tags from a CoNLL-U file, whose sentences, in any order, are looked up by their characters.

    Args:
        path: the file, plain or packed.

    Raises:
        CorpusError: it cannot be read or is not CoNLL-U.
    """

    def __init__(self, path: Path) -> None:
        tagged = [sentence.tagged for sentence in read_sentences(path)]
        self._sentences = {_key(sentence.words): sentence for sentence in tagged}
        entities = (entity for sentence in tagged for entity in sentence.entities)
        types = {entity.removeprefix("B-").removeprefix("I-") for entity in entities}
        self.entity_types: Sequence[str] = sorted(types - {"O", NO_TAG})

    def tag(self, lines: Sequence[str]) -> list[Tagged | None]:
        """Look each line up; None where it has no tags."""
        return [self._sentences.get(_key([line])) for line in lines]


def _key(words: Iterable[str]) -> bytes:
    # full-width letters may be ASCII in the words of a tagger, as they are in those of a pipeline
    text = narrowed("".join(normalise(word).replace(" ", "") for word in words), "").lower()
    text = _JOINERS.sub("", text)  # normalising drops those that are a word of a tagger
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

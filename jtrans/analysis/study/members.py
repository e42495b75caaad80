"""The members of a study: runs and files of translations, on the text of one split.

A member provides its hypotheses and, if it is a run, the results of its model on that text.
Everything is computed on first use, and expensive results go to the result cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jtrans.analysis.study.teacher_forcing import TeacherForcedSplit
from jtrans.analysis.study.words import StudyWords, is_same_segmentation
from jtrans.corpora.lines import read_line_file
from jtrans.data.ids import Side
from jtrans.data.prepared import PreparedCorpus
from jtrans.decoding.lines.given import best_texts
from jtrans.decoding.options import DecodingChoices
from jtrans.decoding.result_cache import CachedResult, cached_measurement, cached_translations
from jtrans.decoding.split import SplitTranslation
from jtrans.errors import CorpusError, how_many, lines_of
from jtrans.evaluation.references import present
from jtrans.progress import Progress
from jtrans.runs import Run
from jtrans.text.pipeline import TextSide

if TYPE_CHECKING:  # importing them would load torch
    from jtrans.decoding.translator import Translator
    from jtrans.models.base import TranslationModel


class LengthSide(NamedTuple):
    """The side of a text by which the lengths of its sentences are measured."""

    name: str  # ``source`` or ``reference``
    lines: list[str]  # raw text
    words: list[list[str]]


@dataclass(frozen=True)
class SplitText:
    """The text of a split."""

    split: str  # its name
    raw_source: list[str] | None  # None: of files without their source
    references: list[list[str]]  # all sets, as raw text
    words: StudyWords  # how lines are split; done on first use, scores alone need no words

    @cached_property
    def source(self) -> tuple[list[str], list[list[str]]] | None:
        """The source as raw text and as words of the study."""
        if self.raw_source is None or self.words.source is None:
            return None
        return self.raw_source, [self.words.source.segment(line) for line in self.raw_source]

    @property
    def reference_lines(self) -> list[str]:
        """The first reference."""
        return self.references[0]

    @cached_property
    def reference_words(self) -> list[list[str]]:
        """The first reference as words of the study."""
        return [self.words.split(line) for line in self.references[0]]

    @property
    def source_lines(self) -> list[str]:
        """The source as raw text, which every study of runs has."""
        assert self.raw_source is not None
        return self.raw_source

    @property
    def length_side(self) -> LengthSide:
        """The source, or the first reference of files without their source."""
        if self.source is None:
            return LengthSide("reference", self.reference_lines, self.reference_words)
        return LengthSide("source", *self.source)

    @cached_property
    def words_of_references(self) -> list[tuple[list[str], ...]]:
        """The words of all references of every line, without missing ones."""
        further = ([self.words.split(line) for line in lines] for lines in self.references[1:])
        sets = [self.reference_words, *further]
        return [tuple(present(each)) for each in zip(*sets, strict=True)]

    @property
    def only_first(self) -> str:
        """A sentence for the notes of figures that use only one reference; often empty."""
        number = len(self.references)
        return f" Only the first of the {number} references is used." if number > 1 else ""


@dataclass(frozen=True)
class TextFiles:
    """A test set and translations of it in files, line by line, without any run."""

    source: Path | None  # only needed to show it and to measure lengths
    references: Sequence[Path]  # at least one
    hypotheses: Sequence[Path]  # at least one
    train: Path | None = None  # the target side of a training text
    languages: str | None = None  # such as ``de-en``; None: by names and scripts of the files


@dataclass(eq=False, repr=False)
class Member:
    """One run.

    Raises:
        JtransError: no such checkpoint, or search options that cannot be used.
    """

    name: str  # as shown to the user
    run: Run
    corpus: PreparedCorpus  # the split is one of its splits
    text: SplitText
    words: StudyWords  # those of `text`
    decoding: DecodingChoices  # which checkpoint, and how it is loaded and translates
    progress: Progress
    run_name: str = ""  # without what tells searches or checkpoints of a run apart
    search: str = ""  # what the search adds to the name, if others are beside it

    def __post_init__(self) -> None:
        self.run_name = self.run_name or self.name
        self.checkpoint = self.run.checkpoint(self.decoding.checkpoint)
        self._search = self.decoding.search_options(self.run)

    @cached_property
    def hypotheses(self) -> list[str]:
        """Its translations as raw text, one per source line."""
        return list(self.translation.lines)

    @cached_property
    def hypothesis_words(self) -> list[list[str]]:
        """Its translations as words of the study."""
        return self.words_by(self.words)

    def words_by(self, words: StudyWords) -> list[list[str]]:
        """Return its translations split by `words`, from its own words if these are the same."""
        if not words.is_mixed:
            return [words.fold(line) for line in self.translation.words]
        return [words.split(line) for line in self.hypotheses]

    def own_words(self, side: Side) -> list[list[str]]:
        """Return the source lines or the first reference as words of its own pipeline."""
        text_side: TextSide = getattr(self.run.pipeline, side)
        if is_same_segmentation(text_side, getattr(self.corpus.pipeline, side)):
            return self.corpus.words_lines(self.text.split, side)
        return [text_side.segment(line) for line in self.corpus.raw_lines(self.text.split, side)]

    @cached_property
    def source_pieces(self) -> list[list[str]]:
        """The source lines as its model reads them, without ``</s>``."""
        return [self.run.pipeline.source.split(words) for words in self.own_words("source")]

    @cached_property
    def reference_pieces(self) -> list[list[str]]:
        """The reference lines as its model writes them, without ``</s>``."""
        return [self.run.pipeline.target.split(words) for words in self.own_words("target")]

    @cached_property
    def source_ids(self) -> list[list[int]]:
        """The source lines as ids, ending in EOS."""
        return [self.run.pipeline.source.encode_pieces(pieces) for pieces in self.source_pieces]

    @cached_property
    def reference_ids(self) -> list[list[int]]:
        """The reference lines as ids, ending in EOS."""
        return [self.run.pipeline.target.encode_pieces(pieces) for pieces in self.reference_pieces]

    @cached_property
    def teacher_forced(self) -> TeacherForcedSplit:
        """The teacher-forced scores of the reference, token by token."""
        cached, size = self.cached("forced"), sum(map(len, self.reference_ids))
        scores = cached.read()
        if scores is None or any(len(array) != size for array in scores.values()):
            scores = self._score_references()
            cached.write(scores, self.progress)
        return TeacherForcedSplit.of(self.reference_ids, scores["log_probs"], scores["hits"])

    @cached_property
    def translator(self) -> Translator:
        """The loaded model, ready to translate."""
        from jtrans.decoding.translator import Translator

        self.progress.say("Loading", self.name)
        return Translator.load([self.run], self.decoding)

    def release_model(self) -> None:
        """Unload the model: those of all searches and checkpoints would fill the memory."""
        vars(self).pop("translator", None)

    @property
    def model(self) -> TranslationModel:
        """The loaded model."""
        return self.translator.models[0]

    def cached(
        self, measurement: str, *, with_all_references: bool = False, **options: Any
    ) -> CachedResult:
        """Return the entry of a measurement on this split in the run's result cache.

        The result depends on the first reference or on all, and on the `options`.
        """
        references = self.text.references if with_all_references else [self.text.reference_lines]
        return cached_measurement(
            self.run,
            self.checkpoint,
            self.text.split,
            measurement,
            [self.text.source_lines, *references],
            precision=self.decoding.precision,
            **options,
        )

    @cached_property
    def translation(self) -> SplitTranslation:
        """The translations of the split, with the run's own words and the time taken."""
        split, source = self.text.split, self.text.source_lines
        cached = cached_translations(
            self.run, self.checkpoint, split, source, self._search, self.decoding.precision
        )
        translation = SplitTranslation.read(cached)
        if translation is None:
            with self.lines_of_split():
                translation = SplitTranslation.make(self.translator, source, self.progress)
            cached.write(vars(translation), self.progress)
        for lines in (translation.lines, translation.words):
            _check_lines(lines, self.text, str(cached.path), "delete this file and run again")
        return translation

    def lines_of_split(self) -> AbstractContextManager[None]:
        """Name the split in errors about its lines."""
        return lines_of(f"{self.text.split} of {self.corpus.folder}")

    def _score_references(self) -> dict[str, Any]:
        from jtrans.decoding.teacher_forcing import teacher_forced_scores

        with self.lines_of_split():
            sentences = teacher_forced_scores(
                self.model,
                self.source_ids,
                self.reference_ids,
                precision=self.translator.precision,
                progress=self.progress,
            )
        log_probs = np.concatenate([scores.log_probs for scores in sentences])
        hits = np.concatenate([scores.hits for scores in sentences])
        return {"log_probs": log_probs.astype(np.float32), "hits": hits.astype(np.bool_)}


class FileMember:
    """Translations of another tool: a file with one line per sentence.

    Args:
        name: as shown to the user.
        hypotheses: the lines of the file.
        words: how the study splits lines into words.
    """

    run: None = None

    def __init__(self, name: str, hypotheses: list[str], words: StudyWords) -> None:
        self.name = name
        self.hypotheses = hypotheses
        self.words = words

    @classmethod
    def read(cls, name: str, path: Path, text: SplitText, words: StudyWords) -> FileMember:
        """Read the translations of a split from a file.

        Raises:
            CorpusError: the file cannot be read, its number of lines is not that of the split, or
                JSON lines have no translation.
        """
        hypotheses = best_texts(list(read_line_file(path)), str(path))
        hint = "line n must translate source line n; empty lines count, at the end too"
        _check_lines(hypotheses, text, str(path), hint)
        return cls(name, hypotheses, words)

    @cached_property
    def hypothesis_words(self) -> list[list[str]]:
        """The translations as words of the study."""
        return self.words_by(self.words)

    def words_by(self, words: StudyWords) -> list[list[str]]:
        """Return the translations split by `words`."""
        return [words.split(line) for line in self.hypotheses]


def _check_lines(lines: Sequence[Any], text: SplitText, where: str, hint: str) -> None:
    """Raise a CorpusError unless there is one hypothesis per sentence."""
    if len(lines) != len(text.reference_lines):
        raise CorpusError(
            f"{how_many(len(lines), 'translation')}, but {text.split} has "
            f"{how_many(len(text.reference_lines), 'line')}",
            where=where,
            hint=hint,
            kind="corpus.line-counts",
        )

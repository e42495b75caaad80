"""Scores of sentences in metrics that jtrans does not compute, such as COMET, from files.

The score of a system is the mean over its sentences, which is also what COMET reports; intervals
and significance come from the same drawn test sets as those of sacreBLEU's metrics.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jtrans.errors import CorpusError, how_many
from jtrans.evaluation.bootstrap import Bootstrap
from jtrans.evaluation.scores import Score

COMET_SCORE, COMET_TEXT = "COMET", "mt"  # the fields of a sentence in the output of comet-score
FEW_DECIMALS, MANY_DECIMALS = 2, 4  # many if all scores are between -2 and 2, like COMET's


@dataclass(frozen=True)
class _Column:
    """The scores of one system in a file."""

    place: str  # the file, and in COMET's output the file of translations
    values: NDArray[np.float64]  # [sentences]
    texts: Sequence[str] | None = None  # the translations that were scored, if the file has them


@dataclass(frozen=True)
class SentenceScores:
    """The scores of all sentences of all systems in one metric."""

    metric: str  # its name, as it is shown
    columns: Sequence[_Column]

    @classmethod
    def parse(cls, metric: str, files: Iterable[tuple[str, Sequence[str]]]) -> SentenceScores:
        """Parse the output of ``comet-score --to_json``, or one file of numbers for each system.

        Args:
            metric: the name of the metric.
            files: the name and the lines of each file.

        Raises:
            CorpusError: a file has anything else.
        """
        return cls(metric, [column for file in files for column in _parse(*file)])

    def values(self, systems: Mapping[str, Sequence[str]]) -> list[NDArray[np.float64]]:
        """Return the sentence scores of each system, each [sentences].

        Scores that come with translations are those of the system with these translations; others
        are in the order of the systems.

        Args:
            systems: the translations of each system, by its name.

        Raises:
            CorpusError: a system has no scores, or those of other translations.
        """
        plain = [column for column in self.columns if column.texts is None]
        if not plain:
            return [self._of_texts(*system).values for system in systems.items()]
        if len(plain) < len(self.columns):
            raise CorpusError(
                f"{plain[0].place} has only numbers, other files have translations with scores",
                hint="give either one file of numbers per system, or the output of comet-score",
                kind="corpus.sentence-scores",
            )
        if len(plain) != len(systems):
            raise CorpusError(
                f"{how_many(len(plain), 'file')} of {self.metric} scores for "
                f"{how_many(len(systems), 'system')}",
                hint="give one file of numbers per system, in the same order",
                kind="corpus.sentence-scores",
            )
        for column, (name, lines) in zip(plain, systems.items(), strict=True):
            _check_size(column, name, lines)
        return [column.values for column in plain]

    def score(self, systems: Mapping[str, Sequence[str]], bootstrap: Bootstrap) -> list[Score]:
        """Return the score of each system, the mean of its `values`.

        Args:
            systems: the translations of each system, by its name.
            bootstrap: the drawn test sets.

        Raises:
            CorpusError: see `values`.
        """
        values = self.values(systems)
        decimals = MANY_DECIMALS if all(np.abs(each).max() < 2 for each in values) else FEW_DECIMALS
        signature = f"{self.metric}|mean of given sentence scores"
        return [
            Score(
                self.metric,
                float(each.mean()),
                signature,
                bootstrap.sums(each) / len(each),
                decimals=decimals,
            )
            for each in values
        ]

    def _of_texts(self, name: str, lines: Sequence[str]) -> _Column:
        """Return the scores that come with the translations of a system."""
        differences = [_first_difference(column, lines) for column in self.columns]
        if None in differences:
            return self.columns[differences.index(None)]
        first = max(difference or 0 for difference in differences)
        nearest = self.columns[differences.index(first)]
        raise CorpusError(
            f"no {self.metric} scores of {name}: the most similar translations, in "
            f"{nearest.place}, differ from line {first} on",
            hint=f"compute {self.metric} on the same translations",
            kind="corpus.sentence-scores",
        )


def _check_size(column: _Column, name: str, lines: Sequence[str]) -> None:
    if len(column.values) != len(lines):
        raise CorpusError(
            f"{column.place} has {how_many(len(column.values), 'score')}, {name} has "
            f"{how_many(len(lines), 'translation')}",
            hint="line n must be the score of sentence n",
            kind="corpus.line-counts",
        )


def _first_difference(column: _Column, lines: Sequence[str]) -> int | None:
    """Return the number of the first line with another translation, None if all are the same."""
    texts = column.texts or []
    for number, (text, line) in enumerate(zip(texts, lines, strict=False), start=1):
        if text.strip() != line.strip():
            return number
    return None if len(texts) == len(lines) else min(len(texts), len(lines)) + 1


def _parse(file: str, lines: Sequence[str]) -> list[_Column]:
    if lines and lines[0].lstrip().startswith("{"):
        return _parse_comet(file, "\n".join(lines))
    values = [_number(line, f"{file}:{number}") for number, line in enumerate(lines, start=1)]
    if not values:
        raise _no_scores(file, "it is empty")
    return [_Column(file, np.array(values))]


def _parse_comet(file: str, text: str) -> list[_Column]:
    """Parse the output of comet-score: a JSON object with a list of sentences for each file."""
    try:
        content: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _no_scores(file, f"it is not a JSON object: {error}") from None
    if not content:
        raise _no_scores(file, "it names no translations")
    columns = []
    for name, sentences in content.items():
        place = f"{file}: {name}"
        if not isinstance(sentences, list) or not sentences:
            raise _no_scores(place, "it has no list of sentences")
        texts, values = [], []
        for number, sentence in enumerate(sentences, start=1):
            fields = sentence if isinstance(sentence, dict) else {}
            if COMET_SCORE not in fields or not isinstance(fields.get(COMET_TEXT), str):
                fault = f"sentence {number} lacks {COMET_TEXT!r} or {COMET_SCORE!r}"
                raise _no_scores(place, fault)
            texts.append(fields[COMET_TEXT])
            values.append(_number(fields[COMET_SCORE], f"{place}, sentence {number}"))
        columns.append(_Column(place, np.array(values), texts))
    return columns


def _number(given: object, place: str) -> float:
    try:
        value = float(str(given))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise _no_scores(place, f"{str(given)[:40]!r} is not a number")
    return value


def _no_scores(place: str, fault: str) -> CorpusError:
    return CorpusError(
        f"{place} has no sentence scores: {fault}",
        hint="give a file with one number per line, or the output of comet-score --to_json",
        kind="corpus.sentence-scores",
    )

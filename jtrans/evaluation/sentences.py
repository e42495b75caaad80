"""Sentence scores, in sacreBLEU's metrics and in given ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jtrans.evaluation.scores import sentence_scores
from jtrans.evaluation.sentence_scores import SentenceScores


@dataclass(frozen=True)
class ScoredText:
    """The translations of a test set, and how they are compared with its references."""

    systems: Mapping[str, Sequence[str]]  # the translations of each, by name
    references: Sequence[Sequence[str]]  # reference sets as raw text
    target_language: str
    lowercase: bool
    tokenizer: str | None  # of BLEU; None: that of the target language
    given: Sequence[SentenceScores]  # scores in other metrics

    def sentences(self, metrics: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield the scores of each line of each system, line by line.

        Args:
            metrics: names of sacreBLEU's metrics, as for `make_metric`.

        Raises:
            CorpusError: given scores are of other translations.
        """
        columns = {
            name: [
                sentence_scores(
                    name,
                    lines,
                    self.references,
                    target_language=self.target_language,
                    lowercase=self.lowercase,
                    tokenizer=self.tokenizer,
                ).tolist()
                for lines in self.systems.values()
            ]
            for name in metrics
        }
        for given in self.given:
            columns[given.metric] = [each.tolist() for each in given.values(self.systems)]
        for line in range(len(self.references[0])):
            for number, system in enumerate(self.systems):
                scores = {name: values[number][line] for name, values in columns.items()}
                yield {"system": system, "id": line, "line": line + 1, **scores}

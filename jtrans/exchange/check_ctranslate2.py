"""An export to CTranslate2 beside its run: translations, log-probabilities, BLEU and speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from jtrans.decoding.comparison import Comparison, compare_ways
from jtrans.decoding.engines.ctranslate2_translator import CTranslate2Translator
from jtrans.decoding.options import DecodingChoices
from jtrans.decoding.teacher_forcing import teacher_forced_scores
from jtrans.decoding.translator import Translator
from jtrans.exports import Export
from jtrans.progress import Progress
from jtrans.runs import Run

SCORED_LINES = 64  # whose references are scored by both, token by token


@dataclass(frozen=True)
class ExportCheck:
    """What a check of an export found.

    Args:
        comparison: of the translations.
        difference: the largest between log-probabilities of a token of the references.
    """

    comparison: Comparison
    difference: float

    def to_json(self) -> dict[str, Any]:
        """Return the numbers."""
        return {**self.comparison.to_json(), "log_prob_difference": self.difference}


def check_ctranslate2(
    run: Run,
    export: Export,
    decoding: DecodingChoices,
    source: Sequence[str],
    references: Sequence[Sequence[str]],
    progress: Progress,
) -> ExportCheck:
    """Translate a text with a run and with its export, and compare.

    Args:
        run: the run, whose checkpoint was exported.
        export: to CTranslate2.
        decoding: how both translate.
        source: raw lines.
        references: sets of as many lines.
        progress: receives the number of lines done.

    Raises:
        JtransError: the run or the export cannot be used.
    """
    ours = Translator.load([run], replace(decoding, precision="fp32"))
    theirs = CTranslate2Translator.open(export, replace(decoding, checkpoint="best", scores=False))
    ways = ("torch float32", ours), (f"ctranslate2 {export.facts['weights']}", theirs)
    comparison = compare_ways(*ways, source, references, progress)
    pairs = [
        (run.pipeline.source.encode(line), run.pipeline.target.encode(reference))
        for line, reference in zip(source, references[0], strict=True)
        if line.strip() and reference.strip()
    ]
    sources, targets = zip(*pairs[:SCORED_LINES], strict=True) if pairs else ((), ())
    expected = teacher_forced_scores(ours.models[0], sources, targets)
    assert theirs.engine is not None
    given = theirs.engine.log_probs(sources, targets) if sources else []
    difference = max(
        (
            abs(a - b)
            for own, their in zip(expected, given, strict=True)
            for a, b in zip(own.log_probs, their, strict=True)
        ),
        default=0.0,
    )
    return ExportCheck(comparison, difference)

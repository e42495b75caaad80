"""Compare an export with its run: translations, log-probabilities, BLEU and speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from jtrans.decoding.comparison import Comparison, compare_ways
from jtrans.decoding.engines.ctranslate2_translator import CTranslate2Translator
from jtrans.decoding.options import DecodingChoices
from jtrans.decoding.translator import Translator
from jtrans.exchange.graphs.greedy import GreedyTranslator
from jtrans.exports import Export
from jtrans.progress import Progress
from jtrans.runs import Run

SCORED_LINES = 64  # the first lines, whose log-probabilities are compared token by token


@dataclass(frozen=True)
class ExportCheck:
    """The result of a check of an export."""

    comparison: Comparison  # of the translations
    # largest difference between the log-probabilities of a token, over the first lines that both
    # translate alike; None if there are none
    difference: float | None
    scored: int  # the number of first lines

    def to_json(self) -> dict[str, Any]:
        """Return the numbers for --json."""
        return {**self.comparison.to_json(), "log_prob_difference": self.difference}


def check_export(
    run: Run,
    export: Export,
    decoding: DecodingChoices,
    source: Sequence[str],
    references: Sequence[Sequence[str]],
    progress: Progress,
) -> ExportCheck:
    """Translate a text with a run and with its export, and compare.

    Args:
        run: the run.
        export: an export of the run.
        decoding: how both translate; an export to ONNX only translates greedily.
        source: source lines as raw text.
        references: reference sets, each as long as `source`.
        progress: receives the number of lines done.

    Raises:
        JtransError: the run or the export cannot be used.
    """
    open_both = _open_ctranslate2 if export.program == "ctranslate2" else _open_onnx
    ours, theirs, name, scored = open_both(run, export, decoding)
    ways = ("torch float32", ours), (name, theirs)
    comparison = compare_ways(*ways, source, references, progress)
    first = source[:SCORED_LINES]
    return ExportCheck(comparison, _largest_difference(ours, scored, first), len(first))


class _Translators(NamedTuple):
    run: Translator
    export: Translator
    name: str  # of the export's translator, in the table
    scored: Translator  # the export's translator with log-probabilities of tokens


def _open_ctranslate2(run: Run, export: Export, decoding: DecodingChoices) -> _Translators:
    chosen = replace(decoding, checkpoint="best")
    return _Translators(
        Translator.load([run], replace(decoding, precision="fp32")),
        CTranslate2Translator.open(export, replace(chosen, needs_scores=False)),
        f"ctranslate2 {export.facts['weights']}",
        CTranslate2Translator.open(export, chosen),
    )


def _open_onnx(run: Run, export: Export, decoding: DecodingChoices) -> _Translators:
    greedy = replace(decoding, device="cpu", precision="fp32", search={"beam": 1})
    ours = Translator.load([run], greedy)
    theirs = GreedyTranslator.open(export, ours.options)
    return _Translators(ours, theirs, "onnxruntime float32", theirs)


def _largest_difference(
    ours: Translator, theirs: Translator, source: Sequence[str]
) -> float | None:
    """Return the largest difference of a token's log-probabilities in identical translations."""
    pairs = zip(ours.translate_nbest(source, 1), theirs.translate_nbest(source, 1), strict=True)
    differences = [
        abs(a - b)
        for (our, *_), (their, *_) in pairs
        if our.tokens == their.tokens
        for a, b in zip(our.token_log_probs, their.token_log_probs, strict=True)
    ]
    return max(differences, default=None)

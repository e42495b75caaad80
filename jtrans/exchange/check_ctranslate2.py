"""An export to CTranslate2 beside its run: translations, log-probabilities, BLEU and speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jtrans.decoding.comparison import ExportCheck, compare_ways, largest_difference
from jtrans.decoding.engines.ctranslate2_translator import CTranslate2Translator
from jtrans.decoding.options import DecodingChoices
from jtrans.decoding.translator import Translator
from jtrans.exports import Export
from jtrans.progress import Progress
from jtrans.runs import Run


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
    scored = CTranslate2Translator.open(export, replace(decoding, checkpoint="best"))
    return ExportCheck(comparison, largest_difference(ours, scored, source))

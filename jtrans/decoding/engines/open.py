"""A translator for runs, or for an export of one."""

from __future__ import annotations

from collections.abc import Sequence

from jtrans.decoding.options import DecodingChoices
from jtrans.decoding.translator import Translator
from jtrans.exports import Export, Translatable
from jtrans.runs import Run


def open_translator(models: Sequence[Translatable], decoding: DecodingChoices) -> Translator:
    """Load runs, several as an ensemble, or one export.

    Raises:
        JtransError: a run or an export cannot be used, or not with these choices.
    """
    first = models[0]
    if isinstance(first, Export):
        from jtrans.decoding.engines.ctranslate2_translator import CTranslate2Translator

        return CTranslate2Translator.open(first, decoding)
    return Translator.load([run for run in models if isinstance(run, Run)], decoding)

"""Two ways of translating: what one loses and how much faster it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from plugins.listener import Listener
from plugins.random_runs import ON_CPU, MakeRun

from jtrans.decoding import comparison
from jtrans.decoding.comparison import Comparison, WayResult, compare_ways
from jtrans.decoding.translator import Translator
from jtrans.errors import CorpusError
from jtrans.evaluation.scores import corpus_score
from jtrans.runs import Run

LINES = ["ein mann liest .", "hund", "ein hund rennt schnell .", "", "katze ."]


@pytest.mark.parametrize(("bleu", "is_held"), [(31.5, True), (29.9, True), (29.75, False)])
def test_the_other_way_may_lose_little(bleu: float, is_held: bool) -> None:
    plain = WayResult("fp32", ["a", "b", "c", "d"], tokens=8, seconds=4.0, bleu=30.0)
    other = WayResult("int8", ["a", "x", "c", "d"], tokens=9, seconds=1.0, bleu=bleu)
    compared = Comparison(plain, other)
    assert compared.is_held == is_held
    assert compared.lost == pytest.approx(30.0 - bleu)
    assert (compared.same, compared.speedup) == (0.75, 4.0)
    assert (plain.sentences_per_second, other.to_json()["tokens_per_second"]) == (1.0, 9.0)


def test_both_ways_translate_every_line_and_are_scored(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "PIECE_LINES", 2)
    plain = Translator.load([Run.open(make_run(weights_seed=2))], ON_CPU)
    other = replace(plain, options=replace(plain.options, beam=1))
    references = [line.upper() for line in plain.translate(LINES)]
    options: dict[str, Any] = {"target_language": "en", "lowercase": False}
    compared = compare_ways(("a", plain), ("b", other), LINES, [references], Listener())
    for result, translator in ((compared.plain, plain), (compared.other, other)):
        nbest = translator.translate_nbest(LINES, 1)
        assert result.lines == [best.text for [best] in nbest]
        assert result.tokens == sum(len(best.tokens) for [best] in nbest)
        assert result.bleu == corpus_score("bleu", result.lines, [references], **options)
    with pytest.raises(CorpusError, match="nothing to compare"):
        compare_ways(("a", plain), ("b", other), [], [[]], Listener())

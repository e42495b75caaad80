"""Measuring the search: what is done, and what is counted."""

from __future__ import annotations

from typing import Any

import pytest
from torch import Tensor

from jtrans.bench import decode
from jtrans.bench.decode import DecodeMeasurement, measure_decode
from jtrans.models.base import TranslationModel
from jtrans.models.zoo import build_model
from jtrans.progress import Silent

V = 24


def measure(model: Any) -> DecodeMeasurement:
    return measure_decode(
        model, V, precision="fp32", length=6, seconds=0.0, progress=Silent(), batches=(1, 2)
    )


class Watched:
    """A model that records how many hypotheses each step reads."""

    def __init__(self, model: TranslationModel) -> None:
        self.model = model
        self.rows: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def step(self, token: Tensor, state: Any) -> Tensor:
        self.rows.append(len(token))
        return self.model.step(token, state)


def test_every_translation_is_as_long_as_its_source(
    make_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(build_model(make_config("transformer").model, V, V).eval())
    monkeypatch.setattr(decode, "prepared", lambda *_, **__: watched)
    monkeypatch.setattr(decode, "lane_count", lambda device: 1)
    searches = measure(watched.model).searches
    assert [(each.beam, each.batch) for each in searches] == [(1, 1), (1, 2), (5, 1), (5, 2)]
    # a step with the empty prefix of each sentence, then with all hypotheses of its beam
    assert watched.rows[-6:] == [2, 10, 10, 10, 10, 10]


@pytest.mark.parametrize(
    "system", ["transformer", pytest.param("reformer-fast", marks=pytest.mark.slow)]
)
def test_rates_and_shares_agree(system: str, make_config: Any) -> None:
    model = build_model(make_config(system).model, V, V).eval()
    measured = measure(model)
    first, second = measured.searches[2:]
    sentence = first.flops_per_second / first.sentences_per_second
    assert second.flops_per_second / second.sentences_per_second == pytest.approx(sentence)
    assert measured.product_share(first) == pytest.approx(
        first.flops_per_second / measured.product_flops_per_second
    )
    assert 0 <= first.step_milliseconds * 6 <= 1000 / first.sentences_per_second
    assert first.step_operations == second.step_operations > 10

"""Every system with int8 weights: close to its own step, and the model stays as it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from jtrans.data.batch import Batch
from jtrans.decoding.prepared.base import Searchable
from jtrans.decoding.prepared.choose import prepared
from jtrans.decoding.prepared.converted import with_int8_weights
from jtrans.errors import ConfigError
from jtrans.models.base import TranslationModel

BEAM = 3


@torch.no_grad()
def third_step(form: Searchable, batch: Batch) -> Tensor:
    """Return the hidden states of the third step."""
    hidden = torch.empty(0)
    memory = form.encode(batch.source, batch.source_mask)
    state = form.begin(memory, BEAM)
    for token in (1, 5, 6):
        hidden = form.step(torch.full((BEAM * len(batch.source),), token), state)
    return hidden


def test_a_step_with_int8_weights_is_close(
    system: str, build: Callable[..., TranslationModel], batch: Batch
) -> None:
    model = build(system).float().requires_grad_(False)
    before = third_step(model, batch)
    form = prepared(model, "int8")
    hidden = third_step(form, batch)
    assert (hidden - before).norm() < 0.1 * before.norm()
    logits, exact = form.project(hidden), model.project(before)
    assert 0 < (logits - exact).norm() < 0.1 * exact.norm()
    assert torch.equal(third_step(model, batch), before)


def test_a_model_without_plain_linear_maps_is_refused(
    build: Callable[..., TranslationModel],
) -> None:
    with pytest.raises(ConfigError, match="has no linear maps"):  # all its weights are normalised
        with_int8_weights(build("convs2s").float())

"""The prepared Transformer++ over the range of scores; equality is tested in `test_prepared.py`."""

from __future__ import annotations

import pytest
import torch
from models.conftest import tiny_model
from torch import Tensor

from jtrans.data.batch import Batch
from jtrans.decoding.prepared.base import Searchable
from jtrans.decoding.prepared.choose import prepared
from jtrans.decoding.prepared.mixed import WIDEST_SCORES, is_bounded, mixed_blocks
from jtrans.models.transformer_pp import TransformerPlusPlus


def model_of_scores(norm: str, factor: float) -> TransformerPlusPlus:
    """Return a model whose scores of the convolution halves are `factor` times the usual ones."""
    torch.manual_seed(1)
    model = tiny_model("transformer-pp", norm=norm)
    assert isinstance(model, TransformerPlusPlus)
    width = model.config.width
    with torch.no_grad():
        for block in mixed_blocks(model):
            block.in_weight[2 * width : 5 * width // 2] *= factor
    return model


def widest(norm: str) -> float:
    """Return the largest factor, up to a 64th of it, of a model that is prepared."""
    factor = 1.0
    for step in (8.0, 2.0, 2**0.25, 2 ** (1 / 64)):
        while is_bounded(model_of_scores(norm, factor * step)):
            factor *= step
    return factor


def logits(model: Searchable, batch: Batch) -> Tensor:
    """Return the logits of some steps with three hypotheses."""
    with torch.inference_mode():
        state = model.begin(model.encode(batch.source, batch.source_mask), 3)
        steps = []
        for token in torch.randint(1, 24, (20, 9), generator=torch.Generator().manual_seed(2)):
            steps.append(model.project(model.step(token, state)))
            state = state.select(torch.tensor([[1, 0, 2], [3, 5, 3], [8, 7, 6]]))
    return torch.stack(steps)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_widest_scores_are_computed_in_float32(norm: str, batch: Batch) -> None:
    factor = widest(norm)
    expected = logits(model_of_scores(norm, factor), batch)
    form = prepared(model_of_scores(norm, factor).float())
    assert not isinstance(form, TransformerPlusPlus)
    plain = logits(model_of_scores(norm, factor).float(), batch)
    error, usual = ((each - expected).abs().max() for each in (logits(form, batch), plain))
    assert error < 4 * usual


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_scores_stay_within_the_bound(norm: str) -> None:
    model = model_of_scores(norm, widest(norm))
    width = model.config.width
    reached: list[Tensor] = []
    for block in mixed_blocks(model):
        weight = block.in_weight[2 * width : 5 * width // 2]
        block.register_forward_pre_hook(
            lambda _, inputs, weight=weight: reached.append((inputs[0] @ weight.t()).abs().max())
        )
    tokens = torch.randint(1, 24, (40, 30))
    with torch.inference_mode():
        model.decode(tokens, model.encode(tokens % 20, tokens > 0))
    assert 0.2 * WIDEST_SCORES < max(reached) <= WIDEST_SCORES


def test_wider_scores_are_left_to_the_model() -> None:
    model = model_of_scores("post", 1000.0)
    assert prepared(model) is model

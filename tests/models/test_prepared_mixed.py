"""The prepared Transformer++ over the range of scores; equality is tested in `test_prepared.py`."""

from __future__ import annotations

import pytest
import torch
from models.conftest import tiny_model
from torch import Tensor

from jtrans.data.batch import Batch
from jtrans.decoding.prepared import mixed
from jtrans.decoding.prepared.base import Searchable
from jtrans.decoding.prepared.choose import prepared
from jtrans.decoding.prepared.mixed import WIDEST_SCORE, MixedSlots, mixed_blocks
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


def logits(model: Searchable, batch: Batch) -> Tensor:
    """Return the logits of some steps with three hypotheses."""
    with torch.inference_mode():
        state = model.begin(model.encode(batch.source, batch.source_mask), 3)
        steps = []
        for token in torch.randint(1, 24, (20, 9), generator=torch.Generator().manual_seed(2)):
            steps.append(model.project(model.step(token, state)))
            state = state.select(torch.tensor([[1, 0, 2], [3, 5, 3], [8, 7, 6]]))
    return torch.stack(steps)


def highest_score(model: TransformerPlusPlus, batch: Batch) -> float:
    """Return the largest score of a convolution half in the steps of `logits`."""
    reached: list[float] = []
    width = model.config.width
    for block in mixed_blocks(model):
        weight = block.in_weight[2 * width : 5 * width // 2]
        block.register_forward_pre_hook(
            lambda _, inputs, weight=weight: reached.append(
                float((inputs[0] @ weight.t()).abs().max())
            )
        )
    logits(model, batch)
    return max(reached)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_widest_scores_are_computed_in_float32(
    norm: str, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    factor = 0.999 * WIDEST_SCORE / highest_score(model_of_scores(norm, 1.0), batch)
    while highest_score(model_of_scores(norm, factor), batch) > WIDEST_SCORE:
        factor *= 0.9  # scores of later layers depend on those of earlier ones
    expected = logits(model_of_scores(norm, factor), batch)
    form = prepared(model_of_scores(norm, factor).float())
    plain = logits(model_of_scores(norm, factor).float(), batch)
    monkeypatch.delattr(MixedSlots, "_powers_of_each")
    error, usual = ((each - expected).abs().max() for each in (logits(form, batch), plain))
    assert error < 4 * usual


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("share", [0.9, 0.6, 0.0])
def test_from_the_first_wider_score_on_the_highest_of_each_prefix_is_subtracted(
    norm: str, share: float, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_of_scores(norm, 3.0)
    highest = highest_score(model, batch)
    expected = logits(model, batch)
    monkeypatch.setattr(mixed, "WIDEST_SCORE", share * highest)
    torch.testing.assert_close(logits(prepared(model), batch), expected, rtol=0.0, atol=1e-9)


def test_scores_beyond_the_range_of_exp_are_computed(batch: Batch) -> None:
    model = model_of_scores("post", 1000.0)
    assert highest_score(model, batch) > 1000.0
    expected = logits(model, batch)
    torch.testing.assert_close(logits(prepared(model), batch), expected, rtol=0.0, atol=1e-9)

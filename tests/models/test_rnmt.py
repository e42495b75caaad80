"""RNMT+ (docs/systems.md 7.10, properties N5, N6, N8, and its parts as others use them)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from jtrans.data.batch import Batch
from jtrans.models.base import Memory
from jtrans.models.rnmt import RnmtDecoder
from jtrans.models.systems import RnmtPlusConfig
from jtrans.models.zoo import build_model
from jtrans.nn.device import autocast
from jtrans.nn.recurrent.lstm import NormedLstm

EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-10}  # float64
Build = Callable[..., Any]  # tests look into the models


def silence(lstm: NormedLstm) -> None:
    """Set all parameters of an LSTM to zero."""
    with torch.no_grad():
        for parameter in lstm.parameters():
            parameter.zero_()


def outputs(model: Any, batch: Batch) -> list[Tensor]:
    """What each layer of encoder and decoder returns."""
    layers = [*model.encoder.layers, model.decoder.first, *model.decoder.layers]
    results: list[Tensor] = []
    hooks = [layer.register_forward_hook(lambda *call: results.append(call[2])) for layer in layers]
    model.decode(batch.target_in, model.encode(batch.source, batch.source_mask))
    for hook in hooks:
        hook.remove()
    return results


@pytest.mark.parametrize("n", [1, 2, 3])  # the first has no input of the same width
def test_residuals_exist_exactly_from_the_third_layer_on(
    build: Build, batch: Batch, n: int
) -> None:
    model = build("rnmt-plus", encoder_layers=4, decoder_layers=4)
    silence(model.encoder.layers[n].lstm)
    silence(model.decoder.layers[n - 1].lstm)
    with torch.no_grad():
        results = outputs(model, batch)
    results[4] = results[4].chunk(2, dim=-1)[0]  # state and context
    for stack in (results[:4], results[4:]):
        expected = stack[n - 1] if n >= 2 else torch.zeros_like(stack[n])
        assert torch.equal(stack[n], expected)  # N5


def test_logits_depend_on_the_context_directly(build: Build, batch: Batch) -> None:
    model = build("rnmt-plus")
    memory = model.encode(batch.source, batch.source_mask)
    with torch.no_grad():
        model.decoder.output.weight[:, :16] = 0.0  # the part of the LSTM
        hidden = model.decode(batch.target_in, memory)
        before = model.project(hidden)
        hidden[..., :16] += 1.0
        assert torch.equal(model.project(hidden), before)
        hidden[..., 16:] += 1.0
        assert not torch.isclose(model.project(hidden), before).all(-1).any()  # N6


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_attention_adds_up_to_one_in_each_head(build: Build, batch: Batch, heads: int) -> None:
    model = build("rnmt-plus", heads=heads)
    (attention,) = model.explain(batch.source, batch.target_in)
    assert attention.axes == ("head", "target", "source")
    assert attention.weights.shape == (3, heads, 7, 6)
    torch.testing.assert_close(attention.weights.sum(-1), torch.ones(3, heads, 7).double())  # N8
    assert not attention.weights.movedim(-1, 1)[~batch.source_mask].any()


@torch.no_grad()
def test_hypotheses_are_read_with_heads_of_one_feature(build: Build, batch: Batch) -> None:
    model = build("rnmt-plus", heads=16)
    memory = model.encode(batch.source, batch.source_mask)
    state = model.begin(memory, 2)
    tokens = batch.target_in.repeat_interleave(2, dim=0)
    steps = torch.stack([model.step(token, state) for token in tokens.unbind(1)], dim=1)
    expected = model.decode(batch.target_in, memory).repeat_interleave(2, dim=0)
    torch.testing.assert_close(steps, expected, **EXACT)


def test_the_state_of_a_search_does_not_grow(build: Build, batch: Batch) -> None:
    model = build("rnmt-plus")
    sizes = set()
    with torch.inference_mode():
        state = model.begin(model.encode(batch.source, batch.source_mask), 2)
        for _ in range(20):
            model.step(torch.full((6,), 5), state)
            tensors = [state.states, *state.keys]
            sizes.add(sum(tensor.untyped_storage().nbytes() for tensor in tensors))
    assert len(sizes) == 1


def test_a_decoder_reads_memory_of_another_width(batch: Batch) -> None:
    config = RnmtPlusConfig(width=16, heads=2, decoder_layers=2, dropout=0.0, attention_dropout=0.0)
    decoder = RnmtDecoder(config, 24, memory_width=12).double().eval()
    memory = Memory(torch.randn(3, 6, 12, dtype=torch.float64), batch.source_mask)
    with torch.no_grad():
        hidden = decoder.decode(batch.target_in, memory)
        state = decoder.begin(memory, 1)
        steps = [decoder.step(token, state) for token in batch.target_in.unbind(1)]
    torch.testing.assert_close(torch.stack(steps, dim=1), hidden, **EXACT)
    assert decoder.project(hidden).shape == (3, 7, 24)


def test_cells_and_states_are_float32_under_bfloat16(build: Build, batch: Batch) -> None:
    model = build("rnmt-plus").float()
    with torch.inference_mode(), autocast(torch.device("cpu"), "bf16"):
        state = model.begin(model.encode(batch.source, batch.source_mask), 1)
        model.step(batch.target_in[:, 0], state)
        assert state.states.dtype == torch.float32
        assert outputs(model, batch)[0].dtype == torch.float32


def test_initial_values_are_those_of_the_published_code() -> None:
    torch.manual_seed(1)
    model = build_model(RnmtPlusConfig(width=32, encoder_layers=2, decoder_layers=2), 50, 60)
    for name, parameter in model.named_parameters():
        if name.endswith("gain"):
            assert (parameter == 1.0).all()
        elif name.endswith(("shift", "bias")):
            assert not parameter.any()
        elif name.endswith(("key_map", "query_map", "score")):
            assert 0.5 < parameter.std() / 8**-0.5 < 1.6  # D = 8
        elif "attention" not in name:
            assert 0.039 < parameter.abs().max() <= 0.04


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"width": 250}, "width 250 is not a multiple of heads 4"),
        ({"encoder_layers": 0}, "encoder_layers"),
        ({"decoder_layers": 0}, "decoder_layers"),
        ({"initial_range": 0.0}, "initial_range"),
    ],
)
def test_impossible_sizes_are_refused(sizes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RnmtPlusConfig(**sizes)

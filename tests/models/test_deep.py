"""The dynamic linear combination of layers (docs/systems.md 5.6, properties D1 to D8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from jtrans.data.batch import Batch
from jtrans.models.base import TranslationModel
from jtrans.models.systems import DlclConfig, TransformerConfig
from jtrans.models.zoo import build_model
from jtrans.nn.combination import LayerCombination

EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-10}  # float64
Build = Callable[..., Any]  # tests look into the models


def logits(model: TranslationModel, batch: Batch) -> Tensor:
    """Return the logits of all positions, [B, T, V]."""
    memory = model.encode(batch.source, batch.source_mask)
    return model.project(model.decode(batch.target_in, memory))


def read_only_the_last_layer(stack: LayerCombination) -> None:
    with torch.no_grad():
        for k in range(len(stack.norms) + 1):
            stack.row(k).zero_()
            stack.row(k)[-1] = 1.0


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize(("initial", "total"), [("average", 1.0), ("one", None)])
def test_a_combination_begins_as_an_average_or_a_sum(
    build: Build, norm: str, initial: str, total: float | None
) -> None:
    model = build("dlcl", norm=norm, combination=initial, encoder_layers=5)
    for name, table in model.layer_weights().items():
        rows = torch.arange(1, len(table) + 1).to(table)
        sums = rows if total is None else torch.full_like(rows, total)
        torch.testing.assert_close(table.sum(1), sums, msg=name)  # D1
        assert not table.triu(1).any()


def test_the_first_layer_reads_the_embedding(build: Build, batch: Batch) -> None:
    model = build("dlcl")
    read: list[Tensor] = []
    model.encoder.layers[0].register_forward_pre_hook(lambda _, inputs: read.append(inputs[0]))
    model.encode(batch.source, batch.source_mask)
    torch.testing.assert_close(read[0], model.source_embedding(batch.source), **EXACT)  # D1


@pytest.mark.parametrize(("norm", "tolerance"), [("post", 1e-4), ("pre", None)])
def test_reading_only_the_last_layer_is_the_post_norm_transformer_but_not_the_pre_norm_one(
    build: Build, batch: Batch, norm: str, tolerance: float | None
) -> None:
    model, plain = build("dlcl", norm=norm), build("transformer", norm=norm)
    missing, unexpected = plain.load_state_dict(model.state_dict(), strict=False)
    assert not missing
    assert all("stack" in name for name in unexpected)
    for stack in (model.encoder.stack, model.stack):
        read_only_the_last_layer(stack)
    difference = (logits(model, batch) - logits(plain, batch))[batch.target_mask].abs().max()
    if tolerance is not None:  # norms of normed vectors change them by epsilon only
        assert difference < tolerance  # D2
    else:
        assert difference > 1e-2  # D3: the residual stream is normed between layers


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_combination_equals_its_equation_written_term_by_term(norm: str) -> None:
    torch.manual_seed(5)
    stack = LayerCombination(4, 6, pre_norm=norm == "pre", initial="average").double()
    for parameter in stack.parameters():
        torch.nn.init.normal_(parameter)
    maps = [torch.randn(6, 6, dtype=torch.float64) for _ in range(4)]
    y = [torch.randn(2, 3, 6, dtype=torch.float64)]
    table = stack.table()
    for k in range(5):
        terms = [
            table[k, m] * (stack.norms[m - 1](y[m]) if norm == "pre" and m else y[m])
            for m in range(k + 1)
        ]
        x = torch.stack(terms).sum(0)
        if norm == "post" and k:
            x = stack.norms[k - 1](x)
        if k < 4:
            y.append(torch.tanh(x @ maps[k]))
    result = stack(y[0], lambda n, states: torch.tanh(states @ maps[n]))
    torch.testing.assert_close(result, x, **EXACT)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("column", [0, 1, 2])
def test_a_layer_without_weight_is_read_by_its_successor_only(norm: str, column: int) -> None:
    torch.manual_seed(6)
    stack = LayerCombination(3, 6, pre_norm=norm == "pre", initial="average").double()
    with torch.no_grad():
        for k in range(column + 1, 4):
            stack.row(k)[column] = 0.0
    outputs = [torch.randn(2, 6, dtype=torch.float64) for _ in range(4)]

    def read(changed: int | None) -> list[Tensor]:
        """Return what layers 1 to 3 read, and the result, if an output is another."""
        ours = [y + 1.0 if m == changed else y for m, y in enumerate(outputs)]
        inputs: list[Tensor] = []

        def layer(n: int, x: Tensor) -> Tensor:
            inputs.append(x)
            return ours[n + 1]

        result = stack(ours[0], layer)
        return [*inputs, result]

    for before, after in zip(read(None)[column + 1 :], read(column)[column + 1 :], strict=True):
        torch.testing.assert_close(after, before, **EXACT)  # D4


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_every_weight_of_the_triangle_gets_a_gradient(
    build: Build, batch: Batch, norm: str
) -> None:
    model = build("dlcl", norm=norm, encoder_layers=4)
    logits(model, batch)[batch.target_mask].log_softmax(-1)[:, 5].sum().backward()
    for stack in (model.encoder.stack, model.stack):
        L = len(stack.norms)
        assert stack.weights.shape == ((L + 1) * (L + 2) // 2,)  # D6
        assert stack.weights.grad.abs().min() > 0.0  # D5


def test_gradients_reach_the_first_of_thirty_layers(build: Build, batch: Batch) -> None:
    model = build("dlcl", encoder_layers=30)
    logits(model, batch)[batch.target_mask].log_softmax(-1)[:, 5].mean().backward()
    norms = [
        torch.cat([p.grad.flatten() for p in layer.parameters()]).norm()
        for layer in model.encoder.layers
    ]
    assert all(norm.isfinite() for norm in norms)
    assert 0.01 < norms[0] / norms[-1] < 100.0  # D7


def test_nothing_remains_of_an_earlier_call(build: Build, batch: Batch) -> None:
    model = build("dlcl")
    first = logits(model, batch)
    model.decode(batch.target_in[:2], model.encode(batch.source[:2], batch.source_mask[:2]))
    torch.testing.assert_close(logits(model, batch), first, **EXACT)  # D8


@pytest.mark.parametrize("system", [TransformerConfig, DlclConfig])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_sixty_encoder_and_twelve_decoder_layers_can_be_built(
    system: type[TransformerConfig], norm: Any
) -> None:
    config = system(
        width=16, ffn_width=32, heads=2, encoder_layers=60, decoder_layers=12, norm=norm
    )
    model = build_model(config, 20, 24)
    assert len(model.get_submodule("encoder").layers) == 60  # type: ignore[arg-type]

"""Pervasive attention (docs/systems.md 9.2, properties A1 to A3)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jtrans.config import load_config
from jtrans.data.batch import Batch
from jtrans.errors import ConfigError
from jtrans.models.zoo import load_weights, system_configs
from jtrans.nn.convolution.grid import GridConvolution, GridRows
from jtrans.nn.convolution.grid_norm import GridBatchNorm
from jtrans.nn.convolution.grid_reduction import PositionReduction
from jtrans.nn.dropout import SharedDropout
from jtrans.nn.embedding import sinusoids
from jtrans.nn.layer import set_recompute
from jtrans.nn.recorder import record_attention
from jtrans.nn.reduction import MaxReduction
from jtrans.training.weights.averaging import average_weights

EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-10}  # float64
DENSE: dict[str, Any] = {"network": "dense", "positions": False, "aggregation": "max"}
Build = Callable[..., Any]  # tests look into the models


def forward(model: Any, batch: Batch) -> Tensor:
    """Return the logits of all positions, [B, T, V]."""
    memory = model.encode(batch.source, batch.source_mask)
    return model.project(model.decode(batch.target_in, memory))  # type: ignore[no-any-return]


@pytest.mark.parametrize("network", [{}, DENSE])
@pytest.mark.parametrize(("layers", "kernel"), [(1, 1), (1, 3), (3, 3), (2, 5), (1, 11), (4, 1)])
def test_a_target_token_reaches_the_rows_of_its_field_and_no_others(
    build: Build, network: dict[str, Any], layers: int, kernel: int
) -> None:
    model = build("pervasive", **network, layers=layers, kernel=kernel)
    T, changed, reach = 12, 3, layers * (kernel // 2)
    source = torch.randint(3, 20, (2, 6))
    memory = model.encode(source, source != 0)
    v = torch.randn(2, T, 16, dtype=torch.float64, requires_grad=True)
    model.target_embedding.forward = lambda ids: v
    hidden = model.decode(torch.ones(2, T, dtype=torch.int64), memory)
    for row in range(T):  # A1, A3
        (gradient,) = torch.autograd.grad(hidden[:, row].square().sum(), v, retain_graph=True)
        assert bool(gradient[:, changed].any()) == (changed <= row <= changed + reach)
        assert not gradient[:, row + 1 :].any()


@pytest.mark.parametrize("network", [{}, DENSE])
def test_masked_taps_stay_zero_and_out_of_the_gradient(
    build: Build, batch: Batch, network: dict[str, Any]
) -> None:
    model = build("pervasive", **network).train()
    convolutions = [m for m in model.modules() if isinstance(m, GridConvolution)]
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)
    for _ in range(2):
        optimiser.zero_grad()
        forward(model, batch).square().sum().backward()
        for convolution in convolutions:
            later = slice(convolution.reach + 1, None)
            assert convolution.weight.grad is not None
            assert convolution.weight.grad.any()
            assert not convolution.weight.grad[:, :, later].any()  # A2
        optimiser.step()
    for convolution in convolutions:
        assert not convolution.weight[:, :, convolution.reach + 1 :].any()
        assert convolution.weight[:, :, : convolution.reach + 1].all()


def test_loading_clears_masked_taps(build: Build, tmp_path: Path) -> None:
    model = build("pervasive")
    weights = {name: torch.ones_like(tensor) for name, tensor in model.state_dict().items()}
    safetensors.torch.save_file(weights, tmp_path / "ones.safetensors")
    load_weights(model, tmp_path / "ones.safetensors")
    weight = model.network.layers[1].convolution.weight
    assert weight[:, :, :4].eq(1.0).all()
    assert not weight[:, :, 4:].any()


@pytest.mark.parametrize(("kernel", "groups"), [(3, 1), (5, 4), (1, 2)])
def test_a_convolution_equals_its_sum_written_tap_by_tap(kernel: int, groups: int) -> None:
    torch.manual_seed(3)
    convolution = GridConvolution(4, 8, kernel, groups=groups, bias=True).double()
    assert convolution.bias is not None
    nn.init.normal_(convolution.bias)
    x = torch.randn(2, 5, 6, 4, dtype=torch.float64)
    reach, size = kernel // 2, 4 // groups
    expected = torch.zeros(2, 5, 6, 8, dtype=torch.float64)
    for out in range(8):
        first = (out // (8 // groups)) * size
        for j in range(5):
            for i in range(6):
                expected[:, j, i, out] = convolution.bias[out]
                for row in range(max(0, j - reach), j + 1):
                    for column in range(max(0, i - reach), min(6, i + reach + 1)):
                        tap = convolution.weight[out, :, reach + row - j, reach + column - i]
                        expected[:, j, i, out] += x[:, row, column, first : first + size] @ tap
    torch.testing.assert_close(convolution(x), expected, **EXACT)
    rows = GridRows(reach)
    steps = [convolution(x[:, j : j + 1], rows) for j in range(5)]
    torch.testing.assert_close(torch.cat(steps, dim=1), expected, **EXACT)


def test_the_residual_network_equals_its_equations(build: Build) -> None:
    model = build("pervasive", position_offset=2)
    source, target = torch.randint(4, 20, (1, 5)), torch.randint(4, 20, (1, 3))
    positions = sinusoids(7, 16)[2:].double()
    u = model.source_embedding.tokens.weight[source[0]] * 4.0 + positions
    v = model.target_embedding.tokens.weight[target[0]] * 4.0 + positions[:3]
    x = torch.empty(3, 5, 16, dtype=torch.float64)
    for j in range(3):
        for i in range(5):
            x[j, i] = model.opening.weight @ torch.cat([u[i], v[j]]) + model.opening.bias
    states = [x]
    for layer in model.network.layers:
        y = layer.convolution((x @ layer.mix.weight.T + layer.mix.bias)[None])[0]
        x = (x + y) / math.sqrt(2.0)
        hidden = (x @ layer.feed_forward.inner.weight.T + layer.feed_forward.inner.bias).relu()
        y = hidden @ layer.feed_forward.outer.weight.T + layer.feed_forward.outer.bias
        x = (x + y) / math.sqrt(2.0)
        states.append(x)
    z = torch.stack(states).mean(0) @ model.reduction.gate.weight.T + model.reduction.gate.bias
    r = (z[..., :16] * z[..., 16:].sigmoid()).amax(dim=1)
    expected = (r @ model.closing.weight.T + model.closing.bias) @ model.output.weight.T
    logits = model.project(model.decode(target, model.encode(source, source != 0)))[0]
    torch.testing.assert_close(logits, expected + model.output.bias, **EXACT)


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_the_dense_network_equals_its_equations(build: Build, batch: Batch, mode: str) -> None:
    model = build("pervasive", **DENSE | {"aggregation": "max-attention"}, tie="decoder")
    for buffer in model.buffers():
        nn.init.uniform_(buffer, 0.5, 1.5)
    model.train(mode == "train")
    expected = slow_dense(copy.deepcopy(model), batch)
    result = forward(model, batch)
    torch.testing.assert_close(result[batch.target_mask], expected[batch.target_mask], **EXACT)


def slow_dense(model: Any, batch: Batch) -> Tensor:
    """Return the logits, from equations on the real cells of each sentence alone."""
    sizes = [
        (int(t.sum()), int(s.sum()))
        for t, s in zip(batch.target_mask, batch.source_mask, strict=True)
    ]
    grids = []
    for b, (T, S) in enumerate(sizes):
        u = model.source_embedding.tokens.weight[batch.source[b, :S]]
        v = model.target_embedding.tokens.weight[batch.target_in[b, :T]]
        pairs = [torch.cat([u[i], v[j]]) for j in range(T) for i in range(S)]
        x = torch.stack(pairs) @ model.opening.weight.T + model.opening.bias
        grids.append(x.view(T, S, -1))

    def normed(norm: GridBatchNorm, grids: list[Tensor]) -> list[Tensor]:
        cells = torch.cat([grid.flatten(0, 1) for grid in grids])
        mean, variance = norm.mean, norm.variance
        if model.training:
            mean, variance = cells.mean(0), cells.var(0, correction=0)
        scale = norm.weight / (variance + 1e-5).sqrt()
        return [((grid - mean) * scale + norm.bias).relu() for grid in grids]

    for layer in model.network.layers:
        hidden = [grid @ layer.mix.weight.T for grid in normed(layer.norm, grids)]
        added = [layer.convolution(h[None])[0] for h in normed(layer.hidden_norm, hidden)]
        grids = [torch.cat(pair, dim=-1) for pair in zip(grids, added, strict=True)]
    grids = [grid @ model.network.mix.weight.T for grid in normed(model.network.norm, grids)]
    logits = torch.zeros(*batch.target_in.shape, 24, dtype=torch.float64)
    for b, grid in enumerate(normed(model.network.last_norm, grids)):
        scores = model.reduction.attention.scores
        alpha = (grid @ scores.weight[0] + scores.bias).softmax(1)
        total = (alpha[..., None] * grid).sum(1) / math.sqrt(grid.shape[1])
        r = torch.cat([grid.amax(1), total], dim=-1)
        hidden_states = r @ model.closing.weight.T + model.closing.bias
        logits[b, : len(grid)] = hidden_states @ model.output.weight.T + model.output.bias
    return logits


def test_batch_norm_without_padding_is_that_of_torch() -> None:
    torch.manual_seed(4)
    ours, theirs = GridBatchNorm(5).double(), nn.BatchNorm2d(5).double()
    with torch.no_grad():
        for norm in (ours, theirs):
            norm.weight.copy_(torch.arange(1.0, 6.0))
            norm.bias.copy_(torch.arange(5.0))
    for _ in range(3):
        x = torch.randn(2, 3, 4, 5, dtype=torch.float64) * 3.0 + 1.0
        inputs = [x.clone().requires_grad_(), x.clone().requires_grad_()]
        ones = torch.ones(1, 1, 1, 1, dtype=torch.bool)
        results = ours(inputs[0], ones), theirs(inputs[1].permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        torch.testing.assert_close(*results, **EXACT)
        for result in results:
            result.square().cumsum(2).sum().backward()
        torch.testing.assert_close(inputs[0].grad, inputs[1].grad, **EXACT)
    torch.testing.assert_close(ours.mean, theirs.running_mean, **EXACT)
    torch.testing.assert_close(ours.variance, theirs.running_var, **EXACT)
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad, **EXACT)
    torch.testing.assert_close(ours.bias.grad, theirs.bias.grad, **EXACT)


def test_batch_norm_has_the_gradient_of_its_equation_where_cells_are_missing() -> None:
    torch.manual_seed(5)
    norm = GridBatchNorm(3).double()
    is_real = torch.rand(2, 3, 4, 1) < 0.6
    x = torch.randn(2, 3, 4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: norm(x, is_real), x)
    assert not norm(x, is_real)[~is_real.squeeze(-1)].any()


def test_recomputed_layers_count_a_micro_batch_once(build: Build, batch: Batch) -> None:
    model = build("pervasive", **DENSE, rate=0.2).train()
    buffers = []
    for policy in ("none", "layer"):
        twin = copy.deepcopy(model)
        set_recompute(twin, policy)
        torch.manual_seed(1)
        forward(twin, batch).sum().backward()
        buffers.append(dict(twin.named_buffers()))
    assert any(name.endswith("variance") for name in buffers[0])
    for name, buffer in buffers[0].items():
        torch.testing.assert_close(buffers[1][name], buffer, msg=name)


def test_running_statistics_are_saved_averaged_and_loaded(
    build: Build, batch: Batch, tmp_path: Path
) -> None:
    model = build("pervasive", **DENSE).train()
    paths, values = [], []
    for n in range(2):
        forward(model, batch)
        paths.append(tmp_path / f"{n}.safetensors")
        safetensors.torch.save_model(model, str(paths[-1]))
        values.append(model.network.norm.variance.clone())
    means, metadata = average_weights(paths)
    safetensors.torch.save_file(means, tmp_path / "mean.safetensors", metadata=metadata)
    loaded = build("pervasive", **DENSE)
    load_weights(loaded, tmp_path / "mean.safetensors")
    assert not torch.equal(values[0], values[1])
    torch.testing.assert_close(loaded.network.norm.variance, (values[0] + values[1]) / 2.0)


@pytest.mark.parametrize("network", [{}, DENSE])
def test_the_state_does_not_grow(build: Build, network: dict[str, Any]) -> None:
    model = build("pervasive", **network, kernel=5)
    source = torch.randint(4, 20, (2, 6))
    sizes = []
    with torch.inference_mode():
        state = model.begin(model.encode(source, source != 0), 3)
        for _ in range(9):
            model.step(torch.full((6,), 5), state)
            sizes.append([tuple(rows._held.shape) for rows in state.rows])
    channels = 32 if network else 16  # 4 g, or C
    assert all(size == [(6, 2, 6, channels)] * 2 for size in sizes)


def test_equal_maxima_share_the_explanation() -> None:
    grid = torch.tensor([[[[1.0, 0.0], [1.0, 3.0], [0.0, 2.0], [9.0, 9.0]]]])  # [1, 1, 4, 2]
    bias = torch.tensor([[0.0, 0.0, 0.0, -torch.inf]])
    reduction = MaxReduction()
    with record_attention() as weights:
        reduction(grid, bias)
    shares = weights[reduction].mean(-1)
    assert shares.tolist() == [[[0.25, 0.75, 0.0, 0.0]]]


def test_the_explanation_of_both_aggregations_has_two_maps(build: Build, batch: Batch) -> None:
    model = build("pervasive", **DENSE | {"aggregation": "max-attention"})
    names = [m.name for m in model.explain(batch.source, batch.target_in)]
    assert names == ["maximum", "attention"]
    (only,) = build("pervasive").explain(batch.source, batch.target_in)
    assert (only.name, only.axes) == ("reduction", ("target", "source"))


def test_attention_divides_by_the_root_of_the_real_length() -> None:
    torch.manual_seed(6)
    reduction = PositionReduction(nn.Linear(3, 1), SharedDropout(0.0), is_scaled=True)
    grid = torch.randn(2, 4, 5, 3)
    bias = torch.zeros(2, 5)
    bias[1, 2:] = -torch.inf
    alone = reduction(grid[1:, :, :2], None)
    torch.testing.assert_close(reduction(grid, bias)[1:], alone)
    flat = PositionReduction(reduction.scores, SharedDropout(0.0), is_scaled=False)
    torch.testing.assert_close(flat(grid, None), reduction(grid, None) * math.sqrt(5.0))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("kernel=4", "kernel 4 is even"),
        ("kernel=33", "31"),
        ("kernel=0", "greater than 0"),
        ("layers=0", "greater than 0"),
        ("width=15", "width 15 must be even"),
        ("aggregation=max-attention", "use 'gated-max'"),
        ("network=dense", "use 'max'"),
    ],
)
def test_impossible_sizes_are_refused_with_value_and_limit(setting: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_config("demo/pervasive", system_configs(), overrides=[f"model.{setting}"])
    assert message in str(error.value.message)


def test_dropout_is_everywhere_in_both_networks(build: Build) -> None:
    for network, count in (({}, 2 + 2 + 1), (DENSE | {"aggregation": "max-attention"}, 2 + 3 + 1)):
        model = build("pervasive", **network, rate=0.2)
        rates = [m.rate for m in model.modules() if isinstance(m, SharedDropout) and m.rate]
        assert rates == [0.2] * count


def test_an_untied_dense_network_maps_to_the_vocabulary_at_once(build: Build) -> None:
    model = build("pervasive", **DENSE)
    assert model.closing is None
    assert model.output.weight.shape == (24, (16 + 2 * 8) // 2)
    assert F.linear(torch.zeros(16, dtype=torch.float64), model.output.weight).shape == (24,)


@pytest.mark.parametrize("network", [{}, DENSE])
@pytest.mark.parametrize("kernel", [1, 3, 5, 11, 31])
def test_padding_reaches_no_real_cell_through_a_convolution(
    build: Build, network: dict[str, Any], kernel: int
) -> None:
    model = build("pervasive", **network, layers=3, kernel=kernel)
    source, target = torch.randint(4, 20, (1, 4)), torch.randint(4, 20, (1, 5))
    alone = model.decode(target, model.encode(source, source != 0))
    padded = F.pad(source, (0, 5))
    model.source_embedding.tokens.weight.data[0] = 7.0  # as if padding were a token
    beside = model.decode(target, model.encode(padded, padded != 0))
    torch.testing.assert_close(beside, alone, **EXACT)

"""Properties of the joint models (docs/systems.md 2.10 and 3.4)."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jtrans.data.batch import Batch
from jtrans.models.base import Memory, TranslationModel
from jtrans.models.reformer import JointLayer, Reformer
from jtrans.models.systems import ReformerConfig
from jtrans.nn.recorder import record_attention

EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-10}
E, H = 16, 2
BOTH = ["reformer-base", "reformer-fast"]
Build = Callable[..., Any]  # tests look into the models


def logits(model: TranslationModel, batch: Batch) -> Tensor:
    """Return the logits of all positions, [B, T, V]."""
    with torch.no_grad():
        memory = model.encode(batch.source, batch.source_mask)
        return model.project(model.decode(batch.target_in, memory))


def first_grid(model: Reformer, batch: Batch) -> Tensor:
    """Return what the first joint layer reads, [B, T, S, E]."""
    seen: list[Tensor] = []
    handle = model.layers[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model.decode(batch.target_in, model.encode(batch.source, batch.source_mask))
    handle.remove()
    return seen[0]


def last_grid(model: Reformer, batch: Batch) -> Tensor:
    """Return what the last joint layer gives, [B, T, S, E]."""
    seen: list[Tensor] = []
    handle = model.layers[-1].register_forward_hook(lambda _, __, output: seen.append(output))
    model.decode(batch.target_in, model.encode(batch.source, batch.source_mask))
    handle.remove()
    return seen[0]


def varying_axes(x: Tensor) -> set[int]:
    """Return the axes along which `x` is not constant."""
    return {axis for axis in range(x.dim()) if (x != x.narrow(axis, 0, 1)).any()}


@pytest.fixture
def full(make_batch: Callable[..., Batch]) -> Batch:
    """Two sentences without padding, S 6 and T 5."""
    sources = [[5, 9, 12, 4, 7, 1], [8, 3, 11, 10, 6, 1]]
    return make_batch(sources, [[7, 4, 19, 10, 1], [9, 5, 13, 8, 1]])


@pytest.mark.parametrize("system", BOTH)
def test_every_source_vector_meets_every_target_vector(
    system: str, build: Build, batch: Batch
) -> None:
    model = build(system)  # R1, F1
    grid = first_grid(model, batch)
    u = model.encode(batch.source, batch.source_mask).states
    v = model.target_embedding(batch.target_in)
    for b in range(grid.shape[0]):
        for j in range(grid.shape[1]):
            for i in range(grid.shape[2]):
                torch.testing.assert_close(grid[b, j, i], u[b, i] + v[b, j], **EXACT)


def test_concatenation_puts_source_and_target_side_by_side(build: Build, batch: Batch) -> None:
    model = build("reformer-base", grid="concat")
    grid = first_grid(model, batch)
    u, v = model.source_embedding(batch.source), model.target_embedding(batch.target_in)
    assert grid.shape == (*batch.target_in.shape, batch.source.shape[1], 2 * E)
    torch.testing.assert_close(grid[:, 3, :, :E], u)
    torch.testing.assert_close(grid[:, :, 2, E:], v)


def test_dropout_of_the_inputs_is_constant_along_the_other_axis(build: Build, full: Batch) -> None:
    model = build("reformer-base", dropout=0.5, grid="concat").train()
    grid = first_grid(model, full)
    source, target = grid[..., :E], grid[..., E:]
    assert varying_axes(source) == {0, 2, 3}
    assert varying_axes(target) == {0, 1, 3}
    assert 0.3 < (source == 0).double().mean() < 0.7


def joint_layer(**changes: Any) -> Any:
    """Return a joint layer in training whose three dropouts have different rates."""
    rates = {"dropout": 0.5, "attention_dropout": 0.25, "relu_dropout": 0.75}
    config = ReformerConfig(width=E, ffn_width=32, heads=H, **(rates | changes))
    return JointLayer(config).train()


@pytest.mark.parametrize(
    ("block", "varying"),
    [(0, {0, 1, 3}), (1, {0, 3}), (2, {0, 2, 3}), (3, {0, 3})],
    ids=["D1s", "D2", "D1t", "D2'"],
)
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_dropout_of_block_outputs_is_shared_along_the_right_axes(
    block: int, varying: set[int], norm: str
) -> None:
    residual = joint_layer(norm=norm).residuals[block]  # R3
    mask = residual.dropout.add(torch.zeros(5, 6, 7, E), torch.ones(5, 6, 7, E))
    assert varying_axes(mask) == varying
    assert set(mask.unique().tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("name", ["target_ffn", "source_ffn"])
def test_dropout_after_the_relu_is_shared_over_the_grid(name: str) -> None:
    block = getattr(joint_layer(), name)  # R3, D2r
    seen: list[Tensor] = []
    block.outer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    nn.init.zeros_(block.inner.weight)
    nn.init.ones_(block.inner.bias)
    block(torch.randn(5, 6, 7, E))
    assert varying_axes(seen[0]) == {0, 3}
    assert set(seen[0].unique().tolist()) == {0.0, 4.0}


@pytest.mark.parametrize("independent", [False, True])
def test_dropout_of_attention_weights_is_shared_over_the_lines(independent: bool) -> None:
    layer = joint_layer(grid_dropout="independent" if independent else "shared")  # R3, DAs, DAt
    with torch.no_grad(), record_attention() as recorder:
        layer(torch.randn(5, 6, 7, E), None)
    shapes = ((5, 7, H, 6, 6), (5, 6, H, 7, 7))
    for block, shape in zip((layer.target_attention, layer.source_attention), shapes, strict=True):
        assert recorder[block.attention].shape == shape
        mask = block.attention.dropout(torch.ones(shape))
        assert varying_axes(mask) == ({0, 1, 2, 3, 4} if independent else {0, 2, 3, 4})
        torch.testing.assert_close(mask.unique(), torch.tensor([0.0, 4 / 3]))


def test_independent_dropout_varies_along_every_axis() -> None:
    layer = joint_layer(grid_dropout="independent")
    ones = torch.ones(5, 6, 7, E)
    for residual in layer.residuals:
        assert varying_axes(residual.dropout(ones)) == {0, 1, 2, 3}
    for block in (layer.target_ffn, layer.source_ffn):
        assert varying_axes(block.dropout(ones)) == {0, 1, 2, 3}


def test_the_two_kinds_of_grid_dropout_agree_in_evaluation(build: Build, batch: Batch) -> None:
    rates = {"dropout": 0.4, "attention_dropout": 0.3, "relu_dropout": 0.2}
    shared = build("reformer-base", **rates)  # R12
    independent = build("reformer-base", grid_dropout="independent", **rates)
    independent.load_state_dict(shared.state_dict())
    torch.testing.assert_close(logits(independent, batch), logits(shared, batch), **EXACT)


@pytest.mark.parametrize("system", BOTH)
def test_without_source_positions_the_order_of_the_source_does_not_matter(
    system: str, build: Build, full: Batch
) -> None:
    model = build(system)  # R7, F6
    model.source_embedding.table = torch.zeros(64, E, dtype=torch.float64)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    moved = Batch(**(vars(full) | {"source": full.source[:, order]}))
    torch.testing.assert_close(
        last_grid(model, moved), last_grid(model, full)[:, :, order], **EXACT
    )
    torch.testing.assert_close(logits(model, moved), logits(model, full), **EXACT)


def test_without_mask_and_target_positions_the_grid_moves_with_the_target(
    build: Build, full: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build("reformer-base")  # R8
    model.target_embedding.table = torch.zeros(64, E, dtype=torch.float64)
    for layer in model.layers:
        attention = layer.target_attention.attention
        monkeypatch.setattr(
            layer.target_attention, "forward", lambda x, a=attention, **_: a(x, causal=False)
        )
    order = torch.tensor([3, 0, 1, 4, 2])
    moved = Batch(**(vars(full) | {"target_in": full.target_in[:, order]}))
    with torch.no_grad():
        grids = last_grid(model, moved), last_grid(model, full)[:, order]
    torch.testing.assert_close(*grids, **EXACT)


@pytest.mark.parametrize("changes", [{}, {"norm": "post"}, {"grid": "concat"}])
def test_one_layer_reaches_every_source_token_and_every_earlier_target_token(
    build: Build, full: Batch, changes: dict[str, Any]
) -> None:
    model = build("reformer-base", layers=1, **changes)  # R10
    u = model.encode(full.source, full.source_mask).states.detach().requires_grad_()
    targets: list[Tensor] = []
    model.target_embedding.register_forward_hook(lambda _, __, v: targets.append(v))
    hidden = model.decode(full.target_in, Memory(u, full.source_mask))
    scores = model.project(hidden)
    for j in range(5):
        by_source, by_target = torch.autograd.grad(
            scores[:, j].square().sum(), [u, targets[0]], retain_graph=True
        )
        assert (by_source.abs().amax(-1) > 1e-9).all()
        assert (by_target.abs().amax(-1) > 1e-9)[:, : j + 1].all()
        assert not by_target[:, j + 1 :].any()


@pytest.mark.parametrize("system", BOTH)
@torch.inference_mode()
def test_decoding_keeps_the_keys_and_values_of_target_attention_alone(
    system: str, build: Build, batch: Batch
) -> None:
    model = build(system, layers=3)  # R11
    state = model.begin(model.encode(batch.source, batch.source_mask), 1)
    model.step(torch.tensor([1, 1, 1]), state)
    state = state.select(torch.tensor([[0, 0], [1, 1], [2, 2]]))
    model.step(torch.tensor([4, 5, 6, 7, 8, 9]), state)
    tensors = [tensor for layer in state.cache.layers for tensor in layer.tensors()]
    S = batch.source.shape[1]
    # one slot of the common first token, two of the second: hypotheses share what they can
    assert [x.shape for x in tensors] == [(3, S, H, 3, E // H)] * (2 * 3)
    assert state.memory.states.shape == (3, S, E)  # the source once per sentence


@pytest.mark.parametrize("system", BOTH)
def test_attention_maps_are_those_of_every_layer(system: str, build: Build, batch: Batch) -> None:
    maps = {m.name: m for m in build(system).explain(batch.source, batch.target_in)}  # R13
    B, S = batch.source.shape
    T = batch.target_in.shape[1]
    for n in range(2):
        assert maps[f"joint.{n}.target"].weights.shape == (B, S, H, T, T)
        assert maps[f"joint.{n}.source"].weights.shape == (B, T, H, S, S)
    assert maps["reduction"].weights.shape == (B, E, T, S)
    assert sum(name.startswith("prenet") for name in maps) == (2 if system == BOTH[1] else 0)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_norms_around_the_reduction(norm: str, build: Build, full: Batch) -> None:
    model = build("reformer-base", norm=norm)
    x = last_grid(model, full)
    z = F.layer_norm(x, (E,)) if norm == "pre" else x
    weights = (z @ model.reduction.weight.t()).softmax(2)
    expected = F.layer_norm((weights * z).sum(2), (E,))
    hidden = model.decode(full.target_in, model.encode(full.source, full.source_mask))
    torch.testing.assert_close(hidden, expected, **EXACT)


def test_the_blocks_of_a_layer_follow_in_order() -> None:
    layer = joint_layer().eval()
    x = torch.randn(2, 3, 4, E)
    expected = x
    blocks: tuple[Any, ...] = (
        layer.target_attention,
        layer.target_ffn,
        lambda y: layer.source_attention(y, None),
        layer.source_ffn,
    )
    for block in blocks:
        expected = expected + block(F.layer_norm(expected, (E,)))
    torch.testing.assert_close(layer(x, None), expected)
    assert layer.target_ffn.inner.weight is not layer.source_ffn.inner.weight


def test_without_prenet_fast_is_base(build: Build, batch: Batch) -> None:
    base, fast = build("reformer-base"), build("reformer-fast", prenet_layers=0)  # F2
    fast.prenet.norm = None
    fast.load_state_dict(base.state_dict())
    assert torch.equal(logits(fast, batch), logits(base, batch))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_prenet_is_the_encoder_of_the_transformer(
    build: Build, batch: Batch, norm: str
) -> None:
    fast, transformer = build("reformer-fast", norm=norm), build("transformer", norm=norm)  # F4
    fast.prenet.load_state_dict(transformer.encoder.state_dict())
    fast.source_embedding.load_state_dict(transformer.source_embedding.state_dict())
    states = [m.encode(batch.source, batch.source_mask).states for m in (fast, transformer)]
    assert torch.equal(*states)


@torch.inference_mode()
def test_decoding_runs_the_prenet_once(build: Build, batch: Batch) -> None:
    model = build("reformer-fast")  # F3
    calls: list[Tensor] = []
    model.prenet.register_forward_hook(lambda _, __, output: calls.append(output))
    state = model.begin(model.encode(batch.source, batch.source_mask), 1)
    for token in (1, 5, 6, 7):
        model.step(torch.full((3,), token), state)
        state = state.select(torch.arange(3)[:, None])
    assert len(calls) == 1


def test_the_source_gets_a_gradient_through_every_prenet_layer(build: Build, batch: Batch) -> None:
    model = build("reformer-fast", prenet_layers=3)  # F5
    states: list[Tensor] = []
    for layer in model.prenet.layers:
        layer.register_forward_hook(lambda _, __, output: states.append(output))
    model.source_embedding.register_forward_hook(lambda _, __, output: states.append(output))
    hidden = model.decode(batch.target_in, model.encode(batch.source, batch.source_mask))
    gradients = torch.autograd.grad(model.project(hidden).square().sum(), states)
    assert len(gradients) == 4
    for gradient in gradients:
        assert gradient[batch.source_mask].abs().amax(-1).min() > 1e-9


def test_a_grid_of_concatenation_cannot_be_tied() -> None:
    with pytest.raises(ValueError, match="cannot be tied"):
        ReformerConfig(grid="concat", tie="decoder")


@pytest.mark.parametrize("width", [30, 2, 7])
def test_impossible_widths_are_refused(width: int) -> None:
    with pytest.raises(ValueError, match=f"width {width}"):
        ReformerConfig(width=width, heads=4 if width == 30 else 1)

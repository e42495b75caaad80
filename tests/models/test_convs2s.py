"""Properties V1 to V6 of ConvS2S (docs/systems.md 9.1), against slow forms in float64."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from jtrans.config import load_config
from jtrans.data.batch import Batch
from jtrans.decoding.options import SearchOptions
from jtrans.decoding.search.beam import beam_search
from jtrans.errors import ConfigError, DecodingError
from jtrans.models.convolution_stack import ConvolutionSizes, read_stack
from jtrans.models.convs2s import ConvS2S, MultiStepAttention
from jtrans.models.systems import Convs2sConfig
from jtrans.models.zoo import system_configs
from jtrans.nn.convolution.gated import GatedConvolution
from jtrans.nn.convolution.weight_norm import WeightNormLinear
from jtrans.nn.device import autocast

R = math.sqrt(0.5)
EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-10}
KERNELS = [1, 2, 3, 4, 5, 7]

Build = Callable[..., Any]


# Slow forms: one position, one tap, one layer after the other


def slow_linear(layer: WeightNormLinear, x: Tensor) -> Tensor:
    """Compute ``W x + b`` for one vector, row by row."""
    rows = []
    for v, g, b in zip(layer.direction, layer.length, layer.bias, strict=True):
        rows.append(g * (v * x).sum() / (v * v).sum().sqrt() + b)
    return torch.stack(rows)


def slow_convolution(convolution: Any, x: Tensor, left: int) -> Tensor:
    """Convolve one sentence, [L, inputs] -> [L, channels]; `left` taps lie before a position."""
    zero = torch.zeros_like(x[0])
    rows = []
    for i in range(len(x)):
        taps = range(i - left, i - left + convolution.kernel)
        window = torch.cat([x[tap] if 0 <= tap < len(x) else zero for tap in taps])
        a, b = slow_linear(convolution.linear, window).chunk(2)
        rows.append(a / (1.0 + (-b).exp()))
    return torch.stack(rows)


def slow_encode(model: Any, ids: list[int]) -> tuple[Tensor, Tensor]:
    """Return keys and values of one sentence, [S, E]."""
    embedding = model.source_embedding
    e = torch.stack(
        [embedding.tokens.weight[t] + embedding.positions[i] for i, t in enumerate(ids)]
    )
    states = [torch.stack([slow_linear(model.source_input, row) for row in e])]
    sizes = read_stack(model.config.encoder_layers)
    for size, layer in zip(sizes, model.encoder, strict=True):
        u = slow_convolution(layer.convolution, states[-1], (size.kernel - 1) // 2)
        states.append(slow_residual(layer, u, states, size))
    z = torch.stack([slow_linear(model.keys, row) for row in states[-1]])
    return z, (z + e) * R


def slow_residual(layer: Any, u: Tensor, states: list[Tensor], size: ConvolutionSizes) -> Tensor:
    if size.residual == 0:
        return u
    state = states[len(states) - size.residual]
    if layer.shortcut.projection is not None:
        state = torch.stack([slow_linear(layer.shortcut.projection, row) for row in state])
    return (u + state) * R


def slow_decode(model: Any, ids: list[int], keys: Tensor, values: Tensor) -> Tensor:
    """Return the logits of one sentence, [T, V]."""
    embedding = model.target_embedding
    g = torch.stack(
        [embedding.tokens.weight[t] + embedding.positions[i] for i, t in enumerate(ids)]
    )
    states = [torch.stack([slow_linear(model.target_input, row) for row in g])]
    sizes = read_stack(model.config.decoder_layers)
    for n, (size, layer) in enumerate(zip(sizes, model.layers, strict=True)):
        u = slow_convolution(layer.convolution, states[-1], size.kernel - 1)
        if n in model.config.attending_layers:
            rows = []
            for i in range(len(ids)):
                d = (slow_linear(layer.attention.query, u[i]) + g[i]) * R
                weights = torch.stack([(d * key).sum().exp() for key in keys])
                weights = weights / weights.sum()
                context = (weights[:, None] * values).sum(0) * math.sqrt(len(keys))
                rows.append((slow_linear(layer.attention.out, context) + u[i]) * R)
            u = torch.stack(rows)
        states.append(slow_residual(layer, u, states, size))
    hidden = [slow_linear(model.last, row) for row in states[-1]]
    if isinstance(model.output, WeightNormLinear):
        return torch.stack([slow_linear(model.output, row) for row in hidden])
    return torch.stack([embedding.tokens.weight @ row + model.output.bias for row in hidden])


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "tied": {"tie": "decoder"},
    "even": {"encoder_layers": "(16, 2), (16, 4)", "decoder_layers": "(16, 2), (16, 6)"},
    "some": {"attention": [2], "decoder_layers": "3 x (16, 3)"},
    "residuals": {
        "encoder_layers": "(8, 3, 0), (24, 2, 2), (16, 1, 2), (16, 4)",
        "decoder_layers": "(8, 4), (24, 3, 0), (16, 2, 3), (16, 1)",
    },
}


@pytest.mark.parametrize("changes", CASES.values(), ids=list(CASES))
@torch.no_grad()
def test_a_batch_is_what_the_equations_say_of_each_sentence(
    changes: dict[str, Any], build: Build, batch: Batch
) -> None:
    model = build("convs2s", **changes)
    assert isinstance(model, ConvS2S)
    for module in model.modules():  # lengths and biases that matter
        if isinstance(module, WeightNormLinear):
            module.length.mul_(1.0 + 0.3 * torch.randn_like(module.length))
            module.bias.normal_(std=0.3)
    memory = model.encode(batch.source, batch.source_mask)
    logits = model.project(model.decode(batch.target_in, memory))
    for b, (S, T) in enumerate(
        zip(batch.source_mask.sum(1).tolist(), batch.target_mask.sum(1).tolist(), strict=True)
    ):
        keys, values = slow_encode(model, batch.source[b, :S].tolist())
        torch.testing.assert_close(memory.states[b, :S], keys, **EXACT)
        torch.testing.assert_close(memory.values[b, :S], values, **EXACT)
        slow = slow_decode(model, batch.target_in[b, :T].tolist(), keys, values)
        torch.testing.assert_close(logits[b, :T], slow, **EXACT)


# V1: no future, no padding


@pytest.mark.parametrize("kernel", KERNELS)
def test_no_gradient_flows_from_a_target_position_to_later_tokens(
    kernel: int, build: Build, batch: Batch
) -> None:
    """V1, G1: through every decoder convolution, even kernels included."""
    model = build("convs2s", decoder_layers=[[16, kernel], [12, kernel, 2], [16, 1, 0]])
    x = torch.randn(2, 9, 16, dtype=torch.float64, requires_grad=True)
    for layer in model.layers:  # each convolution alone
        inputs = layer.convolution.linear.direction.shape[1] // layer.convolution.kernel
        for t in range(9):
            (gradient,) = torch.autograd.grad(layer.convolution(x[..., :inputs])[:, t].sum(), x)
            reached = gradient.abs().sum((0, 2)) > 0
            first = max(0, t - layer.convolution.kernel + 1)
            assert reached.tolist() == [first <= i <= t for i in range(9)]
    g = torch.randn(3, 9, 16, dtype=torch.float64, requires_grad=True)  # and all together
    model.target_embedding.forward = lambda ids, start=0: g
    memory = model.encode(batch.source, batch.source_mask)
    hidden = model.decode(torch.ones(3, 9, dtype=torch.int64), memory)
    for t in range(9):
        (gradient,) = torch.autograd.grad(hidden[:, t].sum(), g, retain_graph=True)
        reached = gradient.abs().sum((0, 2)) > 0
        first = max(0, t - 2 * (kernel - 1))
        assert reached.tolist() == [first <= i <= t for i in range(9)]


@pytest.mark.parametrize("kernel", KERNELS)
def test_padding_is_not_seen_by_any_source_convolution(kernel: int, build: Build) -> None:
    """V1, G3: whatever padding is embedded as."""
    model = build("convs2s", encoder_layers=[[16, kernel], [12, kernel], [16, kernel, 2]])
    source = torch.randint(4, 20, (2, 5))
    mask = torch.ones(2, 9, dtype=torch.bool)
    mask[:, 5:] = False
    padded = torch.cat([source, torch.zeros(2, 4, dtype=torch.int64)], dim=1)
    with torch.no_grad():
        plain = model.encode(source, mask[:, :5])
        padding = model.encode(padded, mask)
    torch.testing.assert_close(padding.states[:, :5], plain.states, **EXACT)
    torch.testing.assert_close(padding.values[:, :5], plain.values, **EXACT)
    assert not padding.states[:, 5:].any()


# V2: receptive field


@pytest.mark.parametrize(
    ("stack", "before", "after"),
    [("2 x (16, 3)", 2, 2), ("(16, 4), (16, 1)", 1, 2), ("(16, 2), (16, 6)", 2, 4)],
)
@torch.no_grad()
def test_a_source_token_reaches_the_keys_of_the_receptive_field_only(
    stack: str, before: int, after: int, build: Build
) -> None:
    """V2: 1 + sum(k - 1) positions; an even kernel has one more tap to the right."""
    model = build("convs2s", encoder_layers=stack)
    source = torch.randint(4, 19, (1, 13))
    other = source.clone()
    other[0, 6] += 1
    mask = torch.ones(1, 13, dtype=torch.bool)
    first, second = (model.encode(ids, mask).states[0] for ids in (source, other))
    changed = (first - second).abs().sum(-1) > 0
    # position i reads i - before .. i + after, so token 6 is read by 6 - after .. 6 + before
    assert changed.tolist() == [6 - after <= i <= 6 + before for i in range(13)]


# V3: weight norm


def test_scaling_a_direction_changes_nothing() -> None:
    """V3, for a linear layer and a convolution."""
    convolution = GatedConvolution(5, 4, 3, causal=True, dropout=0.0).double()
    x = torch.randn(2, 6, 5, dtype=torch.float64)
    before = convolution(x)
    with torch.no_grad():
        convolution.linear.direction.mul_(torch.rand(8, 1, dtype=torch.float64) + 0.5)
    torch.testing.assert_close(convolution(x), before, **EXACT)


def test_lengths_start_as_those_of_the_directions() -> None:
    layer = WeightNormLinear(7, 3)
    torch.testing.assert_close(layer.weight(), layer.direction)
    torch.testing.assert_close(layer.length, layer.direction.square().sum(1).sqrt())


@torch.no_grad()
def test_a_search_normalises_once_and_new_weights_count_at_once() -> None:
    layer, x = WeightNormLinear(4, 3), torch.randn(2, 4)
    weight = layer.weight()
    assert layer.weight() is weight
    assert "direction" in layer.state_dict() and len(layer.state_dict()) == 3
    changes: list[Callable[[], object]] = [
        lambda: layer.direction.add_(1.0),  # an optimiser
        lambda: layer.length.mul_(2.0),
        lambda: layer.load_state_dict(WeightNormLinear(4, 3).state_dict()),
        lambda: layer.load_state_dict(WeightNormLinear(4, 3).state_dict(), assign=True),
        lambda: setattr(layer.direction, "data", torch.randn(3, 4)),
        lambda: layer.to(torch.bfloat16).to(torch.float32),
    ]
    for change in changes:
        change()
        v, g = layer.direction, layer.length
        expected = x @ (v * (g / v.norm(dim=1))[:, None]).T + layer.bias
        torch.testing.assert_close(layer(x), expected)
        assert layer.weight() is layer.weight()


def test_a_copy_has_a_weight_of_its_own() -> None:
    layer, x = WeightNormLinear(4, 3), torch.randn(2, 4)
    with torch.no_grad():
        before = layer(x)
        twin = copy.deepcopy(layer)
        twin.direction.add_(1.0)
        assert not torch.equal(twin(x), before)
        assert torch.equal(layer(x), before)


def test_weights_are_prepared_in_the_precision_of_products() -> None:
    layer, x = WeightNormLinear(4, 3), torch.randn(2, 4)
    with torch.no_grad():
        single = layer.weight()
        with autocast(torch.device("cpu"), "bf16"):
            half = layer.weight()
            layer(x)
        assert (single.dtype, half.dtype) == (torch.float32, torch.bfloat16)
        assert torch.equal(half, single.bfloat16())
        assert layer.weight().dtype == torch.float32


def test_gradients_reach_direction_length_and_bias_as_for_the_plain_form() -> None:
    layer, x = WeightNormLinear(5, 4).double(), torch.randn(3, 5, dtype=torch.float64)
    with torch.no_grad():
        layer(x)  # a prepared weight must not be used here
    layer(x).square().sum().backward()
    v, g, b = (p.detach().clone().requires_grad_() for p in layer.parameters())
    (x @ (v / v.norm(dim=1, keepdim=True) * g[:, None]).T + b).square().sum().backward()
    for ours, plain in zip(layer.parameters(), (v, g, b), strict=True):
        torch.testing.assert_close(ours.grad, plain.grad, **EXACT)


# V4: the gradient of the encoder


@pytest.mark.parametrize("attention", ["all", [1], [2, 3]])
def test_the_gradient_of_the_encoder_is_divided_by_twice_the_number_of_attentions(
    attention: Any, build: Build, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """V4: exactly so, and the path from the values to the embedding is not scaled."""
    model = build("convs2s", decoder_layers="3 x (16, 3)", attention=attention)

    def gradients() -> dict[str, Tensor]:
        model.zero_grad()
        memory = model.encode(batch.source, batch.source_mask)
        model.project(model.decode(batch.target_in, memory)).square().sum().backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    scaled = gradients()
    monkeypatch.setattr(Tensor, "register_hook", lambda self, hook: None)
    plain = gradients()
    attentions = 3 if attention == "all" else len(attention)
    inside = ("encoder.", "keys.", "source_input.")
    for name, gradient in plain.items():
        factor = 1 / (2 * attentions) if name.startswith(inside) else 1.0
        if not name.startswith("source_embedding"):
            torch.testing.assert_close(scaled[name], gradient * factor, **EXACT)
    ours, theirs = (g["source_embedding.positions"] for g in (scaled, plain))
    assert not torch.allclose(ours, theirs)
    assert not torch.allclose(ours, theirs / (2 * attentions))


# V5, V6


@torch.no_grad()
def test_the_context_grows_with_the_number_of_real_tokens(build: Build) -> None:
    """V5: the square root of the unpadded length, `</s>` counted."""
    model = build("convs2s")
    attention = model.layers[0].attention
    assert isinstance(attention, MultiStepAttention)
    recorded: list[Tensor] = []
    attention.out.register_forward_pre_hook(lambda module, inputs: recorded.append(inputs[0]))
    source = torch.tensor([[5, 6, 7, 1, 0, 0]])
    memory = model.encode(source, source != 0)
    weights = model.explain(source, torch.tensor([[1, 9]]))[0].weights
    recorded.clear()
    model.decode(torch.tensor([[1, 9]]), memory)
    expected = weights @ memory.values * 2.0  # sqrt(4)
    torch.testing.assert_close(recorded[0], expected, **EXACT)


def test_gates_halve_the_channels() -> None:
    """V6."""
    convolution = GatedConvolution(5, 4, 3, causal=False, dropout=0.0)
    assert convolution.linear.direction.shape == (8, 15)
    assert convolution(torch.randn(2, 6, 5)).shape == (2, 6, 4)


# Initial values, state, attention maps


def test_initial_values_keep_the_variance() -> None:
    torch.manual_seed(1)
    p = 0.25
    config = Convs2sConfig(
        width=128,
        output_width=128,
        encoder_layers="(128, 3), (160, 3)",
        decoder_layers="(128, 5)",
        dropout=p,
    )
    model: Any = ConvS2S(config, 500, 500)
    stds = {
        model.source_embedding.tokens.weight[1:]: 0.1,
        model.target_embedding.positions: 0.1,
        model.source_input.direction: ((1 - p) / 128) ** 0.5,
        model.target_input.direction: ((1 - p) / 128) ** 0.5,
        model.encoder[1].convolution.linear.direction: (4 * (1 - p) / (3 * 128)) ** 0.5,
        model.encoder[1].shortcut.projection.direction: (1 / 128) ** 0.5,
        model.layers[0].convolution.linear.direction: (4 * (1 - p) / (5 * 128)) ** 0.5,
        model.layers[0].attention.query.direction: (1 / 128) ** 0.5,
        model.keys.direction: (1 / 160) ** 0.5,
        model.last.direction: (1 / 128) ** 0.5,
        model.output.direction: ((1 - p) / 128) ** 0.5,
    }
    for tensor, std in stds.items():
        assert tensor.std().item() == pytest.approx(std, rel=0.03)
    assert not model.source_embedding.tokens.weight[0].any()


@pytest.mark.parametrize("tie", ["none", "decoder"])
def test_biases_start_at_zero(tie: str, build: Build) -> None:
    model = build("convs2s", tie=tie)
    biases = [value for name, value in model.named_parameters() if name.endswith("bias")]
    assert biases and not any(bias.any() for bias in biases)


@torch.no_grad()
def test_the_state_of_a_search_does_not_grow(build: Build, batch: Batch) -> None:
    model = build("convs2s")
    state = model.begin(model.encode(batch.source, batch.source_mask), 4)
    shapes = [(12, 3, 16), (12, 3, 16)]  # kernel 4
    for _ in range(9):
        assert [tuple(window.shape) for window in state.windows] == shapes
        model.step(torch.randint(1, 24, (12,)), state)


def test_attention_maps_are_those_of_the_attending_layers(build: Build, batch: Batch) -> None:
    model = build("convs2s", decoder_layers="4 x (16, 3)", attention=[4, 2])
    maps = model.explain(batch.source, batch.target_in)
    assert [m.name for m in maps] == ["decoder.1.cross", "decoder.3.cross"]


# Sentences longer than the position tables


def test_a_sentence_longer_than_the_position_table_is_refused(build: Build) -> None:
    model = build("convs2s", positions=8)
    source = torch.randint(4, 20, (1, 8))
    memory = model.encode(source, source != 0)
    longer = torch.randint(4, 20, (1, 9))
    with pytest.raises(DecodingError, match=r"9 tokens, but .* only 8 positions"):
        model.encode(longer, longer != 0)
    with pytest.raises(DecodingError, match="9 tokens"):
        model.decode(longer, memory)


@torch.no_grad()
def test_a_search_ends_at_the_last_position(build: Build) -> None:
    model = build("convs2s", positions=8).float()
    model.output.bias[1] = -100.0  # </s> is never chosen freely
    source = torch.randint(4, 20, (2, 8))
    options = SearchOptions(beam=2, max_length="S+50")
    for (hypothesis,) in beam_search([model], source, source != 0, options):
        assert len(hypothesis.tokens) == 8


# Settings


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        ("2 x (16, 3)", [(16, 3, 1), (16, 3, 1)]),
        ("(8,3,0), 2*(16, 1, 2)", [(8, 3, 0), (16, 1, 2), (16, 1, 2)]),
    ],
)
def test_a_stack_is_read(text: str, layers: list[tuple[int, ...]]) -> None:
    assert [tuple(sizes) for sizes in read_stack(text)] == layers


def test_a_list_and_text_mean_the_same_and_are_stored_as_text() -> None:
    listed = Convs2sConfig(encoder_layers=[[8, 3], [8, 3, 1], [16, 4, 2]])
    assert listed.encoder_layers == "2 x (8, 3), (16, 4, 2)"
    assert listed == Convs2sConfig(encoder_layers="(8,3),(8,3,1),  1 x (16 , 4, 2)")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("encoder_layers=0", "0 is not a stack of layers, such as '4 x"),
        ("encoder_layers=[]", "a stack needs at least one layer"),
        ("decoder_layers=0 x (16, 3)", "a stack needs at least one layer"),
        ("decoder_layers=(0, 3)", "channels and kernel must be at least 1"),
        ("decoder_layers=(16, 0)", "channels and kernel must be at least 1"),
        ("decoder_layers=(16, 3, 2)", "residual 2 lies before the first state"),
        ("decoder_layers=(16 3)", "cannot read the layers"),
        ("decoder_layers=[[16, 3.0]]", "is not a layer"),
        ("decoder_layers=[[16, -3]]", "is not a layer"),
        ("decoder_layers=999 x (16, 3)", "more than 256 layers"),
        ("encoder_layers=(16, 1025)", "kernel 1025 of encoder layer 1 is wider than .* 1,024"),
        ("attention=[]", "leaves the source unread"),
        ("attention=[1, 1]", "names a layer twice"),
        ("attention=[4]", "names layer 4, but decoder_layers = .* has only 3"),
        ("tie=decoder", "needs output_width = width"),
        ("positions=0", "positions: input should be greater than 0"),
    ],
)
def test_impossible_settings_are_refused(setting: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        load_config(
            "iwslt14-de-en/convs2s",
            system_configs(),
            overrides=["model.output_width=64", f"model.{setting}"],
        )
    assert error.value.exit_code == 2

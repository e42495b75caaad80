"""Transformer++: its mixed block and its heads (docs/systems.md 6.7, properties P1 to P12).

P8 and P9 are in tests/training/test_label_losses.py, P10 with the labels of prepared corpora.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from jtrans.data.batch import Batch
from jtrans.models.systems import TransformerPlusPlusConfig
from jtrans.nn.convolution import mixed_kernel, mixed_query
from jtrans.nn.convolution.mixed import MixedAttention, MixedCache
from jtrans.nn.convolution.mixed_kernel import LocalConvolution
from jtrans.nn.convolution.mixed_query import PrefixQuery, prefix_mix, sentence_query
from jtrans.nn.dropout import SharedDropout

EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-10}  # float64
H, D, C = 2, 3, 6
Build = Callable[..., Any]  # tests look into the models


def convolution(kernel: int, dilation: int = 2, rate: float = 0.0, *, centred: bool = False) -> Any:
    """Return a convolution of C channels in evaluation mode with random kernels."""
    torch.manual_seed(kernel)
    local = LocalConvolution(C, kernel, dilation, SharedDropout(rate), centred=centred).double()
    torch.nn.init.normal_(local.weight)
    return local.eval()


def draw(*shape: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def by_definition(local: LocalConvolution, x: Tensor) -> Tensor:
    """Compute LocalConv number by number."""
    _, L, channels = x.shape
    K, r = local.weight.shape[1], local.dilation
    result = torch.zeros_like(x)
    for c in range(channels):
        powers = [math.exp(w) for w in local.weight[c].tolist()]
        for t in range(L):
            for k in range(K):
                s = t - (K - 1 - k) * r + local.ahead
                if 0 <= s < L:
                    result[:, t, c] += powers[k] / sum(powers) * x[:, s, c]
    return result


@pytest.mark.parametrize(("kernel", "dilation"), [(1, 1), (3, 2), (4, 3), (7, 2), (31, 2)])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("longest", [0, 256])  # torch's convolution, or a banded matrix
def test_the_convolution_is_its_definition(
    kernel: int, dilation: int, centred: bool, longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mixed_kernel, "LONGEST_MATRIX", longest)
    local = convolution(kernel, dilation, centred=centred and kernel % 2 == 1)
    x = draw(2, 11, C)
    torch.testing.assert_close(local(x), by_definition(local, x), **EXACT)


@pytest.mark.parametrize(("kernel", "dilation"), [(1, 1), (3, 2), (4, 3), (7, 2), (31, 2)])
def test_one_step_of_the_convolution_is_its_last_position(kernel: int, dilation: int) -> None:
    local = convolution(kernel, dilation)
    x = draw(2, 9, C)
    whole = local(x)
    for t in range(9):
        past = x[:, max(0, t - local.span) : t + 1]
        torch.testing.assert_close(local.step(past), whole[:, t], **EXACT)


def test_a_constant_stays_constant_after_the_first_taps() -> None:
    local = convolution(4, 3)
    taps = local.taps()
    assert (taps >= 0.0).all()
    torch.testing.assert_close(taps.sum(-1), torch.ones_like(taps[:, 0]), **EXACT)
    result = local(torch.full((1, 20, C), 2.5, dtype=torch.float64))  # P1
    expected = torch.full((1, 20 - local.span, C), 2.5, dtype=torch.float64)
    torch.testing.assert_close(result[:, local.span :], expected, **EXACT)


@pytest.mark.parametrize("t", [3, 12, 17])
@pytest.mark.parametrize(("kernel", "dilation"), [(3, 2), (4, 3), (31, 2)])
def test_a_convolution_reads_its_taps_and_nothing_else(kernel: int, dilation: int, t: int) -> None:
    local = convolution(kernel, dilation)
    x = draw(1, 18, C).requires_grad_()
    local(x)[0, t].sum().backward()
    assert x.grad is not None
    read = {s for s in range(18) if x.grad[0, s].any()}
    taps = {t - k * dilation for k in range(kernel)}
    assert read == {s for s in taps if s >= 0}  # P2


def test_a_kernel_of_one_is_the_identity() -> None:
    x = draw(2, 5, C)
    torch.testing.assert_close(convolution(1)(x), x, **EXACT)  # P7


def test_dropconnect_drops_taps_in_training_only() -> None:
    local = convolution(7, rate=0.5)
    taps = local.taps()
    assert torch.equal(taps, local.taps())  # P11
    dropped = local.train().taps()
    is_zero = dropped == 0.0
    assert is_zero.any() and not is_zero.all()
    torch.testing.assert_close(dropped[~is_zero], 2.0 * taps[~is_zero])


def queries(scores: Tensor, values: Tensor) -> Tensor:
    """Compute the queries of all prefixes of one sentence, [L, H, D, D], by their definition."""
    L = len(scores)
    result = torch.zeros(L, H, D, D, dtype=torch.float64)
    for t in range(L):
        alpha = torch.softmax(scores[: t + 1], 0)
        for h in range(H):
            head = slice(h * D, (h + 1) * D)
            for s in range(t + 1):
                result[t, h] += torch.outer(alpha[s, head], values[s, head])
    return result


@pytest.mark.parametrize("length", [1, 7, 8, 9, 21])
@pytest.mark.parametrize("scale", [1.0, 30.0, 1000.0])  # of scores: the last are out of exp's range
def test_the_forms_of_the_prefix_query_agree(
    length: int, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    local, values = draw(2, length, C, seed=1), draw(2, length, C, seed=2)
    scores = scale * draw(2, length, C, seed=3)
    state = PrefixQuery.empty(scores[:, 0], H)
    steps = []
    for t in range(length):
        state.add(scores[:, t], values[:, t])
        steps.append(state.mix(local[:, t]))
    direct = torch.stack([queries(*pair) for pair in zip(scores, values, strict=True)])
    rows = local.unflatten(-1, (H, 1, D))  # [B, L, H, 1, D]
    expected = (rows @ direct).flatten(-3)
    torch.testing.assert_close(torch.stack(steps, 1), expected, **EXACT)  # P3
    torch.testing.assert_close(prefix_mix(local, scores, values, H), expected, **EXACT)
    monkeypatch.setattr(mixed_query, "WIDEST_RANGE", -1.0)  # chunks
    torch.testing.assert_close(prefix_mix(local, scores, values, H), expected, **EXACT)


@pytest.mark.parametrize("scale", [1.0, 20.0, 1000.0])
def test_both_parallel_forms_have_the_same_finite_gradient(
    scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = [draw(2, 13, C, seed=n).requires_grad_() for n in range(3)]
    weight = draw(2, 13, C, seed=9)

    def gradients(dtype: torch.dtype) -> list[Tensor]:
        local, scores, values = (x.to(dtype) for x in inputs)
        mixed = prefix_mix(local, scale * scores, values, H)
        assert mixed.dtype == dtype and mixed.isfinite().all()
        return list(torch.autograd.grad((mixed * weight).sum(), inputs))

    single, exact = gradients(torch.float32), gradients(torch.float64)
    monkeypatch.setattr(mixed_query, "WIDEST_RANGE", -1.0)
    for ours, theirs, rough in zip(gradients(torch.float64), exact, single, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-8 * scale)
        assert rough.isfinite().all()
        torch.testing.assert_close(rough, theirs, rtol=1e-3, atol=1e-4 * scale)


def test_no_part_of_a_prefix_mix_reads_later_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    for widest in (80.0, -1.0):
        monkeypatch.setattr(mixed_query, "WIDEST_RANGE", widest)
        for t in (0, 6, 7, 8, 12):
            inputs = [draw(1, 17, C, seed=n).requires_grad_() for n in range(3)]
            prefix_mix(inputs[0], inputs[1], inputs[2], H)[0, t].sum().backward()
            for x in inputs:
                assert x.grad is not None
                assert not x.grad[0, t + 1 :].any()


def test_the_query_of_a_sentence_does_not_depend_on_order_or_padding() -> None:
    scores, values = draw(1, 6, C, seed=1), draw(1, 6, C, seed=2)
    query = sentence_query(scores, values, H, None)
    torch.testing.assert_close(query[0], queries(scores[0], values[0])[-1], **EXACT)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    shuffled = sentence_query(scores[:, order], values[:, order], H, None)
    torch.testing.assert_close(shuffled, query, **EXACT)  # P4
    bias = torch.tensor([[0.0] * 6 + [-torch.inf] * 2], dtype=torch.float64)
    longer = [torch.cat([x, draw(1, 2, C, seed=7)], dim=1) for x in (scores, values)]
    padded = sentence_query(longer[0], longer[1], H, bias)
    torch.testing.assert_close(padded, query, **EXACT)
    alpha = mixed_query.sentence_weights(longer[0], bias)
    torch.testing.assert_close(alpha.sum(1), torch.ones(1, C, dtype=torch.float64), **EXACT)
    assert not alpha[:, 6:].any()  # P6


def test_the_query_of_one_position_is_the_outer_product_of_ones_and_its_value() -> None:
    local, scores, values = (draw(1, 1, C, seed=n) for n in range(3))
    expected = local.unflatten(-1, (H, D)).sum(-1, keepdim=True) * values.unflatten(-1, (H, D))
    mixed = prefix_mix(local, scores, values, H)
    torch.testing.assert_close(mixed, expected.flatten(-2), **EXACT)  # P5
    query = sentence_query(scores, values, H, None)
    torch.testing.assert_close(query[0, 0], values[0, :, :D].expand(D, D), **EXACT)


@pytest.mark.parametrize("kernels", [(1,), (3, 5), (4, 31)])
@pytest.mark.parametrize("dilation", [1, 3])
def test_no_gradient_of_a_prefix_reaches_later_tokens(
    build: Build, batch: Batch, kernels: tuple[int, ...], dilation: int
) -> None:
    model = build("transformer-pp", kernels=kernels, dilation=dilation)
    memory = model.encode(batch.source, batch.source_mask)
    target = torch.randint(4, 24, (3, 12))
    embedded: list[Tensor] = []
    model.target_embedding.register_forward_hook(lambda _, inputs, x: embedded.append(x))
    for t in (0, 4, 10):
        hidden = model.decode(target, memory)
        (gradient,) = torch.autograd.grad(hidden[:, t].square().sum(), embedded[-1])
        assert not gradient[:, t + 1 :].any()  # P12
        assert gradient[:, : t + 1].any()


def test_the_state_of_the_convolution_half_has_a_constant_size(build: Build, batch: Batch) -> None:
    model = build("transformer-pp", kernels=(3, 4), dilation=2)
    sizes = []
    with torch.inference_mode():
        state = model.begin(model.encode(batch.source, batch.source_mask), 1)
        for t in range(20):
            beam = 1 if t == 0 else 4
            model.step(torch.randint(4, 24, (3 * beam,)), state)
            state = state.select(torch.arange(3)[:, None] * beam + torch.arange(4) % beam)
            size = 0
            for cache in state.cache.layers:
                assert isinstance(cache, MixedCache) and cache.query is not None
                assert cache._past is not None
                size += cache.query.query.numel() + cache._past.numel()
            sizes.append(size)
    assert sizes[7] == sizes[8] == sizes[-1]


def test_plain_attention_and_no_convolution_leave_the_layers_of_the_transformer(
    build: Build,
) -> None:
    def mixed(**changes: Any) -> list[list[bool]]:
        model = build("transformer-pp", encoder_layers=4, **changes)
        return [
            [isinstance(layer.attention, MixedAttention) for layer in model.encoder.layers],
            [isinstance(layer.self_attention, MixedAttention) for layer in model.layers],
        ]

    assert mixed() == [[True] * 4, [True] * 2]
    assert mixed(plain_attention="self") == [[True, True, False, False], [True] * 2]
    assert mixed(convolution=False) == [[False] * 4, [False] * 2]


def test_without_convolution_it_is_the_transformer(build: Build, batch: Batch) -> None:
    model = build("transformer-pp", convolution=False)
    plain = build("transformer", norm="post")
    plain.load_state_dict(model.state_dict())
    results = [
        each.decode(batch.target_in, each.encode(batch.source, batch.source_mask))
        for each in (model, plain)
    ]
    torch.testing.assert_close(*results, **EXACT)


def test_each_layer_has_its_own_kernel_and_the_last_one_holds_for_the_rest() -> None:
    config = TransformerPlusPlusConfig(kernels=(3, 7), dilation=(1, 2, 5))
    assert [config.convolution_of(n) for n in range(4)] == [(3, 1), (7, 2), (7, 5), (7, 5)]
    assert [TransformerPlusPlusConfig().convolution_of(n)[0] for n in range(7)] == [
        *(3, 7, 15, 31, 31, 31, 31)
    ]


def test_tags_come_from_the_first_two_layers(build: Build, batch: Batch) -> None:
    model = build("transformer-pp", pos_tags=18, ner_tags=37, encoder_layers=3)
    outputs: list[Tensor] = []
    for layer in model.encoder.layers:
        layer.register_forward_hook(lambda _, inputs, x: outputs.append(x))
    memory = model.encode(batch.source, batch.source_mask)
    tags = model.tag(memory)
    assert {kind: list(x.shape) for kind, x in tags.items()} == {
        "pos": [*batch.source.shape, 18],
        "ner": [*batch.source.shape, 37],
    }
    for kind, output in zip(("pos", "ner"), outputs, strict=False):
        torch.testing.assert_close(tags[kind], model.heads[kind](output), **EXACT)
    chosen = model.tag(memory.select(torch.tensor([2, 0])))
    torch.testing.assert_close(chosen["ner"], tags["ner"][[2, 0]], **EXACT)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 3, "width": 48}, "heads 3 must be even"),
        ({"kernels": (3, 257)}, "less than or equal to 255"),
        ({"kernels": (0,)}, "greater than 0"),
        ({"kernels": ()}, "at least 1 item"),
        ({"dilation": 65}, "dilation 65 is not between 1 and 64"),
        ({"dilation": (2, 0)}, "dilation 0 is not between 1 and 64"),
        ({"dilation": ()}, "dilation \\[\\] is not"),
        ({"encoder_causal_conv": False, "kernels": (3, 4)}, "kernel 4 is even"),
        ({"encoder_layers": 1}, "encoder_layers is 1"),
        ({"encoder_layers": 0}, "greater than 0"),
        ({"pos_weight": -0.1}, "greater than or equal to 0"),
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        TransformerPlusPlusConfig(**changes)

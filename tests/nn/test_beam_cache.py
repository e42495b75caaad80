"""The cache of decoding: slots that never move and a mask that follows the hypotheses."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from jtrans.nn.attention import MultiHeadAttention
from jtrans.nn.beam_cache import BeamCache, KeyValueCache
from jtrans.nn.dropout import SharedDropout

B, E, H = 3, 8, 2
CPU = torch.device("cpu")


def attention() -> MultiHeadAttention:
    return MultiHeadAttention(E, H, SharedDropout(0.0)).double().eval()


def test_a_cache_holds_nothing_at_first_and_two_tensors_after() -> None:
    cache = KeyValueCache()
    assert cache.tensors() == []
    cache.append(*torch.randn(2, B, H, 1, 4))
    assert [x.shape for x in cache.tensors()] == [(B, H, 1, 4)] * 2


def test_a_cache_keeps_what_was_appended_in_order_beyond_its_first_capacity() -> None:
    cache, parts = KeyValueCache(), torch.randn(90, 2, B, H, 2, 4)
    for k, v in parts:
        held = cache.append(k, v)
    for kept, given_parts in zip(held, parts.unbind(1), strict=True):
        assert torch.equal(kept, torch.cat(given_parts.unbind(0), dim=-2))


@torch.no_grad()
def test_one_hypothesis_gets_what_causal_attention_gives() -> None:
    layer = attention()
    x = torch.randn(B, 150, E, dtype=torch.float64)  # beyond two growths
    cache = BeamCache.empty(1, B, 1, CPU)
    steps = []
    for i in range(150):
        assert cache.advance() is None  # nothing to hide from a single hypothesis
        steps.append(layer(x[:, i : i + 1], cache=cache.layers[0]))
    torch.testing.assert_close(torch.cat(steps, dim=1), layer(x, causal=True))
    assert cache.length == 150


@torch.no_grad()
@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_any_reordering_equals_attention_over_the_prefixes_themselves(data: st.DataObject) -> None:
    layer = attention()
    beam = data.draw(st.integers(1, 4))
    steps = data.draw(st.sampled_from([3, 12, 60]))  # 60: dead slots are given back
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**30)))
    cache = BeamCache.empty(1, B, beam, CPU)
    prefixes = torch.zeros(B, beam, 0, E, dtype=torch.float64)
    for _ in range(steps):
        x = torch.randn(B, beam, E, dtype=torch.float64, generator=generator)
        prefixes = torch.cat([prefixes, x[:, :, None]], dim=2)
        bias = cache.advance()
        attended = layer(x, bias=None if bias is None else bias[:, None], cache=cache.layers[0])
        expected = layer(prefixes.flatten(0, 1), causal=True)[:, -1].view(B, beam, E)
        torch.testing.assert_close(attended, expected)
        parent = torch.randint(0, beam, (B, beam), generator=generator)
        cache = cache.select(torch.arange(B)[:, None] * beam + parent)
        prefixes = taken(prefixes, parent)


def taken(prefixes: Tensor, parent: Tensor) -> Tensor:
    return prefixes[torch.arange(len(prefixes))[:, None], parent]


def test_slots_of_hypotheses_that_died_are_used_again() -> None:
    cache = BeamCache.empty(1, 1, 5, CPU)
    for _ in range(200):
        cache.advance()
        cache.layers[0].append(*torch.randn(2, 1, H, 5, 4))
        cache = cache.select(torch.tensor([[0, 0, 0, 0, 0]]))  # all but the first one die
    assert cache.mask.shape[2] < 500  # of the 1,000 that were written; 200 are alive
    assert cache.mask.sum() == 5 * 200


def test_sentences_that_leave_take_their_slots_along() -> None:
    cache = BeamCache.empty(2, 3, 2, CPU)
    cache.advance()
    written = torch.randn(2, 3, H, 2, 4)
    for layer in cache.layers:
        layer.append(*written)
    cache = cache.select(torch.tensor([[1, 0], [4, 5]]))  # the first and the last sentence
    for layer in cache.layers:
        assert torch.equal(layer.tensors()[0], written[0][[0, 2]])
    assert cache.mask.tolist() == [
        [[False, True], [True, False]],
        [[True, False], [False, True]],
    ]

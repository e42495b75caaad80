"""Attention over short lines equals torch's softmax, also where exponentials would overflow."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from jtrans.nn.cpu.short_lines import attend


def expected(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
    scores = (q @ k.mT).masked_fill(allowed == 0, float("-inf"))
    return torch.softmax(scores, -1) @ v


@pytest.mark.parametrize("is_masked", [False, True])
@given(
    seed=st.integers(0, 1000),
    lines=st.integers(1, 4),
    queries=st.integers(1, 5),
    keys=st.integers(1, 20),
    scale=st.sampled_from([0.01, 1.0, 5.0, 1000.0]),
)
def test_it_is_a_softmax_whatever_the_scores(
    is_masked: bool, seed: int, lines: int, queries: int, keys: int, scale: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    q = scale * torch.randn(2 * lines, queries, 8, generator=generator, dtype=torch.float64)
    k, v = torch.randn(2, 2 * lines, keys, 8, generator=generator, dtype=torch.float64)
    allowed = torch.ones(lines, queries, keys, dtype=torch.float64)
    if is_masked:
        allowed = (torch.rand(allowed.shape, generator=generator) < 0.5).double()
        allowed[..., 0] = 1
    out, sums = attend(q, k, v, allowed if is_masked else None)
    wanted = expected(q, k, v, allowed.repeat_interleave(2, 0))
    torch.testing.assert_close(out / sums, wanted, atol=1e-9, rtol=0)


def test_a_missing_number_stays_within_its_line() -> None:
    q, k, v = torch.randn(3, 4, 2, 8, generator=torch.Generator().manual_seed(1))
    q[1, 0, 0] = float("nan")
    out, sums = attend(q, k, v)
    is_nan = (out / sums).isnan().flatten(1).any(1)
    assert is_nan.tolist() == [False, True, False, False]

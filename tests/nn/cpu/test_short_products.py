"""Attention over few short lines is trained in float32 where products are in bf16."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from jtrans.nn.attention import attention_weights, mix
from jtrans.nn.cpu import short_products
from jtrans.nn.cpu.short_products import in_float32_if_few


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return attention in bf16, [n, L, D]."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return mix(attention_weights(q, k, bias=None), v)


def test_few_products_are_as_exact_as_their_factors() -> None:
    generator = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(6, 9, 8, generator=generator).bfloat16() for _ in range(3))
    result = attend(q, k, v)
    assert result.dtype == torch.bfloat16
    exact = torch.softmax(q.double() @ k.double().mT * 8**-0.5, -1) @ v.double()
    # nothing but the result is rounded to 8 binary digits
    torch.testing.assert_close(result.double(), exact, rtol=2**-8, atol=1e-6)


def test_gradients_come_back_in_bf16() -> None:
    q, k, v = (torch.randn(2, 5, 4).bfloat16().requires_grad_() for _ in range(3))
    attend(q, k, v).float().square().sum().backward()
    assert all(x.grad is not None and x.grad.dtype == torch.bfloat16 for x in (q, k, v))


@pytest.mark.parametrize("why", ["many", "no gradients", "float64"])
def test_other_products_stay_as_they_are(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dtype = torch.float64 if why == "float64" else torch.bfloat16
    x = torch.zeros(2, 3, 4, dtype=dtype)
    if why == "many":
        monkeypatch.setattr(short_products, "FEW", 2 * 3 * 4 * 3 - 1)
    with torch.set_grad_enabled(why != "no gradients"), in_float32_if_few(x, x) as (a, b):
        assert a is x and b is x

"""Products by oneDNN with few different numbers of rows.

oneDNN generates machine code for every new shape of a product and keeps that of the last thousand.
A batch has a row for each of its tokens, or each position of its grid, so in training most shapes
are new. In bf16, from 128 to 640 features, the code took 2.2 ms for 1,003 rows and the product
0.1 ms; for 14,000 rows 2 and 2.5 ms. So rows are multiplied in two parts: a round number of them,
and the remaining ones together with as many of the others as give a round number, too.
"""

from __future__ import annotations

import torch
from torch import Tensor

FEW = 64  # rows: more are worth two calls
STEPS = 8  # round numbers from a power of 2 up to the next


def product(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return a b + bias, [n, k] and [k, m] -> [n, m]."""
    out = a.new_empty(len(a), b.shape[1])
    for first, end in parts(len(a)):
        if bias is None:
            torch.mm(a[first:end], b, out=out[first:end])
        else:
            torch.addmm(bias, a[first:end], b, out=out[first:end])
    return out


def sum_of_products(a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a^T b, [n, k] and [n, m] -> [k, m], in `dtype`, at least as precise as the factors."""
    rows = len(a)
    most = rounded_down(rows)
    total = torch.mm(a[:most].t(), b[:most]).to(dtype)
    if most < rows:
        a_tail, b_tail = (_with_zeros(x[most:], step(rows)) for x in (a, b))
        total += torch.mm(a_tail.t(), b_tail)
    return total


def _with_zeros(x: Tensor, rows: int) -> Tensor:
    longer = x.new_zeros(rows, x.shape[1])
    longer[: len(x)] = x
    return longer


def parts(rows: int) -> list[tuple[int, int]]:
    """Return the first row of each part and its end; the last part may repeat some rows."""
    most = rounded_down(rows)
    if most == rows or rows <= FEW:
        return [(0, rows)]
    return [(0, most), (rows - step(rows), rows)]


def rounded_down(rows: int) -> int:
    """Return the largest round number of rows up to `rows`; every number up to `FEW` is round."""
    return rows if rows <= FEW else rows // step(rows) * step(rows)


def step(rows: int) -> int:
    """Return the distance between the round numbers around `rows`."""
    return (1 << rows.bit_length() - 1) // STEPS

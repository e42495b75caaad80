"""Dropout masks of attention weights, drawn by a counter-based generator.

The mask of a weight is a function of a seed and of the weight's place: its table (a head of a
sentence or of a line), query and key. Nothing need be stored for the backward pass, and all devices
draw the same mask. The function is Philox 4x32 with 7 rounds (Salmon et al. 2011, Parallel Random
Numbers: As Easy as 1, 2, 3; the smallest number of rounds that passes BigCrush).
"""

from __future__ import annotations

import torch
from torch import Tensor

ROUNDS = 7
BITS = 24  # bits of a draw, which is compared with the rate
KEYS = 128  # counter = query * KEYS + key

_WORD = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)


def threshold(rate: float) -> int:
    """Return the smallest draw, of `BITS` bits, that is kept at a dropout rate."""
    return round(rate * (1 << BITS))


def draw_seed(device: torch.device) -> Tensor:
    """Draw a seed, int64 [], on the device, so that the CPU need not wait for it."""
    return torch.randint(0, 2**62, (), device=device)


def weights_mask(seed: Tensor, tables: int, length: int, rate: float) -> Tensor:
    """Return masks of 0 with probability `rate` and 1 / (1 - rate) otherwise.

    Args:
        seed: int64, [].
        tables: number of independent tables.
        length: number of queries and of keys of each, L, at most `KEYS`.
        rate: probability of 0, below 1.

    Returns:
        [tables, L, L] float32.
    """
    position = torch.arange(length, device=seed.device)
    counter = position[:, None] * KEYS + position  # [L, L]
    table = torch.arange(tables, device=seed.device)[:, None, None]
    draws = philox(seed, counter, table) >> (32 - BITS)  # [tables, L, L]
    return (draws >= threshold(rate)).float().mul_(1.0 / (1.0 - rate))


def philox(seed: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Return the first 32-bit word of Philox at the counters (first, second, 0, 0), as int64.

    Args:
        seed: the 64-bit key, [].
        first: below 2^32.
        second: below 2^32, broadcasts with `first` to the shape of the result.
    """
    key = [seed & _WORD, (seed >> 32) & _WORD]
    c0, c1 = first, second
    c2, c3 = torch.zeros_like(first), torch.zeros_like(first)
    for _ in range(ROUNDS):
        # products of 32-bit words wrap in int64, which leaves the bits right
        a, b = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0 = ((b >> 32) & _WORD) ^ c1 ^ key[0]
        c2 = ((a >> 32) & _WORD) ^ c3 ^ key[1]
        c1, c3 = b & _WORD, a & _WORD
        key = [(word + step) & _WORD for word, step in zip(key, _STEPS, strict=True)]
    return c0

"""The FLOPs of training, counted on the model itself, and of any other work.

A multiply-add counts as two. Only matrix products, convolutions and fused attention are counted;
norms, softmax and dropout are a few per cent. Attention is counted in full, including the half that
a causal mask excludes.

The count of a pair is a polynomial in its lengths, up to S T (S + T) in joint models. So the counts
of ten pairs of small lengths determine it: one forward and backward pass each, on meta tensors,
which have shapes but no values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch.utils.flop_counter import FlopCounterMode

from jtrans.bench.operator_flops import FORMULAS
from jtrans.config import SystemConfig
from jtrans.models.base import TranslationModel
from jtrans.models.zoo import build_model

DEGREE = 3  # of the polynomial
# All S^a T^b up to the degree, and as many pairs of lengths, which determine the coefficients.
POWERS = [(a, b) for a in range(DEGREE + 1) for b in range(DEGREE + 1 - a)]
LENGTHS = [(2 + a, 2 + b) for a, b in POWERS]  # a length of one may be a special case


@dataclass(frozen=True)
class TrainingFlops:
    """The FLOPs of training on pairs, forward and backward, as a function of their lengths."""

    coefficients: NDArray[np.float64]  # of the monomials `POWERS`

    def __call__(self, source_lengths: ArrayLike, target_lengths: ArrayLike) -> float:
        """Return the FLOPs of one epoch over pairs of these lengths in real tokens, with EOS."""
        return float((_monomials(source_lengths, target_lengths) @ self.coefficients).sum())


@functools.cache
def training_flops(
    config: SystemConfig, source_vocabulary: int, target_vocabulary: int
) -> TrainingFlops:
    """Count the FLOPs of a system in training."""
    vocabularies = source_vocabulary, target_vocabulary
    try:
        counts = _count(config, vocabularies, "meta")
    except (NotImplementedError, RuntimeError):  # the system depends on values of tensors
        counts = _count(config, vocabularies, "cpu")
    matrix = _monomials(*zip(*LENGTHS, strict=True))
    return TrainingFlops(np.linalg.solve(matrix, np.array(counts)).astype(np.float64))


def _monomials(source_lengths: ArrayLike, target_lengths: ArrayLike) -> NDArray[np.float64]:
    S, T = (np.asarray(x, dtype=np.float64) for x in (source_lengths, target_lengths))
    monomials: NDArray[np.float64] = np.stack([S**a * T**b for a, b in POWERS], axis=-1)
    return monomials


def _count(config: SystemConfig, vocabularies: tuple[int, int], device: str) -> list[int]:
    """Return the FLOPs of a pair of each of `LENGTHS`."""
    with torch.random.fork_rng(devices=[]), torch.device(device):
        model = build_model(config, *vocabularies).train()
        return [_count_pair(model, lengths) for lengths in LENGTHS]


def _count_pair(model: TranslationModel, lengths: tuple[int, int]) -> int:
    source, target = (torch.ones(1, length, dtype=torch.int64) for length in lengths)

    def train() -> None:
        memory = model.encode(source, source > 0)
        loss: Any = model.project(model.decode(target, memory)).sum()
        loss.backward()

    return count_flops(train)


def count_flops(work: Callable[[], object]) -> int:
    """Return the FLOPs that torch computes in `work`."""
    with FlopCounterMode(display=False, custom_mapping=FORMULAS) as counter:
        work()
    return int(counter.get_total_flops())

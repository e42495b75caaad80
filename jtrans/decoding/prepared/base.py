"""The contract between the search and what it searches with.

Every `TranslationModel` fulfils it. A *prepared form* is what the search uses in place of a model
whose weights are fixed: it converts and fuses the weights once, allocates its caches once per batch
and writes them in place. Its `step` equals the model's up to rounding, and its methods set their
own precision: they are called outside of autocast.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from jtrans.models.base import Memory, State, TranslationModel
from jtrans.nn.cpu.matmul_backend import mkl_for_tiny_products
from jtrans.nn.device import autocast


class Searchable(Protocol):
    """The members of a `TranslationModel` that the search uses."""

    @property
    def is_joint(self) -> bool:
        """Whether memory grows with S*T, so that batches are bounded by joint positions."""
        ...

    @property
    def longest(self) -> int | None:
        """The most tokens of a sentence on either side, ``</s>`` counted; None: no limit."""
        ...

    @property
    def device(self) -> torch.device:
        """The device that computes."""
        ...

    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Compute all that depends on the source alone, [B, S] token ids and mask."""
        ...

    def begin(self, memory: Any, beam: int) -> State:
        """Return the state of B x beam empty prefixes."""
        ...

    def step(self, token: Tensor, state: Any) -> Tensor:
        """Read one more token of each hypothesis, [N] -> [N, E]; the state advances in place."""
        ...

    def project(self, hidden: Tensor) -> Tensor:
        """Return logits, [..., E] -> [..., V]."""
        ...


def encoded(model: TranslationModel, precision: str, source: Tensor, mask: Tensor) -> Memory:
    """Return the memory that the model's own encoder computes, in bf16 if products are."""
    with autocast(model.device, "bf16" if precision == "bf16" else "fp32"):
        return model.encode(source, mask)


def backend_for(models: Sequence[Searchable]) -> contextlib.AbstractContextManager[None]:
    """Return a context for searching, in which MKL computes the tiny products of prepared forms.

    Their other products have fixed weights (`fixed_linear`). For batched products of attention
    oneDNN copies the factors first: on a processor where its large products are 2.4 times as fast
    as MKL's, Reformer-base searched in batches of 16 2.2 times as fast as the original's way with
    oneDNN, and 2.8 times with MKL (`scripts.bench.decode_joint`).
    """
    if any(isinstance(each, TranslationModel) or each.device.type != "cpu" for each in models):
        return contextlib.nullcontext()
    return mkl_for_tiny_products()

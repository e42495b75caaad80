"""The contract between a system and everything that trains, searches or analyses it.

Shapes: B sentences, N = B x beam hypotheses, S source positions, T target positions,
E features, V target vocabulary. Masks are boolean, True where a token is real; padding is on
the right. For every system and prefix, `step` repeated equals `decode`.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any, Protocol, Self

import torch
from torch import Tensor, nn

from jtrans.config import SystemConfig


@dataclass
class Memory:
    """All that depends on the source alone.

    Args:
        states: source representation, [B, S, E].
        mask: True on real source tokens, [B, S].
    """

    states: Tensor
    mask: Tensor

    def select(self, rows: Tensor) -> Memory:
        """Return the memory of the sentences `rows`, [B']."""
        return Memory(self.states.index_select(0, rows), self.mask.index_select(0, rows))


class State(Protocol):
    """What a system remembers of the prefixes of N = B x beam hypotheses."""

    def select(self, rows: Tensor) -> Self:
        """Return the state of other hypotheses.

        Args:
            rows: for each sentence that goes on, its surviving hypotheses as indices into the
                N old ones, [B', beam']. All hypotheses of a row belong to one sentence, and
                sentences keep their order.
        """
        ...


@dataclass(frozen=True)
class AttentionMap:
    """Weights that one attention gave, for looking at.

    Args:
        name: for example ``decoder.5.cross`` or ``joint.2.source``.
        axes: what each axis of `weights` after the batch is, for example
            ``("head", "target", "source")``; the last one is attended over.
        weights: [B, *axes].
    """

    name: str
    axes: tuple[str, ...]
    weights: Tensor


class TranslationModel(nn.Module, abc.ABC):
    """A translation system."""

    is_joint: bool = False  # memory grows with S*T, so batches are cut by joint positions

    def __init__(self, config: SystemConfig) -> None:
        super().__init__()
        self.config = config

    @abc.abstractmethod
    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Compute all that depends on the source alone.

        Args:
            source: token ids, [B, S].
            source_mask: True on real tokens, [B, S].
        """

    @abc.abstractmethod
    def decode(self, target: Tensor, memory: Memory) -> Tensor:
        """Return the hidden states of all target positions at once, [B, T, E].

        Args:
            target: decoder input, shifted right with ``</s>`` in front, [B, T].
            memory: what `encode` returned.
        """

    @abc.abstractmethod
    def begin(self, memory: Memory, beam: int) -> State:
        """Return the state of B x beam empty prefixes."""

    @abc.abstractmethod
    def step(self, token: Tensor, state: Any) -> Tensor:
        """Read one more token of each hypothesis, [N], and return hidden states, [N, E].

        Args:
            token: token ids, [N].
            state: what this system's `begin` returned; it is advanced in place.
        """

    @abc.abstractmethod
    def project(self, hidden: Tensor) -> Tensor:
        """Return the logits of hidden states, [..., E] -> [..., V]."""

    @abc.abstractmethod
    def explain(self, source: Tensor, target: Tensor) -> list[AttentionMap]:
        """Return every attention map of a forward pass; the model is in evaluation mode.

        Args:
            source: token ids, [B, S]; padding is id 0.
            target: decoder input, [B, T].
        """

    def parameter_count(self) -> int:
        """Count trainable numbers, shared matrices once."""
        return sum(parameter.numel() for parameter in self.parameters() if parameter.requires_grad)

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return next(self.parameters()).device

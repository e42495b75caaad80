"""A translation model small enough to enumerate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from jtrans.config import SystemConfig
from jtrans.models.base import AttentionMap, Memory, TranslationModel


@dataclass
class TinyState:
    hidden: Tensor  # [N, E]
    selections: int = 0

    def select(self, rows: Tensor) -> TinyState:
        return TinyState(self.hidden[rows.flatten()], self.selections + 1)


class TinyModel(TranslationModel):
    """Starts from the mean source vector; every token of the prefix changes the state."""

    def __init__(self, vocabulary: int, *, seed: int = 0, scale: float = 2.0) -> None:
        super().__init__(SystemConfig(system="tiny", width=6))
        generator = torch.Generator().manual_seed(seed)
        width = 6

        def table(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(*shape, generator=generator))

        self.source, self.target = table(20, width), table(vocabulary, width)
        self.mix, self.out = table(width, width), table(width, vocabulary)
        self.scale = scale
        self.rows_seen: list[int] = []

    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        return Memory(self.source[source] * source_mask[:, :, None], source_mask)

    def _start(self, memory: Memory) -> Tensor:
        return memory.states.sum(1) / memory.mask.sum(1, keepdim=True)

    def decode(self, target: Tensor, memory: Memory) -> Tensor:
        state = TinyState(self._start(memory))
        return torch.stack([self.step(token, state) for token in target.unbind(1)], dim=1)

    def begin(self, memory: Memory, beam: int) -> TinyState:
        return TinyState(self._start(memory).repeat_interleave(beam, dim=0))

    def step(self, token: Tensor, state: TinyState) -> Tensor:
        self.rows_seen.append(token.shape[0])
        state.hidden = torch.tanh(state.hidden @ self.mix + self.target[token])
        return state.hidden

    def project(self, hidden: Tensor) -> Tensor:
        return self.scale * (hidden @ self.out)

    def explain(self, source: Tensor, target: Tensor) -> list[AttentionMap]:
        return []


def pad_sources(sources: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Return ids and mask of some sentences."""
    length = max(map(len, sources))
    ids = torch.tensor([source + [0] * (length - len(source)) for source in sources])
    mask = torch.tensor([[i < len(source) for i in range(length)] for source in sources])
    return ids, mask


@pytest.fixture(scope="session")
def tiny_model() -> type[TinyModel]:
    """The class of the model."""
    return TinyModel


@pytest.fixture(scope="session")
def padded() -> Callable[[list[list[int]]], tuple[Tensor, Tensor]]:
    """Makes ids and mask of some sentences."""
    return pad_sources

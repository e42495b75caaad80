"""The two graphs of a model as modules that can be traced, and the axes of varying size.

    start : source [N, S]                                -> log p of token 1 [N, V], state
    step  : token [N], position, state                   -> log p of the next token [N, V], state

`start` encodes the source and reads ``</s>``, with which every target begins. `position` is the
number of tokens read so far. Part of the state never changes: the step only reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from jtrans.exchange.graphs.state import tensors, traceable, with_tensors
from jtrans.models.base import TranslationModel
from jtrans.nn.embedding import PADDING, InputEmbedding
from jtrans.text.vocabulary import EOS

SPECIAL_IDS = 4  # pad, </s>, unk and the unused symbol
AXES = ("sentences", "source", "target")  # what the size of an axis may depend on


@dataclass(frozen=True)
class StateTensor:
    """One tensor of the state."""

    name: str
    axes: dict[int, str]  # the axes of varying size, and which of `AXES` each depends on
    is_fixed: bool  # whether the tensor never changes after the start

    @property
    def rows(self) -> int:
        """The index of the axis of hypotheses."""
        return next(axis for axis, name in self.axes.items() if name == "sentences")


class StartGraph(nn.Module):
    """Encode the source and read ``</s>``."""

    def __init__(self, model: TranslationModel) -> None:
        super().__init__()
        self.model = model
        self.kept: list[str] | None = None  # names of the state's tensors to return; None: all

    def forward(self, source: Tensor) -> tuple[Tensor, ...]:
        """Return log-probabilities of the first token, [N, V], and the state, from ids [N, S]."""
        log_probs, state = self.begin(source)
        kept = (tensor for name, tensor in tensors(state) if not self.kept or name in self.kept)
        return (log_probs, *kept)

    def begin(self, source: Tensor) -> tuple[Tensor, Any]:
        """Return log-probabilities as `forward` does, and the state as the model's object."""
        memory = self.model.encode(source, source != PADDING)
        state = traceable(self.model.begin(memory, 1))
        first = torch.full_like(source[:, 0], EOS)
        return _log_probs(self.model, self.model.step(first, state)), state


class StepGraph(nn.Module):
    """Read one more token of every hypothesis.

    Args:
        model: the model.
        state: any state of the model after a step, for its structure.
        fixed: for each tensor of the state, whether it never changes.
    """

    def __init__(self, model: TranslationModel, state: Any, fixed: list[bool]) -> None:
        super().__init__()
        self.model = model
        self.fixed = fixed
        self._state = (state,)  # in a tuple, so that nn.Module does not register its tensors

    def forward(self, token: Tensor, position: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """Return log-probabilities of the next token, [N, V], and the tensors that changed."""
        after = with_tensors(self._state[0], iter(state), position)
        log_probs = _log_probs(self.model, self.model.step(token, after))
        # keep the input in the graph even if the model has no positions
        log_probs = log_probs + 0 * position
        named = zip(tensors(after), self.fixed, strict=True)
        return (log_probs, *(tensor for (_, tensor), is_fixed in named if not is_fixed))


def _log_probs(model: TranslationModel, hidden: Tensor) -> Tensor:
    return torch.log_softmax(model.project(hidden).float(), dim=-1)


def prepare_tables(model: TranslationModel, positions: int) -> None:
    """Compute the position tables up to the longest sentence, to be constants of the graphs."""
    for module in model.modules():
        if isinstance(module, InputEmbedding):
            module.positions(0, positions)


def example_source(sentences: int, length: int, vocabulary: int) -> Tensor:
    """Return random ids of sentences of different lengths, padded, [sentences, length]."""
    generator = torch.Generator().manual_seed(sentences * 100 + length)
    shape = (sentences, length)
    source = torch.randint(min(SPECIAL_IDS, vocabulary - 1), vocabulary, shape, generator=generator)
    source[:, -1] = EOS
    source[0, -2], source[0, -1] = EOS, PADDING
    return source


def describe_state(model: TranslationModel, vocabulary: int) -> list[StateTensor]:
    """Return the tensors of a model's state; what their sizes depend on is found by experiment."""
    start = StartGraph(model)
    base = _shapes(start, example_source(2, 5, vocabulary), 2)
    others = {
        "sentences": [_shapes(start, example_source(3, 5, vocabulary), 2)],
        "source": [_shapes(start, example_source(2, 7, vocabulary), 2)],
        # fewer and more steps: a buffer may be full after two
        "target": [_shapes(start, example_source(2, 5, vocabulary), steps) for steps in (1, 3)],
    }
    _, state = start.begin(example_source(2, 5, vocabulary))
    before = dict(tensors(state))
    model.step(torch.full((2,), EOS), state)
    fixed = {name for name, tensor in tensors(state) if tensor is before[name]}
    return [
        StateTensor(
            name,
            {
                axis: kind
                for axis, size in enumerate(shape)
                for kind in AXES
                if any(other[name][axis] != size for other in others[kind])
            },
            name in fixed,
        )
        for name, shape in base.items()
    ]


def _shapes(start: StartGraph, source: Tensor, steps: int) -> dict[str, tuple[int, ...]]:
    _, state = start.begin(source)
    for _ in range(steps - 1):
        start.model.step(torch.full((len(source),), EOS), state)
    return {name: tuple(tensor.shape) for name, tensor in tensors(state)}

"""The state of a search as a flat list of tensors, for graphs with explicit inputs and outputs.

The tensors of any state are collected in order from its dataclasses, lists and plain objects. In a
graph each sentence has one hypothesis: a beam is a larger batch, whose rows the caller selects.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from jtrans.nn.beam_cache import BeamCache, KeyValueCache


class JoinedCache(KeyValueCache):
    """A cache that concatenates new slots to the old ones, as a graph cannot write in place."""

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add slots and return all keys and all values, [B, ..., H, slots, D]."""
        if self._held:
            keys, values = self._held
            k, v = torch.cat((keys, k), dim=-2), torch.cat((values, v), dim=-2)
        self._held = [k, v]
        return k, v


@dataclass
class OneHypothesis:
    """A `BeamCache` with one hypothesis per sentence, which owns every slot."""

    layers: list[KeyValueCache]  # one `JoinedCache` per layer
    length: Any  # positions read so far: an integer, or a tensor if it is an input of a graph

    beam = 1

    def advance(self) -> None:
        """Count one more position; all slots stay visible."""
        self.length = self.length + 1


def _joined(kind: type[KeyValueCache]) -> type[JoinedCache]:
    return type(f"Joined{kind.__name__}", (JoinedCache, kind), {})


def traceable(state: Any) -> Any:
    """Return a copy of a state, as `begin` returns it, whose caches can be traced."""
    if isinstance(state, BeamCache):
        layers = []
        for cache in state.layers:
            layer = copy.copy(cache)
            layer.__class__ = _joined(type(cache))
            layers.append(layer)
        return OneHypothesis(layers, state.length)
    if isinstance(state, Tensor) or not hasattr(state, "__dict__"):
        return state
    changed = copy.copy(state)
    for name, value in vars(state).items():
        setattr(changed, name, traceable(value))
    return changed


def tensors(state: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Tensor]]:
    """Yield the name and the tensor of each tensor in a state, always in the same order."""
    if isinstance(state, Tensor):
        yield ".".join(path), state
    else:
        for name, value in _parts(state):
            if name != "length":  # an input of its own, `position`
                yield from tensors(value, (*path, name.strip("_")))


def with_tensors(state: Any, values: Iterator[Tensor], length: Tensor) -> Any:
    """Return a copy of a state with other tensors, in the order of `tensors`, and length."""
    if isinstance(state, Tensor):
        return next(values)
    if isinstance(state, (list, tuple)):
        changed = [with_tensors(part, values, length) for part in state]
        return state._make(changed) if hasattr(state, "_make") else type(state)(changed)
    parts = [*_parts(state)]
    if not parts:
        return state
    changed = copy.copy(state)
    for name, value in parts:
        setattr(changed, name, length if name == "length" else with_tensors(value, values, length))
    return changed


def _parts(state: Any) -> list[tuple[str, Any]]:
    if isinstance(state, (list, tuple)):
        return [(str(number), part) for number, part in enumerate(state)]
    return [*vars(state).items()] if hasattr(state, "__dict__") else []

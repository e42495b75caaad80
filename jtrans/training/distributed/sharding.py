"""Shard weights, gradients and the optimiser's state over ranks: torch's FSDP2.

Each layer of a model is one part, and everything outside layers is another. A part's weights are
gathered from all ranks when a micro-batch reaches it, forward and backward, and freed afterwards;
its gradient is summed and cut into shards as soon as it is complete. So all ranks must do equally
many passes (`deal_evenly`), and none can repeat one alone.
"""

from __future__ import annotations

import contextlib
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from jtrans.nn.layer import Layer

Value = TypeVar("Value")


class Sharding:
    """Shards the weights of a model over ranks, each on its own device.

    Args:
        model: whole, on any device; its optimiser must be made afterwards.
        device: of this rank.
        count: how many ranks there are.
    """

    def __init__(self, model: nn.Module, device: torch.device, count: int) -> None:
        # this concerns projections that are parts: nothing changes their results in place
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view")
        mesh = init_device_mesh(device.type, (count,))
        parts: list[nn.Module] = []
        for layer in _layers(model):
            _compute_within_hooks(layer)
            parts += [*layer.called_outside, layer]
        self._parts = [fully_shard(part, mesh=mesh) for part in parts]
        self._root = _Root(model)
        self._everything = [fully_shard(self._root, mesh=mesh), *self._parts]
        for sharded in self._everything:
            # the loss is divided by the tokens of the whole update already: sums, not means
            sharded.set_gradient_divide_factor(1.0)
            sharded.set_force_sum_reduction_for_comms(True)

    def run(self, compute: Callable[[], Value]) -> Value:
        """Run a forward pass and return its result; weights outside layers are whole meanwhile."""
        return self._root(compute)  # type: ignore[no-any-return]

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Gather all weights on every rank within the block, so that ranks may work differently."""
        self.run(lambda: None)  # torch takes what runs first for the root
        for part in self._parts:
            part.set_reshard_after_forward(False, recurse=False)
        for part in self._everything:
            part.unshard()
        try:
            yield
        finally:
            for part in self._everything:
                part.reshard()
            for part in self._parts:
                part.set_reshard_after_forward(True, recurse=False)


class _Root(nn.Module):
    """The model as one module for torch, as a forward pass calls several of its methods."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, compute: Callable[[], Any]) -> Any:
        return compute()


def _layers(model: nn.Module) -> list[Layer]:
    """Return the layers of a model that can be parts, and share no weight with anything else."""
    layers = _outermost(model)
    inside = {id(module) for layer in layers for module in layer.modules()}
    uses: Counter[int] = Counter()
    for layer in layers:
        uses.update({id(parameter) for parameter in layer.parameters()})
    for module in model.modules():
        if id(module) not in inside:
            uses.update(id(parameter) for parameter in module.parameters(recurse=False))
    return [
        layer
        for layer in layers
        if layer.is_shardable
        and (weights := [*layer.parameters()])
        and all(uses[id(parameter)] == 1 for parameter in weights)
    ]


def _outermost(module: nn.Module) -> list[Layer]:
    if isinstance(module, Layer):
        return [module]
    nested = (layer for child in module.children() for layer in _outermost(child))
    return [*{id(layer): layer for layer in nested}.values()]


def _compute_within_hooks(layer: Layer) -> None:
    """Run the compiled form of a layer within torch's hooks, where its weights are whole."""
    if layer.compiled is None:
        return
    plain, compiled = layer.forward, layer.compiled

    def forward(*inputs: Any, **options: Any) -> Any:
        is_training = layer.training and torch.is_grad_enabled()
        return (compiled if is_training else plain)(*inputs, **options)

    layer.forward = forward
    layer.compiled = None

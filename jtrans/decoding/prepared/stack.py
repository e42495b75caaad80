"""How layers follow each other in a prepared stack: one by one, or combined (DLCL)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from jtrans.nn.combination import LayerCombination

Layer = Callable[[int, Tensor], Tensor]  # computes layer n for its input, [..., E]
Stack = Callable[[Tensor, Layer], Tensor]  # runs all layers on x, [..., E]


class Norm:
    """A layer norm as one operation."""

    def __init__(self, module: nn.LayerNorm) -> None:
        self.weight, self.bias = module.weight.detach(), module.bias.detach()
        self.shape, self.eps = list(module.normalized_shape), module.eps

    def __call__(self, x: Tensor) -> Tensor:
        """Return LN(x)."""
        return torch.layer_norm(x, self.shape, self.weight, self.bias, self.eps)


def stack_of(module: nn.Module) -> Stack:
    """Prepare the `stack` of an encoder or decoder."""
    return CombinedStack(module) if isinstance(module, LayerCombination) else module


class CombinedStack:
    """Each layer reads a combination of all earlier ones, computed as one product."""

    def __init__(self, module: LayerCombination) -> None:
        self.pre_norm = module.pre_norm
        count = len(module.norms)
        self.rows = [module.row(k).detach()[None].contiguous() for k in range(count + 1)]
        self.norms = [Norm(norm) for norm in module.norms]  # type: ignore[arg-type]

    def __call__(self, x: Tensor, layer: Layer) -> Tensor:
        """Run the stack on x, [..., E]."""
        shape = x.shape
        history = x.new_empty(len(self.rows), x.numel())  # each flat
        history[0] = x.flatten()
        x = x * self.rows[0]
        for n, norm in enumerate(self.norms, 1):
            y = layer(n - 1, x)
            history[n] = (norm(y) if self.pre_norm else y).flatten()
            x = torch.mm(self.rows[n], history[: n + 1]).view(shape)
            x = x if self.pre_norm else norm(x)
        return x

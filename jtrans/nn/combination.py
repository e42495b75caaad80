"""The dynamic linear combination of layers, DLCL (docs/systems.md 5.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn


class LayerCombination(nn.Module):
    """Combine the outputs of all earlier layers into the input of the next.

    With y_0 the embedded input and y_m the output of layer m, layer k+1 reads

        pre-norm :  x_{k+1} = sum_{m=0..k} W[k,m] n_m,     n_0 = y_0,  n_m = LN_m(y_m)
        post-norm:  x_{k+1} = LN_k( sum_{m=0..k} W[k,m] y_m ),    x_1 = W[0,0] y_0

    and x_{L+1} is the output of the stack. W is lower triangular, with rows 0..L; its weights may
    be negative and need not sum to 1.

    Args:
        layers: number of layers, L.
        width: E.
        pre_norm: whether the layers are pre-norm.
        initial: initial weights W[k,m], 1/(k+1) for "average", 1 for "one".
    """

    def __init__(
        self, layers: int, width: int, *, pre_norm: bool, initial: Literal["average", "one"]
    ) -> None:
        super().__init__()
        self.pre_norm = pre_norm
        rows = [
            torch.full((k + 1,), 1.0 / (k + 1) if initial == "average" else 1.0)
            for k in range(layers + 1)
        ]
        self.weights = nn.Parameter(torch.cat(rows))  # the rows one after another
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))

    def row(self, k: int) -> Tensor:
        """Return the weights of y_0 to y_k in row k, [k + 1]."""
        return self.weights[k * (k + 1) // 2 : (k + 1) * (k + 2) // 2]

    def table(self) -> Tensor:
        """Return W with zeros above the diagonal, [L + 1, L + 1]."""
        L = len(self.norms)
        rows = [nn.functional.pad(self.row(k), (0, L - k)) for k in range(L + 1)]
        return torch.stack(rows).detach()

    def forward(self, x: Tensor, layers: Callable[[int, Tensor], Tensor]) -> Tensor:
        """Run a stack of layers, each on the combination of all outputs before it.

        Args:
            x: y_0, [..., E].
            layers: returns the output of layer n, given n, counted from 0, and its input, [..., E].

        Returns:
            x_{L+1}, [..., E].
        """
        history = [x]
        x = self._combine(history)
        for n, norm in enumerate(self.norms):
            y = layers(n, x)
            history.append(norm(y) if self.pre_norm else y)
            x = self._combine(history)
            x = x if self.pre_norm else norm(x)
        return x

    def _combine(self, history: list[Tensor]) -> Tensor:
        first, *others = zip(self.row(len(history) - 1), history, strict=True)
        total: Tensor = first[0].to(first[1].dtype) * first[1]
        for weight, y in others:
            total = torch.addcmul(total, weight.to(total.dtype), y)
        return total

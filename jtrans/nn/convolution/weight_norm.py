"""Linear layers with weight normalisation (Salimans and Kingma 2016; docs/systems.md 9.1).

    W = g v / ||v||                   one length g per output, its direction the row v

The direction and the length of a weight vector are learned separately, which keeps the variance of
a layer's outputs where the initialisation put it: there is no other normalisation in ConvS2S.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jtrans.nn.cpu.blocks import product_dtype


@dataclass(frozen=True)
class PreparedWeight:
    """A normalised weight, and the parameters, with their versions, that it was computed from."""

    sources: tuple[Tensor, ...]  # views of the parameters, so that their memory is not reused
    versions: tuple[int, ...]  # counts of in-place changes
    weight: Tensor

    def is_of(self, parameters: tuple[Tensor, ...], dtype: torch.dtype) -> bool:
        """Return whether it has this type, and its parameters were neither replaced nor changed."""
        return (
            self.weight.dtype == dtype
            and all(
                old.data_ptr() == new.data_ptr() and old.dtype == new.dtype
                for old, new in zip(self.sources, parameters, strict=True)
            )
            and self.versions == tuple(parameter._version for parameter in parameters)
        )


class WeightNormLinear(nn.Module):
    """A linear layer with bias whose weight is ``g v / ||v||``, [..., inputs] -> [..., outputs].

    With gradients the weight is computed at every call, once per micro-batch and layer, which costs
    little beside the product. Without gradients it is kept until the parameters change: a search
    normalises once, not at every step.

    Args:
        inputs: input features.
        outputs: output features.
        variance: the initial variance of the outputs for inputs of variance 1.
    """

    def __init__(self, inputs: int, outputs: int, *, variance: float = 1.0) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.randn(outputs, inputs) * (variance / inputs) ** 0.5)
        self.length = nn.Parameter(torch.linalg.vector_norm(self.direction.detach(), dim=1))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self._prepared: PreparedWeight | None = None

    def weight(self) -> Tensor:
        """Return ``g v / ||v||``, [outputs, inputs]."""
        if torch.compiler.is_compiling() or torch.is_grad_enabled():
            self._prepared = None  # training needs its memory
            return self._normalised()
        parameters = (self.direction, self.length)
        if any(parameter.is_inference() for parameter in parameters):
            return self._normalised()  # such parameters have no version to compare
        dtype = product_dtype(self.direction)
        if self._prepared is None or not self._prepared.is_of(parameters, dtype):
            self._prepared = PreparedWeight(
                tuple(parameter.detach() for parameter in parameters),
                tuple(parameter._version for parameter in parameters),
                self._normalised().to(dtype),
            )
        return self._prepared.weight

    def forward(self, x: Tensor) -> Tensor:
        """Map features, [..., inputs] -> [..., outputs]."""
        return F.linear(x, self.weight(), self.bias)

    def extra_repr(self) -> str:
        """Describe the sizes."""
        outputs, inputs = self.direction.shape
        return f"inputs={inputs}, outputs={outputs}"

    def _normalised(self) -> Tensor:
        # torch's own fused form, a third of the time of the plain one, forward and backward
        weight: Tensor = torch._weight_norm(self.direction, self.length[:, None], 0)
        return weight

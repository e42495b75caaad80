"""Find the first module of a model that reads or computes a number that is not finite."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from jtrans.nn.layer import Layer


class FirstFault:
    """Notes the first module whose input or output is not finite, while it is `watching`."""

    def __init__(self) -> None:
        # the module, such as ``decoder.layers.2.ffn``; None as long as all is finite
        self.place: str | None = None

    @contextlib.contextmanager
    def watching(self, model: nn.Module) -> Iterator[None]:
        """Check the inputs and outputs of all modules; compiled layers run uncompiled.

        This makes a GPU wait at every module.
        """
        compiled = [(each, each.compiled) for each in model.modules() if isinstance(each, Layer)]
        for layer, _ in compiled:
            layer.compiled = None  # compiled code calls no hooks
        # nor does a loss that is computed directly from the weights of the output
        model.__dict__["output_weights"] = lambda: None
        handles = []
        for name, module in model.named_modules():
            if name:
                enter = functools.partial(self._enter, name)
                leave = functools.partial(self._leave, name)
                handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
                handles.append(module.register_forward_hook(leave))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
            del model.__dict__["output_weights"]
            for layer, function in compiled:
                layer.compiled = function

    def _enter(self, name: str, _: nn.Module, inputs: Any, options: Any) -> None:
        # a bias of masked positions may be -inf
        if self.place is None and any(
            bool((each.isnan() | each.isposinf()).any()) for each in tensors(inputs, options)
        ):
            self.place = f"the input of {name}"

    def _leave(self, name: str, _: nn.Module, __: Any, output: Any) -> None:
        if self.place is None and not all_finite(tensors(output)):
            self.place = name


def all_finite(values: Iterator[Tensor]) -> bool:
    """Return whether all numbers of some tensors are finite; this makes a GPU wait."""
    return all(bool(value.isfinite().all()) for value in values)


def gradient_fault(model: nn.Module) -> str | None:
    """Return the parameter nearest to the loss whose gradient is not finite."""
    for name, parameter in reversed(list(model.named_parameters())):
        if parameter.grad is not None and not all_finite(tensors(parameter.grad)):
            return f"the gradient of {name}"
    return None


def tensors(*values: Any) -> Iterator[Tensor]:
    """Yield all tensors of floating-point numbers in nested values."""
    for value in values:
        if isinstance(value, Tensor):
            if value.is_floating_point():
                yield value.detach()
        elif isinstance(value, dict):
            yield from tensors(*value.values())
        elif isinstance(value, list | tuple):
            yield from tensors(*value)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            yield from tensors(*vars(value).values())

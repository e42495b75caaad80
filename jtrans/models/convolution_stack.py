"""Stacks of convolutions as recipes write them: ``9 x (512, 3), 4 x (1024, 3), 2 x (2048, 1)``.

Each pair of brackets holds the channels of a layer, its kernel and, optionally, the state that is
added to its output: 1, the default, is its own input, 2 the input of the layer before it, and so
on; 0 adds none. A list such as ``[[512, 3], [512, 3, 2]]`` means the same.
"""

from __future__ import annotations

import itertools
import re
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator

DEEPEST = 256  # layers; the published stacks have up to 15
_EXAMPLE = "such as '4 x (256, 3)': layers x (channels, kernel)"
_NUMBER = r"\s*(\d{1,9})\s*"
_GROUP = re.compile(
    rf"\s*(?:(\d{{1,9}})\s*[x*]\s*)?\({_NUMBER},{_NUMBER}(?:,{_NUMBER})?\)\s*(?:,|$)"
)


class ConvolutionSizes(NamedTuple):
    """The sizes of one layer."""

    channels: int
    kernel: int
    residual: int = 1  # how far back the state lies that is added to its output; 0: none

    def __str__(self) -> str:
        """Return the sizes in brackets."""
        sizes = self if self.residual != 1 else self[:2]
        return f"({', '.join(map(str, sizes))})"


def read_stack(text: str) -> tuple[ConvolutionSizes, ...]:
    """Return the layers of a stack.

    Raises:
        ValueError: it cannot be read, or has no layers.
    """
    layers: list[ConvolutionSizes] = []
    place = 0
    while place < len(text):
        group = _GROUP.match(text, place)
        if group is None:
            raise ValueError(f"cannot read the layers {text!r} from {text[place:]!r}; {_EXAMPLE}")
        count = int(group[1] or 1)
        if len(layers) + count > DEEPEST:
            raise ValueError(f"{text!r} has more than {DEEPEST} layers")
        sizes = [int(size) for size in group.groups()[1:] if size is not None]
        layers += [ConvolutionSizes(*sizes)] * count
        place = group.end()
    return _checked(layers)


def _checked(layers: list[ConvolutionSizes]) -> tuple[ConvolutionSizes, ...]:
    if not layers:
        raise ValueError(f"a stack needs at least one layer, {_EXAMPLE}")
    for number, layer in enumerate(layers, start=1):
        if not layer.channels or not layer.kernel:
            raise ValueError(f"layer {number}, {layer}: channels and kernel must be at least 1")
        if layer.residual > number:
            raise ValueError(
                f"layer {number}, {layer}: residual {layer.residual} lies before the first state; "
                f"at most {number}, or 0 for none"
            )
    return tuple(layers)


def _as_text(value: Any) -> str:
    """Return the shortest text of a stack that is given as text or as a list."""
    if isinstance(value, str):
        layers = read_stack(value)
    elif isinstance(value, (list, tuple)):
        layers = read_stack(", ".join(_group(sizes) for sizes in value))
    else:
        raise ValueError(f"{value!r} is not a stack of layers, {_EXAMPLE}")
    groups = [(sizes, len(list(equal))) for sizes, equal in itertools.groupby(layers)]
    return ", ".join(f"{count} x {sizes}" if count > 1 else f"{sizes}" for sizes, count in groups)


def _group(sizes: Any) -> str:
    if (
        not isinstance(sizes, (list, tuple))
        or len(sizes) not in (2, 3)
        or not all(type(size) is int and size >= 0 for size in sizes)
    ):
        raise ValueError(
            f"{sizes!r} is not a layer: [channels, kernel] or [channels, kernel, residual]"
        )
    return f"({', '.join(map(str, sizes))})"


ConvolutionStack = Annotated[str, BeforeValidator(_as_text)]

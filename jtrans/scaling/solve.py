"""From the gradients of depth and width to larger sizes: Eq. 11 of Li et al. 2020.

Depth l and ratio w = F/E of a network grow along the gradient of its performance until the layers
have `ratio` times as many parameters. docs/systems.md 4 derives the quadratic equation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jtrans.errors import ConfigError

LEAST_WIDTH = 0.5  # the lowest F/E: a narrower FFN would only be a bottleneck
MOST_RATIO = 1000.0
MOST_STEP = 1000
ROUNDING = 1e-9  # nats: losses that differ by less are taken as equal


@dataclass(frozen=True)
class StackSize:
    """A stack of layers: (`attention` + `ffn` w) E^2 parameters each (docs/systems.md 4.1)."""

    layers: int
    attention: float
    ffn: float


def joint_layers(layers: int) -> StackSize:
    """Return the stack of the paper: P(l, w) = 2l (4 + 2w), Eq. 8."""
    return StackSize(layers, attention=8.0, ffn=4.0)


@dataclass(frozen=True)
class Gradients:
    """The fall of the validation loss, in nats, per unit of depth and of F/E."""

    depth: float
    width: float

    @classmethod
    def from_losses(cls, base: float, deeper: float, wider: float, *, step: int = 1) -> Gradients:
        """Return the differences of Eq. 10.

        Args:
            base: validation loss of the base model, in nats per token.
            deeper: that of the model with `step` more layers in every stack.
            wider: that of the model with F larger by `step` E.
            step: the paper's epsilon.

        Raises:
            ConfigError: a loss below 0 or not finite, or a step below 1.
        """
        for name, loss in (("base", base), ("deeper", deeper), ("wider", wider)):
            if not 0 <= loss < math.inf:
                raise ConfigError(
                    f"the loss of the {name} model is {loss}",
                    hint="give validation losses, in nats per token; they are at least 0",
                    kind="scaling.loss",
                )
        check_step(step)
        saved = [base - larger for larger in (deeper, wider)]
        return cls(*(each / step if abs(each) > ROUNDING else 0.0 for each in saved))


@dataclass(frozen=True)
class Scaling:
    """The solution of Eq. 11: how far to go along the gradients."""

    stacks: tuple[StackSize, ...]  # of the base model
    width_ratio: float  # its F/E
    gradients: Gradients  # that decide the direction
    target: float  # the factor by which the parameters of the layers must grow
    step_size: float  # alpha: alpha times the gradients are the exact increments

    @property
    def exact_layers(self) -> float:
        """The exact number of layers to add to every stack."""
        return self.step_size * self.gradients.depth

    @property
    def exact_width(self) -> float:
        """The exact number to add to F/E."""
        return self.step_size * self.gradients.width

    @property
    def more_layers(self) -> int:
        """The number of layers to add, rounded."""
        return math.floor(self.exact_layers + 0.5)

    @property
    def more_width(self) -> int:
        """The number to add to F/E, rounded."""
        return math.floor(self.exact_width + 0.5)

    @property
    def realised(self) -> float:
        """The ratio of parameters after rounding."""
        return self._ratio(self.more_layers, self.more_width)

    @property
    def changes_nothing(self) -> bool:
        """Whether rounding leaves the base model as it is."""
        return not (self.more_layers or self.more_width)

    @property
    def too_small(self) -> str:
        """A warning that the ratio changes nothing, with the smallest ratio that does."""
        step = 0.5 / max(self.gradients.depth, self.gradients.width)  # 1/2 is rounded up
        least = math.floor(100.0 * self.ratio_at(step) + 1.0) / 100.0
        is_possible = _changes_network(self.stacks, self.width_ratio, self.gradients, least)
        return (
            f"a ratio of {self.target:g} is too small for one more layer or a wider FFN: the base "
            f"model stays as it is{f'; --ratio {least:g} changes it' if is_possible else ''}"
        )

    def ratio_at(self, step_size: float) -> float:
        """Return the ratio of parameters at another step size along the same direction."""
        return self._ratio(step_size * self.gradients.depth, step_size * self.gradients.width)

    def _ratio(self, layers: float, width: float) -> float:
        base = layer_parameters(self.stacks, self.width_ratio)
        return layer_parameters(self.stacks, self.width_ratio + width, layers) / base

    def to_json(self) -> dict[str, Any]:
        """Return the solution as plain values."""
        return {
            "gradients": {"depth": self.gradients.depth, "width": self.gradients.width},
            "step_size": self.step_size,
            "base": {"layers": [each.layers for each in self.stacks], "width": self.width_ratio},
            "exact": {"layers": self.exact_layers, "width": self.exact_width},
            "rounded": {"layers": self.more_layers, "width": self.more_width},
            "ratio": {"target": self.target, "realised": self.realised},
        }


def check_step(step: int) -> None:
    """Refuse a step that makes the larger models no larger, or an absurd one.

    Raises:
        ConfigError: the step is below 1 or above `MOST_STEP`.
    """
    if not 1 <= step <= MOST_STEP:
        raise ConfigError(
            "the step is below 1" if step < 1 else f"the step is above {MOST_STEP:,}",
            where="--step",
            hint="--step 1 adds one layer, and E to F",
            kind="scaling.step",
        )


def check_ratio(ratio: float) -> None:
    """Refuse a ratio that removes parameters, or an absurd one.

    Raises:
        ConfigError: the ratio is below 1 or above `MOST_RATIO`.
    """
    if not 1.0 <= ratio <= MOST_RATIO:
        limit = f"above {MOST_RATIO:,.0f}" if ratio > 1.0 else "below 1: scaling adds parameters"
        if math.isnan(ratio):
            limit = "not a number"
        raise ConfigError(
            f"the ratio {ratio:g} is {limit}",
            where="--ratio",
            hint="--ratio 2 doubles the parameters of the layers",
            kind="scaling.ratio",
        )


def layer_parameters(
    stacks: Sequence[StackSize], width_ratio: float, more_layers: float = 0.0
) -> float:
    """Return P of Eq. 8: the parameters of all layers, in units of E^2.

    Args:
        stacks: the stacks of layers.
        width_ratio: w = F/E.
        more_layers: added to every stack.
    """
    return sum(
        (stack.layers + more_layers) * (stack.attention + stack.ffn * width_ratio)
        for stack in stacks
    )


def solve(
    stacks: Sequence[StackSize], width_ratio: float, gradients: Gradients, ratio: float
) -> Scaling:
    """Solve Eq. 11 exactly: the smallest step along the gradients that reaches the ratio.

    Args:
        stacks: the stacks of the base model.
        width_ratio: F/E of the base model.
        gradients: of depth and width; only their direction matters.
        ratio: beta, the factor of the parameters of the layers.

    Raises:
        ConfigError: a ratio below 1, gradients without a direction in which the network may grow,
            or a direction in which the ratio is never reached.
    """
    check_ratio(ratio)
    scale = max(gradients.depth, gradients.width)
    if not scale > 0.0:
        raise ConfigError(
            "the losses give no direction: neither gradient is above 0 "
            f"({gradients.depth:.5g} of depth, {gradients.width:.5g} of width), so a larger model "
            "is no better",
            hint="train longer, with more seeds, or from a smaller base model",
            kind="scaling.no-direction",
        )
    depth, width = gradients.depth / scale, gradients.width / scale
    ffn = sum(stack.ffn for stack in stacks)
    one_more = sum(stack.attention + stack.ffn * width_ratio for stack in stacks)
    a = depth * width * ffn
    b = depth * one_more + width * sum(stack.layers * stack.ffn for stack in stacks)
    c = layer_parameters(stacks, width_ratio) * (1.0 - ratio)
    square = b * b - 4.0 * a * c
    if c and (b <= 0.0 or square < 0.0):
        most = 1.0 - b * b / (4.0 * a * (c / (1.0 - ratio))) if b > 0.0 else 1.0
        lower = math.floor(1e4 * most) / 1e4
        is_possible = lower < ratio and _changes_network(stacks, width_ratio, gradients, lower)
        raise _unreachable(gradients, ratio, lower, is_possible)
    # the smaller root if there are two, without the usual formula's loss of digits for a small a
    step_size = -2.0 * c / (b + math.sqrt(square)) / scale if c else 0.0
    scaling = Scaling(tuple(stacks), width_ratio, gradients, ratio, step_size)
    fewest = min(stack.layers for stack in stacks) + scaling.more_layers
    least = width_ratio + scaling.more_width
    is_no_larger = not scaling.changes_nothing and scaling.realised < 1.0 + ROUNDING
    is_too_narrow = scaling.more_width < 0 and least < LEAST_WIDTH  # and becomes narrower
    if fewest < 1 or is_too_narrow or is_no_larger:
        raise _uncertain(
            f"{ratio:g} times the parameters in the direction of the gradients are a network of "
            f"{fewest} layers and F/E = {least:g}"
            + (", no larger than the base model" if is_no_larger else ""),
            gradients,
        )
    return scaling


def _changes_network(
    stacks: Sequence[StackSize], width_ratio: float, gradients: Gradients, ratio: float
) -> bool:
    """Return whether another ratio, in the direction of the gradients, gives other sizes."""
    try:
        return ratio > 1.0 and not solve(stacks, width_ratio, gradients, ratio).changes_nothing
    except ConfigError:
        return False


def _unreachable(gradients: Gradients, ratio: float, most: float, is_possible: bool) -> ConfigError:
    """Return the error for a ratio that is not reached; offer `most` if it leads to a network."""
    reached = f"at most {most:.8g} times" if most > 1.0 else "they only shrink"
    return _uncertain(
        f"the parameters never grow {ratio:.8g} times in the direction of the gradients: {reached}",
        gradients,
        f"; or --ratio {most:.8g}" if is_possible else "",
    )


def _uncertain(message: str, gradients: Gradients, alternative: str = "") -> ConfigError:
    """Return the error for a direction in which one of the gradients shrinks the network."""
    hint = (
        "begin with a smaller base model, or train longer or with more seeds (jtrans scale RECIPE "
        "--seeds 1,2,3), so that the gradients are certain"
    )
    return ConfigError(
        f"{message} ({gradients.depth:g} of depth, {gradients.width:g} of width)",
        where="--ratio",
        hint=f"{hint}{alternative}",
        kind="scaling.no-solution",
    )

"""The picture of a scaling: gradients with their spread, and parameters along the gradients."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtrans.analysis.output.fonts import DEFAULT, drawing_style
from jtrans.analysis.output.plots import GREY, INK, STYLE, save
from jtrans.analysis.output.scales import colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from jtrans.scaling.result import ScalingResult

POINTS = 60  # points of the curve
BEYOND = 1.25  # the end of the curve, in multiples of the solution
WIDTH, HEIGHT = 7.6, 3.1  # inches


def draw(result: ScalingResult, stem: Path) -> list[Path]:
    """Draw gradients and curve as SVG and PNG; return the files."""
    from matplotlib.figure import Figure

    with drawing_style(STYLE, [DEFAULT]):
        canvas = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        left, right = canvas.subplots(1, 2, width_ratios=[2, 3])
        _gradients(left, result)
        _curve(right, result)
        return save(canvas, stem, dots=200)


def _gradients(axes: Axes, result: ScalingResult) -> None:
    """Draw the gradient of every seed, and their mean with its 95 % interval."""
    names = ("depth", "width F/E")
    for place, spread in enumerate((result.depth, result.width)):
        ink = colour(place)
        if len(spread.values) > 1:
            xs = [place - 0.12] * len(spread.values)
            axes.plot(xs, spread.values, "o", color=ink, alpha=0.45, markersize=4)
        half = spread.half_interval
        if half is not None:
            ends = [spread.mean - half, spread.mean + half]
            axes.plot([place] * 2, ends, color=ink, linewidth=1.6)
        axes.plot([place], [spread.mean], "D", color=ink, markersize=6)
        axes.annotate(
            f"{spread.mean:.4f}",
            (place, spread.mean),
            (9, -3),
            textcoords="offset points",
            bbox={"color": "white", "pad": 1.0},  # readable on the zero line
        )
    axes.axhline(0.0, color=GREY, linewidth=0.8, zorder=0)
    axes.set_xticks(range(len(names)), names)
    axes.set_xlim(-0.5, 1.8)
    axes.set_ylabel("validation loss saved per unit, nats")
    axes.set_title("Gradients", color=INK)


def _curve(axes: Axes, result: ScalingResult) -> None:
    """Draw the parameters along the direction, and the solution and the rounded ratio."""
    scaling = result.scaling
    last = BEYOND * scaling.step_size
    steps = [last * number / POINTS for number in range(POINTS + 1)]
    axes.plot(steps, [scaling.ratio_at(step) for step in steps], color=colour(0))
    asked = f"asked for: {scaling.target:.2f}"
    axes.axhline(scaling.target, color=GREY, linewidth=0.8, linestyle="--", label=asked)
    exact = f"exact: {scaling.exact_layers:+.2f} in layers, {scaling.exact_width:+.2f} in F/E"
    rounded = f"rounded: {scaling.more_layers:+d} in layers, {scaling.more_width:+d} in F/E"
    mark: Any = {"color": colour(0), "linestyle": "", "marker": "o", "markersize": 6}
    axes.plot([scaling.step_size], [scaling.target], label=exact, **mark)
    # a line, as no step along the gradients gives exactly the rounded sizes
    axes.axhline(scaling.realised, color=colour(1), linewidth=1.2, linestyle="-.", label=rounded)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.45 * (high - low))  # the legend is above all lines
    axes.legend(loc="upper left", frameon=False, fontsize=8, handletextpad=0.5)
    axes.set_xlabel("step size a along the gradients")
    axes.set_ylabel("parameters of the layers / base")
    axes.set_title("Parameters along the gradients", color=INK)

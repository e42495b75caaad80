"""`jtrans scale`: from a base model to a larger one, by the gradients of depth and width."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtrans.cli import console
from jtrans.cli.options import JSON, option
from jtrans.errors import usage_error

if TYPE_CHECKING:
    from jtrans.scaling.solve import Scaling

LOSSES = "Given losses"


def scale(
    from_losses: tuple[float, float, float] | None = option(
        "Validation losses, in nats per token.", "BASE DEEPER WIDER", panel=LOSSES
    ),
    layers: int | None = option("Layers of the base model.", panel=LOSSES, min=1),
    width_ratio: float | None = option("F/E of the base model.", panel=LOSSES),
    ratio: float = option("Factor of the parameters of the layers.", default=2.0),
    step: int = option("Layers, and multiples of E in F, that were added.", default=1),
    as_json: bool = JSON,
) -> None:
    """Scale a model by the gradients of its validation loss (Li et al. 2020, Eq. 11).

    [bold]Examples[/bold]

      jtrans scale --from-losses 1.60 1.58937 1.58931 --layers 5 --width-ratio 4

      jtrans scale --from-losses 1.60 1.58 1.59 --layers 6 --width-ratio 4 --ratio 3 --json
    """
    from jtrans.scaling.solve import Gradients, joint_layers, solve

    if from_losses is None or layers is None or width_ratio is None:
        raise usage_error(
            "give --from-losses with --layers and --width-ratio",
            "jtrans scale --from-losses 1.60 1.58937 1.58931 --layers 5 --width-ratio 4",
        )
    if not width_ratio > 0.0:
        raise usage_error(
            f"the ratio F/E is {width_ratio:g}", "--width-ratio 4", where="--width-ratio"
        )
    gradients = Gradients.from_losses(*from_losses, step=step)
    scaling = solve([joint_layers(layers)], width_ratio, gradients, ratio)
    if as_json:
        console.print_json(scaling.to_json())
    else:
        print_scaling(scaling, {"layers": layers})


def print_scaling(scaling: Scaling, layers: dict[str, int]) -> None:
    """Print the sizes before and after, exact and rounded.

    Args:
        scaling: the solution.
        layers: of the base model, by the name of the stack.
    """
    rows = [
        [
            name,
            f"{count}",
            f"{count + scaling.exact_layers:.3f}",
            f"{count + scaling.more_layers}",
            f"{scaling.more_layers:+d}",
        ]
        for name, count in layers.items()
    ]
    width = scaling.width_ratio
    rows += [
        [
            "F / E",
            f"{width:g}",
            f"{width + scaling.exact_width:.3f}",
            f"{width + scaling.more_width:g}",
            f"{100 * scaling.more_width / width:+.0f} % of F",
        ],
        ["parameters of the layers", "1", f"{scaling.target:.3f}", f"{scaling.realised:.3f}", ""],
    ]
    head = ["", "base", "exact", "scaled", "change"]
    console.print_table(head, rows, right=head[1:])
    depth, wide = scaling.gradients.depth, scaling.gradients.width
    print(f"gradients {depth:.5f} of depth, {wide:.5f} of width; step size {scaling.step_size:.2f}")
    if scaling.changes_nothing:
        console.warn(
            f"a ratio of {scaling.target:g} is too small for one more layer or a wider FFN: the "
            "base model stays as it is"
        )

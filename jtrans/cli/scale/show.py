"""The sizes of a base and of a scaled model, as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from jtrans.cli.tables import print_table

if TYPE_CHECKING:
    from jtrans.scaling.solve import Scaling


def print_scaling(scaling: Scaling, layers: Mapping[str, int]) -> None:
    """Print the sizes before and after, exact and rounded; `layers` are those of each stack."""
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
    print_table(head, rows, right=head[1:])
    depth, wide = scaling.gradients.depth, scaling.gradients.width
    print(f"gradients {depth:.5g} of depth, {wide:.5g} of width; step size {scaling.step_size:.5g}")

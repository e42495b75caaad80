"""Scaling from given losses: nothing is trained; only the scaled recipe may be written."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from jtrans.cli import console
from jtrans.cli.scale.show import print_scaling
from jtrans.errors import usage_error

if TYPE_CHECKING:
    from jtrans.config import Config
    from jtrans.scaling.solve import Scaling

Losses = tuple[float, float, float]  # of the base, the deeper and the wider model
MOST_WIDTH = 1000.0  # F/E of a base model


def scale_joint_layers(
    losses: Losses | None,
    layers: int | None,
    width_ratio: float | None,
    ratio: float,
    step: int,
    *,
    as_json: bool,
) -> None:
    """Solve for a single stack of joint layers, as in the paper, and print the sizes."""
    from jtrans.scaling.solve import Gradients, joint_layers, solve

    if losses is None or layers is None or width_ratio is None:
        raise usage_error(
            "give a recipe, or --from-losses with --layers and --width-ratio",
            "jtrans scale --from-losses 1.60 1.58937 1.58931 --layers 5 --width-ratio 4",
        )
    if not 0.0 < width_ratio <= MOST_WIDTH:
        raise usage_error(
            f"the ratio F/E is {width_ratio:g}: it must be above 0 and at most {MOST_WIDTH:,.0f}",
            "--width-ratio 4",
            where="--width-ratio",
        )
    gradients = Gradients.from_losses(*losses, step=step)
    scaling = solve([joint_layers(layers)], width_ratio, gradients, ratio)
    _show_sizes(scaling, {"layers": layers}, as_json=as_json)


def scale_sizes(
    recipe: str,
    out: Path | None,
    settings: list[str],
    losses: Losses,
    ratio: float,
    step: int,
    *,
    as_json: bool,
) -> None:
    """Solve for the sizes of a recipe, print them, and write the scaled recipe to `out`, if any."""
    from jtrans.api import default_run, run_of_config
    from jtrans.config import load_config
    from jtrans.models.zoo import system_configs
    from jtrans.runs import Run
    from jtrans.scaling.sizes import (
        ffn_width,
        layer_counts,
        resized,
        size_settings,
        stack_sizes,
        width_ratio,
    )
    from jtrans.scaling.solve import Gradients, solve

    config = load_config(recipe, system_configs(), overrides=settings)
    gradients = Gradients.from_losses(*losses, step=step)
    scaling = solve(stack_sizes(config), width_ratio(config), gradients, ratio)
    larger = resized(config, more_layers=scaling.more_layers, more_width=scaling.more_width)
    command = ["jtrans", "train", recipe]
    for setting in (*settings, *size_settings(larger)):
        command += ["--set", setting]
    # not the default run of the recipe, which has the base model
    run, owner = default_run(recipe), run_of_config(recipe)
    layers = "+".join(map(str, layer_counts(larger).values()))
    sizes = f"{layers}-layers-ffn-{ffn_width(larger)}"
    data = None if config.data.corpus else "DIR"
    if owner is not None:
        data = Run(owner).info.get("data") or data
    trained = f"{run}-{sizes}"
    if out is not None and not scaling.changes_nothing:
        path = _write_recipe(out, recipe, config, larger, scaling.realised)
        command, trained = ["jtrans", "train", str(path)], str(out / f"scaled-{sizes}")
    command += ["--data", str(data)] if data else []
    command += ["--run", trained]
    _show_sizes(scaling, layer_counts(config), as_json=as_json)
    if not scaling.changes_nothing:
        console.next_step(shlex.join(command))


def _write_recipe(out: Path, name: str, base: Config, larger: Config, ratio: float) -> Path:
    """Write the scaled recipe, unless the folder has another one or results of trainings."""
    from jtrans.scaling.report import (
        NUMBERS,
        RECIPE,
        another_recipe,
        recipe_text,
        write_recipe,
    )

    if (out / NUMBERS).exists():
        trained = f"{out} has the result of models that were trained there"
        raise usage_error(trained, "give another folder", where="--out")
    own = recipe_text(name, base, larger, ratio).encode("utf-8")
    if (out / RECIPE).is_file() and (out / RECIPE).read_bytes() != own:
        raise another_recipe(out / RECIPE, "give another folder, or delete it", "--out")
    path = write_recipe(out, name, base, larger, ratio)
    console.say("Written", f"{path}")
    return path


def _show_sizes(scaling: Scaling, layers: Mapping[str, int], *, as_json: bool) -> None:
    if as_json:
        console.print_json({"stacks": [*layers], **scaling.to_json()})
    else:
        print_scaling(scaling, layers)
    if scaling.changes_nothing:
        console.warn(scaling.too_small)

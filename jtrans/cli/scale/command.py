"""`jtrans scale`: its options, and whether the losses are given or come from trainings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from jtrans.cli.options import (
    DEVICE,
    JSON,
    SETTINGS,
    argument,
    check_folder_name,
    data_option,
    flag,
    option,
)
from jtrans.cli.scale.from_losses import Losses, scale_joint_layers, scale_sizes
from jtrans.cli.scale.trained import make_plan, scale_recipe, show_plan
from jtrans.errors import usage_error

LOSSES, TRAINING = "Given losses", "Training"
MOST_LAYERS = 10_000  # of a base model


def scale(
    recipe: str | None = argument("RECIPE|CONFIG.toml", "The base model.", default=None),
    data: Path | None = data_option(TRAINING, "data/prepared/CORPUS"),
    out: Path | None = option(
        "Folder for the runs and the result; with --from-losses, for the scaled recipe.",
        "DIR",
        "runs/scale/RECIPE",
        TRAINING,
    ),
    ratio: float = option("Factor by which the parameters of the layers grow.", default=2.0),
    step: int = option(
        "Layers added in the deeper model, and multiples of E added to F in the wider one.",
        default=1,
    ),
    seeds: str | None = option("Train each model with each seed.", "1,2,3", "the recipe's"),
    run: bool = flag("--run", "Train the scaled model, too.", TRAINING),
    plan_only: bool = flag("--plan-only", "Only show what would be trained.", TRAINING),
    set_: list[str] | None = SETTINGS,
    device: str | None = DEVICE,
    from_losses: Losses | None = option(
        "Use these validation losses, in nats per token; of several seeds, the means.",
        "BASE DEEPER WIDER",
        panel=LOSSES,
    ),
    layers: int | None = option(
        "Without a recipe: joint layers of the base model.", panel=LOSSES, min=1, max=MOST_LAYERS
    ),
    width_ratio: float | None = option("Without a recipe: base model's F/E.", panel=LOSSES),
    as_json: bool = JSON,
) -> None:
    """Scale a model by the gradients of its validation loss (Li et al. 2020).

    Trains the base model, a deeper and a wider one, and writes the scaled recipe
    and a report.

    [bold]Examples[/bold]

    jtrans scale demo/reformer-fast-tiny --ratio 2 --run

    jtrans scale --from-losses 1.60 1.58937 1.58931 --layers 5 --width-ratio 4

    jtrans scale iwslt14-de-en/transformer --from-losses 1.60 1.58937 1.58931
    """
    from jtrans.scaling.solve import check_ratio, check_step

    check_ratio(ratio)
    check_step(step)
    check_folder_name(out)
    if from_losses is not None:
        _refuse(
            {
                "--data": data,
                "--seeds": seeds,
                "--run": run,
                "--plan-only": plan_only,
                "--device": device,
            },
            "has no effect with --from-losses, which trains nothing",
            "leave out --from-losses and train",
        )
        if recipe is None:
            _refuse({"--out": out, "--set": set_}, "needs a recipe", "give the base model's recipe")
        elif _is_number(recipe):
            raise usage_error(
                f"--from-losses needs 3 values, and {recipe} is one more",
                "--from-losses BASE DEEPER WIDER; of several seeds, their means",
            )
    if recipe is None:
        scale_joint_layers(from_losses, layers, width_ratio, ratio, step, as_json=as_json)
        return
    if layers is not None or width_ratio is not None:
        raise usage_error(
            "the recipe determines the size of the base model",
            "leave out --layers and --width-ratio, or the recipe",
        )
    if from_losses is not None:
        scale_sizes(recipe, out, set_ or [], from_losses, ratio, step, as_json=as_json)
        return
    if run and plan_only:
        raise usage_error("--run and --plan-only exclude each other", "leave one of them out")
    plan = make_plan(recipe, data, out, ratio, step, seeds, set_)
    if plan_only:
        show_plan(plan, device, as_json=as_json)
    else:
        scale_recipe(plan, device, with_scaled=run, as_json=as_json)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _refuse(options: Mapping[str, object], reason: str, instead: str) -> None:
    for name, value in options.items():
        if value:
            raise usage_error(f"{name} {reason}", f"leave {name} out, or {instead}", where=name)

"""`jtrans scale`: from a base model to a larger one, by the gradients of depth and width."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from jtrans.cli import console
from jtrans.cli.options import (
    DEVICE,
    JSON,
    SETTINGS,
    argument,
    data_option,
    flag,
    option,
    read_seeds,
)
from jtrans.cli.tables import print_table
from jtrans.errors import ConfigError, usage_error

if TYPE_CHECKING:
    from jtrans.config import Config
    from jtrans.scaling.experiment import ModelRuns, ScalingPlan, ScalingResult
    from jtrans.scaling.solve import Scaling

LOSSES, TRAINING = "Given losses", "Training"
Losses = tuple[float, float, float]  # of the base, the deeper and the wider model
MOST_LAYERS, MOST_WIDTH = 10_000, 1000.0  # of a base model, and F/E


def scale(
    recipe: str | None = argument("RECIPE|CONFIG.toml", "The base model.", default=None),
    data: Path | None = data_option(TRAINING, "data/prepared/CORPUS"),
    out: Path | None = option(
        "Folder of runs and result; with given losses, of the scaled recipe.",
        "DIR",
        "runs/scale/RECIPE",
        TRAINING,
    ),
    ratio: float = option("Factor of the parameters of the layers.", default=2.0),
    step: int = option(
        "How many layers the deeper model has more, and how many times E the wider one's F is "
        "larger.",
        default=1,
    ),
    seeds: str | None = option("Train each model with each seed.", "1,2,3", "the recipe's"),
    run: bool = flag("--run", "Train the scaled model, too.", TRAINING),
    plan_only: bool = flag("--plan-only", "Only say what would be trained.", TRAINING),
    set_: list[str] | None = SETTINGS,
    device: str | None = DEVICE,
    from_losses: Losses | None = option(
        "Validation losses, in nats per token.", "BASE DEEPER WIDER", panel=LOSSES
    ),
    layers: int | None = option(
        "Without a recipe: joint layers of the base model.", panel=LOSSES, min=1, max=MOST_LAYERS
    ),
    width_ratio: float | None = option("Without a recipe: its F/E.", panel=LOSSES),
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
    if recipe is None:
        _scale_joint_layers(from_losses, layers, width_ratio, ratio, step, as_json=as_json)
        return
    if layers is not None or width_ratio is not None:
        raise usage_error(
            "the recipe says how large the base model is",
            "leave --layers and --width-ratio out, or the recipe",
        )
    if from_losses is not None:
        _scale_sizes(recipe, out, set_ or [], from_losses, ratio, step, as_json=as_json)
        return
    if run and plan_only:
        raise usage_error("--run and --plan-only exclude each other", "leave one of them out")
    plan = _make_plan(recipe, data, out, ratio, step, seeds, set_)
    if plan_only:
        _show_plan(plan, device, as_json=as_json)
    else:
        _scale_recipe(plan, device, with_scaled=run, as_json=as_json)


def _refuse(options: Mapping[str, object], reason: str, instead: str) -> None:
    """Refuse the options that were given."""
    for name, value in options.items():
        if value:
            raise usage_error(f"{name} {reason}", f"leave {name} out, or {instead}", where=name)


def _scale_joint_layers(
    losses: Losses | None,
    layers: int | None,
    width_ratio: float | None,
    ratio: float,
    step: int,
    *,
    as_json: bool,
) -> None:
    """Solve for the one stack of joint layers of the paper."""
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


def _scale_sizes(
    recipe: str,
    out: Path | None,
    settings: list[str],
    losses: Losses,
    ratio: float,
    step: int,
    *,
    as_json: bool,
) -> None:
    """Solve for the sizes of a recipe, of any system; write the scaled recipe into `out`."""
    from jtrans.api import default_run
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
    # not the default run of the recipe, which is that of the base model
    run = default_run(recipe)
    layers = "+".join(map(str, layer_counts(larger).values()))
    sizes = f"{layers}-layers-ffn-{ffn_width(larger)}"
    if Run.exists(run) and Path(recipe).suffix == ".toml":  # the configuration file of a run
        data = Run(run).info.get("data")
        command += ["--data", str(data)] if data else []
    command += ["--run", f"{run}-{sizes}"]
    if out is not None and not scaling.changes_nothing:
        path = _write_recipe(out, recipe, config, larger, scaling.realised)
        command = ["jtrans", "train", str(path), "--run", str(out / f"scaled-{sizes}")]
    _show_sizes(scaling, layer_counts(config), as_json=as_json)
    if not scaling.changes_nothing:
        console.next_step(shlex.join(command))


def _write_recipe(out: Path, name: str, base: Config, larger: Config, ratio: float) -> Path:
    """Write the scaled recipe, but not into a folder that has that of models trained there."""
    from jtrans.scaling.report import NUMBERS, write_recipe

    if (out / NUMBERS).exists():
        trained = f"{out} has the result of models that were trained there"
        raise usage_error(trained, "give another folder", where="--out")
    path = write_recipe(out, name, base, larger, ratio)
    console.say("Written", f"{path}")
    return path


def _show_sizes(scaling: Scaling, layers: Mapping[str, int], *, as_json: bool) -> None:
    if as_json:
        console.print_json({"stacks": [*layers], **scaling.to_json()})
    else:
        _print_scaling(scaling, layers)
    if scaling.changes_nothing:
        console.warn(scaling.too_small)


def _print_scaling(scaling: Scaling, layers: Mapping[str, int]) -> None:
    """Print the sizes before and after, exact and rounded; `layers` of every stack."""
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


def _make_plan(
    recipe: str,
    data: Path | None,
    out: Path | None,
    ratio: float,
    step: int,
    seeds: str | None,
    settings: list[str] | None,
) -> ScalingPlan:
    """Check everything that can be checked before torch is loaded."""
    from jtrans.api import find_data
    from jtrans.config import load_config
    from jtrans.models.zoo import system_configs
    from jtrans.scaling.experiment import ScalingPlan

    config = load_config(recipe, system_configs(), overrides=settings or ())
    chosen = (config.training.seed,) if seeds is None else tuple(read_seeds(seeds))
    own = Path(recipe)
    place = out or Path("runs/scale") / (own.stem if own.suffix == ".toml" else own)
    folder = find_data(data, config)
    plan = ScalingPlan(recipe, config, folder, place, ratio, step, chosen)
    plan.check()
    return plan


def _show_plan(plan: ScalingPlan, device: str | None, *, as_json: bool) -> None:
    """Print the models that would be trained, with estimates."""
    from jtrans.scaling.experiment import predict
    from jtrans.scaling.report import duration
    from jtrans.scaling.sizes import ffn_width, layer_counts

    console.say("Estimating", f"memory and time of {', '.join(plan.configs)}")
    estimates = predict(plan.configs, plan.data, device)
    if as_json:
        models = {name: estimate.to_json() for name, estimate in estimates.items()}
        console.print_json({"recipe": plan.recipe, "seeds": plan.seeds, "models": models})
        return
    rows = [
        [
            name,
            *(f"{count}" for count in layer_counts(config).values()),
            f"{ffn_width(config):,}",
            f"{estimates[name].parameters:,}",
            f"{estimates[name].memory_bytes / 2**20:,.0f} MiB",
            duration(estimates[name].epoch_seconds),
            duration(estimates[name].total_seconds),
        ]
        for name, config in plan.configs.items()
    ]
    head = ["model", *layer_counts(plan.config), "F", "parameters", "memory", "an epoch"]
    head.append("to the first limit")
    print_table(head, rows, right=head[1:])
    console.talk(f"seeds: {', '.join(map(str, plan.seeds))}; nothing was trained or written")


def _scale_recipe(
    plan: ScalingPlan, device: str | None, *, with_scaled: bool, as_json: bool
) -> None:
    """Train, solve, and write recipe and report."""
    from jtrans.scaling.experiment import (
        BASE,
        MEASURED,
        SCALED,
        ScalingResult,
        find_gradients,
        find_scaling,
        predict,
        scaled_config,
    )
    from jtrans.scaling.report import NUMBERS, PAGE, RECIPE, write_recipe, write_report

    runs = [_train(plan, name, plan.configs[name], device) for name in MEASURED]
    depth, width = find_gradients(plan, runs)
    console.say("Gradients", f"{depth} of depth, {width} of width, nats")
    try:
        scaling = find_scaling(plan, depth, width)
    except ConfigError:
        if (plan.out / NUMBERS).exists():
            files = ", ".join((RECIPE, NUMBERS, PAGE))
            console.warn(f"{files} in {plan.out} are still those of earlier losses")
        raise
    larger = scaled_config(plan, scaling)
    console.say("Estimating", "memory and time of the base and of the scaled model")
    estimates = predict({BASE: plan.configs[BASE], SCALED: larger}, plan.data, device)
    result = ScalingResult(plan, tuple(runs), depth, width, scaling, estimates)
    recipe = write_recipe(plan.out, plan.recipe, plan.config, larger, scaling.realised)
    page = write_report(result)
    same = plan.measured_name(larger)  # of a model that has these sizes already
    if same is not None:
        runs += [replace(model, name=SCALED) for model in runs if model.name == same]
    elif with_scaled:
        runs.append(_train(plan, SCALED, larger, device))
    if len(runs) > len(MEASURED):
        result = ScalingResult(plan, tuple(runs), depth, width, scaling, estimates)
        page = write_report(result)
    _show_result(result, as_json=as_json)
    console.say("Written", f"{recipe}, {page}")
    if same == BASE:
        return
    base, place = (
        shlex.quote(str(plan.run_folder(name, config, plan.seeds[0])))
        for name, config in ((BASE, plan.config), (same or SCALED, larger))
    )
    if same is not None:
        console.say("Scaled", f"it is the {same} model, which is trained already")
    if with_scaled or same is not None:
        console.next_step(f"jtrans score {base} {place}")
        return
    data = shlex.quote(str(plan.data))
    console.next_step(f"jtrans train {shlex.quote(str(recipe))} --data {data} --run {place}")


def _train(plan: ScalingPlan, name: str, config: Config, device: str | None) -> ModelRuns:
    """Train a model with the table; leave with the exit code of a signal that stopped it."""
    from jtrans.cli.stop_signals import StopSignals
    from jtrans.cli.train_table import TrainTable
    from jtrans.scaling.experiment import train_model

    with StopSignals() as signals, contextlib.ExitStack() as tables:
        runs = train_model(
            plan,
            name,
            config,
            device=device,
            events=lambda: tables.enter_context(contextlib.closing(TrainTable())),
            should_stop=signals.are_set,
        )
    if runs is None:
        console.talk(f"stopped; everything is saved in {plan.out}")
        console.next_step(shlex.join(["jtrans", *sys.argv[1:]]))
        raise typer.Exit(signals.exit_code or 0)
    losses = ", ".join(f"{loss:.4f}" for loss in runs.losses.values())
    console.say(name, f"validation loss {losses}")
    return runs


def _show_result(result: ScalingResult, *, as_json: bool) -> None:
    from jtrans.scaling.sizes import layer_counts

    for warning in result.warnings:
        console.warn(warning)
    if as_json:
        console.print_json(result.to_json())
    else:
        _print_scaling(result.scaling, layer_counts(result.plan.config))

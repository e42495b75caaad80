"""Scaling from trainings: of the three models and, on request, the scaled one."""

from __future__ import annotations

import contextlib
import shlex
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from jtrans.cli import console
from jtrans.cli.options import read_seeds, refuse_last
from jtrans.cli.scale.show import print_scaling
from jtrans.cli.stop_signals import StopSignals, Terminated
from jtrans.cli.tables import print_table
from jtrans.errors import ConfigError
from jtrans.files import write_text

if TYPE_CHECKING:
    from jtrans.config import Config
    from jtrans.scaling.experiment import ModelRuns, ScalingPlan
    from jtrans.scaling.result import GradientSpread, ScalingResult
    from jtrans.scaling.solve import Scaling
    from jtrans.training.estimate import Estimate


def make_plan(
    recipe: str,
    data: Path | None,
    out: Path | None,
    ratio: float,
    step: int,
    seeds: str | None,
    settings: list[str] | None,
) -> ScalingPlan:
    """Return the plan of a scaling, checked as far as possible before torch is loaded."""
    from jtrans.api import find_data, run_of_config
    from jtrans.config import load_config
    from jtrans.models.zoo import system_configs
    from jtrans.scaling.experiment import ScalingPlan

    config = load_config(recipe, system_configs(), overrides=settings or ())
    refuse_last(config, "every training", "--set")
    chosen = (config.training.seed,) if seeds is None else tuple(read_seeds(seeds, settings or ()))
    own = Path(recipe)
    run = run_of_config(recipe)
    name = own.stem if own.suffix == ".toml" else own
    place = out or Path("runs/scale") / (run.resolve().name if run else name)
    folder = find_data(data, config, recipe)
    plan = ScalingPlan(recipe, config, folder, place, ratio, step, chosen)
    plan.check()
    return plan


def show_plan(plan: ScalingPlan, device: str | None, *, as_json: bool) -> None:
    """Print the models that would be trained, with estimates."""
    from jtrans.scaling.costs import predict
    from jtrans.scaling.report import duration
    from jtrans.scaling.sizes import ffn_width, layer_counts

    console.say("Estimating", f"memory and time of {', '.join(plan.configs)}")
    estimates = predict(plan.configs, plan.data, device)
    if as_json:
        models = {
            name: {
                "layers": layer_counts(config),
                "ffn_width": ffn_width(config),
                **estimates[name].to_json(),
            }
            for name, config in plan.configs.items()
        }
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


def scale_recipe(
    plan: ScalingPlan, device: str | None, *, with_scaled: bool, as_json: bool
) -> None:
    """Train the three models, solve, and write the scaled recipe and the report."""
    from jtrans.runs.find import TRIALS
    from jtrans.scaling.experiment import BASE, MEASURED, SCALED
    from jtrans.scaling.report import RECIPE, check_recipe, write_recipe, write_report
    from jtrans.scaling.result import ScalingResult, find_gradients, scaled_config

    check_recipe(plan.out)
    plan.out.mkdir(parents=True, exist_ok=True)
    write_text(plan.out / TRIALS, "base-N, deeper-N and wider-N are runs of jtrans scale\n")
    runs = [_train(plan, name, plan.configs[name], device) for name in MEASURED]
    depth, width = find_gradients(plan, runs)
    console.say("Gradients", f"{depth} of depth, {width} of width, in nats")
    scaling = _solve(plan, depth, width)
    larger = scaled_config(plan, scaling)
    estimates = _predict(plan, larger, device)
    result = ScalingResult(plan, tuple(runs), depth, width, scaling, estimates)
    check_recipe(plan.out)  # again: it may have been edited during training
    (plan.out / RECIPE).unlink(missing_ok=True)  # its digest is not in the new numbers
    page = write_report(result)
    recipe = write_recipe(plan.out, plan.recipe, plan.config, larger, scaling.realised)
    same = plan.measured_name(larger)  # the trained model of the same size, if any
    if same is not None:
        runs += [replace(model, name=SCALED, ignored=()) for model in runs if model.name == same]
    elif with_scaled or plan.is_trained(SCALED, larger):
        runs.append(_train(plan, SCALED, larger, device))
    if len(runs) > len(MEASURED):
        result = ScalingResult(plan, tuple(runs), depth, width, scaling, estimates)
        page = write_report(result)
    _show_result(result, as_json=as_json)
    console.say("Written", f"{recipe}, {page}")
    if same is not None and same != BASE:
        console.say("Scaled", f"it is the {same} model, which is trained already")
    if same != BASE:
        _suggest(plan, recipe, larger, same or SCALED, is_trained=len(runs) > len(MEASURED))


def _solve(plan: ScalingPlan, depth: GradientSpread, width: GradientSpread) -> Scaling:
    """Solve Eq. 11; if it has no solution, warn that files of an earlier one are still there."""
    from jtrans.scaling.report import NUMBERS, PAGE, RECIPE
    from jtrans.scaling.result import find_scaling

    try:
        return find_scaling(plan, depth, width)
    except ConfigError:
        if (plan.out / NUMBERS).exists():
            files = ", ".join((RECIPE, NUMBERS, PAGE))
            console.warn(f"{files} in {plan.out} are still those of earlier losses")
        raise


def _predict(plan: ScalingPlan, larger: Config, device: str | None) -> dict[str, Estimate]:
    """Estimate the cost of base and scaled model; exit with the code of a signal."""
    from jtrans.scaling.costs import predict
    from jtrans.scaling.experiment import BASE, SCALED

    console.say("Estimating", "memory and time of the base and of the scaled model")
    try:
        return predict({BASE: plan.configs[BASE], SCALED: larger}, plan.data, device)
    except (KeyboardInterrupt, Terminated) as left:
        _stop(plan, getattr(left, "code", 128 + signal.SIGINT))


def _suggest(
    plan: ScalingPlan, recipe: Path, larger: Config, name: str, *, is_trained: bool
) -> None:
    """Suggest comparing the scaled model, here called `name`, with the base, or training it."""
    from jtrans.scaling.experiment import BASE

    folders = {
        model: [str(plan.run_folder(model, config, seed)) for seed in plan.seeds]
        for model, config in ((BASE, plan.config), (name, larger))
    }
    if is_trained:
        command = ["jtrans", "score", *folders[BASE], *folders[name]]
    elif len(plan.seeds) > 1:  # the recipe has only one seed
        command = ["jtrans", *console.settings.arguments, "--run"]
    else:
        command = ["jtrans", "train", str(recipe), "--data", str(plan.data)]
        command += ["--run", *folders[name]]
    console.next_step(shlex.join(command))


def _train(plan: ScalingPlan, name: str, config: Config, device: str | None) -> ModelRuns:
    """Train a model with a table of progress; exit with the code of a signal that stopped it."""
    from jtrans.cli.train.table import TrainTable
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
    if runs is None or signals.are_set():
        _stop(plan, signals.exit_code or 0)
    losses = ", ".join(f"{loss:.4f}" for loss in runs.losses.values())
    console.say(name, f"validation loss {losses}")
    return runs


def _stop(plan: ScalingPlan, exit_code: int) -> NoReturn:
    """Exit after a signal, showing the command that continues."""
    console.talk(f"stopped; everything is saved in {plan.out}")
    console.next_step(shlex.join(["jtrans", *console.settings.arguments]))
    raise typer.Exit(exit_code)


def _show_result(result: ScalingResult, *, as_json: bool) -> None:
    from jtrans.scaling.sizes import layer_counts

    for warning in result.warnings:
        console.warn(warning)
    if as_json:
        console.print_json(result.to_json())
    else:
        print_scaling(result.scaling, layer_counts(result.plan.config))

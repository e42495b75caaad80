"""`jtrans train`: from a recipe and a prepared corpus to a run."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from jtrans.cli import console, ranks
from jtrans.cli.options import (
    DEVICE,
    JSON,
    MACHINE,
    PRECISIONS,
    SETTINGS,
    argument,
    check_run_folder,
    data_option,
    flag,
    option,
    read_seeds,
    refuse_last,
)
from jtrans.cli.tables import print_table
from jtrans.errors import ConfigError, how_many, usage_error

if TYPE_CHECKING:
    from jtrans.config import Config, TrainingConfig
    from jtrans.runs import Run
    from jtrans.training.events import Result

START = "Start and end"
REASONS = {
    "max_epochs": "all epochs are done",
    "max_updates": "all updates are done",
    "max_minutes": "the time is up",
    "patience": "validation has stopped improving",
    "floor": "the learning rate has fallen to its floor",
}


def train(
    recipe: str = argument("RECIPE|CONFIG.toml", "A name from `jtrans recipes`, or a file."),
    data: Path | None = data_option(shown="the run's own, or data/prepared/CORPUS"),
    run: Path | None = option("Folder of the run.", "DIR", "runs/RECIPE"),
    set_: list[str] | None = SETTINGS,
    seed: int | None = option("Seed of all randomness: training.seed", shown="the recipe's"),
    seeds: str | None = option(
        "One run for each seed, one after the other, in RUN/seed-N.", "N,N,..."
    ),
    max_minutes: float | None = option(
        "Most minutes, last validation included: training.max_minutes",
        shown="the recipe's",
        panel=START,
    ),
    restart: bool = flag("--restart", "Start over, deleting the run.", START),
    from_: str | None = option(
        "Start from its best weights.", "RUN", panel=START, names=["--from"]
    ),
    keep_optimiser: bool = flag(
        "--keep-optimiser", "With --from: the optimiser's moments, too.", START
    ),
    dry_run: bool = flag("--dry-run", "Estimate size, memory and time; train nothing.", START),
    tensorboard: bool = flag("--tensorboard", "Also write curves to RUN/tensorboard.", None),
    device: str | None = DEVICE,
    precision: str | None = option("training.precision", "|".join(PRECISIONS), "auto", MACHINE),
    deterministic: bool = flag("--deterministic", "Only deterministic GPU kernels.", MACHINE),
    processes: int | None = option("Train in N processes, on the CPU.", "N", "1", MACHINE, min=1),
    gpus: str | None = option("Train on N GPUs, or on all.", "N|all", "1", MACHINE),
    max_restarts: int = option(
        "If a process dies, start all again, at most N times.", "N", panel=MACHINE, default=3, min=0
    ),
    shard_model: bool = flag(
        "--shard-model", "Divide weights and optimiser among the processes.", MACHINE
    ),
    as_json: bool = JSON,
) -> None:
    """Train a model; run the same command again to continue where it stopped.

    [bold]Examples[/bold]

    jtrans train demo/transformer

    jtrans train demo/reformer-fast --run runs/wide --set model.width=256

    jtrans train demo/reformer-fast --run runs/fast --seeds 1,2,3
    """
    from jtrans.api import default_run, find_data
    from jtrans.cli.train_table import train_with_table
    from jtrans.runs import find_run
    from jtrans.training.distributed.place import place_of_process

    named = {
        "training.seed": seed,
        "training.max_minutes": max_minutes,
        "training.precision": precision,
        "training.deterministic": deterministic or None,
    }
    options = {key: value for key, value in named.items() if value is not None}
    config = _load_config(recipe, set_ or (), options)
    check_run_folder(run)
    run = run or default_run(recipe)
    if keep_optimiser and from_ is None:
        raise usage_error("--keep-optimiser needs --from", "--from RUN names the run to start from")
    # refused here and not by each of the processes
    trainings = {run: config} if seeds is None else _for_seeds(config, run, seeds, seed, set_ or ())
    data = find_data(data, config, recipe, list(trainings), restart=restart)
    # `@last` is none of the runs that this command trains
    initial = find_run(from_, without=list(trainings)) if from_ is not None else None
    place, count = place_of_process(), ranks.count_processes(processes, gpus, device)
    if dry_run:
        if count is not None or shard_model or seeds is not None or tensorboard:
            raise usage_error(
                "--dry-run measures one process and one seed, and writes nothing",
                "leave out --processes, --gpus, --shard-model, --seeds and --tensorboard",
            )
        _note_unused(set_ or (), config)
        _estimate(config, data, device, initial, keep_optimiser=keep_optimiser, as_json=as_json)
        return
    if shard_model and place is None and count in (None, 1):
        raise usage_error(
            "--shard-model divides the weights among processes, and there is only one",
            "--gpus N, or --processes N, with at least 2",
        )
    if place is not None:
        ranks.begin(place, count, max_restarts=max_restarts)
    elif count is not None:
        raise typer.Exit(ranks.launch(count, max_restarts=max_restarts))
    is_first = place is None or place.rank == 0
    if is_first:
        _note_unused(set_ or (), config)
    results, folders = [], list(trainings)
    for folder, seeded in trainings.items():
        result, exit_code = train_with_table(
            seeded,
            data=data,
            run=folder,
            device=device if processes is None else "cpu",
            restart=restart and not ranks.has_begun(folder, place),
            initial=None if initial is None else str(initial.folder),
            keep_optimiser=keep_optimiser,
            tensorboard=tensorboard,
            shard_model=shard_model,
        )
        results.append(result)
        if folder == folders[-1] and result.reason != "stopped":
            exit_code = None  # nothing is left to stop
        if is_first:
            _close(result, folder, folders, is_signalled=exit_code is not None)
        if exit_code is not None:
            break
    if as_json and is_first:
        shown = [result.to_json() for result in results]
        console.print_json(shown[0] if seeds is None else {"runs": shown})
    if exit_code is not None:
        raise typer.Exit(exit_code)


def _load_config(recipe: str, settings: Sequence[str], options: Mapping[str, Any]) -> Config:
    """Load the configuration; in the place of one, a run gets the command that continues it."""
    from jtrans.config import load_config
    from jtrans.models.zoo import system_configs

    try:
        return load_config(recipe, system_configs(), overrides=settings, options=options)
    except ConfigError as error:
        path = Path(recipe) / "config.toml"
        if error.kind == "config.unknown-recipe" and path.is_file():
            error.hint = shlex.join(["jtrans", "train", str(path), "--run", str(path.parent)])
        raise


def _note_unused(overrides: Sequence[str], config: Config) -> None:
    """Name the settings of --set that have no effect beside the others."""
    unused = {f"model.{name}" for name in config.model.unused()}
    if config.training.schedule.name in ("constant", "plateau"):
        unused.add("training.schedule.warmup")
    if config.training.schedule.name in ("constant", "plateau", "noam", "rnmt"):
        unused.add("training.schedule.warmup_init")
    keys = dict.fromkeys(each.partition("=")[0].strip() for each in overrides)
    if ignored := [key for key in keys if key in unused]:
        console.talk(f"no effect: {', '.join(ignored)}")


def _for_seeds(
    config: Config, run: Path, seeds: str, seed: int | None, settings: Sequence[str]
) -> dict[Path, Config]:
    """Return the configuration of each seed, and the folder of its run."""
    from jtrans.runs import Run

    numbers = read_seeds(seeds, settings)
    refuse_last(config, "every seed", "--seeds")
    if seed is not None:
        raise usage_error("--seed and --seeds exclude each other", "use one of them")
    if Run.exists(run):
        raise usage_error(
            f"{run} is a run itself: those of several seeds are folders in --run",
            "--run with another folder",
            where="--run",
        )
    return {run / f"seed-{number}": config.with_training(seed=number) for number in numbers}


def _suggest_continuing(stopped: Path, trainings: Sequence[Path]) -> None:
    """Suggest the command that continues; with --restart it would delete what has been trained."""
    from jtrans.runs import Run

    given = ["jtrans", *sys.argv[1:]]
    arguments = [each for each in given if each != "--restart"]
    place = trainings.index(stopped) + 1
    if arguments == given or not any(map(Run.exists, trainings[place:])):
        console.next_step(shlex.join(arguments))
        return
    seeds = [folder.name.removeprefix("seed-") for folder in trainings]
    begun, others = ",".join(seeds[:place]), ",".join(seeds[place:])
    place = next(i for i, each in enumerate(arguments) if each.startswith("--seeds"))
    rest = arguments[:place] + arguments[place + 1 + ("=" not in arguments[place]) :]
    console.next_step(shlex.join([*rest, "--seeds", begun]))
    console.talk(f"then: {shlex.join([*rest, '--seeds', others, '--restart'])}")


def _close(result: Result, folder: Path, trainings: Sequence[Path], *, is_signalled: bool) -> None:
    """Report how training ended, and suggest the next command.

    Args:
        result: of the run of one seed.
        folder: of this run.
        trainings: the folders of all seeds, in order.
        is_signalled: whether a signal asked to stop; training may have ended all the same.
    """
    from jtrans.cli.train_table import duration
    from jtrans.models.zoo import system_configs
    from jtrans.runs import Run

    name = shlex.quote(str(result.run))
    if result.reason == "stopped":
        console.talk(f"stopped at update {result.update:,}; everything is saved in {name}")
        _suggest_continuing(folder, trainings)
        return
    if not result.trained:
        training = Run.open(result.run).config(system_configs()).training
        console.talk(
            f"nothing to do: {name} is finished ({REASONS[result.reason]}, update "
            f"{result.update:,}). A higher limit continues it, for example "
            f"{_higher_limit(result, training)}; --restart starts over"
        )
        for change in result.ignored:
            console.talk(f"no effect: {change}")
    else:
        best = result.best or {}
        metric = str(best.get("metric", "")).replace("-", " ")
        console.talk(
            f"done: {REASONS[result.reason]}. {how_many(result.update, 'update')} in "
            f"{duration(result.seconds)}; best {metric} {best.get('value', 0.0):.3f} at update "
            f"{best.get('update', 0):,}"
        )
    if result.splits:
        console.talk(
            f"{how_many(result.splits, 'micro-batch', 'es')} did not fit into memory, split in half"
        )
    if result.dropped:
        console.talk(f"{how_many(result.dropped, 'update')} of abnormal gradients dropped")
    if result.skipped:
        console.talk(skipped_text(result.skipped, len(result.left_out)))
    if result.returns:
        console.talk(returns_text(result.returns))
    if result.window:
        console.talk(window_text(result.window))
    if is_signalled:
        console.talk(f"stopped before {trainings[trainings.index(folder) + 1]}")
        _suggest_continuing(folder, trainings)
    elif folder == trainings[-1]:
        console.next_step(shlex.join(["jtrans", _use(trainings), *map(str, trainings)]))


def _higher_limit(result: Result, training: TrainingConfig) -> str:
    """Return options that continue a finished run, and what they change besides."""
    stop, schedule, doubled = training.stop, training.schedule, result.update * 2
    is_over = schedule.has_end and result.update >= (schedule.updates or training.max_updates or 0)
    if is_over and result.reason in ("max_updates", "floor"):
        limits = {"schedule.updates": schedule.updates, "max_updates": training.max_updates}
        options = [
            f"--set training.{name}={doubled}"
            for name, limit in limits.items()
            if limit is not None and limit < doubled
        ]
        return f"{' '.join(options)} (the learning rate rises again)"
    higher = {
        "max_minutes": f"max_minutes={int(result.seconds / 60) + 30}",
        "max_epochs": f"max_epochs={result.epochs * 2}",
        "max_updates": f"max_updates={doubled}",
        "patience": f"stop.patience={2 * stop.patience if stop else 20}",
        "floor": "schedule.floor=0",
    }
    return f"--set training.{higher[result.reason]}"


def _use(runs: Sequence[Path]) -> str:
    """Return the command that uses trained runs: a tagger learned to copy its source."""
    from jtrans.runs import Run

    if len(runs) > 1:
        return "score"
    source, target = Run.open(runs[0]).pipeline.languages
    return "tag" if source == target else "translate"


def skipped_text(skipped: int, left_out: int) -> str:
    """Describe the updates of a run that were skipped."""
    updates = how_many(skipped, "update")
    sentences = f"; {how_many(left_out, 'sentence')} left out as the cause"
    return f"{updates} skipped: loss or gradient not finite{sentences if left_out else ''}"


def returns_text(returns: int, *, is_halved: bool = True) -> str:
    """Describe how often a run went back, and the learning rate unless it was set anew since."""
    times = "once" if returns == 1 else f"{returns} times"
    rate = f": the learning rate is 1/{2**returns} of the configured one"
    return f"training diverged and went back {times}{rate if is_halved else ''}"


def window_text(window: Mapping[str, Any]) -> str:
    """Describe the window of validations that a run keeps."""
    size, updates = window["size"], window["updates"]
    if not updates:
        return f"the window of {size} validations is not complete: {len(window['recent'])} so far"
    return (
        f"best window of {size} validations: updates {updates[0]:,} to {updates[-1]:,}, mean BLEU "
        f"{window['mean']:.2f} (jtrans score --checkpoint window)"
    )


def _estimate(
    config: Config,
    data: Path,
    device: str | None,
    initial: Run | None,
    *,
    keep_optimiser: bool,
    as_json: bool,
) -> None:
    from jtrans.cli.train_table import duration
    from jtrans.training.estimate import estimate as make_estimate

    estimate = make_estimate(
        config, data=data, device=device, initial=initial, keep_optimiser=keep_optimiser
    )
    for warning in estimate.warnings:
        console.warn(warning)
    if as_json:
        console.print_json(estimate.to_json())
        return
    rate = f"{estimate.tokens_per_second:,.0f} target tokens/s"
    if estimate.positions_per_second is not None:
        rate += f", {estimate.positions_per_second:,.0f} joint positions/s"
    frozen = f" and {estimate.frozen_parameters:,} frozen" if estimate.frozen_parameters else ""
    rows = [
        ("model", f"{estimate.system}, {estimate.parameters:,} parameters{frozen}"),
        ("device", estimate.device),
        (
            "epoch",
            f"{estimate.pairs:,} pairs, {estimate.tokens:,} target tokens, {estimate.updates:,} "
            f"updates of {estimate.passes / estimate.updates:.1f} micro-batches",
        ),
        (
            "largest micro-batch",
            "B {sentences:,} · S {source} · T {target} · {positions:,} positions".format(
                **estimate.largest
            ),
        ),
        ("memory", f"{estimate.memory_bytes / 2**20:,.0f} MiB with the largest micro-batch"),
        ("rate", rate),
        ("time", f"{duration(estimate.epoch_seconds)} per epoch, without validation"),
    ]
    if estimate.splits:
        rows.append(("", "memory ran out: micro-batches were split in half"))
    if estimate.total_seconds is not None:
        rows.append(("", f"{duration(estimate.total_seconds)} until the first limit"))
    print_table(("dry run", "nothing was written"), rows)

"""`jtrans train`: check the options, then train one run per seed."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from jtrans.cli import console, ranks
from jtrans.cli.options import (
    JSON,
    SETTINGS,
    argument,
    check_run_folder,
    data_option,
    flag,
    grouped,
    option,
)
from jtrans.cli.train.options import MachineOptions, SeedOptions, StartOptions
from jtrans.errors import ConfigError, usage_error

if TYPE_CHECKING:
    from jtrans.config import Config
    from jtrans.runs import Run
    from jtrans.training.distributed.place import Place
    from jtrans.training.events import Result


@grouped()
def train(
    recipe: str = argument("RECIPE|CONFIG.toml", "A name from `jtrans recipes`, or a file."),
    data: Path | None = data_option(shown="the run's own, or data/prepared/CORPUS"),
    run: Path | None = option("Folder of the run.", "DIR", "runs/RECIPE"),
    set_: list[str] | None = SETTINGS,
    *,
    seeded: SeedOptions,
    start: StartOptions,
    tensorboard: bool = flag("--tensorboard", "Also write curves to RUN/tensorboard.", None),
    machine: MachineOptions,
    as_json: bool = JSON,
) -> None:
    """Train a model; run the same command again to continue where it stopped.

    [bold]Examples[/bold]

    jtrans train demo/transformer

    jtrans train demo/reformer-fast --run runs/wide --set model.width=256

    jtrans train demo/reformer-fast --run runs/fast --seeds 1,2,3
    """
    from jtrans.api import default_run, find_data
    from jtrans.runs import find_run
    from jtrans.training.distributed.place import place_of_process

    settings = set_ or []
    named = {"training.seed": seeded.seed, "training.max_minutes": start.max_minutes}
    config = _load_config(recipe, settings, {**named, **machine.settings()})
    check_run_folder(run)
    run = run or default_run(recipe)
    start.check()
    # checked here, not by each process
    trainings = seeded.configs(run, config, settings)
    data = find_data(data, config, recipe, list(trainings), restart=start.restart)
    # `@last` must not be a run that this command trains
    initial = (
        None
        if start.from_ is None
        else find_run(start.from_, without=list(trainings), with_checkpoint=True)
    )
    place = place_of_process()
    count = ranks.count_processes(machine.processes, machine.gpus, machine.device)
    if start.dry_run:
        if count is not None or machine.shard_model or seeded.seeds is not None or tensorboard:
            raise usage_error(
                "--dry-run measures one process and one seed, and writes nothing",
                "leave out --processes, --gpus, --shard-model, --seeds and --tensorboard",
            )
        _note_unused(settings, config)
        from jtrans.cli.train.estimate import show_estimate

        show_estimate(config, data, initial, start, machine, as_json=as_json)
        return
    _begin(place, count, machine)
    _note_unused(settings, config)  # after `_begin`: only the first process prints it
    results, exit_code = _train_each(
        trainings, place, data, initial, start, machine, tensorboard=tensorboard
    )
    if as_json and (place is None or place.rank == 0):
        shown = [result.to_json() for result in results]
        console.print_json(shown[0] if seeded.seeds is None else {"runs": shown})
    if exit_code is not None:
        raise typer.Exit(exit_code)


def _load_config(recipe: str, settings: Sequence[str], named: Mapping[str, Any]) -> Config:
    """Load the configuration; if `recipe` is a run, the error has the command that continues it."""
    from jtrans.config import load_config
    from jtrans.models.zoo import system_configs

    options = {key: value for key, value in named.items() if value is not None}
    try:
        return load_config(recipe, system_configs(), overrides=settings, options=options)
    except ConfigError as error:
        path = Path(recipe) / "config.toml"
        if error.kind == "config.unknown-recipe" and path.is_file():
            error.hint = shlex.join(["jtrans", "train", str(path), "--run", str(path.parent)])
        raise


def _begin(place: Place | None, count: int | None, machine: MachineOptions) -> None:
    """Begin as the only process or one of several, or launch `count` processes and exit."""
    if machine.shard_model and place is None and count in (None, 1):
        raise usage_error(
            "--shard-model divides the weights among processes, and there is only one",
            "--gpus N, or --processes N, with at least 2",
        )
    if place is not None:
        ranks.begin(place, count, max_restarts=machine.max_restarts)
    elif count is not None:
        raise typer.Exit(ranks.launch(count, max_restarts=machine.max_restarts))


def _note_unused(overrides: Sequence[str], config: Config) -> None:
    """Name the settings of --set that have no effect, given the others."""
    unused = {f"model.{name}" for name in config.model.unused()}
    if config.training.schedule.name in ("constant", "plateau"):
        unused.add("training.schedule.warmup")
    if config.training.schedule.name in ("constant", "plateau", "noam", "rnmt"):
        unused.add("training.schedule.warmup_init")
    keys = dict.fromkeys(each.partition("=")[0].strip() for each in overrides)
    if ignored := [key for key in keys if key in unused]:
        console.talk(f"no effect: {', '.join(ignored)}")


def _train_each(
    trainings: Mapping[Path, Config],
    place: Place | None,
    data: Path,
    initial: Run | None,
    start: StartOptions,
    machine: MachineOptions,
    *,
    tensorboard: bool,
) -> tuple[list[Result], int | None]:
    """Train one run after the other, each in its folder, until a signal stops the command.

    Returns:
        How each training ended, and the exit code if a signal stopped the command.
    """
    from jtrans.cli.train.ending import show_ending
    from jtrans.cli.train.table import train_with_table

    results, folders = [], list(trainings)
    for folder, config in trainings.items():
        result, exit_code = train_with_table(
            config,
            data=data,
            run=folder,
            device=machine.device if machine.processes is None else "cpu",
            restart=start.restart and not ranks.has_begun(folder, place),
            initial=None if initial is None else initial.with_chosen(str(initial.folder)),
            keep_optimiser=start.keep_optimiser,
            tensorboard=tensorboard,
            shard_model=machine.shard_model,
        )
        results.append(result)
        if folder == folders[-1] and result.reason != "stopped":
            exit_code = None  # the signal came too late: nothing was left to stop
        if place is None or place.rank == 0:
            show_ending(result, folder, folders, is_signalled=exit_code is not None)
        if exit_code is not None:
            break
    return results, exit_code

"""What is printed when training ends: how it ended, and the next command."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtrans.cli import console
from jtrans.cli.train.table import duration
from jtrans.errors import how_many
from jtrans.runs import Run

if TYPE_CHECKING:
    from jtrans.config import TrainingConfig
    from jtrans.training.events import Result

REASONS = {
    "max_epochs": "all epochs are done",
    "max_updates": "all updates are done",
    "max_minutes": "the time is up",
    "patience": "validation has stopped improving",
    "floor": "the learning rate has fallen to its floor",
}


def show_ending(
    result: Result, folder: Path, trainings: Sequence[Path], *, is_signalled: bool
) -> None:
    """Report how training ended, and suggest the next command.

    Args:
        result: how the run of one seed ended.
        folder: the folder of this run.
        trainings: the folders of the runs of all seeds, in order.
        is_signalled: whether a stop signal was received, even if this training had just ended.
    """
    if result.reason == "stopped":
        name = shlex.quote(str(result.run))
        console.talk(f"stopped at update {result.update:,}; everything is saved in {name}")
        suggest_continuing(folder, trainings)
        return
    for line in (*(_done if result.trained else _nothing_to_do)(result), *_troubles(result)):
        console.talk(line)
    if is_signalled:
        console.talk(f"stopped before {trainings[trainings.index(folder) + 1]}")
        suggest_continuing(folder, trainings)
    elif folder == trainings[-1]:
        console.next_step(shlex.join(["jtrans", _use(trainings), *map(str, trainings)]))


def _done(result: Result) -> Iterator[str]:
    best = result.best or {}
    metric = str(best.get("metric", "")).replace("-", " ")
    yield (
        f"done: {REASONS[result.reason]}. {how_many(result.update, 'update')} in "
        f"{duration(result.seconds)}; best {metric} {best.get('value', 0.0):.3f} at update "
        f"{best.get('update', 0):,}"
    )


def _nothing_to_do(result: Result) -> Iterator[str]:
    from jtrans.models.zoo import system_configs

    training = Run.open(result.run).config(system_configs()).training
    yield (
        f"nothing to do: {shlex.quote(str(result.run))} is finished ({REASONS[result.reason]}, "
        f"update {result.update:,}). A higher limit continues it, for example "
        f"{_higher_limit(result, training)}; --restart starts over"
    )
    for change in result.ignored:
        yield f"no effect: {change}"


def _higher_limit(result: Result, training: TrainingConfig) -> str:
    """Return options that continue a finished run, with a note on their side effect."""
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


def _troubles(result: Result) -> Iterator[str]:
    if result.splits:
        micro_batches = how_many(result.splits, "micro-batch", "es")
        yield f"{micro_batches} did not fit into memory, split in half"
    if result.dropped:
        yield f"{how_many(result.dropped, 'update')} of abnormal gradients dropped"
    if result.skipped:
        yield skipped_text(result.skipped, len(result.left_out))
    if result.returns:
        yield returns_text(result.returns)
    if result.window:
        yield window_text(result.window)


def skipped_text(skipped: int, left_out: int) -> str:
    """Describe the updates of a run that were skipped."""
    updates = how_many(skipped, "update")
    sentences = f"; {how_many(left_out, 'sentence')} left out as the cause"
    return f"{updates} skipped: loss or gradient not finite{sentences if left_out else ''}"


def returns_text(returns: int, *, is_halved: bool = True) -> str:
    """Describe how often a run went back, and its learning rate if that is still the halved one."""
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


def suggest_continuing(stopped: Path, trainings: Sequence[Path]) -> None:
    """Suggest the command that continues: without --restart, which would delete what is trained."""
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


def _use(runs: Sequence[Path]) -> str:
    """Return the command to suggest for trained runs; a run of one language is a tagger."""
    if len(runs) > 1:
        return "score"
    source, target = Run.open(runs[0]).pipeline.languages
    return "tag" if source == target else "translate"

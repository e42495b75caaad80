"""`jtrans average`: one checkpoint from several."""

from __future__ import annotations

import enum
import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jtrans.cli import console
from jtrans.cli.options import DEVICE, JSON, argument, option
from jtrans.cli.tables import print_table
from jtrans.digits import whole_numbers
from jtrans.errors import usage_error

if TYPE_CHECKING:
    from jtrans.runs import Checkpoint, Run
    from jtrans.training.weights.best_average import Candidate


class Metric(enum.StrEnum):
    """What decides how many checkpoints are averaged."""

    LOSS = "valid-loss"
    BLEU = "valid-bleu"
    CHRF = "valid-chrf"


def average(
    runs: list[str] = argument(
        "RUN", "A run, or several of one model: the first gets the average."
    ),
    last: int | None = option("How many of the newest to average.", shown="5; with --choose: all"),
    steps: str | None = option("Average the checkpoints at these updates instead.", "N,N,..."),
    choose: Metric | None = option(
        "Choose how many, at most --last, by the score of each average on valid."
    ),
    weights: str | None = option(
        "What each of several runs counts, in any unit.", "W,W,...", "all the same"
    ),
    name: str = option("Name of the new checkpoint.", default="average"),
    data: Path | None = option(
        "Prepared corpus whose valid split --choose scores.", "DIR", "the run's own"
    ),
    device: str | None = DEVICE,
    as_json: bool = JSON,
) -> None:
    """Average the weights of several checkpoints of a run, or of several runs.

    Of each of several runs, the best checkpoint counts, or that of RUN@CHECKPOINT.

    [bold]Examples[/bold]

    jtrans average runs/demo/transformer --last 5

    jtrans average @last --choose valid-bleu

    jtrans average @last --steps 1000,2000,3000 --name middle

    jtrans average runs/general runs/tuned --weights 0.3,0.7 --name mixed
    """
    if len(runs) > 1:
        _refuse_with_several(last=last, steps=steps, choose=choose, data=data, device=device)
        _average_runs(runs, weights, name, as_json=as_json)
        return
    if weights is not None:
        raise usage_error("--weights has no effect on a single run", "name several runs")
    if steps is not None and (last is not None or choose is not None):
        other = "--last" if choose is None else "--choose"
        raise usage_error(f"{other} and --steps exclude each other", "use one of them")
    if choose is None and (data is not None or device is not None):
        unused = "--device" if data is None else "--data"
        raise usage_error(f"{unused} has no effect without --choose", "--choose valid-bleu")
    updates = _parse(steps)
    from jtrans.runs import find_run

    opened = find_run(runs[0])  # a wrong name is refused before torch is imported
    from jtrans.training.weights.averaging import (
        average_checkpoints,
        check_name,
        check_place,
        choose_checkpoints,
        replaced_average,
    )

    check_name(name)
    most = 5 if last is None and choose is None else last
    checkpoints = choose_checkpoints(opened, last=most, updates=updates)
    candidates: list[Candidate] = []
    if choose is not None:
        check_place(opened, checkpoints, name)  # before minutes of validations
        candidates = _validated(opened, checkpoints, data, choose, device)
        checkpoints = list(candidates[0].checkpoints)
    replaced = replaced_average(opened, checkpoints, name)
    folder = average_checkpoints(opened, checkpoints, name)
    names = [checkpoint.name for checkpoint in checkpoints]
    if as_json:
        validated = [
            {"of": [checkpoint.name for checkpoint in each.checkpoints], str(choose): each.value}
            for each in candidates
        ]
        result = {"checkpoint": str(folder), "of": names}
        console.print_json(result | ({"validated": validated} if candidates else {}))
    elif candidates:
        rows = [[str(len(each.checkpoints)), f"{each.value:.3f}"] for each in candidates]
        print_table(["averaged", str(choose).replace("-", " ")], rows, right=["averaged"])
    _say_what_was_done(names, folder, replaced)


def _say_what_was_done(names: Sequence[str], folder: Path, replaced: Sequence[str]) -> None:
    instead = f", in place of the average of {', '.join(replaced)}" if replaced else ""
    console.talk(f"averaged {', '.join(names)} into {folder}{instead}")
    run = shlex.quote(str(folder.parent.parent))
    console.next_step(f"jtrans translate {run} --checkpoint {shlex.quote(folder.name)}")


def _average_runs(runs: Sequence[str], weights: str | None, name: str, *, as_json: bool) -> None:
    """Average a checkpoint of each of several runs into a checkpoint of the first."""
    shares = _shares(weights, len(runs))
    from jtrans.runs import find_run

    opened = [find_run(each, with_checkpoint=True) for each in runs]
    from jtrans.training.weights.averaging import average_checkpoints, replaced_average
    from jtrans.training.weights.several_runs import (
        checkpoints_of_runs,
        has_one_origin,
        hint_of_runs,
    )

    with hint_of_runs():
        checkpoints = checkpoints_of_runs(opened, shares)
    replaced = replaced_average(opened[0], checkpoints, name)
    if not has_one_origin(opened):
        console.warn(
            "these runs did not begin with the same weights (train --from): the average of models "
            "that were trained independently translates badly"
        )
    with hint_of_runs():
        folder = average_checkpoints(opened[0], checkpoints, name, shares)
    names = [checkpoint.name for checkpoint in checkpoints]
    if as_json:
        console.print_json({"checkpoint": str(folder), "of": names})
    _say_what_was_done(names, folder, replaced)


def _shares(weights: str | None, runs: int) -> list[float] | None:
    """Return what each run counts."""
    if weights is None:
        return None
    try:
        shares = [float(each) for each in weights.split(",")]
    except ValueError:
        shares = []
    if len(shares) != runs or not all(0 < each < math.inf for each in shares):
        raise usage_error(
            f"--weights needs a number above 0 for each of {runs} runs, not {weights[:60]!r}",
            f"for example --weights {','.join(['1'] * runs)}",
        )
    return shares


def _refuse_with_several(**given: object) -> None:
    """Refuse options that choose among the checkpoints of a single run."""
    used = [f"--{name}" for name, value in given.items() if value is not None]
    if used:
        raise usage_error(
            f"{used[0]} is for the checkpoints of a single run",
            "of several runs, the best checkpoint is averaged, or that of RUN@CHECKPOINT",
        )


def _validated(
    run: Run,
    checkpoints: Sequence[Checkpoint],
    data: Path | None,
    metric: Metric,
    device: str | None,
) -> list[Candidate]:
    from jtrans.analysis.study.load import open_corpus
    from jtrans.training.weights.best_average import validate_averages

    corpus = open_corpus(run, data)
    progress = console.TerminalProgress()
    return validate_averages(
        run, checkpoints, corpus, metric.value, device=device, progress=progress
    )


def _parse(steps: str | None) -> list[int] | None:
    if steps is None:
        return None
    updates = whole_numbers(steps)
    if updates is None:
        raise usage_error(
            f"--steps needs update numbers, not {steps[:60]!r}",
            "for example --steps 1000,2000",
        )
    if len(set(updates)) < len(updates):
        distinct = ",".join(map(str, dict.fromkeys(updates)))
        raise usage_error(
            f"--steps {steps} names a checkpoint twice",
            f"name every checkpoint once: --steps {distinct}",
        )
    return updates

"""`jtrans average`: one checkpoint from several."""

from __future__ import annotations

import enum
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
    run: str = argument("RUN", "A run: its folder, its name, or @last."),
    last: int | None = option("How many of the newest to average.", shown="5; with --choose: all"),
    steps: str | None = option("Average the checkpoints at these updates instead.", "N,N,..."),
    choose: Metric | None = option(
        "Choose how many, at most --last, by the score of each average on valid."
    ),
    name: str = option("Name of the new checkpoint.", default="average"),
    data: Path | None = option(
        "Prepared corpus whose valid split --choose scores.", "DIR", "the run's own"
    ),
    device: str | None = DEVICE,
    as_json: bool = JSON,
) -> None:
    """Average the weights of several checkpoints of a run.

    [bold]Examples[/bold]

    jtrans average runs/demo/transformer --last 5

    jtrans average @last --choose valid-bleu

    jtrans average @last --steps 1000,2000,3000 --name middle
    """
    if steps is not None and (last is not None or choose is not None):
        other = "--last" if choose is None else "--choose"
        raise usage_error(f"{other} and --steps exclude each other", "use one of them")
    if choose is None and (data is not None or device is not None):
        unused = "--device" if data is None else "--data"
        raise usage_error(f"{unused} has no effect without --choose", "--choose valid-bleu")
    updates = _parse(steps)
    from jtrans.runs import find_run

    opened = find_run(run)  # a wrong name is refused before torch is imported
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
    instead = f", in place of the average of {', '.join(replaced)}" if replaced else ""
    console.talk(f"averaged {', '.join(names)} into {folder}{instead}")
    place = shlex.quote(str(opened.folder))
    console.next_step(f"jtrans translate {place} --checkpoint {shlex.quote(name)}")


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

"""Make a row again from the file of its result, and compare both scores."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import tomli_w

from jtrans.cli import console
from jtrans.errors import EXIT_CHECK_FAILED, EXIT_FAILED, usage_error
from jtrans.files import write_text
from scripts.reproduction.catalogue import Experiment, Row
from scripts.reproduction.merge import check_same_data
from scripts.reproduction.options import DECIDED_BY_RESULT, parser
from scripts.reproduction.results import RowResult
from scripts.reproduction.row import Job
from scripts.reproduction.summary import summarise
from scripts.reproduction.work import again, open_job, train_rows


def repeat(chosen: argparse.Namespace, given: Sequence[str]) -> int:
    """Make the row of a result again and compare the scores; return the exit code.

    Args:
        chosen: the options; `chosen.experiment` is the file of the result.
        given: the arguments as they were given, for the command that continues.

    Raises:
        JtransError: an option that the file decides, other data, or a result that is not one.
    """
    _check_options(chosen)
    path = Path(chosen.experiment)
    known = RowResult.read(path)
    siblings = [RowResult.read(each) for each in sorted(path.parent.glob(f"{known.row}-*.json"))]
    of_row = {result.seed: result for result in [*siblings, known] if result.row == known.row}
    check_same_data(of_row.values())
    _, _, average = known.checkpoint.partition("average-")
    chosen.average = int(average or 0)
    job = open_job(chosen, known.task, known.setting)
    _check_place(job, known)
    row = _row_of(job, known)
    experiment = Experiment(known.row, f"{known.row} again", [row], list(known.splits))
    there = job.rows_folder / known.file_name
    if there.is_file():
        console.talk(f"{there} exists already: it is compared, and nothing is made again")
    else:
        job.check_run(row, known.seed)
    failed, code = train_rows(job, experiment, [row], [known.seed], chosen.budget)
    repeated = job.finished(row, known.seed, experiment.splits)
    if repeated is None:
        console.talk("nothing is compared yet")
        console.next_step(again(given))
        return code or (EXIT_FAILED if failed else 0)
    # it was trained by a copy of the configuration: name the recipe itself
    replace(repeated, recipe=known.recipe).write(job.rows_folder)
    return _compare(experiment, known, repeated, list(of_row.values()))


def _check_options(chosen: argparse.Namespace) -> None:
    """Refuse options that the file of the result decides."""
    for name in DECIDED_BY_RESULT:
        if vars(chosen)[name] != parser().get_default(name):
            option = f"--{name.replace('_', '-')}"
            raise usage_error(
                f"{option} has no effect when a row is made again from its file",
                f"leave {option} out, or name the experiment in place of the file",
                where=option,
            )


def _check_place(job: Job, known: RowResult) -> None:
    """Refuse other data than that of the result, and the folder of the result itself."""
    if job.data.digests() != known.data["digests"]:
        raise usage_error(
            f"{job.data.folder} is not the data of {known.file_name}",
            f"prepare {known.data['name']} as it was prepared there",
            where="--data",
        )
    there = job.rows_folder / known.file_name
    if there.is_file() and RowResult.read(there) == known:
        raise usage_error(
            f"{there} is the result that is to be made again", "choose another --out", "--out"
        )


def _row_of(job: Job, known: RowResult) -> Row:
    """Return the row whose recipe is the configuration of a result; write it into the job."""
    recipe = job.out.resolve() / f"{known.row}-{known.seed}.toml"
    write_text(recipe, tomli_w.dumps(known.config))
    return Row(known.row, str(recipe).replace("{", "{{").replace("}", "}}"))


def _compare(
    experiment: Experiment, known: RowResult, repeated: RowResult, of_row: Sequence[RowResult]
) -> int:
    """Print both scores; return 4 if the new one is outside the band of the row's seeds, else 0."""
    split, metric = experiment.splits[-1], "multi-bleu"
    before, now = (result.splits[split].scores[metric] for result in (known, repeated))
    print(f"{metric} of {split}: {before:.2f} then, {now:.2f} now")
    summary = summarise(replace(experiment, splits=[split]), of_row)[0]
    band = summary.band(split, metric)
    if band is None:
        same = known.splits[split].hypotheses == repeated.splits[split].hypotheses
        print("the same translations" if same else "one seed: no band to compare with")
        return 0
    print(f"band of {len(summary.results)} seeds: {band[0]} to {band[1]}")
    return 0 if band[0] <= round(now, 2) <= band[1] else EXIT_CHECK_FAILED

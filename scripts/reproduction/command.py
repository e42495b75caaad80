"""The command line of `python -m scripts.reproduce`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from jtrans.cli import console
from jtrans.cli.main import show_error
from jtrans.cli.options import read_seeds
from jtrans.cli.stop_signals import Leaving, Terminated
from jtrans.cli.tables import print_table
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import EXIT_FAILED, JtransError, usage_error
from jtrans.files import write_json
from jtrans.processors import let_threads_wait
from scripts.reproduction.catalogue import Experiment, Row, find_experiment, parse_rows
from scripts.reproduction.configuration import row_config
from scripts.reproduction.data import open_data
from scripts.reproduction.merge import check_new_rows, merge, read_results
from scripts.reproduction.notes import notes
from scripts.reproduction.options import check_numbers, check_settings, parser
from scripts.reproduction.repeat import repeat
from scripts.reproduction.results import RowResult
from scripts.reproduction.row import Job, check_same_settings
from scripts.reproduction.summary import missing, summarise
from scripts.reproduction.table import as_json, table
from scripts.reproduction.work import again, open_job, train_rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit with its code."""
    let_threads_wait()
    console.outlive_readers()
    given = list(sys.argv[1:] if arguments is None else arguments)
    chosen = parser().parse_args(given)
    try:
        Leaving().take_signals()
        check_numbers(chosen)
        if chosen.out.exists() and not chosen.out.is_dir():
            message = f"--out {chosen.out} is a file"
            raise usage_error(message, "name a folder, or one that does not exist yet", "--out")
        is_result = chosen.experiment.endswith(".json")
        code = repeat(chosen, given) if is_result else _reproduce(chosen, given)
        sys.stdout.flush()
    except JtransError as error:
        show_error(error, as_json=False)
        code = error.exit_code
    except (KeyboardInterrupt, Terminated) as leaving:
        said, code = "interrupted", 130
        if isinstance(leaving, Terminated):
            said, code = "terminated", int(leaving.code or 0)
        print(f"{said}; the same command continues", file=sys.stderr)
    except BrokenPipeError:  # the reader of the table has quit (head, less)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    raise SystemExit(code)


def _prepared_data(chosen: argparse.Namespace) -> dict[str, str] | None:
    """Return the digests of the corpus that merged results must have, None if none is here."""
    if chosen.data is None or not PreparedCorpus.exists(chosen.data):
        return None
    progress = console.TerminalProgress()
    return open_data(chosen.task, chosen.data, originals=None, progress=progress).digests()


def _reproduce(chosen: argparse.Namespace, given: Sequence[str]) -> int:
    experiment = find_experiment(chosen.experiment, chosen.task)
    rows = experiment.chosen(None if chosen.rows is None else parse_rows(chosen.rows))
    seeds = read_seeds(chosen.seeds)
    results = Path(chosen.out) / "rows"
    setting = chosen.setting or experiment.setting
    check_settings(chosen.set, setting, rows, chosen.average)
    if chosen.merge or chosen.table:
        _check_shown_results(chosen, experiment, setting, results)
    if chosen.merge:
        table_rows, splits = experiment.rows, experiment.splits
        data = _prepared_data(chosen)
        merge(chosen.merge, results, rows=table_rows, splits=splits, task=chosen.task, data=data)
    done = read_results(results, chosen.task)
    if chosen.table or (chosen.merge and not chosen.figures):
        _show(experiment, done, chosen.out)
        if left := missing(experiment, rows, seeds, done):
            console.talk(f"{len(left)} left: {', '.join(left)}; nothing was trained")
        return 0
    job = open_job(chosen, chosen.task, setting, experiment.overrides_by(setting))
    _check_job(job, experiment, rows, seeds, done, is_to_train=not chosen.figures)
    if chosen.figures:
        _show(experiment, done, chosen.out)
        _draw(experiment, job, rows, seeds)
        return 0
    failed, exit_code = train_rows(job, experiment, rows, seeds, chosen.budget)
    done = read_results(results, chosen.task)
    _show(experiment, done, chosen.out)
    left = missing(experiment, rows, seeds, done)
    if left:
        console.talk(f"{len(left)} left: {', '.join(left)}")
        console.next_step(again(given))
        return exit_code or (EXIT_FAILED if failed else 0)
    if not chosen.no_report and not exit_code:
        _draw(experiment, job, rows, seeds)
    return exit_code


def _check_job(
    job: Job,
    experiment: Experiment,
    rows: Sequence[Row],
    seeds: Sequence[int],
    done: Sequence[RowResult],
    *,
    is_to_train: bool,
) -> None:
    """Refuse data without the splits of the table, and runs and results of other settings or data.

    This comes before the first minute of training.
    """
    if absent := [split for split in experiment.splits if split not in job.data.splits]:
        raise usage_error(
            f"{job.data.folder} has no split {', '.join(absent)}, which this table needs",
            f"prepare {job.task} with jtrans prepare {job.task}",
            where="--data",
        )
    for row, seed in product(rows, seeds):
        if job.finished(row, seed, experiment.splits) is None:
            job.check_run(row, seed)
            if is_to_train:
                check_new_rows(done, job.data.digests(), job.setting)
                job.check_average(row, seed)
                job.check_result(row, seed)


def _check_shown_results(
    chosen: argparse.Namespace, experiment: Experiment, setting: str, folder: Path
) -> None:
    """Refuse results that are to be shown but were made with other settings than those named."""
    if not (chosen.setting or chosen.set or chosen.average):
        return
    rows = {row.name: row for row in experiment.rows}
    overrides = (*experiment.overrides_by(setting), *chosen.set)
    for path in (*chosen.merge, *sorted(folder.glob("*.json"))):
        result = RowResult.read(path)
        if (row := rows.get(result.row)) is not None:
            seed = {"training.seed": result.seed}
            config = row_config(row, chosen.task, setting, overrides, seed)
            check_same_settings(path, result, config, row.checkpoint(chosen.average))


def _draw(experiment: Experiment, job: Job, rows: Sequence[Row], seeds: Sequence[int]) -> None:
    """Draw the report and the figures of the rows that have a result and a run."""
    from scripts.reproduction.figures import draw, runs_of_results

    checkpoint = f"average-{job.average}" if job.average else "best"
    # all systems of a report translate with one checkpoint
    others = [row.name for row in rows if job.checkpoint(row) != checkpoint]
    if others:
        console.talk(f"no figures of {', '.join(others)}: they show the checkpoint {checkpoint}")
    drawn = [row for row in rows if row.name not in others]
    here, elsewhere = runs_of_results(job, drawn, seeds, experiment.splits)
    if elsewhere:
        console.talk(
            f"the figures lack {', '.join(elsewhere)}: copy their runs into {job.out}/runs"
        )
    if not here:
        console.talk("no figures: none of these rows has both a result and a run here")
        return
    page = draw(experiment, job, here, console.TerminalProgress(), checkpoint=checkpoint)
    console.talk(f"{'Written':<12} {page}, and figures in {page.parents[1]}")


def _show(experiment: Experiment, results: Sequence[RowResult], out: Path) -> None:
    summaries = summarise(experiment, results)
    if not summaries:
        console.talk("no row is finished")
        return
    write_json(out / f"{experiment.name}.json", as_json(experiment, summaries))
    head, rows = table(experiment, summaries)
    print(experiment.title)
    print_table(head, rows, right=head[1:])
    for note in notes(experiment, summaries):
        print(note)
    for summary in summaries:
        for split in experiment.splits:
            band = summary.expected(split, experiment.name)
            if band is not None:
                print(f"[expect] of {summary.row.recipe}: {split} = {band}")

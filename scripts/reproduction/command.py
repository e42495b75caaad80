"""The command line of `python -m scripts.reproduce`."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from jtrans.cli import console
from jtrans.cli.main import show_error
from jtrans.cli.options import read_seeds
from jtrans.cli.tables import print_table
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import (
    EXIT_CHECK_FAILED,
    EXIT_FAILED,
    CheckpointError,
    JtransError,
    WorkError,
    usage_error,
)
from jtrans.processors import let_threads_wait
from scripts.reproduction.catalogue import (
    Experiment,
    Row,
    find_experiment,
    parse_rows,
)
from scripts.reproduction.data import digests, open_data
from scripts.reproduction.options import KNOWN, check_numbers, check_settings, parser
from scripts.reproduction.results import RowResult, check_same_data, merge, read_results
from scripts.reproduction.row import (
    Job,
    check_made_with,
    row_checkpoint,
    row_config,
    run_row,
)
from scripts.reproduction.summary import as_json, missing, notes, summarise, table


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit with its code."""
    let_threads_wait()
    console.outlive_readers()
    given = list(sys.argv[1:] if arguments is None else arguments)
    chosen = parser().parse_args(given)
    try:
        check_numbers(chosen)
        code = (
            _repeat(chosen, given)
            if chosen.experiment.endswith(".json")
            else _reproduce(chosen, given)
        )
        sys.stdout.flush()
    except JtransError as error:
        show_error(error, as_json=False)
        code = error.exit_code
    except KeyboardInterrupt:
        print("interrupted; the same command continues", file=sys.stderr)
        code = 130
    except BrokenPipeError:  # the reader of the table has quit (head, less)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    raise SystemExit(code)


def _job(chosen: argparse.Namespace, task: str, setting: str, overrides: Sequence[str] = ()) -> Job:
    from jtrans.nn.device import resolve_device

    resolve_device(chosen.device)  # refuse an unknown one before the corpus is prepared
    if chosen.data is None:
        raise usage_error("no prepared corpus", f"--data data/prepared/{task}", where="--data")
    progress = console.TerminalProgress()
    corpus = open_data(task, chosen.data, originals=chosen.originals, progress=progress)
    overrides = (*overrides, *chosen.set)
    return Job(task, corpus, chosen.out, setting, overrides, chosen.average, chosen.device)


def _prepared_data(chosen: argparse.Namespace) -> dict[str, str] | None:
    """Return the digests of the corpus that merged results must have, None if none is here."""
    if chosen.data is None or not PreparedCorpus.exists(chosen.data):
        return None
    progress = console.TerminalProgress()
    return digests(open_data(chosen.task, chosen.data, originals=None, progress=progress))


def _again(given: Sequence[str]) -> str:
    """Return the command to paste, which works only in the root of the repository."""
    script = Path(__file__).parents[1] / "reproduce.py"
    place = ["-m", "scripts.reproduce"] if script.parents[1] == Path.cwd() else [str(script)]
    return shlex.join(["python", *place, *given])


def _reproduce(chosen: argparse.Namespace, given: Sequence[str]) -> int:
    experiment = find_experiment(chosen.experiment, chosen.task)
    rows = experiment.chosen(None if chosen.rows is None else parse_rows(chosen.rows))
    seeds = read_seeds(chosen.seeds)
    results = Path(chosen.out) / "rows"
    setting = chosen.setting or experiment.setting
    check_settings(chosen.set, setting, rows, chosen.average)
    if chosen.merge or chosen.table:
        _check_as_told(chosen, experiment, setting, results)
    if chosen.merge:
        recipes = {row.name: row.recipe.format(task=chosen.task) for row in experiment.rows}
        splits = experiment.splits
        data = _prepared_data(chosen)
        merge(chosen.merge, results, recipes=recipes, splits=splits, task=chosen.task, data=data)
    done = read_results(results, chosen.task)
    if chosen.table or (chosen.merge and not chosen.figures):
        _show(experiment, done, chosen.out)
        if left := missing(experiment, rows, seeds, done):
            console.talk(f"{len(left)} left: {', '.join(left)}; nothing was trained")
        return 0
    job = _job(chosen, chosen.task, setting, experiment.overrides)
    if absent := [split for split in experiment.splits if split not in job.data.splits]:
        raise usage_error(
            f"{job.data.folder} has no split {', '.join(absent)}, which this table needs",
            f"prepare {chosen.task} with jtrans prepare {chosen.task}",
            where="--data",
        )
    for row, seed in product(rows, seeds):  # refuse other settings or data before the first minute
        if job.finished(row, seed, experiment.splits) is None:
            job.check_run(row, seed)
            if not chosen.figures:
                job.check_result(row, seed)
    if chosen.figures:
        _show(experiment, done, chosen.out)
        _draw(experiment, job, rows, seeds)
        return 0
    failed, exit_code = _train(job, experiment, rows, seeds, chosen.budget)
    done = read_results(results, chosen.task)
    _show(experiment, done, chosen.out)
    left = missing(experiment, rows, seeds, done)
    if left:
        console.talk(f"{len(left)} left: {', '.join(left)}")
        console.next_step(_again(given))
        return exit_code or (EXIT_FAILED if failed else 0)
    if not chosen.no_report:
        _draw(experiment, job, rows, seeds)
    return 0


def _check_as_told(
    chosen: argparse.Namespace, experiment: Experiment, setting: str, folder: Path
) -> None:
    """Refuse results that are to be shown but were made with other settings than those named."""
    if not (chosen.setting or chosen.set or chosen.average):
        return
    rows = {row.name: row for row in experiment.rows}
    overrides = (*experiment.overrides, *chosen.set)
    for path in (*chosen.merge, *sorted(folder.glob("*.json"))):
        result = RowResult.read(path)
        if (row := rows.get(result.row)) is not None:
            seed = {"training.seed": result.seed}
            config = row_config(row, chosen.task, setting, overrides, seed)
            check_made_with(path, result, config, row_checkpoint(row, chosen.average))


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
    page = draw(experiment, job, here, console.TerminalProgress(), checkpoint=checkpoint)[0]
    console.talk(f"{'Written':<12} {page}, and figures in {page.parents[1]}")


def _train(
    job: Job,
    experiment: Experiment,
    rows: Sequence[Row],
    seeds: Sequence[int],
    budget: float | None,
) -> tuple[list[str], int]:
    """Make the rows that have no result; return the failed ones, and the exit code of a signal."""
    from jtrans.cli.stop_signals import StopSignals

    deadline = None if budget is None else time.monotonic() + 60.0 * budget
    failed: list[str] = []
    for seed in seeds:
        for row in rows:
            if job.finished(row, seed, experiment.splits) is not None:
                continue
            if deadline is not None and time.monotonic() > deadline:
                console.talk("the budget is used up")
                return failed, 0
            console.talk(f"\n{row.name}, seed {seed}")
            try:
                with StopSignals() as signals:
                    result = _make(job, experiment, row, seed, signals.are_set, deadline)
            except (
                WorkError,
                CheckpointError,
            ) as error:  # diverged, no memory, too few validations
                show_error(error, as_json=False)
                failed.append(f"{row.name}-{seed}")
                continue
            if signals.exit_code is not None:
                return failed, signals.exit_code
            if result is None:
                console.talk("the budget is used up")
                return failed, 0
    return failed, 0


def _make(
    job: Job, experiment: Experiment, row: Row, seed: int, is_signalled: Any, deadline: float | None
) -> RowResult | None:
    from jtrans.cli.train_table import TrainTable

    def should_stop() -> bool:
        return is_signalled() or (deadline is not None and time.monotonic() > deadline)

    with contextlib.closing(TrainTable()) as events:
        return run_row(
            job,
            row,
            seed,
            list(experiment.splits),
            events=events,
            should_stop=should_stop,
            progress=console.TerminalProgress(),
        )


def _show(experiment: Experiment, results: Sequence[RowResult], out: Path) -> None:
    from jtrans.files import write_json

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


def _repeat(chosen: argparse.Namespace, given: Sequence[str]) -> int:
    """Make the row of a result again and compare the scores; return the exit code."""
    import tomli_w

    from jtrans.files import write_text

    for name in KNOWN:
        if vars(chosen)[name] != parser().get_default(name):
            raise usage_error(
                f"--{name} has no effect when a row is made again from its file",
                f"leave --{name} out, or name the experiment in place of the file",
                where=f"--{name}",
            )
    path = Path(chosen.experiment)
    known = RowResult.read(path)
    siblings = [RowResult.read(each) for each in sorted(path.parent.glob(f"{known.row}-*.json"))]
    of_row = {sibling.seed: sibling for sibling in siblings if sibling.row == known.row} | {
        known.seed: known
    }
    check_same_data(of_row.values())
    _, _, average = known.checkpoint.partition("average-")
    chosen.average = int(average or 0)
    job = _job(chosen, known.task, known.setting)
    if digests(job.data) != known.data["digests"]:
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
    recipe = job.out.resolve() / f"{known.row}-{known.seed}.toml"
    write_text(recipe, tomli_w.dumps(known.config))
    row = Row(known.row, str(recipe).replace("{", "{{").replace("}", "}}"))
    experiment = Experiment(known.row, f"{known.row} again", [row], list(known.splits))
    if there.is_file():
        console.talk(f"{there} exists already: it is compared, and nothing is made again")
    else:
        job.check_run(row, known.seed)
    failed, code = _train(job, experiment, [row], [known.seed], chosen.budget)
    again = job.finished(row, known.seed, experiment.splits)
    if again is None:
        console.talk("nothing is compared yet")
        console.next_step(_again(given))
        return code or (EXIT_FAILED if failed else 0)
    replace(again, recipe=known.recipe).write(job.rows_folder)  # it came from a copy of this one
    return _compare(experiment, known, again, list(of_row.values()))


def _compare(
    experiment: Experiment, known: RowResult, again: RowResult, of_row: Sequence[RowResult]
) -> int:
    """Print both scores; return 4 if the new one is outside the band of the row's seeds, else 0."""
    split, metric = experiment.splits[-1], "multi-bleu"
    before, now = (result.splits[split].scores[metric] for result in (known, again))
    print(f"{metric} of {split}: {before:.2f} then, {now:.2f} now")
    band = summarise(experiment, of_row)[0].band(split, metric)
    if band is None:
        same = known.splits[split].hypotheses == again.splits[split].hypotheses
        print("the same translations" if same else "one seed: no band to compare with")
        return 0
    print(f"band of {len(of_row)} seeds: {band[0]} to {band[1]}")
    return 0 if band[0] <= round(now, 2) <= band[1] else EXIT_CHECK_FAILED

"""The command line of `python -m scripts.reproduce`."""

from __future__ import annotations

import argparse
import contextlib
import math
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
    experiment_names,
    find_experiment,
    parse_rows,
    parse_seeds,
)
from scripts.reproduction.data import digests, open_data
from scripts.reproduction.results import RowResult, check_same_data, merge, read_results
from scripts.reproduction.row import LIMITS, Job, limit_of, run_row
from scripts.reproduction.summary import as_json, missing, notes, summarise, table

DESCRIPTION = """Train, translate and score the rows of a table, and print it beside the paper's.

    python -m scripts.reproduce table2 --task iwslt14-de-en --data DIR --out runs/table2
    python -m scripts.reproduce equal-parameters --task multi30k-de-en --data DIR \\
        --out runs/equal --budget 60
    python -m scripts.reproduce table2 ... --merge elsewhere/rows/*.json
    python -m scripts.reproduce table2 ... --figures

The same command continues where it stopped, whatever stopped it: rows with a result are not made
again. All rows are made with the first seed before any is made with the second. A row's result is
one file, OUT/rows/ROW-SEED.json. --merge copies such files from other machines into OUT/rows,
prints the table and trains nothing; the command without it makes the rows that are missing.

Given the path of a row's file in place of the experiment, the command makes that row again, in
another OUT, and compares the score (exit 4 outside the band of its seeds): only --data, --out,
--from, --budget and --device apply.
"""

# options that the file of a row decides when that row is made again
KNOWN = ("task", "seeds", "rows", "setting", "average", "set", "merge", "table", "figures")


def parser() -> argparse.ArgumentParser:
    """Return the parser."""
    options = argparse.ArgumentParser(
        prog="python -m scripts.reproduce",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = ", ".join(experiment_names())
    options.add_argument("experiment", help=f"{names}; or a row's result")
    options.add_argument("--task", help="such as iwslt14-de-en")
    options.add_argument(
        "--data", type=Path, metavar="DIR", help="prepared corpus; prepared there if missing"
    )
    options.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder of runs and results"
    )
    options.add_argument(
        "--from", dest="originals", type=Path, metavar="DIR", help="original files of the corpus"
    )
    options.add_argument(
        "--seeds", default="1,2,3", metavar="N,...", help="of every row (default: 1,2,3)"
    )
    options.add_argument(
        "--rows", metavar="NAME,...", help="make only these (the table has all rows with results)"
    )
    options.add_argument(
        "--budget",
        type=float,
        metavar="MINUTES",
        help="stop after this time, with everything saved; the same command continues",
    )
    options.add_argument(
        "--setting",
        metavar="paper|equal-time:MINUTES|equal-updates:NUMBER",
        help="what limits training: the recipe of each row, or the same time or updates for all "
        "(default: that of the experiment, mostly paper)",
    )
    options.add_argument(
        "--average",
        type=int,
        default=0,
        metavar="N",
        help="translate with the average of the checkpoints of the last N validations "
        "(default: with the checkpoint of the lowest validation loss)",
    )
    options.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change a setting of all rows; may be repeated",
    )
    options.add_argument(
        "--device", help="device to train and translate on: cpu, cuda or auto (default: auto)"
    )
    options.add_argument(
        "--merge",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="copy results from other machines into OUT/rows and print the table; train nothing",
    )
    last = options.add_mutually_exclusive_group()
    last.add_argument("--table", action="store_true", help="print the table; train nothing")
    last.add_argument(
        "--figures",
        action="store_true",
        help="train nothing: print the table and draw the runs in OUT/runs that have results",
    )
    last.add_argument("--no-report", action="store_true", help="draw no figures at the end")
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit with its code."""
    let_threads_wait()
    given = list(sys.argv[1:] if arguments is None else arguments)
    chosen = parser().parse_args(given)
    try:
        _check_numbers(chosen)
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


def _check_numbers(chosen: argparse.Namespace) -> None:
    if chosen.budget is not None and not 0.0 <= chosen.budget < math.inf:
        raise usage_error(f"a budget of {chosen.budget:g} minutes", "--budget 60", "--budget")
    if chosen.average < 0:
        raise usage_error(
            f"the average of {chosen.average} checkpoints", "--average 5", "--average"
        )


def _check_settings(settings: Sequence[str], setting: str) -> None:
    """Refuse an unknown `setting`, and settings that other options decide."""
    limit = limit_of(setting)
    for key in (text.partition("=")[0].strip() for text in settings):
        if key == "training.seed":
            raise usage_error(f"--set {key} has no effect: --seeds decides", "--seeds 7", "--set")
        if limit and key.removeprefix("training.").split(".")[0] in LIMITS:
            raise usage_error(
                f"--set {key} has no effect: the setting {setting} decides how long rows train",
                "--setting equal-updates:200, or --setting paper for the limits of the recipes",
                "--set",
            )


def _again(given: Sequence[str]) -> str:
    """Return the command to paste, which works only in the root of the repository."""
    script = Path(__file__).parents[1] / "reproduce.py"
    place = ["-m", "scripts.reproduce"] if script.parents[1] == Path.cwd() else [str(script)]
    return shlex.join(["python", *place, *given])


def _reproduce(chosen: argparse.Namespace, given: Sequence[str]) -> int:
    experiment = find_experiment(chosen.experiment, chosen.task)
    rows = experiment.chosen(None if chosen.rows is None else parse_rows(chosen.rows))
    seeds = parse_seeds(chosen.seeds)
    results = Path(chosen.out) / "rows"
    if chosen.merge:
        recipes = {row.name: row.recipe.format(task=chosen.task) for row in experiment.rows}
        splits = experiment.splits
        merge(chosen.merge, results, recipes=recipes, splits=splits, task=chosen.task)
    done = read_results(results, chosen.task)
    if chosen.table or (chosen.merge and not chosen.figures):
        _show(experiment, done, chosen.out)
        if left := missing(experiment, rows, seeds, done):
            console.talk(f"{len(left)} left: {', '.join(left)}; nothing was trained")
        return 0
    setting = chosen.setting or experiment.setting
    _check_settings(chosen.set, setting)
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


def _draw(experiment: Experiment, job: Job, rows: Sequence[Row], seeds: Sequence[int]) -> None:
    """Draw the report and the figures of the rows that have a result and a run."""
    from scripts.reproduction.figures import draw, runs_of_results

    here, elsewhere = runs_of_results(job, rows, seeds, experiment.splits)
    if elsewhere:
        console.talk(
            f"the figures lack {', '.join(elsewhere)}: copy their runs into {job.out}/runs"
        )
    if not here:
        console.talk("no figures: none of these rows has both a result and a run here")
        return
    checkpoint = f"average-{job.average}" if job.average else "best"
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
    console.print_table(head, rows, right=head[1:])
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

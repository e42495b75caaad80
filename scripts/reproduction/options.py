"""The options of `python -m scripts.reproduce`."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from jtrans.errors import usage_error
from scripts.reproduction.catalogue import Row, experiment_names
from scripts.reproduction.configuration import LIMITS, limit_of

DESCRIPTION = """Train, translate and score the rows of a table, and print it beside the paper's.

    python -m scripts.reproduce table2 --task iwslt14-de-en --data DIR --out runs/table2
    python -m scripts.reproduce equal-parameters --task multi30k-de-en --data DIR \\
        --out runs/equal --budget 60
    python -m scripts.reproduce table2 ... --merge elsewhere/rows/*.json
    python -m scripts.reproduce table2 ... --figures
    python -m scripts.reproduce my/experiments.toml:mine ...

The same command continues where it stopped, whatever stopped it: rows with a result are not made
again. All rows are made with the first seed before any is made with the second. A row's result is
one file, OUT/rows/ROW-SEED.json. --merge copies such files from other machines into OUT/rows,
prints the table and trains nothing; the command without it makes the rows that are missing.

FILE.toml:NAME is an experiment of your own, described like those of
scripts/reproduction/experiments.toml; its recipes are names, or files named from its folder.

Given the path of a row's file in place of the experiment, the command makes that row again, in
another OUT, and compares the score (exit 4 outside the band of its seeds): only --data, --out,
--from, --budget and --device apply.
"""

MOST_AVERAGED = 1_000  # checkpoints

# options that the file of a row decides when that row is made again
DECIDED_BY_RESULT = (
    "task",
    "seeds",
    "rows",
    "setting",
    "average",
    "set",
    "merge",
    "table",
    "figures",
    "no_report",
)


def parser() -> argparse.ArgumentParser:
    """Return the parser; the function is long because it lists all options."""
    options = argparse.ArgumentParser(
        prog="python -m scripts.reproduce",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = ", ".join(experiment_names())
    options.add_argument("experiment", help=f"{names}; FILE.toml:NAME; or a row's result")
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
        help="end training after this time; rows trained by then are translated and scored, and "
        "the same command continues",
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
        help="copy results from other machines into OUT/rows and print the table; train nothing "
        "(a corpus in --data must be theirs)",
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


def check_numbers(chosen: argparse.Namespace) -> None:
    """Refuse numbers that make no sense.

    Raises:
        ConfigError: a budget or an average that is negative, an infinite budget, or an average of
            more than `MOST_AVERAGED` checkpoints.
    """
    if chosen.budget is not None and not 0.0 <= chosen.budget < math.inf:
        raise usage_error(f"a budget of {chosen.budget:g} minutes", "--budget 60", "--budget")
    if not 0 <= chosen.average <= MOST_AVERAGED:
        raise usage_error(
            f"the average of {chosen.average:,} checkpoints", "--average 5", "--average"
        )


def check_settings(
    settings: Sequence[str], setting: str, rows: Sequence[Row], average: int
) -> None:
    """Refuse an unknown `setting`, and settings that other options or all `rows` decide.

    Raises:
        ConfigError: naming what to write instead.
    """
    limit = limit_of(setting)
    averaged = ", ".join(row.name for row in rows if row.average)
    for key in (text.partition("=")[0].strip() for text in settings):
        if key == "training.seed":
            raise usage_error(f"--set {key} has no effect: --seeds decides", "--seeds 7", "--set")
        if key == "data.corpus":
            raise usage_error(f"--set {key} has no effect: --data decides", "--data DIR", "--set")
        if (average or averaged) and key == "training.keep.last":
            whose = "--average" if average else f"the average of {averaged}"
            message = f"--set {key} has no effect: {whose} keeps what it needs"
            raise usage_error(message, "leave it out", "--set")
        if limit and key.removeprefix("training.").split(".")[0] in LIMITS:
            raise usage_error(
                f"--set {key} has no effect: the setting {setting} decides how long rows train",
                "--setting equal-updates:1000, or --setting paper for the limits of the recipes",
                "--set",
            )
        if all(key in row.settings for row in rows):
            raise usage_error(
                f"--set {key} has no effect: the experiment decides it for "
                f"{', '.join(row.name for row in rows)}",
                "leave it out, or choose other --rows",
                "--set",
            )

"""Compare training with two threads in one process and with one thread in each of two processes.

    python -m scripts.bench.processes --data data/prepared/multi30k-joint --json processes.json

`jtrans train` continues a run of each recipe in either way in turns. The rates are those of its
log, so neither the start of a process nor a validation counts.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from jtrans.processors import own_command
from scripts.bench.interleave import prepared_corpus, recorded_command, spread, write

RECIPES = ("reformer-base", "reformer-fast", "transformer")
THREADS = 2  # in all
WAYS = {"2 threads": 1, "2 processes": 2}
UPDATES = 50  # of a round: the log has a rate for so many


def train(recipe: str, processes: int, *, data: Path, run: Path, until: int) -> float:
    """Train until an update; return the target tokens a second of the last line of the log."""
    command = [*own_command(), "train", recipe, "--data", str(data)]
    command += ["--run", str(run), "--processes", str(processes), "--device", "cpu"]
    # a cosine would have to end after its warm-up
    constant = "training.schedule={ name = 'constant' }"
    command += ["--set", f"training.max_updates={until}", "--set", constant]
    threads = {"OMP_NUM_THREADS": str(THREADS // processes)}  # of each process
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ | threads)
    lines = (run / "log.jsonl").read_text(encoding="utf-8").splitlines()
    rates = [event for event in map(json.loads, lines) if event["event"] == "train"]
    return float(rates[-1]["tokens_per_second"])


def compare(recipe: str, *, data: Path, folder: Path, rounds: int) -> list[dict[str, Any]]:
    """Return a row for each way: its median rate, and its ratio to two threads in each round."""
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(1, rounds + 1):
        for way, processes in WAYS.items():
            run = folder / f"{Path(recipe).name}-{processes}"
            rate = train(recipe, processes, data=data, run=run, until=number * UPDATES)
            rates[way].append(rate)
            print(f"round {number} of {rounds}: {recipe}, {way}, {rate:,.0f}", file=sys.stderr)
    first = rates[next(iter(WAYS))]
    return [
        {
            "variant": f"{recipe}, {way}",
            "tokens_per_second": round(spread(each)["median"], 1),
            "ratio": spread([rate / base for rate, base in zip(each, first, strict=True)]),
        }
        for way, each in rates.items()
    ]


def main() -> None:
    """Measure, print, and write the result if requested."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=prepared_corpus, required=True, help="a prepared corpus")
    parser.add_argument("--recipes", nargs="+", help="names or files; those of multi30k-de-en")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the result to this file")
    chosen = parser.parse_args()
    recipes = chosen.recipes or [f"multi30k-de-en/{name}" for name in RECIPES]
    with tempfile.TemporaryDirectory() as folder:
        measure = functools.partial(
            compare, data=chosen.data, folder=Path(folder), rounds=chosen.rounds
        )
        rows = [row for recipe in recipes for row in measure(recipe)]
    for row in rows:
        ratio, rate = row["ratio"], row["tokens_per_second"]
        print(f"{row['variant']}: {rate:,.0f} tokens/s, {ratio['median']:.2f} x")
    write(chosen.json, rows=rows, command=recorded_command("processes"))


if __name__ == "__main__":
    main()

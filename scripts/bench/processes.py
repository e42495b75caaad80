"""Compare training with two threads in one process and with one thread in each of two processes.

    python -m scripts.bench.processes --data data/prepared/multi30k-joint --json processes.json

Or compare the C library's allocation of memory with that of a shared library:

    python -m scripts.bench.processes --data DIR --allocator LIBRARY --json allocators.json

`jtrans train` continues a run of each recipe in either way in turns. The rates are those of its
log, so neither the start of a process nor a validation counts.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jtrans.processors import own_command
from scripts.bench.interleave import prepared_corpus, recorded_command, spread, write

RECIPES = ("reformer-base", "reformer-fast", "transformer")
THREADS = 2  # in all
UPDATES = 50  # of a round: the log has a rate for so many


@dataclass(frozen=True)
class Way:
    """How `jtrans train` runs: in how many processes, and with which environment."""

    processes: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)


WAYS = {"2 threads": Way(), "2 processes": Way(processes=2)}


def train(recipe: str, way: Way, *, data: Path, run: Path, until: int) -> float:
    """Train until an update; return the target tokens a second of the last line of the log."""
    command = [*own_command(), "train", recipe, "--data", str(data)]
    command += ["--run", str(run), "--processes", str(way.processes), "--device", "cpu"]
    # a cosine would have to end after its warm-up
    constant = "training.schedule={ name = 'constant' }"
    command += ["--set", f"training.max_updates={until}", "--set", constant]
    threads = str(THREADS // way.processes)  # of each process
    environment = {**os.environ, "OMP_NUM_THREADS": threads, **way.environment}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    lines = (run / "log.jsonl").read_text(encoding="utf-8").splitlines()
    rates = [event for event in map(json.loads, lines) if event["event"] == "train"]
    return float(rates[-1]["tokens_per_second"])


def compare(
    recipe: str, ways: Mapping[str, Way], *, data: Path, folder: Path, rounds: int
) -> list[dict[str, Any]]:
    """Return a row for each way: its median rate, and its ratio to the first in each round."""
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(1, rounds + 1):
        for place, (name, way) in enumerate(ways.items()):
            run = folder / f"{Path(recipe).name}-{place}"
            rate = train(recipe, way, data=data, run=run, until=number * UPDATES)
            rates[name].append(rate)
            print(f"round {number} of {rounds}: {recipe}, {name}, {rate:,.0f}", file=sys.stderr)
    first = rates[next(iter(ways))]
    shown = Path(recipe).stem if recipe.endswith(".toml") else recipe
    return [
        {
            "variant": f"{shown}, {way}",
            "tokens_per_second": round(spread(each)["median"], 1),
            "ratio": spread([rate / base for rate, base in zip(each, first, strict=True)]),
        }
        for way, each in rates.items()
    ]


def preloadable(text: str) -> Path:
    """Return the path of a shared library that a process can load before all others.

    Raises:
        ArgumentTypeError: it cannot; the system's loader would only warn, and go on without.
    """
    library = Path(text).resolve()
    loaded = subprocess.run(
        [sys.executable, "-c", "print(open('/proc/self/maps').read())"],
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        check=True,
    )
    if str(library) not in loaded.stdout:
        raise argparse.ArgumentTypeError(f"no shared library that can be loaded first: {text}")
    return library


def allocators(library: Path) -> dict[str, Way]:
    """Return the ways of allocating memory: the C library's, and that of a library to load."""
    return {
        " ".join(platform.libc_ver()): Way(environment={"LD_PRELOAD": ""}),
        library.name.split(".")[0]: Way(environment={"LD_PRELOAD": str(library)}),
    }


def main() -> None:
    """Measure, print, and write the result if requested."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=prepared_corpus, required=True, help="a prepared corpus")
    parser.add_argument("--recipes", nargs="+", help="names or files; those of multi30k-de-en")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--allocator", type=preloadable, metavar="LIBRARY", help="compare this one")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    chosen = parser.parse_args()
    recipes = chosen.recipes or [f"multi30k-de-en/{name}" for name in RECIPES]
    ways = WAYS if chosen.allocator is None else allocators(chosen.allocator)
    with tempfile.TemporaryDirectory() as folder:
        measure = functools.partial(
            compare, ways=ways, data=chosen.data, folder=Path(folder), rounds=chosen.rounds
        )
        rows = [row for recipe in recipes for row in measure(recipe)]
    for row in rows:
        ratio, rate = row["ratio"], row["tokens_per_second"]
        print(f"{row['variant']}: {rate:,.0f} tokens/s, {ratio['median']:.2f} x")
    write(chosen.json, rows=rows, command=recorded_command("processes"))


if __name__ == "__main__":
    main()

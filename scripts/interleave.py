"""Time variants of the same work in turns (A B A B ...), each in a process of its own.

Only one process works at a time, so that a slow spell of the machine meets all variants alike,
and peak memory is each variant's own. Used by the `bench_*.py` scripts.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # idle threads of one variant must not slow others

# Does the work of one round, given by its number, and returns how much that was.
Work = Callable[[int], float]
# Makes ready (model, data) in its own process.
Variant = Callable[[], Work]


def in_turns(variants: Mapping[str, Variant], *, rounds: int, unit: str) -> list[dict[str, Any]]:
    """Run `rounds` rounds of every variant, after one to warm up.

    Returns:
        A row for each: the median rate in `unit` per second, the median over rounds of its
        ratio to the first variant with the 10 % and 90 % values, and peak memory.
    """
    context = multiprocessing.get_context("spawn")
    workers: dict[str, Connection] = {}
    for name, variant in variants.items():
        ours, theirs = context.Pipe()
        context.Process(target=_serve, args=(variant, theirs), daemon=True).start()
        ours.recv()
        workers[name] = ours
    rates: dict[str, list[float]] = {name: [] for name in variants}
    peaks: dict[str, float] = {}
    for number in range(rounds + 1):
        for name, connection in workers.items():
            connection.send(number)
            rate, peaks[name] = connection.recv()
            if number:
                rates[name].append(rate)
    for connection in workers.values():
        connection.send(None)
    first = next(iter(rates.values()))
    return [
        {
            "variant": name,
            f"{unit}_per_second": round(statistics.median(found), 1),
            "ratio": _spread([rate / base for rate, base in zip(found, first, strict=True)]),
            "peak_mib": round(peaks[name]),
        }
        for name, found in rates.items()
    ]


def _serve(variant: Variant, connection: Connection) -> None:
    work = variant()
    connection.send("ready")
    while (number := connection.recv()) is not None:
        start = time.perf_counter()
        amount = work(number)
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        connection.send((amount / seconds, peak))


def _spread(ratios: list[float]) -> dict[str, float]:
    ordered = sorted(ratios)
    last = len(ordered) - 1
    return {
        "median": round(statistics.median(ordered), 3),
        "low": round(ordered[round(0.1 * last)], 3),
        "high": round(ordered[round(0.9 * last)], 3),
    }


def report(rows: list[dict[str, Any]], unit: str, *, path: Path | None, **facts: Any) -> None:
    """Print the rows; with a path write them as JSON with the machine and what else is given."""
    import torch

    for row in rows:
        rate, ratio = row[f"{unit}_per_second"], row["ratio"]
        print(
            f"{row['variant']:<28} {rate:>9,.1f} {unit}/s   {ratio['median']:.2f} x "
            f"({ratio['low']:.2f} to {ratio['high']:.2f})   peak {row['peak_mib']:,} MiB"
        )
    if path is None:
        return
    value = {
        **facts,
        "machine": f"{_processor()}, {os.cpu_count()} cores",
        "torch": torch.__version__,
        "python": sys.version.split()[0],
        "rows": rows,
    }
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text(encoding="utf-8").splitlines() if facts.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()

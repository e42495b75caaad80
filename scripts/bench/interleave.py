"""Time variants of the same work in turns (A B A B ...), each in a process of its own.

Only one process works at a time, so that slow periods of the machine affect all variants alike,
and peak memory is each variant's own. Used by the benchmarks of this folder.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import resource
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from jtrans.files import write_json
from jtrans.processors import let_threads_wait

# The threads of jtrans wait for work as in its commands (`let_threads_wait`); those of other
# programs as by default, see `leave_waiting_alone`.
let_threads_wait()

Amounts = Mapping[str, float]


def leave_waiting_alone() -> None:
    """Let threads wait for work as by libgomp's default; call it before torch is imported."""
    os.environ.pop("GOMP_SPINCOUNT", None)


@dataclass(frozen=True)
class Task:
    """The work of a variant that is ready to run.

    Attributes:
        work: does the round with the given number and returns the amounts of work done.
        measure: measures further values after each round, outside its time.
    """

    work: Callable[[int], Amounts]
    measure: Callable[[], Amounts] = dict


@dataclass(frozen=True)
class Round:
    """One round of a variant: amounts, seconds, further values, and the peak memory so far."""

    amounts: Amounts
    seconds: float
    values: Amounts
    peak_mib: float

    def rate(self, unit: str) -> float:
        """Return the rate in `unit` per second."""
        return self.amounts[unit] / self.seconds


# Prepares model and data in its own process.
Variant = Callable[[], Task]


def in_turns(
    variants: Mapping[str, Variant], *, rounds: int, drops_failing: bool = False
) -> dict[str, list[Round]]:
    """Run `rounds` rounds of every variant, after one to warm up, and return them.

    Args:
        variants: their work by name; the first one is what the others are compared with.
        rounds: how many count.
        drops_failing: leave out a variant that fails, unless it is the first.

    Raises:
        RuntimeError: a variant failed.
    """
    print(f"threads wait for work: {_waiting()}", file=sys.stderr)
    context = multiprocessing.get_context("spawn")
    workers: dict[str, Connection] = {}
    first = next(iter(variants))

    def receive(name: str, connection: Connection) -> Any:
        """Return a worker's answer; None if it failed and is dropped."""
        try:
            answer = connection.recv()
        except EOFError:
            answer = "its process ended"
        if not isinstance(answer, str):
            return answer
        if name == first or not drops_failing:
            raise RuntimeError(f"{name} failed: {answer}")
        print(f"{name} failed and is left out: {answer}", file=sys.stderr)
        workers.pop(name, None)
        return None

    for name, variant in variants.items():
        ours, theirs = context.Pipe()
        context.Process(target=_serve, args=(variant, theirs), daemon=True).start()
        theirs.close()  # only the worker keeps it open, so that `recv` raises if the worker dies
        if receive(name, ours) is not None:
            workers[name] = ours
    rounds_of: dict[str, list[Round]] = {name: [] for name in variants}
    for number in range(rounds + 1):
        for name, connection in list(workers.items()):
            connection.send(number)
            measured = receive(name, connection)
            if measured is None:
                continue
            if number:
                rounds_of[name].append(measured)
            print(f"round {number} of {rounds}: {name}, {measured.seconds:.1f} s", file=sys.stderr)
    for connection in workers.values():
        connection.send(None)
    return {name: rounds_of[name] for name in workers}


def rows(rounds_of: Mapping[str, list[Round]], unit: str) -> list[dict[str, Any]]:
    """Return a row for each variant.

    It has the median rate in `unit` per second, the median over rounds of its ratio to the
    first variant with the 10 % and 90 % values, and peak memory.
    """
    first = next(iter(rounds_of.values()))
    return [
        {
            "variant": name,
            f"{unit}_per_second": round(statistics.median(done.rate(unit) for done in rounds), 1),
            "ratio": spread(
                [
                    done.rate(unit) / base.rate(unit)
                    for done, base in zip(rounds, first, strict=True)
                ]
            ),
            "peak_mib": round(rounds[-1].peak_mib),
        }
        for name, rounds in rounds_of.items()
    ]


def _serve(variant: Variant, connection: Connection) -> None:
    """Do the requested rounds; a failure is sent as text and ends the process."""
    try:
        _work(variant, connection)
    except Exception as error:
        connection.send(f"{type(error).__name__}: {error}")
        raise


def _work(variant: Variant, connection: Connection) -> None:
    task = variant()
    connection.send(True)  # ready
    while (number := connection.recv()) is not None:
        start = time.perf_counter()
        amounts = task.work(number)
        seconds = time.perf_counter() - start
        peak = _peak_bytes() / 2**20
        connection.send(Round(dict(amounts), seconds, dict(task.measure()), peak))


def _peak_bytes() -> int:
    """Return the most memory of this process, or of the GPU if it uses one."""
    import torch

    if torch.cuda.is_initialized():
        return torch.cuda.max_memory_reserved()  # with what graphs keep
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def spread(ratios: list[float]) -> dict[str, float]:
    """Return the median with the 10 % and 90 % values."""
    ordered = sorted(ratios)
    outer = round(0.1 * (len(ordered) - 1))  # as many beyond either value
    return {
        "median": round(statistics.median(ordered), 3),
        "low": round(ordered[outer], 3),
        "high": round(ordered[-1 - outer], 3),
    }


def report(rows: list[dict[str, Any]], unit: str, *, path: Path | None, **entries: Any) -> None:
    """Print the rows; with a path, write them as JSON with the machine and further entries."""
    for row in rows:
        rate, ratio = row[f"{unit}_per_second"], row["ratio"]
        print(
            f"{row['variant']:<28} {rate:>9,.1f} {unit}/s   {ratio['median']:.2f} x "
            f"({ratio['low']:.2f} to {ratio['high']:.2f})   peak {row['peak_mib']:,} MiB"
        )
    write(path, rows=rows, **entries)


def prepared_corpus(text: str) -> Path:
    """Return the folder of a prepared corpus: a path, or a name in data/prepared as results have.

    Raises:
        ArgumentTypeError: there is none.
    """
    from jtrans.data import PREPARED

    for folder in (Path(text), PREPARED / text):
        if (folder / "corpus.json").exists():
            return folder
    raise argparse.ArgumentTypeError(f"no prepared corpus in {text}, nor in {PREPARED / text}")


def recorded_command(module: str) -> str:
    """Return the command of this process for its result: files and folders by their names."""
    arguments = list(sys.argv[1:])
    if "--json" in arguments:
        place = arguments.index("--json")
        del arguments[place : place + 2]
    shown = [Path(each).name if Path(each).exists() else each for each in arguments]
    return shlex.join(["python", "-m", f"scripts.bench.{module}", *shown])


def rows_with(path: Path, row: dict[str, Any], key: str) -> dict[str, dict[str, Any]]:
    """Return the rows that `write` wrote, by `key`, with `row` added or replaced.

    An old row keeps the machine and the torch that it was measured with.
    """
    written = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"rows": []}
    origin = {name: written[name] for name in ("machine", "torch") if name in written}
    return {old[key]: old for old in [*({**origin, **each} for each in written["rows"]), row]}


def write(path: Path | None, **entries: Any) -> None:
    """Write a result as JSON with the machine and the versions, if there is a path."""
    import torch

    if path is None:
        return
    rows = entries.pop("rows")
    origin = {"machine": f"{processor()}, {os.cpu_count()} cores", "torch": torch.__version__}
    value = {
        **entries,
        "machine": origin["machine"],
        "products_gflops": product_rates(),
        **_waiting(),
        "torch": origin["torch"],
        "python": sys.version.split()[0],
        # only rows from elsewhere name their origin
        "rows": [
            {name: item for name, item in row.items() if origin.get(name) != item} for row in rows
        ],
    }
    write_json(path, value)


def _waiting() -> dict[str, str]:
    """Return the settings by which threads of jtrans wait for work, as rates depend on them."""
    names = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    return {name.lower(): os.environ[name] for name in names if name in os.environ}


def timed_precisions() -> tuple[str, ...]:
    """Return fp32, and bf16 if this processor has instructions for it.

    Without them the rounds in bf16 would take most of the time of a benchmark.
    """
    import torch

    from jtrans.nn.device import has_fast_bf16

    return ("fp32", "bf16") if has_fast_bf16(torch.device("cpu")) else ("fp32",)


def product_rates() -> dict[str, int]:
    """Return GFLOP/s of products of 2,048 x 256 x 1,024 numbers on a CPU, by library and type.

    Processors of one name differ in them, and ratios to other programs with them.
    """
    import torch

    from jtrans.nn.cpu.matmul_backend import (
        PRECISIONS,
        is_onednn_real_float32,
        product_seconds,
    )

    x, w = torch.randn(2048, 256), torch.randn(1024, 256)
    kinds = {"MKL fp32": ("MKL", torch.float32)}
    if is_onednn_real_float32():
        kinds["oneDNN fp32"] = ("oneDNN", torch.float32)
    if "bf16" in timed_precisions():  # oneDNN's, whichever library is chosen for float32
        kinds["bf16"] = ("MKL", torch.bfloat16)
    inputs = {dtype: (x.to(dtype), w.to(dtype)) for _, dtype in kinds.values()}
    seconds = dict.fromkeys(kinds, float("inf"))
    before = torch.get_float32_matmul_precision()
    for _ in range(100):  # in turns, and for seconds, as an idle processor is slow at first
        for kind, (library, dtype) in kinds.items():
            torch.set_float32_matmul_precision(PRECISIONS[library])
            seconds[kind] = min(seconds[kind], product_seconds(*inputs[dtype]))
    torch.set_float32_matmul_precision(before)
    operations = 2 * x.numel() * len(w)
    return {kind: round(operations / least / 1e9) for kind, least in seconds.items()}


def processor() -> str:
    """Return the name of the processor, with the family if the name is just AMD EPYC."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    values = {key.strip(): value.strip() for key, _, value in (s.partition(":") for s in lines)}
    name, family = values.get("model name"), values.get("cpu family")
    if name is None:
        return platform.machine()
    return f"{name}, family {family}" if name == "AMD EPYC" else name

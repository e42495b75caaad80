"""The tables of long runs, several processes and large corpora, from data/benchmarks."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from scripts.readme.markdown import table


def distributed(results: dict[str, Any]) -> str:
    """Return the table of the checks of training in several processes."""
    said: dict[str, Callable[[dict[str, Any]], str]] = {
        "kill": lambda result: (
            f"{result['kills']['rank']} kills of a process and {result['kills']['all']} of all; "
            f"after {result['updates']} updates the bytes of the undisturbed run"
        ),
        "silent": lambda result: f"ended after {result['ended_seconds']:.0f} s, started again",
        "stop": lambda result: (
            "saved and ended after SIGINT or SIGTERM to the launcher, SIGTERM to all, and the "
            "launcher's SIGKILL"
        ),
        "machines": lambda result: f"a lost node ended the other in {result['lost_seconds']:.0f} s",
        "speed": lambda result: (
            f"2 processes are {statistics.median(result['ratios']):.2f} times as fast as 2 threads"
        ),
    }
    rows = [
        [f"`{result['command']}`", said[check](result) if result["ok"] else "failed"]
        for check, result in results.items()
    ]
    machines = "; ".join(dict.fromkeys(result["machine"] for result in results.values()))
    note = f"{machines}; `speed` alone on the machine, the others beside other work."
    return f"{table(['check', 'outcome'], rows)}\n\n{note}"


def endurance(results: dict[str, Any]) -> str:
    """Return the growth of a long run from its second quarter to its last."""
    growth = results["growth"]
    head = ["updates", "memory", "open files", "threads"]
    row = [
        f"{results['updates']:,}",
        f"{growth['resident_mib']:+.1f} MiB",
        f"{growth['open_files']:+.0f}",
        f"{growth['threads']:+.0f}",
    ]
    note = "Growth of the medians from the second quarter of the updates to the last"
    return (
        f"{table(head, [row])}\n\n{note}; `{results['command']}`, {results['machine']}, "
        f"torch {results['torch']}."
    )


def corpus_memory(results: dict[str, Any]) -> str:
    """Return the memory that a large corpus needs while training."""
    (row,) = results["rows"]
    pairs = f"{row['pairs'] / 1e6:.0f} M pairs, {row['tokens'] / 1e6:.0f} M tokens of both sides"
    rows = [
        [name, f"{row[f'{key}_bytes'] / 2**30:.2f} GiB", f"{row[f'{key}_seconds']:.0f} s"]
        for name, key in (
            ("the updates of an epoch", "plan"),
            (f"the same with BPE-dropout of {row['bpe_dropout']}", "dropout"),
        )
    ]
    head = [pairs, "peak of memory", "processor time"]
    note = (
        f"Memory that belongs to no file, {row['start_bytes'] / 2**30:.2f} GiB at the start "
        f"included; `{results['command']}`, {results['machine']}, torch {results['torch']}."
    )
    return f"{table(head, rows)}\n\n{note}"

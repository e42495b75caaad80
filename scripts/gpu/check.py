"""Check jtrans on a GPU, then measure it there: one JSON file, one readable page.

    python -m scripts.gpu.check --json gpu.json

It has three sections: (1) the correctness of kernels and models; (2) rates of training and
decoding, with the variants in turns; (3) facts about the libraries on which the design depends. A
part that fails is reported, and the others still run. All parts take about half an hour on one
GPU, most of it compilation: none begins after --minutes, and the same command goes on with those
that the file does not have yet. Without a GPU the same code runs at tiny sizes, with the kernels in
Triton's interpreter; its timings mean nothing.

Needs torch, triton, numpy, pydantic and safetensors besides jtrans itself; the part of the commands
needs all that jtrans requires.
Exit codes: 0, 1 when a part failed, 2 for a file of another machine, 4 when a check of
correctness failed.
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from jtrans.files import read_json, write_json

if TYPE_CHECKING:
    from scripts.gpu.timing import Scale

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported, below and later

Row = dict[str, Any]
SAME = ("device", "torch", "triton", "python", "size")  # of the parts that are in a file


def sections(scale: Scale) -> dict[str, Callable[[], list[Row]]]:
    """Return the parts of the check by title, in order."""
    from scripts.gpu import (
        captured,
        commands,
        correctness,
        devices,
        questions,
        rows,
        speed,
        updates,
    )
    from scripts.gpu.timing import machine_rates

    # the ceilings with which parts compare, whether or not their own part runs
    rates = functools.cache(lambda: machine_rates(scale))

    def ceilings() -> list[Row]:
        products, copies = (rates()[name] / 1e12 for name in ("matmul_flops", "copy_bytes"))
        return [
            {"ceiling": "bf16 matrix product", "rate": f"{products:,.1f} TFLOP/s"},
            {"ceiling": "copy, read + written", "rate": f"{copies:,.2f} TB/s"},
        ]

    def train(width: int) -> list[Row]:
        return speed.training(scale, rates(), width)

    first, *wider = scale.widths
    parts: dict[str, Callable[[], list[Row]]] = {
        "functions": questions.functions,
        "correctness": lambda: correctness.correctness(scale),
        "correctness, devices": lambda: devices.devices(scale),
        "correctness, rows": lambda: rows.check_row_linear(scale),
        "correctness, dropout": lambda: devices.check_dropout(scale),
        "correctness, captured steps": lambda: captured.captured(scale),
        "correctness, captured gradients": lambda: updates.check_graphs(scale),
        "correctness, commands": lambda: commands.commands(scale),
        "ceilings": ceilings,
        "updates": lambda: speed.updates(scale),
        **{
            f"captured gradients, {system}": functools.partial(updates.speed, system, scale)
            for system in updates.SYSTEMS
        },
        "attention (times the copy)": lambda: questions.attention(scale),
        f"training, E = {first}": functools.partial(train, first),
        "correctness, compiled": lambda: correctness.check_compiled(scale),
        "memory": lambda: speed.memory(scale),
        "decoding": lambda: speed.decoding(scale),
        "training, Transformer": lambda: speed.plain_training(scale, rates()),
        "tiles": lambda: questions.tiles(scale),
        "products": lambda: questions.products(scale),
        "graphs": lambda: questions.graphs(scale),
        "fused rows": lambda: rows.fused(scale),
        "loss by precision": lambda: speed.precision_losses(scale),
    }
    for width in wider:
        parts[f"training, E = {width}"] = functools.partial(train, width)
    parts["scaling"] = lambda: speed.scaling(scale)
    return parts


def run(device: torch.device, chosen: argparse.Namespace) -> Row:
    """Run the parts, and write the result, with any failures, after each of them."""
    from scripts.gpu.timing import Scale

    result: Row = {
        **describe_machine(device),
        "size": "tiny" if chosen.tiny else "quick" if chosen.quick else "full",
        "seconds": 0.0,
        "wrong": [],
        "failed": [],
        "skipped": [],
    }
    before = _measured_before(result, chosen.json)
    result["note"] = before.get("note", "")
    result["parts"] = {
        title: part for title, part in before.get("parts", {}).items() if "error" not in part
    }
    beginning = time.perf_counter()
    scale = Scale.of(device, is_quick=chosen.quick, is_tiny=chosen.tiny)
    for title, part in sections(scale).items():
        if chosen.only and not any(text in title for text in chosen.only):
            continue
        if title in result["parts"]:
            result["wrong"] += _wrong(result["parts"][title])
            continue
        start = time.perf_counter()
        if start - beginning > 60 * chosen.minutes:
            result["skipped"].append(title)
            continue
        entry: Row = {}
        try:
            entry["rows"] = part()
        except Exception as error:  # the other parts still run
            entry["error"] = f"{type(error).__name__}: {error}"
            entry["traceback"] = traceback.format_exc()
            result["failed"].append(title)
        now = time.perf_counter()
        entry["seconds"] = round(now - start, 1)
        result["seconds"] = round(now - beginning, 1)
        result["wrong"] += _wrong(entry)
        result["parts"][title] = entry
        show(title, entry)
        _write(chosen.json, result)
    _write(chosen.json, result)  # also where no part ran after those that are skipped
    return result


def _write(path: Path | None, result: Row) -> None:
    if path is not None:
        write_json(path, json.loads(json.dumps(result, default=str)))


def _measured_before(machine: Row, path: Path | None) -> Row:
    """Return the result in a file, if there is one, which is of the same machine and size."""
    if path is None or not path.is_file():
        return {}
    before: Row = read_json(path)
    differing = [name for name in SAME if before.get(name) != machine[name]]
    if differing:
        name = differing[0]
        print(
            f"{path} was measured with another {name}: {before.get(name)}, here {machine[name]}. "
            "Name another file.",
            file=sys.stderr,
        )
        raise SystemExit(2)
    return before


def _wrong(part: Row) -> list[str]:
    return [row["check"] for row in part.get("rows", []) if not row.get("ok", True)]


def show(title: str, entry: Row) -> None:
    """Print one part as a table."""
    print(f"\n{title} ({entry['seconds']} s)", flush=True)
    if "error" in entry:
        print(f"  FAILED {entry['error']}\n{entry['traceback']}", flush=True)
        return
    rows: list[Row] = entry["rows"]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = [columns, *([_text(row.get(column, "")) for column in columns] for row in rows)]
    widths = [max(len(line[i]) for line in table) for i in range(len(columns))]
    for line in table:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  " + "  ".join(cells).rstrip(), flush=True)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)


def describe_machine(device: torch.device) -> Row:
    """Return the machine and the versions that the figures were measured with."""
    from scripts.bench.interleave import processor

    is_gpu = device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if is_gpu else platform.processor() or "cpu",
        "is_gpu": is_gpu,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "triton": _version("triton"),  # it is imported later
        "python": platform.python_version(),
        "processor": f"{processor()}, {os.cpu_count()} cores",
        "date": time.strftime("%Y-%m-%d"),
        "command": "python -m scripts.gpu.check " + " ".join(sys.argv[1:]),
    }


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def main() -> int:
    """Check, measure, print, and write the result if requested."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=Path, help="write everything to this file")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and rounds")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, as without a GPU")
    parser.add_argument(
        "--minutes", type=float, default=8.0, help="begin no part after this (default: 8)"
    )
    parser.add_argument(
        "--only", nargs="+", metavar="TEXT", help="only the parts whose titles contain a TEXT"
    )
    chosen = parser.parse_args()
    has_gpu = torch.cuda.is_available()  # with its number, which some functions of torch need
    device = torch.device("cuda", torch.cuda.current_device()) if has_gpu else torch.device("cpu")
    result = run(device, chosen)
    print(f"\n{result['device']}, torch {result['torch']}: {result['seconds']} s")
    for kind in ("wrong", "failed", "skipped"):
        print(f"{kind}: {', '.join(result[kind]) or 'nothing'}")
    if result["wrong"] or any(title.startswith("correctness") for title in result["failed"]):
        return 4
    return 1 if result["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())

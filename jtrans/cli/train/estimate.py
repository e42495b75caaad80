"""`jtrans train --dry-run`: the size, memory and time of a training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jtrans.cli import console
from jtrans.cli.tables import print_table
from jtrans.cli.train.table import duration

if TYPE_CHECKING:
    from jtrans.cli.train.options import MachineOptions, StartOptions
    from jtrans.config import Config
    from jtrans.runs import Run
    from jtrans.training.estimate import Estimate


def show_estimate(
    config: Config,
    data: Path,
    initial: Run | None,
    start: StartOptions,
    machine: MachineOptions,
    *,
    as_json: bool,
) -> None:
    """Estimate size, memory and time of a training, and print them."""
    from jtrans.training.estimate import estimate as make_estimate

    estimate = make_estimate(
        config,
        data=data,
        device=machine.device,
        initial=initial,
        keep_optimiser=start.keep_optimiser,
    )
    for warning in estimate.warnings:
        console.warn(warning)
    if as_json:
        console.print_json(estimate.to_json())
    else:
        print_table(("dry run", "nothing was written"), _rows(estimate))


def _rows(estimate: Estimate) -> list[tuple[str, str]]:
    frozen = f" and {estimate.frozen_parameters:,} frozen" if estimate.frozen_parameters else ""
    micro_batches = estimate.passes / estimate.updates
    largest = "B {sentences:,} · S {source} · T {target} · {positions:,} positions"
    rate = f"{estimate.tokens_per_second:,.0f} target tokens/s"
    if estimate.positions_per_second is not None:
        rate += f", {estimate.positions_per_second:,.0f} joint positions/s"
    rows = [
        ("model", f"{estimate.system}, {estimate.parameters:,} parameters{frozen}"),
        ("device", estimate.device),
        (
            "epoch",
            f"{estimate.pairs:,} pairs, {estimate.tokens:,} target tokens, {estimate.updates:,} "
            f"updates of {micro_batches:.1f} micro-batches",
        ),
        ("largest micro-batch", largest.format(**estimate.largest)),
        ("memory", f"{estimate.memory_bytes / 2**20:,.0f} MiB with the largest micro-batch"),
        ("rate", rate),
        ("time", f"{duration(estimate.epoch_seconds)} per epoch, without validation"),
    ]
    if estimate.splits:
        rows.append(("", "memory ran out: micro-batches were split in half"))
    if estimate.total_seconds is not None:
        rows.append(("", f"{duration(estimate.total_seconds)} until the first limit"))
    return rows

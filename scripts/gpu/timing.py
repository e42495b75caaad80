"""Timing on a GPU by events, or on a CPU by the wall clock; for `check.py`."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from jtrans.nn.device import wait_for
from scripts.bench.interleave import spread

Row = dict[str, Any]
LAUNCHES = (  # of kernels and of graphs
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cudaGraphLaunch",
)


@dataclass(frozen=True)
class Scale:
    """The amount of work: for measurements, for a quick look, or to run all code once.

    Args:
        device: the device to compute on.
        is_tiny: True without a GPU or on request: timings then mean nothing.
        widths: E of the models; heads are 64 wide (16 when tiny).
        layers: joint layers of Reformer-base; Reformer-fast has two fewer, at least one.
        vocabulary: V of both sides.
        positions: joint positions per batch.
        rounds: number of rounds in which all variants take turns.
        batches: batches per round.
    """

    device: torch.device
    is_tiny: bool
    widths: tuple[int, ...]
    layers: int
    vocabulary: int
    positions: int
    rounds: int
    batches: int

    @classmethod
    def of(cls, device: torch.device, *, is_quick: bool, is_tiny: bool = False) -> Scale:
        """Return the amount of work for a device."""
        if is_tiny or device.type != "cuda":
            return cls(device, True, (32,), 1, 64, 400, 2, 1)
        if is_quick:
            return cls(device, False, (256,), 7, 6632, 65_536, 3, 5)
        return cls(device, False, (256, 512), 7, 6632, 65_536, 5, 10)

    @property
    def head_width(self) -> int:
        """D, the width of one head."""
        return 16 if self.is_tiny else 64


def seconds(work: Callable[[], object], scale: Scale, *, calls: int = 50) -> float:
    """Return the median seconds of a call after a warm-up, by events around groups of calls."""
    groups = 1 if scale.is_tiny else 5
    count = 1 if scale.is_tiny else max(1, calls // groups)
    for _ in range(1 if scale.is_tiny else 3):
        work()
    return statistics.median(_elapsed(work, count, scale.device) for _ in range(groups)) / count


def _elapsed(work: Callable[[], object], count: int, device: torch.device) -> float:
    if device.type != "cuda":
        start = time.perf_counter()
        for _ in range(count):
            work()
        return time.perf_counter() - start
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    for _ in range(count):
        work()
    last.record()
    torch.cuda.synchronize(device)
    return float(first.elapsed_time(last)) / 1e3


def in_turns(variants: Mapping[str, Callable[[int], float]], scale: Scale, unit: str) -> list[Row]:
    """Time variants in turns, A B A B ...; each does the work of a round and returns its amount.

    Returns:
        A row for each: median rates by events and by the wall clock, and the median over rounds
        of its ratio to the first variant with the 10 % and 90 % values.
    """
    rates: dict[str, list[float]] = {name: [] for name in variants}
    walls: dict[str, list[float]] = {name: [] for name in variants}
    for variant in variants.values():  # warm-up: compiles, fills caches
        variant(0)
        wait_for(scale.device)
    for number in range(1, scale.rounds + 1):
        for name, variant in variants.items():
            amount: list[float] = []
            work = functools.partial(_note, variant, number, amount)
            start = time.perf_counter()
            spent = _elapsed(work, 1, scale.device)
            walls[name].append(amount[0] / (time.perf_counter() - start))
            rates[name].append(amount[0] / spent)
    first = next(iter(rates.values()))
    return [
        {
            "variant": name,
            f"{unit}/s": statistics.median(values),
            f"{unit}/s wall": statistics.median(walls[name]),
            **_spread([rate / base for rate, base in zip(values, first, strict=True)]),
        }
        for name, values in rates.items()
    ]


def _note(variant: Callable[[int], float], number: int, amount: list[float]) -> None:
    amount.append(variant(number))


def _spread(ratios: list[float]) -> Row:
    values = spread(ratios)
    return {"ratio": values["median"], "10 %": values["low"], "90 %": values["high"]}


def machine_rates(scale: Scale) -> Row:
    """Return the measured matrix-product rate and copy bandwidth, the ceilings of all variants."""
    size = 256 if scale.is_tiny else 8192
    a, b = (torch.randn(size, size, device=scale.device).bfloat16() for _ in range(2))
    source = torch.randn(2**14 if scale.is_tiny else 2**29, device=scale.device)
    target = torch.empty_like(source)
    return {
        "matmul_flops": 2 * size**3 / seconds(lambda: torch.mm(a, b), scale, calls=20),
        "copy_bytes": 2 * source.nbytes / seconds(lambda: target.copy_(source), scale, calls=20),
    }

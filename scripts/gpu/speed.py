"""Section 2 of `check.py`: training and decoding rates."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

import numpy as np
import torch
import torch._dynamo
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from jtrans.data.batch import Batch
from jtrans.data.bucketing import BatchSampler
from jtrans.decoding.options import SearchOptions
from jtrans.decoding.prepared.choose import prepared
from jtrans.decoding.search.beam import beam_search
from jtrans.models.base import TranslationModel
from jtrans.nn.device import autocast, wait_for
from jtrans.training.objective import Objective, batch_loss
from jtrans.training.updates import GPU_SIZES
from scripts.bench.reference_path import UPDATE_MICRO_BATCHES, ReferenceTraining, reference_batches
from scripts.gpu.models import (
    Pairs,
    compile_layers,
    fixed_batch,
    kernels,
    lengths,
    make_model,
    model_flops,
    real_positions,
)
from scripts.gpu.timing import LAUNCHES, Row, Scale, in_turns, seconds

PRECISION = "bf16"
SMOOTHING, CLIP_NORM = 0.1, 25.0
TARGETS = {  # positions/s on an H200
    ("reformer-base", 256): "3.7 M (stage 1), 5.2 M (stage 2)",
    ("reformer-fast", 256): "7.2 M",
    ("reformer-base", 512): "1.75 M",
}
Work = Callable[[int], float]  # does the work of a round and returns its amount


def update(
    model: TranslationModel,
    optimiser: torch.optim.Optimizer,
    batch: Batch,
    precision: str = PRECISION,
) -> Tensor:
    """Do one update as the trainer does it; return the loss per target token."""
    with autocast(model.device, precision):
        loss, _ = batch_loss(model, batch, Objective(SMOOTHING))
    loss = loss / batch.target_mask.sum()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    return loss.detach()


def training_work(
    model: TranslationModel, batches: list[Batch], amount: float, *, is_on: bool
) -> Work:
    """Return updates on all `batches`, which hold `amount` positions."""
    optimiser = torch.optim.AdamW(model.train().parameters(), lr=1e-4, fused=True)

    def work(_: int) -> float:
        with kernels(is_on=is_on):
            for batch in batches:
                update(model, optimiser, batch)
        return amount

    return work


def reference_work(model: TranslationModel, batches: list[Batch], amount: float) -> Work:
    """Return one update of the reference-faithful path with all `batches`."""
    training = ReferenceTraining(model, smoothing=SMOOTHING, clip_norm=CLIP_NORM)

    def work(_: int) -> float:
        with autocast(model.device, PRECISION):
            training.update(batches)
        return amount

    return work


def our_batches(scale: Scale) -> list[Batch]:
    """Return the batches of a round, of at most `scale.positions` joint positions each."""
    sizes = lengths(60 if scale.is_tiny else 20_000)
    overhead = GPU_SIZES["micro_batch_overhead"]
    sampler = BatchSampler(
        *sizes, max_tokens=10**6, max_joint=scale.positions, overhead=overhead, seed=1
    )
    pairs = Pairs(sizes, scale.vocabulary)
    return [pairs.batch(chosen, scale.device) for chosen in sampler.batches(0)[: scale.batches]]


def reference_update(scale: Scale, max_tokens: int) -> list[Batch]:
    """Return the micro-batches of one update of 4,096 tokens, cut as the original cuts them."""
    sizes = lengths(20 if scale.is_tiny else 20_000, seed=2)
    cut = reference_batches(*sizes, max_tokens=max_tokens, seed=1)
    count = 1 if scale.is_tiny else UPDATE_MICRO_BATCHES * 256 // max_tokens
    pairs = Pairs(sizes, scale.vocabulary)
    return [pairs.batch(chosen, scale.device) for chosen in cut[:count]]


def training(scale: Scale, rates: Row, width: int) -> list[Row]:
    """Time the variants of both joint systems in turn."""
    ours = our_batches(scale)
    positions = float(sum(real_positions(batch) for batch in ours))
    sizes = (256,) if scale.is_tiny else (256, 2048)
    updates = {size: reference_update(scale, size) for size in sizes}
    rows = []
    for system in ("reformer-base", "reformer-fast"):
        make = functools.partial(make_model, system, width, scale)
        per_position = sum(model_flops(make(), batch) for batch in ours) / positions
        variants: dict[str, Work] = {}
        for size, batches in updates.items():
            amount = float(sum(real_positions(batch) for batch in batches))
            variants[f"reference path, {size}-token micro-batches"] = reference_work(
                make(), batches, amount
            )
        variants |= _our_variants(make, ours, positions, scale)
        for row in in_turns(variants, scale, "positions"):
            share = row["positions/s"] * per_position / rates["matmul_flops"]
            target = TARGETS.get((system, width), "")
            rows.append({"model": f"{system} {width}", **row, "of peak": share, "target": target})
        release(scale)
    return rows


def _our_variants(
    make: Callable[[], TranslationModel], batches: list[Batch], amount: float, scale: Scale
) -> dict[str, Work]:
    variants: dict[str, Work] = {}
    for on in (True,) if scale.is_tiny else (False, True):
        name = "kernels" if on else "SDPA"
        compiled = compile_layers(make(), scale)
        variants[f"eager, {name}"] = training_work(make(), batches, amount, is_on=on)
        variants[f"compiled, {name}"] = training_work(compiled, batches, amount, is_on=on)
    return variants


def updates(scale: Scale) -> list[Row]:
    """Measure how long an update takes, and how long the device alone computes for it."""
    length = 4 if scale.is_tiny else 32
    batch = fixed_batch(length, length, scale.positions, scale)
    rows = []
    for system in ("reformer-base", "transformer"):
        for kind in ("eager", "compiled"):
            torch._dynamo.reset()
            model = make_model(system, scale.widths[0], scale).train()
            if kind == "compiled":
                compile_layers(model, scale)
            optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
            work = functools.partial(update, model, optimiser, batch)
            start = time.perf_counter()
            work()
            wait_for(scale.device)
            first = time.perf_counter() - start
            busy, launches = _busy_seconds(work, scale)
            rows.append(
                {
                    "model": f"{system} {scale.widths[0]}",
                    "layers": kind,
                    "s first": first,
                    "ms/update": 1e3 * seconds(work, scale),
                    "ms GPU": 1e3 * busy,
                    "launches": launches,
                }
            )
        release(scale)
    return rows


def _busy_seconds(work: Callable[[], object], scale: Scale) -> tuple[float, int]:
    """Return the time of all kernels of a call, and the number of launches."""
    if scale.device.type != "cuda":
        return float("nan"), 0
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        work()
        wait_for(scale.device)
    events = profiled.key_averages()
    # an operator's time is that of its kernels, which are events of their own
    kernels_only = [each for each in events if each.device_type.name == "CUDA"]
    launches = sum(each.count for each in events if each.key in LAUNCHES)
    return sum(each.self_device_time_total for each in kernels_only) / 1e6, launches


def plain_training(scale: Scale, rates: Row) -> list[Row]:
    """Time the plain Transformer, with which epochs of joint systems are compared."""
    sizes = lengths(20 if scale.is_tiny else 20_000, seed=3)
    sampler = BatchSampler(
        *sizes, max_tokens=100 if scale.is_tiny else 4096, max_joint=None, seed=1
    )
    pairs = Pairs(sizes, scale.vocabulary)
    batches = [pairs.batch(chosen, scale.device) for chosen in sampler.batches(0)[: scale.batches]]
    tokens = float(sum(batch.target_tokens for batch in batches))
    model = make_model("transformer", scale.widths[0], scale)
    per_token = sum(model_flops(model, batch) for batch in batches) / tokens
    variants = {
        "eager, SDPA": training_work(model, batches, tokens, is_on=False),
        "eager, kernels": training_work(model, batches, tokens, is_on=True),
    }
    return [
        {**row, "of peak": row["tokens/s"] * per_token / rates["matmul_flops"]}
        for row in in_turns(variants, scale, "tokens")
    ]


def scaling(scale: Scale) -> list[Row]:
    """Time one pass at S = T = 12, 25, 50, 100: cost per position must stay flat within 1.5x."""
    rows = []
    for width in scale.widths:
        model = make_model("reformer-base", width, scale)
        if not scale.is_tiny:
            compile_layers(model, scale)
        for length in (4, 6) if scale.is_tiny else (12, 25, 50, 100):
            batch = fixed_batch(length, length, scale.positions, scale)
            work = training_work(model, [batch], float(real_positions(batch)), is_on=True)
            (row,) = in_turns({"kernels": work}, scale, "positions")
            rows.append({"E": width, "S = T": length, "positions/s": row["positions/s"]})
        release(scale)
    fastest = {
        width: max(r["positions/s"] for r in rows if r["E"] == width) for width in scale.widths
    }
    return [{**row, "cost": fastest[row["E"]] / row["positions/s"]} for row in rows]


def memory(scale: Scale) -> list[Row]:
    """Measure the peak bytes that one more position needs in a micro-batch (a slope)."""
    if scale.device.type != "cuda":
        return [{"variant": "needs a GPU's memory counters"}]
    rows = []
    for on in (False, True):
        model = make_model("reformer-base", scale.widths[0], scale)
        for name in ("eager", "compiled"):
            if name == "compiled":
                compile_layers(model, scale)
            peaks = []
            for size in (scale.positions // 2, scale.positions):
                batch = fixed_batch(25, 25, size, scale)
                work = training_work(model, [batch], 1.0, is_on=on)
                work(0)
                release(scale)
                work(1)
                peaks.append((torch.cuda.max_memory_allocated(), real_positions(batch)))
            (small, few), (large, many) = peaks
            variant = f"{name}, {'kernels' if on else 'SDPA'}"
            slope = (large - small) / (many - few)
            rows.append({"variant": variant, "KB per position": slope / 1024, "target": "70"})
    return rows


def decoding(scale: Scale) -> list[Row]:
    """Time beam search of a fixed length; with random weights only the time means anything."""
    length = 4 if scale.is_tiny else 25
    rows = []
    for beam in (1, 5):
        options = SearchOptions(beam=beam, max_length=str(length), min_length=length - 1)
        for size in (1, 2) if scale.is_tiny else (1, 4, 64):
            batch = fixed_batch(length, length, size * length * length, scale)
            variants = {
                system: _decoding_work(system, batch, options, scale)
                for system in ("transformer", "reformer-base", "reformer-fast")
            }
            variants["transformer, no graphs"] = _decoding_work(
                "transformer", batch, options, scale, with_graphs=False
            )
            for row in in_turns(variants, scale, "sentences"):
                step = 1e3 * size / row["sentences/s"] / length
                rows.append({"batch": size, "beam": beam, **row, "ms/step": step})
    return rows


def _decoding_work(
    system: str, batch: Batch, options: SearchOptions, scale: Scale, *, with_graphs: bool = True
) -> Work:
    model = make_model(system, scale.widths[0], scale).eval()
    form = prepared(model, PRECISION, with_graphs=with_graphs)

    def work(_: int) -> float:
        with torch.inference_mode():
            beam_search([form], batch.source, batch.source_mask, options)
        return float(len(batch.source))

    return work


def release(scale: Scale) -> None:
    """Return freed memory to the device and reset the peak."""
    wait_for(scale.device)
    if scale.device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def precision_losses(scale: Scale) -> list[Row]:
    """Train on made-up pairs in bfloat16 and in float32 and compare the losses (question 4)."""
    sizes = lengths(20 if scale.is_tiny else 4000, seed=4)
    small = sizes[:, sizes.max(0) <= 30]
    pairs = Pairs(small, 64)
    random = np.random.default_rng(1)
    updates = 2 if scale.is_tiny else 300
    chosen = [
        random.integers(0, small.shape[1], 4 if scale.is_tiny else 64) for _ in range(updates)
    ]
    rows = []
    for precision in ("fp32", "bf16"):
        model = make_model("reformer-base", scale.widths[0], scale).train()
        optimiser = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
        losses, start = [], time.perf_counter()
        for indices in chosen:
            batch = pairs.batch(indices, scale.device)
            losses.append(update(model, optimiser, batch, precision))
        last = float(torch.stack(losses[-20:]).mean())
        spent = time.perf_counter() - start
        rows.append({"precision": precision, "updates": updates, "loss": last, "s": spent})
    return rows

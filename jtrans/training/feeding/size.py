"""The size above which micro-batches are cut, measured where the configuration leaves it open.

The sentences of an update, and what its loss is divided by, follow from the configuration alone.
The machine decides whether its micro-batches run whole or in equal parts (`UpdatePlan.largest`): a
few micro-batches of long pairs are timed, each twice the size of the one before, until the next one
might not fit into memory or the last one took so long that more gains nothing. Weights, optimiser
and random generators stay as they are.

Cutting changes dropout and rounding, so noise in the timings must not decide: a smaller size must
be faster by the factor `FASTER`, the answer is cached for further runs, and each run keeps its own.
"""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from jtrans import __version__
from jtrans.config import Config
from jtrans.errors import JtransError
from jtrans.files import cache_folder, read_json, text_digest, write_json
from jtrans.nn.device import device_name, wait_for
from jtrans.nn.layer import has_compiled_layers
from jtrans.nn.memory import available_memory
from jtrans.training.divergence.random_state import RandomState
from jtrans.training.memory import memory_errors, peak_memory
from jtrans.training.micro_batches import UpdateLoss
from jtrans.training.trainer import Trainer
from jtrans.training.updates import MicroBatch, UpdatePlan

FASTER = 1.15
SHARE = 0.8  # of the available memory
LONG = 0.99  # of the pairs by size: the quantile that is timed
ENOUGH_SECONDS = 5.0  # a larger micro-batch has no overhead left to save
TIMED_SECONDS = 0.5  # short micro-batches are repeated until they have taken as long
FEWEST_UPDATES = 1_000  # of a run for which measuring pays off
# By whether the model is joint: joint positions, or source and target tokens. Smaller micro-batches
# were slower on every device.
SMALLEST = {"cpu": {True: 8_000, False: 4_096}, "cuda": {True: 16_384, False: 8_192}}


class Trial(NamedTuple):
    """A micro-batch that fits into memory."""

    size: int  # padded
    seconds: float  # per pair


def largest_size(trainer: Trainer, config: Config) -> int | None:
    """Return the padded size above which micro-batches are cut, None if none are.

    Args:
        trainer: of a new run.
        config: as the user gave it: sizes that are set in it are not changed.

    Raises:
        WorkError: a single pair does not fit into memory.
    """
    training, model = config.training, trainer.model
    is_set = training.micro_batch_tokens or (model.is_joint and training.micro_batch_joint)
    # statistics would be taken over the parts of a micro-batch
    if is_set or training.deterministic or model.has_batch_statistics or _is_short(trainer):
        return None
    candidates = list(_candidates(trainer.plan, model.device))
    if len(candidates) < 2:
        return None
    key = _key(trainer, config)
    path = cache_folder() / "micro-batches" / f"{text_digest(repr(key))[:16]}.json"
    with contextlib.suppress(JtransError, OSError, LookupError, TypeError):
        known = read_json(path)
        largest = known["largest"]
        if known["key"] == key and (largest is None or (type(largest) is int and largest > 0)):
            return largest
    trainer.events.measuring()
    trainer.announce_compiling()
    with memory_errors(), _undisturbed(trainer):
        trials = list(_trials(trainer, candidates))
    largest = chosen_size(trials, trainer.plan.size(candidates[-1]))
    with contextlib.suppress(JtransError, OSError):  # a cache that cannot be written
        write_json(path, {"key": key, "largest": largest})
    return largest


def chosen_size(trials: Sequence[Trial], whole: int) -> int | None:
    """Return the largest size within a factor `FASTER` of the best time; None if it is `whole`."""
    best = min(trial.seconds for trial in trials)
    size = max(trial.size for trial in trials if trial.seconds <= FASTER * best)
    return None if size >= whole else size


def expected_updates(trainer: Trainer) -> int | None:
    """Estimate the updates of the whole training; None if its limits do not determine them."""
    tokens = int(trainer.pairs.target.lengths.sum())
    per_epoch = max(1, tokens // trainer.training.batch_tokens)
    return trainer.stopping.total_updates(trainer.state, per_epoch)


def _is_short(trainer: Trainer) -> bool:
    updates = expected_updates(trainer)
    return updates is not None and updates < FEWEST_UPDATES


def _candidates(plan: UpdatePlan, device: torch.device) -> Iterator[MicroBatch]:
    """Yield micro-batches of copies of a long pair, doubling in size up to the limit."""
    S, T = plan.pairs.source.lengths, plan.pairs.target.lengths
    costs = S * T if plan.is_joint else S + T
    place = int(LONG * (costs.size - 1))
    pair = int(np.argpartition(costs, place)[place])
    count = plan.sampler.max_tokens // int(T[pair])
    if plan.sampler.max_joint is not None:
        count = min(count, plan.sampler.max_joint // int(costs[pair]))
    smallest = SMALLEST["cpu" if device.type == "cpu" else "cuda"][plan.is_joint]
    halvings = 0
    while (count >> halvings) * int(costs[pair]) >= 2 * smallest:
        halvings += 1
    for shift in range(halvings, -1, -1):
        yield np.full(max(1, count >> shift), pair)


def _trials(trainer: Trainer, candidates: Sequence[MicroBatch]) -> Iterator[Trial]:
    """Time the candidates, from the smallest on, as long as the next one should fit."""
    state_bytes = 8 * trainer.model.parameter_count()  # Adam's moments, which do not exist yet
    _seconds(trainer, candidates[0])  # warm-up: loads or compiles kernels
    for micro_batch in candidates:
        seconds = _seconds(trainer, micro_batch)
        size = trainer.plan.size(micro_batch)
        if seconds is None:
            if micro_batch is candidates[0]:
                yield Trial(size, 0.0)  # training will halve it
            return
        yield Trial(size, seconds / micro_batch.size)
        device = trainer.model.device
        available = _available(device)
        # graphs have their own memory beside that of other passes
        copies = 1 if trainer.gradient.accumulator.captured is None else 2
        # the next one needs twice the peak: on a CPU half of that is in use already, while the
        # memory that torch has reserved on a GPU counts as available
        growth = 2 if device.type == "cuda" else 1
        needed = growth * copies * peak_memory(device) + state_bytes
        if seconds > ENOUGH_SECONDS or (available is not None and needed > SHARE * available):
            return


def _seconds(trainer: Trainer, micro_batch: MicroBatch) -> float | None:
    """Return the seconds of a forward and backward pass, None if it does not fit."""
    device = trainer.model.device
    # on a CPU, without the time of other programs
    clock = time.thread_time if device.type == "cpu" else time.perf_counter
    loss = UpdateLoss(trainer.pairs, 1, trainer.gradient.labelled([micro_batch]))
    fastest, total = float("inf"), 0.0
    while total < TIMED_SECONDS:
        start = clock()
        if trainer.gradient.accumulator.run(loss, micro_batch) is None:
            return None
        wait_for(device)
        seconds = clock() - start
        trainer.optimiser.zero_grad(set_to_none=True)
        fastest, total = min(fastest, seconds), total + seconds
    return fastest


def _available(device: torch.device) -> int | None:
    if device.type != "cuda":
        return available_memory() if device.type == "cpu" else None
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


@contextlib.contextmanager
def _undisturbed(trainer: Trainer) -> Iterator[None]:
    """Restore the random generators afterwards, and leave no gradient and no graph."""
    before = RandomState.of(trainer.model.device)
    trainer.model.train()
    try:
        yield
    finally:
        before.restore()
        trainer.model.zero_grad(set_to_none=True)
        if (captured := trainer.gradient.accumulator.captured) is not None:
            captured.forget()


def _key(trainer: Trainer, config: Config) -> dict[str, Any]:
    """Return all that the measured size depends on, as plain values."""
    device, training = trainer.model.device, config.training
    name = f"{platform.node()}, {os.cpu_count()} processors, {torch.get_num_threads()} threads"
    if device.type == "cuda":
        name = device_name(device)
    names = ("batch_tokens", "r_drop", "recompute", "label_smoothing")
    chosen: dict[str, Any] = {name: getattr(training, name) for name in names}
    return {
        "model": config.model.model_dump(mode="json"),
        "parameters": trainer.model.parameter_count(),
        "training": chosen,
        "compiled": has_compiled_layers(trainer.model),
        "graphs": trainer.gradient.accumulator.captured is not None,
        "tokens": [
            int(store.flat[0].size) for store in (trainer.pairs.source, trainer.pairs.target)
        ],
        "device": f"{device.type}: {name}",
        "precision": trainer.precision,
        "torch": torch.__version__,
        "jtrans": __version__,
    }

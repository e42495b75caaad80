"""Gradients by CUDA graphs, for `check.py`: are they the same as without, and how much faster?

Without a GPU the same code runs on padded micro-batches that are not captured.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

import torch
from torch import Tensor

from jtrans.data.bucketing import BatchSampler
from jtrans.models.base import TranslationModel
from jtrans.training.captured.gradients import CapturedGradients
from jtrans.training.micro_batches import GradientAccumulator, UpdateLoss
from jtrans.training.objective import Objective
from jtrans.training.updates import GPU_SIZES, MicroBatch
from scripts.gpu.correctness import comparison
from scripts.gpu.models import Pairs, compile_layers, lengths, make_model
from scripts.gpu.timing import Row, Scale, in_turns

SYSTEMS = ("transformer", "reformer-base", "reformer-fast")
# relative, of the whole gradient: sums of other shapes round otherwise, and so do atomic ones
TOLERANCE = {"fp32": 1e-4, "bf16": 3e-2}
SMOOTHING = 0.1


def check_graphs(scale: Scale) -> list[Row]:
    """Compare gradients with those of unpadded micro-batches, and dropout with and without."""
    cases = list(itertools.product(SYSTEMS, ("eager",), TOLERANCE))
    cases.append(("reformer-base", "compiled", "bf16"))
    return [row for case in cases for row in _compare(*case, scale)]


def _compare(system: str, kind: str, precision: str, scale: Scale) -> Iterator[Row]:
    pairs, micro_batches = _updates(scale, tokens=60 if scale.is_tiny else 1024, joint=None)
    micro_batches = micro_batches[:3]
    name = f"{system} {kind} {precision}"
    for dropout in (0.0, 0.1):
        model = _model(system, kind, scale, dropout)
        plain, graphs = (_accumulator(model, precision, has_graphs=has) for has in (False, True))
        first, again = (_gradient(graphs, pairs, micro_batches) for _ in range(2))
        other = first if dropout else _gradient(plain, pairs, micro_batches)
        error = float((again - other).norm() / other.norm())
        what = "graphs beside padded" if dropout else "graphs beside unpadded"
        row = comparison(f"{what}, {name}", error, TOLERANCE[precision])
        assert graphs.captured is not None
        count = sum(each.replay is not None for each in graphs.captured.kept.values())
        yield {**row, "graphs": count, "ok": row["ok"] and not graphs.captured.has_failed}


def speed(system: str, scale: Scale) -> list[Row]:
    """Time the gradients of real sizes of micro-batches, forward and backward, in turns."""
    rows = []
    is_joint = system != "transformer"
    models = {kind: _model(system, kind, scale, 0.1) for kind in ("eager", "compiled")}
    for tokens in (60,) if scale.is_tiny else (1024, 4096):
        joint = scale.positions if is_joint else None
        pairs, micro_batches = _updates(scale, tokens=tokens, joint=joint)
        count = float(sum(int(pairs.target.lengths[each].sum()) for each in micro_batches))
        variants = {}
        for kind, model in models.items():
            for has in (False, True):
                made = _accumulator(model, "bf16", has_graphs=has)
                work = functools.partial(_pass, made, pairs, micro_batches, count)
                variants[f"{kind}{', graphs' if has else ''}"] = work
        for row in in_turns(variants, scale, "tokens"):
            each = 1e3 * count / row["tokens/s wall"] / len(micro_batches)
            rows.append({"model": system, "target tokens": tokens, **row, "ms/micro-batch": each})
    return rows


def _pass(
    made: GradientAccumulator, pairs: Pairs, micro_batches: list[MicroBatch], count: float, _: int
) -> float:
    for each in micro_batches:
        made.accumulate(UpdateLoss(pairs, 1000), [each])  # type: ignore[arg-type]
        made.model.zero_grad(set_to_none=True)
    return count


def _model(system: str, kind: str, scale: Scale, dropout: float) -> TranslationModel:
    model = make_model(system, scale.widths[0], scale, dropout=dropout).train()
    return compile_layers(model, scale) if kind == "compiled" else model


def _accumulator(
    model: TranslationModel, precision: str, *, has_graphs: bool
) -> GradientAccumulator:
    is_gpu = model.device.type == "cuda"
    made = GradientAccumulator(
        model, Objective(SMOOTHING), precision=precision, has_graphs=has_graphs and is_gpu
    )
    if has_graphs and not is_gpu:
        model.output_weights = lambda: None  # type: ignore[method-assign]  # a CPU's own loss
        made.captured = CapturedGradients(model, made._losses_of, lambda work: work)
    return made


def _updates(scale: Scale, *, tokens: int, joint: int | None) -> tuple[Pairs, list[MicroBatch]]:
    """Return made-up pairs and the micro-batches of a round."""
    sizes = lengths(60 if scale.is_tiny else 20_000)
    overhead = GPU_SIZES["micro_batch_overhead"]
    sampler = BatchSampler(*sizes, max_tokens=tokens, max_joint=joint, overhead=overhead, seed=1)
    return Pairs(sizes, scale.vocabulary), sampler.batches(0)[: scale.batches]


def _gradient(made: GradientAccumulator, pairs: Pairs, micro_batches: list[MicroBatch]) -> Tensor:
    torch.manual_seed(1)
    made.model.zero_grad(set_to_none=True)
    made.accumulate(UpdateLoss(pairs, 1000), micro_batches)  # type: ignore[arg-type]
    gradients = [p.grad.flatten().double() for p in made.model.parameters() if p.grad is not None]
    return torch.cat(gradients)

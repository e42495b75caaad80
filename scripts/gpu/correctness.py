"""Section 1 of `check.py`: are kernels and models correct?

A tolerance limits the norm of the difference over the norm of the exact result. Kernels against
float64 products: 2e-5 in float32 (three tf32 products each), 1e-2 in bfloat16. Models against the
same model on a CPU in float64: 1e-4 in float32 for logits and gradients; in bfloat16 3e-2 for
logits, 1e-2 for the loss, 6e-2 for gradients. `step` against `decode`: as for logits.
"""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from jtrans.data.batch import Batch
from jtrans.models.base import TranslationModel
from jtrans.nn.device import autocast
from jtrans.nn.gpu import by_matmul, operator
from jtrans.nn.gpu.by_matmul import Weighting
from jtrans.training.objective import Objective, batch_loss
from scripts.gpu.models import (
    Pairs,
    compile_layers,
    compiled_frames,
    kernels,
    make_model,
    padded_batch,
)
from scripts.gpu.timing import Row, Scale

# Of gradients of compiled layers in float32: a ReLU whose input is zero but for rounding is on in
# one form and off in the other. Changing all weights by 1e-7 of themselves changes a gradient by
# 6e-7, or, if there is such a ReLU, by 4e-5 to 7e-4.
COMPILED_TOLERANCE = 1e-3
KERNEL_TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 1e-2}
MODEL_TOLERANCES = {
    "fp32": {"logits": 1e-4, "loss": 1e-5, "gradients": 1e-4, "step = decode": 1e-4},
    "bf16": {"logits": 3e-2, "loss": 1e-2, "gradients": 6e-2, "step = decode": 3e-2},
}
SYSTEMS = ("reformer-base", "reformer-fast", "transformer")


def distance(ours: Tensor, exact: Tensor) -> float:
    """Return the norm of the difference over the norm, in float64 on the CPU."""
    ours, exact = ours.detach().cpu().double(), exact.detach().cpu().double()
    return float((ours - exact).norm() / exact.norm().clamp(min=1e-30))


def comparison(check: str, error: float, tolerance: float) -> Row:
    """Return the row of a comparison."""
    # written so that nan does not pass
    return {"check": check, "error": error, "tolerance": tolerance, "ok": error <= tolerance}


def check_kernels(scale: Scale) -> list[Row]:
    """Compare the kernels, forward and backward, with float64 products on the same device."""
    if not operator.HAS_TRITON:
        return [{"check": "kernels", "error": "Triton is not installed", "ok": True}]
    lengths = (3, 17) if scale.is_tiny else (1, 2, 15, 16, 17, 31, 33, 64, 65, 127, 128)
    rows = []
    torch.use_deterministic_algorithms(True, warn_only=True)  # fills new tensors with nan
    try:
        for dtype, axis in itertools.product(KERNEL_TOLERANCE, (1, 2)):
            errors = [
                error for length in lengths for error in _kernel_errors(length, axis, dtype, scale)
            ]
            name = f"kernels, axis {axis}, {str(dtype).removeprefix('torch.')}"
            worst = max(errors, key=lambda error: (error != error, error))
            rows.append(comparison(name, worst, KERNEL_TOLERANCE[dtype]))
    finally:
        torch.use_deterministic_algorithms(False)
    return rows


def _kernel_errors(length: int, axis: int, dtype: torch.dtype, scale: Scale) -> Iterator[float]:
    from jtrans.nn.gpu import short_axis

    B, lines, H, D = (2, 2, 1, 16) if scale.is_tiny else (3, 5, 2, scale.head_width)
    shape = (length, lines) if axis == 1 else (lines, length)
    x = torch.randn(B, *shape, 3, H, D, device=scale.device).to(dtype)
    qkv = x.movedim(-3, 0).movedim(axis + 1, -2)
    seed = torch.tensor(2**40 + 7, device=scale.device)
    bias = None
    if axis == 2:
        bias = torch.zeros(B, length, device=scale.device)
        bias[1, max(1, length - 3) :] = float("-inf")
    for rate in (0.0, 0.2):
        weighting = Weighting(bias, seed if rate else None, causal=axis == 1, rate=rate)
        out = short_axis.forward(qkv, weighting)
        yield distance(out, by_matmul.forward(qkv.double(), weighting))
        gradient = torch.randn_like(out)
        ours = short_axis.backward(gradient, qkv, weighting)
        exact = by_matmul.backward(gradient.double(), qkv.double(), weighting)
        yield distance(ours, exact)


def check_large_grid(scale: Scale) -> list[Row]:
    """Check a grid of more than 65,535 lines, the limit of the launch grids of other libraries."""
    if not operator.HAS_TRITON:
        return []
    from jtrans.nn.gpu import short_axis

    lines = 5 if scale.is_tiny else 70_000
    x = torch.randn(1, 3, lines, 3, 1, 16, device=scale.device)
    qkv = x.movedim(-3, 0).movedim(2, -2)
    weighting = Weighting(causal=True)
    exact = by_matmul.forward(qkv.double(), weighting)
    error = distance(short_axis.forward(qkv, weighting), exact)
    return [comparison(f"kernels, {lines:,} lines", error, KERNEL_TOLERANCE[torch.float32])]


def check_models(scale: Scale) -> list[Row]:
    """Compare each system on the device with itself on a CPU in float64."""
    rows = []
    width = 32 if scale.is_tiny else 128
    for system, precision in itertools.product(SYSTEMS, MODEL_TOLERANCES):
        model = make_model(system, width, scale, dropout=0.0)
        exact = copy.deepcopy(model).cpu().double()
        batch = padded_batch(scale)
        ours = _results(model, batch, precision)
        exact_results = _results(exact, batch.to("cpu"), "fp32")
        tolerances = MODEL_TOLERANCES[precision]
        for name in ("logits", "loss", "gradients"):
            error = distance(ours[name], exact_results[name])
            rows.append(comparison(f"{system} {precision}: {name}", error, tolerances[name]))
        error = _step_error(model, batch, precision)
        rows.append(
            comparison(f"{system} {precision}: step = decode", error, tolerances["step = decode"])
        )
    return rows


def _results(model: TranslationModel, batch: Batch, precision: str) -> dict[str, Tensor]:
    model.zero_grad()
    with autocast(model.device, precision):
        logits = _logits(model, batch)
        loss, _ = batch_loss(model, batch, Objective(0.1))
    loss.backward()
    gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return {"logits": logits, "loss": loss, "gradients": torch.cat(gradients)}


def _logits(model: TranslationModel, batch: Batch) -> Tensor:
    hidden = model.decode(batch.target_in, model.encode(batch.source, batch.source_mask))
    return model.project(hidden[batch.target_mask])


@torch.no_grad()
def _step_error(model: TranslationModel, batch: Batch, precision: str) -> float:
    with autocast(model.device, precision):
        memory = model.encode(batch.source, batch.source_mask)
        at_once = model.decode(batch.target_in, memory)  # [B, T, E]
        state = model.begin(memory, 1)
        steps = [model.step(token, state) for token in batch.target_in.unbind(1)]
    one_by_one = torch.stack(steps, dim=1)
    return distance(one_by_one[batch.target_mask], at_once[batch.target_mask])


def check_compiled(scale: Scale) -> list[Row]:
    """Check that compiled layers give equal gradients, and that new lengths do not recompile."""
    rows = []
    for use_kernels in (False,) if scale.is_tiny else (False, True):
        torch._dynamo.reset()
        width = scale.widths[0]
        model = make_model("reformer-base", width, scale, dropout=0.0)
        compiled = compile_layers(copy.deepcopy(model), scale)
        batches = [_batch_of(S, T, scale) for S, T in ((9, 7), (20, 24), (33, 35), (12, 11))]
        with kernels(is_on=use_kernels):
            step = functools.partial(_results, precision="fp32")
            error = max(
                distance(step(compiled, batch)["gradients"], step(model, batch)["gradients"])
                for batch in batches
            )
            before = compiled_frames()
            for S, T in ((10, 8), (25, 25), (31, 40), (49, 48)):
                step(compiled, _batch_of(S, T, scale))
        name = "kernels" if use_kernels else "SDPA"
        rows.append(comparison(f"compiled layers, {name}: gradients", error, COMPILED_TOLERANCE))
        rows.append(comparison(f"compiled layers, {name}: not compiled at all", before == 0, 0))
        again = compiled_frames() - before
        rows.append(comparison(f"compiled layers, {name}: compiled again", again, 0))
    return rows


def _batch_of(source: int, target: int, scale: Scale) -> Batch:
    """Return two pairs, the second one shorter: padded on both sides."""
    sizes = np.array([[source, source - 2], [target, target - 3]])
    return Pairs(sizes, scale.vocabulary).batch(np.arange(2), scale.device)


def check_use(scale: Scale) -> list[Row]:
    """Check that the models call the kernels on a GPU."""
    if scale.is_tiny or not operator.HAS_TRITON:
        return []
    from jtrans.nn.gpu import short_axis

    calls = 0
    forward: Callable[..., Tensor] = short_axis.forward

    def counted(*arguments: object, **options: object) -> Tensor:
        nonlocal calls
        calls += 1
        return forward(*arguments, **options)

    short_axis.forward = counted
    try:
        _logits(make_model("reformer-base", scale.widths[0], scale), padded_batch(scale))
    finally:
        short_axis.forward = forward
    missing = 2 * scale.layers - calls
    return [comparison(f"attentions of Reformer-base without a kernel ({calls} with)", missing, 0)]


def correctness(scale: Scale) -> list[Row]:
    """Run every check except that of compiled layers, which takes minutes."""
    checks = (check_kernels, check_large_grid, check_models, check_use)
    return [row for check in checks for row in check(scale)]

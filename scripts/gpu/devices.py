"""Checks that need a GPU: a second GPU, waiting, dropout, bf16, too little memory.

They belong to section 1 of `check.py`. Without a GPU the same code runs on tiny models with
simulated memory failures, and checks that cannot run say so.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import traceback
from collections.abc import Callable, Iterator
from unittest import mock

import numpy as np
import torch
from torch import Tensor

from jtrans.decoding import batched_search
from jtrans.decoding.batched_search import translate_ids
from jtrans.decoding.options import SearchOptions
from jtrans.decoding.prepared.choose import prepared
from jtrans.decoding.prepared.converted import with_bf16_products
from jtrans.decoding.search.beam import beam_search
from jtrans.decoding.search.phrases import SearchConstraints
from jtrans.errors import WorkError
from jtrans.models.base import TranslationModel
from jtrans.nn.layer import Recompute, set_recompute
from jtrans.training.divergence.random_state import random_module
from jtrans.training.objective import Objective, batch_loss
from scripts.gpu import speed
from scripts.gpu.correctness import COMPILED_TOLERANCE, SYSTEMS, comparison, distance
from scripts.gpu.models import Pairs, compile_layers, make_model, padded_batch
from scripts.gpu.timing import Row, Scale

POLICIES: tuple[Recompute, ...] = ("none", "hidden", "layer")


def check_second_gpu(scale: Scale) -> list[Row]:
    """Compute on the last GPU while the first is the current one, as with `--device cuda:1`."""
    name = "another GPU than the current one"
    if torch.cuda.device_count() < 2:
        return [{"check": name, "error": "needs two GPUs", "ok": True}]
    device = torch.device("cuda", torch.cuda.device_count() - 1)
    rows = []
    for system in SYSTEMS:
        here = make_model(system, scale.widths[0], scale, dropout=0.0)
        batch = padded_batch(scale)
        expected, _ = batch_loss(here, batch, Objective(0.1))
        ours, _ = batch_loss(here.to(device), batch.to(device), Objective(0.1))
        ours.backward()
        error = distance(ours, expected)
        rows.append({"check": f"{name}: {system}", "error": error, "ok": error < 1e-5})
    generator = random_module(device)
    assert generator is not None
    state = generator.get_rng_state(device)
    drawn = torch.rand(9, device=device)
    generator.set_rng_state(state, device)
    same = torch.equal(drawn, torch.rand(9, device=device))
    return [*rows, {"check": f"{name}: random state", "error": float(not same), "ok": same}]


def check_waiting(scale: Scale) -> list[Row]:
    """Check that the second update on a batch never makes the CPU wait for the GPU."""
    rows = []
    for system in SYSTEMS:
        model = make_model(system, scale.widths[0], scale, attention_dropout=0.1).train()
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

        def update(
            model: TranslationModel = model, optimiser: torch.optim.Optimizer = optimiser
        ) -> None:
            speed.update(model, optimiser, padded_batch(scale))

        update()
        rows.append(_raises_nothing(f"{system}: an update without waiting", update, scale.device))
    return rows


def _raises_nothing(name: str, work: Callable[[], object], device: torch.device) -> Row:
    if device.type == "cuda":
        torch.cuda.set_sync_debug_mode("error")
    try:
        work()
    except RuntimeError as error:
        return {"check": name, "error": str(error).splitlines()[0][:80], "ok": False}
    finally:
        if device.type == "cuda":
            torch.cuda.set_sync_debug_mode("default")
    return {"check": name, "error": 0.0, "ok": True}


def check_dropout(scale: Scale) -> list[Row]:
    """Compare gradients of compiled and of recomputed layers with the same dropout masks.

    The standard is plain layers on a GPU, and compiled layers on a CPU, where plain layers draw
    other masks.
    """
    rows = []
    for system in ("reformer-fast",) if scale.is_tiny else SYSTEMS:
        torch._dynamo.reset()
        model = make_model(system, scale.widths[0], scale, dropout=0.3, attention_dropout=0.2)
        model.train()
        exact: Tensor | None = None if scale.is_tiny else _gradient(model, scale)
        for kind in ("compiled",) if scale.is_tiny else ("plain", "compiled"):
            if kind == "compiled":
                compile_layers(model, scale)
            for policy in POLICIES:
                set_recompute(model, policy)
                gradient = _gradient(model, scale)
                exact = gradient if exact is None else exact
                error = distance(gradient, exact)
                name = f"{system}, {kind}, recompute {policy}: gradients with dropout"
                rows.append(comparison(name, error, COMPILED_TOLERANCE))
    return rows


def _gradient(model: TranslationModel, scale: Scale) -> Tensor:
    batch = padded_batch(scale)
    model.zero_grad()
    torch.manual_seed(3)
    batch_loss(model, batch, Objective(0.1))[0].backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def check_bf16_decoding(scale: Scale) -> list[Row]:
    """Check that weights converted once to bf16 give exactly the search results of autocast."""
    rows = []
    options = SearchOptions(beam=3, max_length="9", min_length=5)
    for system in SYSTEMS:
        model = make_model(system, scale.widths[0], scale).eval().requires_grad_(False)
        batch = padded_batch(scale)
        searched = []
        for each in (model, with_bf16_products(model)):
            with torch.autocast(scale.device.type, torch.bfloat16):
                searched.append(beam_search([each], batch.source, batch.source_mask, options))
        same = searched[0] == searched[1]
        rows.append({"check": f"{system}: bf16 search", "error": float(not same), "ok": same})
    return rows


def check_prepared_forms(scale: Scale) -> list[Row]:
    """Check that a search gives the same translations with a prepared form as with its model."""
    rows = []
    options = SearchOptions(beam=3, max_length="9", min_length=5)
    for system in ("transformer", "dlcl"):
        model = make_model(system, scale.widths[0], scale).eval().requires_grad_(False)
        batch = padded_batch(scale)
        best = [
            [each[0] for each in beam_search([form], batch.source, batch.source_mask, options)]
            for form in (model, prepared(model))
        ]
        error = max(abs(a.score - b.score) for a, b in zip(*best, strict=True))
        rows.append({"check": f"{system}: prepared", "error": error, "ok": error < 1e-3})
    return rows


def check_search_rules(scale: Scale) -> list[Row]:
    """Check that every rule of the search gives the same tokens on the device and on the CPU."""
    rules: dict[str, dict[str, int]] = {
        "groups": {"beam": 4, "diverse_groups": 2},
        "no loops": {"max_repeats": 1},
        "no repeated n-grams": {"no_repeat_ngram": 2},
        "phrases": {"max_repeats": 1},
    }
    rows = []
    model = make_model("transformer", scale.widths[0], scale).eval().requires_grad_(False).double()
    on_cpu = copy.deepcopy(model).cpu()
    batch = padded_batch(scale)
    phrases = SearchConstraints([], [[4, 5], [6]], [[7]], frozenset([8]))
    for name, chosen in rules.items():
        options = SearchOptions(max_length="9", min_length=5, **chosen)  # type: ignore[arg-type]
        constraints = [phrases] * 3 if name == "phrases" else []
        searched = [
            beam_search(
                [each],
                batch.source.to(each.device),
                batch.source_mask.to(each.device),
                options,
                constraints,
            )
            for each in (model, on_cpu)
        ]
        tokens = [[[h.tokens for h in nbest] for nbest in results] for results in searched]
        same = tokens[0] == tokens[1]
        rows.append({"check": f"search rules, {name}", "error": float(not same), "ok": same})
    return rows


def check_little_memory(scale: Scale) -> list[Row]:
    """Check a search with too little memory: same tokens in halves, and refusal of one sentence."""
    model = make_model("reformer-fast", scale.widths[0], scale).eval().requires_grad_(False)
    length, count = (9, 6) if scale.is_tiny else (60, 256)
    pairs = Pairs(np.full((2, count), length), scale.vocabulary)
    sources = [pairs.source[index] for index in range(count)]
    options = SearchOptions(beam=2, max_length=str(length), min_length=length - 1)
    search = functools.partial(translate_ids, [model], sources, options, batch_tokens=10**9)
    expected = translate_ids([model], sources, options, batch_tokens=4 * length)
    rows = []
    with _little_memory(scale, sentences=2):
        tokens = [[best[0].tokens for best in searched] for searched in (search(), expected)]
        equal = sum(a == b for a, b in zip(*tokens, strict=True)) / count
        # batches of other sizes round differently, which may decide a near tie differently
        rows.append(
            {"check": "search in halves: same tokens", "error": 1 - equal, "ok": equal > 0.9}
        )
    with _little_memory(scale, sentences=0):
        try:
            search()
            kind = "no refusal"
        except WorkError as error:
            kind = error.kind
    ok = kind == "work.memory"
    return [*rows, {"check": "a sentence that does not fit", "error": kind, "ok": ok}]


@contextlib.contextmanager
def _little_memory(scale: Scale, sentences: int) -> Iterator[None]:
    """Let at most `sentences` fit: limit a GPU's memory; elsewhere, fail on purpose."""
    if not scale.is_tiny:
        torch.cuda.empty_cache()
        total = torch.cuda.get_device_properties(scale.device).total_memory
        used = torch.cuda.memory_reserved(scale.device)
        torch.cuda.set_per_process_memory_fraction((used + sentences * 2**29) / total, scale.device)
        try:
            yield
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0, scale.device)
        return

    def limited(models: object, source: Tensor, *rest: object) -> object:
        if len(source) > sentences:
            raise torch.OutOfMemoryError("made up")
        return beam_search(models, source, *rest)  # type: ignore[arg-type]

    with mock.patch.object(batched_search, "beam_search", limited):
        yield


def devices(scale: Scale) -> list[Row]:
    """Run every check except that of dropout, which compiles."""
    checks = (
        check_second_gpu,
        check_waiting,
        check_bf16_decoding,
        check_prepared_forms,
        check_search_rules,
        check_little_memory,
    )
    rows: list[Row] = []
    for check in checks:
        try:
            rows += check(scale)
        except Exception as error:  # the others still run
            traceback.print_exc()
            text = f"{type(error).__name__}: {error}"
            rows.append({"check": check.__name__, "error": text, "ok": False})
    return rows

"""Section 1 of `check.py`: do captured steps give the same translations with fewer launches?"""

from __future__ import annotations

import functools
import statistics
from collections import Counter
from collections.abc import Callable, Iterator

import torch
from torch.profiler import ProfilerActivity, profile

from jtrans.data.batch import Batch
from jtrans.decoding.options import SearchOptions
from jtrans.decoding.prepared.base import Searchable
from jtrans.decoding.prepared.captured.joint import GraphReformer
from jtrans.decoding.prepared.captured.transformer import GraphTransformer
from jtrans.decoding.prepared.choose import prepared
from jtrans.decoding.prepared.transformer import PreparedTransformer
from jtrans.decoding.search.beam import beam_search
from jtrans.decoding.search.trace import Hypothesis
from jtrans.models.base import TranslationModel
from jtrans.models.reformer import Reformer
from scripts.gpu.models import fixed_batch, make_model
from scripts.gpu.timing import LAUNCHES, Row, Scale

SYSTEMS = ("transformer", "reformer-base", "reformer-fast")
# Of the best score of each sentence; in bfloat16 of its mean over sentences: a captured step rounds
# less often, and with random weights nearly equal hypotheses change places.
TOLERANCE = {"fp32": 1e-4, "bf16": 5e-2}
SAME = {"fp32": 1.0, "bf16": 0.0}  # share of sentences with the same best tokens


def captured(scale: Scale) -> list[Row]:
    """Compare searches with and without graphs; without a GPU, on buffers that are not captured."""
    return [
        row
        for precision in TOLERANCE
        for system in SYSTEMS
        for row in _compare(system, precision, scale)
    ]


def _compare(system: str, precision: str, scale: Scale) -> Iterator[Row]:
    length = 4 if scale.is_tiny else 25
    model = make_model(system, scale.widths[0], scale).eval()
    plain = prepared(model, precision, with_graphs=False)
    graphed = _with_graphs(model, plain, precision)
    for size in (1, 2) if scale.is_tiny else (1, 16, 64):
        batch = fixed_batch(length, length, size * length * length, scale)
        options = SearchOptions(beam=5, nbest=5, max_length=str(length), min_length=length // 2)
        with_graphs, without = (
            functools.partial(_search, form, batch, options) for form in (graphed, plain)
        )
        for _ in range(2):  # sizes are captured when a second search needs them
            with_graphs()
        ours, theirs = with_graphs(), without()
        pairs = list(zip(ours, theirs, strict=True))
        same = sum(a[0].tokens == b[0].tokens for a, b in pairs) / len(pairs)
        differences = [a[0].score - b[0].score for a, b in pairs]
        error = max(map(abs, differences))
        if precision == "bf16":
            error = abs(statistics.fmean(differences))
        is_ok = error <= TOLERANCE[precision] and same >= SAME[precision]
        yield {
            "check": f"captured {system} {precision}, {size} sentences",
            "error": error,
            "same": same,
            "graphs": len(graphed.graphs.kept),
            "ok": is_ok and bool(graphed.graphs.kept) and not graphed.graphs.has_failed,
            "launches/step": _launches(with_graphs, length, scale),
            "without": _launches(without, length, scale),
        }


def _with_graphs(
    model: TranslationModel, plain: Searchable, precision: str
) -> GraphTransformer | GraphReformer:
    capture = None if model.device.type == "cuda" else lambda work: work
    if isinstance(model, Reformer):
        return GraphReformer(model, precision, capture)
    assert isinstance(plain, PreparedTransformer)
    return GraphTransformer(plain, capture)


@torch.inference_mode()
def _search(form: Searchable, batch: Batch, options: SearchOptions) -> list[list[Hypothesis]]:
    return beam_search([form], batch.source, batch.source_mask, options)


def _launches(search: Callable[[], object], steps: int, scale: Scale) -> float:
    """Return launches of kernels and graphs per step, the encoder's included."""
    if scale.is_tiny:
        return float("nan")
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        search()
        torch.cuda.synchronize()
    counts = Counter({event.key: event.count for event in profiled.key_averages()})
    return sum(counts[name] for name in LAUNCHES) / steps

"""How many operations a step of the search launches: those of its graph, and those beside it.

    python tests/plugins/pretended_gpu/run.py REPORT plugins.pretended_gpu.operations fp32 bf16

Prints a line of JSON for each system and precision, with beam 5 and one sentence: the operations
of a captured step of the model, of one with the choice of continuations, and the mean number that
Python launches for a step of a search beside its graphs, in steps that are captured.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any

import torch
from plugins.pretended_gpu import device

from jtrans.decoding.options import SearchOptions
from jtrans.decoding.prepared.choose import prepared
from jtrans.decoding.search.beam import _Search, beam_search
from scripts.bench.decode_joint import make_model

SYSTEMS = ("transformer", "reformer-base", "reformer-fast")
VIEWS = {"view", "permute", "transpose", "t", "expand", "unsqueeze", "squeeze", "select", "slice"}
VIEWS |= {"as_strided", "unbind", "alias", "detach", "split", "split_with_sizes", "narrow"}
VIEWS |= {"_unsafe_view", "_reshape_alias", "lift_fresh", "promote_types"}  # launch nothing
STEPS = 20
SIZES = {"width": 32, "ffn_width": 64, "heads": 4}  # of the usual depth; widths change no count


def launches(operation: Any) -> bool:
    """Return whether an operation is launched on a GPU."""
    return operation.overloadpacket.__name__ not in VIEWS


def count(system: str, precision: str) -> dict[str, float]:
    """Return the operations of a step of a model of usual depth."""
    model = make_model(system, 1_000, SIZES).to("cuda")
    form = prepared(model, precision)
    source = torch.randint(4, 1_000, (1, STEPS)).to("cuda")
    mask = torch.ones(1, STEPS, dtype=torch.bool).to("cuda")
    options = SearchOptions(max_length=str(STEPS), min_length=STEPS - 1)
    counts, graphs, steps = Counter[str](), set[int](), []
    compute, replay, advance = device.compute, device.Graph.replay, _Search.advance

    def counted(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        counts["launched"] += launches(func) and not counts["replaying"]
        return compute(func, args, kwargs)

    def replayed(graph: device.Graph) -> None:
        graphs.add(sum(launches(func) for func, *_ in graph.operations))
        counts["replaying"], counts["replays"] = 1, counts["replays"] + 1
        replay(graph)
        counts["replaying"] = 0

    def advanced(search: _Search) -> None:
        before = Counter(counts)
        advance(search)
        steps.append(
            (counts["launched"] - before["launched"], counts["replays"] - before["replays"])
        )

    for _ in range(2):  # sizes are captured when a second search needs them
        beam_search([form], source, mask, options)
    device.compute, device.Graph.replay, _Search.advance = counted, replayed, advanced  # type: ignore[method-assign, assignment]
    beam_search([form], source, mask, options)
    device.compute, device.Graph.replay, _Search.advance = compute, replay, advance  # type: ignore[method-assign]
    launched, replays = max(steps, key=lambda step: step[1])
    return {"step": min(graphs), "with choice": max(graphs), "beside": launched / replays}


if __name__ == "__main__":
    for system in SYSTEMS:
        for precision in sys.argv[1:]:
            print(json.dumps({"system": f"{system} {precision}", **count(system, precision)}))

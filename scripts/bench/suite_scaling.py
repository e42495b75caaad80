"""Time of a joint position, forward and backward, by sentence length and width.

The model is one joint layer with the Reduction and a small vocabulary, on batches of about the same
number of positions. The settings take turns; each is compared with length 25 of its width and
round.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from scripts.bench.interleave import recorded_command, spread, write

if TYPE_CHECKING:
    from jtrans.data.batch import Batch

LENGTHS, BASE_LENGTH = (12, 25, 50, 100), 25
WIDTHS = (256, 512)
HEAD = 64  # width of a head
VOCABULARY = 64
POSITIONS = 10_000  # of a batch, at most
LIMIT = 1.5  # highest allowed cost of a position relative to BASE_LENGTH


def scaling_suite(chosen: argparse.Namespace) -> None:
    """Measure, print the result, and write it if requested."""
    import torch

    from jtrans.nn.device import prepare_device

    info = prepare_device(torch.device("cpu"), for_training=True)
    work_of = {(E, L): make_work(E, L) for E in WIDTHS for L in LENGTHS}
    seconds: dict[tuple[int, int], list[float]] = {key: [] for key in work_of}
    rounds = 2 if chosen.quick else 5
    for number in range(rounds + 1):
        for key, (work, positions) in work_of.items():
            start = time.perf_counter()
            work()
            if number:  # the first round is a warm-up
                seconds[key].append((time.perf_counter() - start) / positions)
        print(f"round {number} of {rounds}", file=sys.stderr)
    rows: list[dict[str, Any]] = []
    for (E, L), times in seconds.items():
        base = seconds[E, BASE_LENGTH]
        rows.append(
            {
                "width": E,
                "length": L,
                "positions": work_of[E, L][1],
                "positions_per_second": round(1.0 / statistics.median(times)),
                "cost": spread([each / other for each, other in zip(times, base, strict=True)]),
            }
        )
    for row in rows:
        print(
            "E {width:>4}  S = T = {length:>3}  {positions_per_second:>9,} positions/s  "
            "cost of a position {cost[median]:.2f} ({cost[low]:.2f} to {cost[high]:.2f})".format(
                **row
            )
        )
    worst = max(row["cost"]["median"] for row in rows)
    print(f"the most expensive position costs {worst:.2f}; the limit is {LIMIT}")
    command = recorded_command("train")
    device = info.describe("fp32")
    write(chosen.json, command=command, device=device, limit=LIMIT, rows=rows)


def make_work(width: int, length: int) -> tuple[Callable[[], Any], int]:
    """Return one forward and backward pass, and its number of positions."""
    import torch

    from jtrans.models.zoo import build_model, system_configs
    from jtrans.training.objective import Objective, batch_loss

    torch.manual_seed(1)
    values = {"width": width, "ffn_width": 4 * width, "heads": width // HEAD, "layers": 1}
    config = system_configs()["reformer-base"].model_validate(
        {"system": "reformer-base", "dropout": 0.3, **values}
    )
    model = build_model(config, VOCABULARY, VOCABULARY).train()
    sentences = POSITIONS // length**2
    batch = make_batch(sentences, length)

    def work() -> None:
        loss, _ = batch_loss(model, batch, Objective(0.1))
        loss.backward()
        model.zero_grad(set_to_none=True)

    return work, sentences * length**2


def make_batch(sentences: int, length: int) -> Batch:
    """Return random sentence pairs of one length on both sides."""
    import torch

    from jtrans.data.batch import Batch
    from jtrans.text.vocabulary import EOS, SPARE

    source, target = torch.randint(SPARE + 1, VOCABULARY, (2, sentences, length)).unbind(0)
    is_real = torch.ones(sentences, length, dtype=torch.bool)
    return Batch(
        source=source,
        source_mask=is_real,
        target_in=torch.cat([torch.full((sentences, 1), EOS), target[:, :-1]], dim=1),
        target_out=target,
        target_mask=is_real,
        indices=torch.arange(sentences),
    )

"""Loss curves of one recipe trained in several ways on the same updates.

The fast forms (blocks, recomputation, bf16) must not affect training: fp32 curves differ only by
rounding, which dropout and Adam amplify, and bf16 ends with the same validation loss. Variants
train one after the other with the same seed, so every update has the same pairs and dropout.

    python -m scripts.bench.curves --data data/prepared/grammar-de-en --json curves.json
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.bench.interleave import prepared_corpus, recorded_command, timed_precisions, write

if TYPE_CHECKING:
    from jtrans.training.trainer import Trainer

RECIPE = "demo/reformer-fast"
# name: settings, and whether blocks are disabled
VARIANTS: dict[str, tuple[list[str], bool]] = {
    "fp32, plain": (["training.precision=fp32"], True),
    "fp32, in blocks": (["training.precision=fp32"], False),
    "fp32, hidden layers recomputed": (
        ["training.precision=fp32", "training.recompute=hidden"],
        False,
    ),
    "bf16": (["training.precision=bf16"], False),
}


def main() -> None:
    """Train every variant, print its final loss, and write the curves if requested."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=prepared_corpus, required=True, help="a prepared corpus")
    parser.add_argument("--recipe", default=RECIPE)
    parser.add_argument("--updates", type=int, default=500)
    parser.add_argument("--json", type=Path, help="write the curves to this file")
    chosen = parser.parse_args()
    curves = []
    for name, (settings, is_plain) in VARIANTS.items():
        if name == "bf16" and name not in timed_precisions():
            continue
        curve = train(chosen.data, chosen.recipe, settings, chosen.updates, is_plain=is_plain)
        curves.append({"variant": name, **curve})
        first = curves[0]
        at_200 = min(200, chosen.updates)
        gap = max(
            abs(ours - theirs) / theirs
            for ours, theirs in zip(curve["loss"][:at_200], first["loss"][:at_200], strict=True)
        )
        print(
            f"{name:<32} valid loss {curve['valid_loss']:.4f} "
            f"({100 * (curve['valid_loss'] / first['valid_loss'] - 1):+.2f} %), largest gap of "
            f"the first {at_200} updates {100 * gap:.3f} %, {curve['seconds']:.0f} s",
            flush=True,
        )
    for curve in curves:
        del curve["seconds"]  # variants ran one after the other: not comparable
    command = recorded_command("curves")
    write(chosen.json, command=command, recipe=chosen.recipe, rows=curves)


def train(
    data: Path, recipe: str, settings: list[str], updates: int, *, is_plain: bool
) -> dict[str, Any]:
    """Return the loss per target token of every update, and the valid loss after the last."""
    from jtrans.nn.fast import plain_forms

    with plain_forms() if is_plain else contextlib.nullcontext():
        trainer = make(data, recipe, settings)
        start = time.perf_counter()
        curve = run(trainer, updates)
        seconds = time.perf_counter() - start
    valid = trainer.validator(trainer.model)["loss"]
    return {"loss": curve, "valid_loss": round(valid, 5), "seconds": round(seconds, 1)}


def make(data: Path, recipe: str, settings: list[str]) -> Trainer:
    """Build a trainer that writes nothing."""
    from jtrans.config import load_config
    from jtrans.data.prepared import PreparedCorpus
    from jtrans.models.zoo import system_configs
    from jtrans.runs import Run
    from jtrans.training.events import TrainingEvents
    from jtrans.training.setup.build import make_trainer

    quick = ["training.validate_sentences=0"]
    config = load_config(recipe, system_configs(), overrides=[*settings, *quick])
    corpus = PreparedCorpus.open(data)
    trainer, _ = make_trainer(Run(data), config, corpus, device="cpu", events=TrainingEvents())
    trainer.model.train()
    return trainer


def run(trainer: Trainer, updates: int) -> list[float]:
    """Do some updates; return the loss per target token of each."""
    return [round(loss, 5) for loss in itertools.islice(losses(trainer), updates)]


def losses(trainer: Trainer) -> Iterator[float]:
    """Do updates without end; yield the loss per target token of each."""
    update = 0
    for epoch in itertools.count():
        for micro_batches in trainer.plan.epoch(epoch):
            update += 1
            tokens = trainer.plan.tokens(micro_batches)
            loss = trainer.accumulate(micro_batches)[1] / tokens
            trainer.step(trainer.schedule.rate(update))
            yield float(loss)


if __name__ == "__main__":
    main()

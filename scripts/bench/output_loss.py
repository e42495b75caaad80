"""Compare training with the loss of all tokens at once, and in blocks that stay in the cache.

    python -m scripts.bench.output_loss --data data/prepared/multi30k-en-de --json output_loss.json

The data has a joint vocabulary: `jtrans prepare multi30k-en-de --bpe-merges 10000 --vocabulary
joint --max-ratio 1000`. Real updates of each recipe are done in both forms in turns.
"""

from __future__ import annotations

import argparse
import functools
from pathlib import Path
from typing import Any

from scripts.bench import curves
from scripts.bench.interleave import (
    Amounts,
    Task,
    in_turns,
    prepared_corpus,
    recorded_command,
    report,
    rows,
    timed_precisions,
)

RECIPES = ("multi30k-en-de/transformer-tiny", "iwslt14-de-en/transformer")
FORMS = ("all tokens at once", "blocks of tokens")


def train_recipe(recipe: str, form: str, *, data: Path, precision: str) -> Task:
    """Return updates of a recipe's system with one form of its loss."""
    from jtrans.bench.train import run_update

    trainer = curves.make(data, recipe, [f"training.precision={precision}", "model.tie=all"])
    if form == FORMS[0]:
        trainer.model.__dict__["output_weights"] = lambda: None
    epoch = trainer.plan.epoch(0)
    lengths = trainer.pairs.target.lengths

    def work(number: int) -> Amounts:
        run_update(trainer, epoch[number], number + 1)
        return {"tokens": sum(int(lengths[indices].sum()) for indices in epoch[number])}

    return Task(work)


def main() -> None:
    """Measure, print, and write the result if requested."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=prepared_corpus, required=True, help="a prepared corpus")
    parser.add_argument("--quick", action="store_true", help="one round of the first recipe")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    chosen = parser.parse_args()
    result: list[dict[str, Any]] = []
    for precision in timed_precisions():
        for recipe in RECIPES[:1] if chosen.quick else RECIPES:
            variants = {
                f"{recipe}, {precision}, {form}": functools.partial(
                    train_recipe, recipe, form, data=chosen.data, precision=precision
                )
                for form in FORMS
            }
            result += rows(in_turns(variants, rounds=1 if chosen.quick else 5), "tokens")
    command = recorded_command("output_loss")
    report(result, "tokens", path=chosen.json, command=command)


if __name__ == "__main__":
    main()

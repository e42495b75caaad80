"""Compare a grid with convolution and one with attention: pervasive attention, Reformer-fast.

    python -m scripts.bench.grid --data data/prepared/multi30k-de-en --json grid.json

Both have the sizes of their Multi30k recipes, which have equally many parameters, and train on the
same batches in turns. The memory that one more position of a micro-batch needs is measured, too,
with and without recomputation in the backward pass. What both learn in equal time is measured by

    python -m scripts.bench.systems learn --only reformer-fast pervasive --minutes 20 --json L.json

and kept beside it with `--learned L.json`.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from scripts.bench.interleave import (
    Amounts,
    Round,
    Task,
    in_turns,
    prepared_corpus,
    recorded_command,
    rows,
    timed_precisions,
    write,
)

RECIPES = ("multi30k-de-en/reformer-fast", "multi30k-de-en/pervasive")
UPDATE_TOKENS, QUICK_TOKENS = 2048, 512  # target tokens of a round
POLICIES: tuple[Literal["none", "layer"], ...] = ("none", "layer")


def train_recipe(
    recipe: str, *, data: Path, tokens: int, precision: str, settings: list[str]
) -> Task:
    """Return updates of a recipe's system, done with the trainer's own parts."""
    from jtrans.bench.flops import training_flops
    from jtrans.bench.train import count, measure_memory, run_update
    from jtrans.config import load_config
    from jtrans.data.prepared import PreparedCorpus
    from jtrans.models.zoo import system_configs
    from jtrans.nn.layer import set_recompute
    from jtrans.runs import Run
    from jtrans.training.events import TrainingEvents
    from jtrans.training.setup.build import make_trainer

    overrides = [*settings, f"training.batch_tokens={tokens}", f"training.precision={precision}"]
    config = load_config(recipe, system_configs(), overrides=overrides)
    corpus = PreparedCorpus.open(data)
    trainer, _ = make_trainer(Run(data), config, corpus, device="cpu", events=TrainingEvents())
    trainer.model.train()
    values: dict[str, float] = {"parameters": trainer.model.parameter_count()}
    for policy in POLICIES:
        set_recompute(trainer.model, policy)
        values[f"bytes_per_position_{policy}"] = float(measure_memory(trainer) or 0)
    set_recompute(trainer.model, config.training.recompute)
    epoch = trainer.plan.epoch(0)
    flops = training_flops(config.model, *corpus.pipeline.vocabulary_sizes)

    def work(number: int) -> Amounts:
        run_update(trainer, epoch[number], number + 1)
        done = count(flops, trainer.pairs, epoch[number])
        return {"positions": done.positions, "tokens": done.tokens, "flops": done.flops}

    return Task(work, lambda: values)


def table(measured: Mapping[str, list[Round]]) -> list[dict[str, Any]]:
    """Return a row for each variant."""
    result = []
    for row in rows(measured, "positions"):
        rounds = measured[row["variant"]]
        medians = {
            f"{unit}_per_second": round(statistics.median(done.rate(unit) for done in rounds), 1)
            for unit in ("tokens", "flops")
        }
        values = {name: round(value) for name, value in rounds[-1].values.items()}
        result.append({**row, **medians, **values})
    return result


def describe(row: Mapping[str, Any]) -> str:
    """Return a row as a line of text."""
    ratio = row["ratio"]
    memory = " / ".join(f"{row[f'bytes_per_position_{name}'] / 1024:,.1f}" for name in POLICIES)
    return (
        f"{row['variant']:<34} {row['parameters']:>9,} parameters "
        f"{row['positions_per_second']:>8,.0f} positions/s {row['tokens_per_second']:>6,.0f} "
        f"tokens/s  {ratio['median']:.2f} x ({ratio['low']:.2f} to {ratio['high']:.2f})  "
        f"{row['flops_per_second'] / 1e9:,.0f} GFLOP/s  {memory} KiB/position "
        f"({' / '.join(POLICIES)} recomputed)"
    )


def main() -> None:
    """Measure, print, and write the result if requested."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=prepared_corpus, required=True, help="a prepared corpus")
    parser.add_argument("--set", action="append", default=[], help="a setting of both systems")
    parser.add_argument("--quick", action="store_true", help="two short rounds")
    parser.add_argument("--learned", type=Path, help="what both learn in equal time")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    chosen = parser.parse_args()
    options = {
        "data": chosen.data,
        "tokens": QUICK_TOKENS if chosen.quick else UPDATE_TOKENS,
        "settings": chosen.set,
    }
    variants = {
        f"{recipe.partition('/')[2]} {precision}": functools.partial(
            train_recipe, recipe, precision=precision, **options
        )
        for precision in timed_precisions()
        for recipe in RECIPES
    }
    result = table(in_turns(variants, rounds=2 if chosen.quick else 5))
    for row in result:
        print(describe(row))
    command = recorded_command("grid")
    values: dict[str, Any] = {"update_tokens": options["tokens"], "rows": result}
    if chosen.learned:
        values["learned"] = json.loads(chosen.learned.read_text(encoding="utf-8"))
    write(chosen.json, command=command, **values)


if __name__ == "__main__":
    main()

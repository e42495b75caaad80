"""Compare training of the joint models with the method of the original code (reference_path.py).

Every variant trains by the same recipe (sizes of IWSLT) on batches that it cuts from the same
corpus by its own rule. The rates are in real positions, pairs of a real source and a real target
token. The plain Transformer has none; each of its tokens counts as many positions as a joint model
has per token of the corpus. Two more quantities are measured for each variant:

    share    the model's own FLOP/s over the rate of matrix products of these sizes in this
             precision, measured between the rounds (in the fastest of the variants)
    memory   what one more position of a micro-batch needs: the slope between two micro-batches
"""

from __future__ import annotations

import argparse
import functools
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.bench.interleave import (
    Amounts,
    Round,
    Task,
    in_turns,
    leave_waiting_alone,
    recorded_command,
    rows,
    timed_precisions,
    write,
)

if TYPE_CHECKING:
    from jtrans.config import Config
    from jtrans.data.prepared import PreparedCorpus
    from jtrans.models.base import TranslationModel

SYSTEMS = ("reformer-base", "reformer-fast")
RECIPE = "iwslt14-de-en"
MICRO_BATCH_POSITIONS, MICRO_BATCH_OVERHEAD = (
    16_384,
    200,
)  # of jtrans on a CPU; those of the recipe are for a GPU
UPDATE_TOKENS, QUICK_TOKENS = 2048, 1024
MEMORY_POSITIONS = 12_000  # of the larger micro-batch whose memory is measured


def joint_suite(chosen: argparse.Namespace) -> None:
    """Measure both joint systems, print the result, and write it if requested."""
    tokens = QUICK_TOKENS if chosen.quick else UPDATE_TOKENS
    table = [
        {"system": system, **row}
        for system in SYSTEMS
        for row in measure(system, chosen.data, tokens, chosen.set, rounds=2 if chosen.quick else 3)
    ]
    for row in table:
        print(describe(row))
    command = recorded_command("train")
    write(chosen.json, command=command, recipe=RECIPE, update_tokens=tokens, rows=table)


def measure(
    system: str, data: Path, tokens: int, settings: list[str], *, rounds: int
) -> list[dict[str, Any]]:
    """Return a row for each variant of `system`."""
    reference = functools.partial(train_reference, system, data, tokens, settings)
    ours = functools.partial(train_jtrans, data=data, tokens=tokens, settings=settings)
    variants = {
        "original's way, 256-token micro-batches, fp32": functools.partial(reference, 256),
        "original's way, 512-token micro-batches, fp32": functools.partial(reference, 512),
        **{
            f"jtrans {precision}": functools.partial(ours, system, precision=precision)
            for precision in timed_precisions()
        },
        "jtrans Transformer fp32": functools.partial(ours, "transformer", precision="fp32"),
    }
    measured = in_turns(variants, rounds=rounds)
    peaks = {
        precision: [
            max(done.values["products"] for done in same_round)
            for same_round in zip(
                *(measured[name] for name in measured if name.endswith(precision)), strict=True
            )
        ]
        for precision in timed_precisions()
    }
    return [
        {**row, **extra(measured[row["variant"]], peaks[row["variant"][-4:]])}
        for row in rows(measured, "positions")
    ]


def extra(rounds: list[Round], peaks: list[float]) -> dict[str, Any]:
    """Return the entries of a row besides its rate in positions."""
    shares = [done.rate("flops") / peak for done, peak in zip(rounds, peaks, strict=True)]
    medians = {
        f"{unit}_per_second": round(statistics.median(done.rate(unit) for done in rounds), 1)
        for unit in ("padded_positions", "tokens")
    }
    return {
        **medians,
        "product_share": round(statistics.median(shares), 3),
        "product_gflops": round(statistics.median(peaks) / 1e9),
        "bytes_per_position": round(rounds[-1].values["bytes_per_position"]),
    }


def train_reference(
    system: str, data: Path, tokens: int, settings: list[str], micro_batch_tokens: int
) -> Task:
    """Return updates as the original does them: torch's defaults, no device set-up."""
    leave_waiting_alone()
    import torch

    from jtrans.bench.flops import training_flops
    from jtrans.bench.machine import peak_during
    from jtrans.bench.train import Amounts as Counted
    from jtrans.bench.train import count, memory_micro_batches
    from jtrans.data.batch import collate
    from jtrans.models.zoo import build_model
    from scripts.bench.reference_path import ReferenceTraining, reference_batches

    config, corpus = _config(system, settings, "fp32"), _open(data)
    pairs, vocabulary = corpus.pairs("train"), len(corpus.pipeline.target.vocabulary)
    torch.manual_seed(1)
    model = build_model(config.model, vocabulary, vocabulary)
    settings_ = config.training
    training = ReferenceTraining(
        model, smoothing=settings_.label_smoothing, clip_norm=settings_.clip_norm
    )
    epoch = reference_batches(
        pairs.source.lengths, pairs.target.lengths, max_tokens=micro_batch_tokens, seed=1
    )
    small, large = memory_micro_batches(pairs, is_joint=True, limit=MEMORY_POSITIONS)
    training.update([collate(pairs, small)])
    flops = training_flops(config.model, vocabulary, vocabulary)
    cost = count(flops, pairs, [small]), count(flops, pairs, [large])

    def memory(indices: Any) -> int | None:
        batch = collate(pairs, indices)
        return peak_during(
            lambda: training.path.loss(batch, 0.1).backward(),
            torch.device("cpu"),
        )

    per_position = _slope(cost, (memory(small), memory(large)))
    per_update = max(1, tokens // micro_batch_tokens)

    def work(number: int) -> Amounts:
        micro_batches = epoch[number * per_update : (number + 1) * per_update]
        training.update([collate(pairs, indices) for indices in micro_batches])
        done: Counted = count(flops, pairs, micro_batches)
        return _amounts(corpus, done, is_joint=True)

    return Task(work, functools.partial(_measure, model, "fp32", per_position))


def train_jtrans(
    system: str, *, data: Path, tokens: int, settings: list[str], precision: str
) -> Task:
    """Return updates done with the trainer's own parts."""
    from jtrans.bench.flops import training_flops
    from jtrans.bench.train import count, measure_memory, run_update
    from jtrans.runs import Run
    from jtrans.training.events import TrainingEvents
    from jtrans.training.setup.build import make_trainer

    options = [*settings, f"training.batch_tokens={tokens}"]
    config, corpus = _config(system, options, precision), _open(data)
    trainer, _ = make_trainer(Run(data), config, corpus, device="cpu", events=TrainingEvents())
    trainer.model.train()
    is_joint = trainer.model.is_joint
    per_unit = measure_memory(trainer) or 0
    if not is_joint:
        per_unit = round(per_unit / _positions_per_token(corpus))
    epoch = trainer.plan.epoch(0)
    vocabulary = len(corpus.pipeline.target.vocabulary)
    flops = training_flops(config.model, vocabulary, vocabulary)

    def work(number: int) -> Amounts:
        run_update(trainer, epoch[number], number + 1)
        done = count(flops, trainer.pairs, epoch[number])
        return _amounts(corpus, done, is_joint=is_joint)

    return Task(work, functools.partial(_measure, trainer.model, precision, per_unit))


def _config(system: str, settings: list[str], precision: str) -> Config:
    from jtrans.config import load_config
    from jtrans.models.zoo import system_configs

    options: dict[str, Any] = {
        "training.precision": precision,
        "training.micro_batch_joint": MICRO_BATCH_POSITIONS,
        "training.micro_batch_overhead": MICRO_BATCH_OVERHEAD,
    }
    overrides = ["model.tie=all", *settings]
    return load_config(f"{RECIPE}/{system}", system_configs(), overrides=overrides, options=options)


def _open(data: Path) -> PreparedCorpus:
    from jtrans.data.prepared import PreparedCorpus

    return PreparedCorpus.open(data)


def _positions_per_token(corpus: PreparedCorpus) -> float:
    pairs = corpus.pairs("train")
    S, T = pairs.source.lengths, pairs.target.lengths
    return float((S * T).sum() / T.sum())


def _amounts(corpus: PreparedCorpus, done: Any, *, is_joint: bool) -> Amounts:
    """Return the amounts of work; tokens and positions by their ratio in the whole corpus.

    A round's own ratio would depend on the length of its sentences.
    """
    ratio = _positions_per_token(corpus)
    positions = done.positions if is_joint else done.tokens * ratio
    return {
        "positions": positions,
        "padded_positions": done.padded_positions if is_joint else done.padded_tokens * ratio,
        "tokens": positions / ratio,
        "flops": done.flops,
    }


def _slope(cost: tuple[Any, Any], peaks: tuple[int | None, int | None]) -> float:
    first, second = peaks
    if first is None or second is None:
        return 0.0
    return float((second - first) / (cost[1].positions - cost[0].positions))


def _measure(
    model: TranslationModel, precision: str, bytes_per_position: float
) -> Mapping[str, float]:
    from jtrans.bench.machine import product_rate

    return {"products": product_rate(model, precision), "bytes_per_position": bytes_per_position}


def describe(row: Mapping[str, Any]) -> str:
    """Return a row as a line of text."""
    ratio = row["ratio"]
    return (
        f"{row['system']:<14} {row['variant']:<40} {row['positions_per_second']:>9,.0f} "
        f"({row['padded_positions_per_second']:,.0f} padded) positions/s "
        f"{row['tokens_per_second']:>7,.0f} tokens/s  {ratio['median']:.2f} x "
        f"({ratio['low']:.2f} to {ratio['high']:.2f})  {100 * row['product_share']:.0f} % of "
        f"{row['product_gflops']:,} GFLOP/s  {row['bytes_per_position'] / 1024:,.0f} KiB/position "
        f"peak {row['peak_mib']:,} MiB"
    )

"""The speed of training and decoding of every system: suite `speed` of systems.py.

The sizes are those of the iwslt14-de-en recipes; a system without such a recipe takes those of the
Transformer. Weights and sentences are random. Every system takes turns with the Transformer in two
processes, so that slow periods of the machine affect both alike; seconds are of processor time,
with one thread, so that other work matters little. The table of `jtrans models` is written, too.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtrans.files import write_json
from scripts.bench.interleave import (
    Amounts,
    Round,
    Task,
    in_turns,
    processor,
    recorded_command,
    rows_with,
    spread,
    write,
)

if TYPE_CHECKING:
    from jtrans.config import Config
    from jtrans.data.batch import Batch

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "data" / "benchmarks" / "systems.json"
SHIPPED = ROOT / "jtrans" / "models" / "speeds.json"  # read by `jtrans models`
BASELINE, RECIPES = "transformer", "iwslt14-de-en"
VOCABULARIES = 8848, 6632
LENGTH = 25  # S and T; IWSLT14's sentences have 23 and 22 tokens
SENTENCES = 20  # of an update
POSITIONS = 8_000  # of a micro-batch of a joint system, as when training on a CPU
BEAM, BATCH = 5, 16
RATES = ("training", "decoding", "decoding_single")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the suite."""
    parser.add_argument("--only", nargs="+", metavar="SYSTEM", help="measure only these again")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--shipped", type=Path, default=SHIPPED, help="the file of jtrans models")


def speed_suite(chosen: argparse.Namespace) -> None:
    """Measure one system after the other against the Transformer."""
    from jtrans.models.zoo import SYSTEMS

    names = chosen.only or list(SYSTEMS)
    if unknown := set(names) - SYSTEMS.keys():
        raise SystemExit(f"no system {', '.join(sorted(unknown))}; there are {', '.join(SYSTEMS)}")
    for name in names:
        variants = {key: functools.partial(prepare, key) for key in (BASELINE, name)}
        rounds = in_turns(variants, rounds=chosen.rounds)
        row = {"system": name, **measured(rounds[name], rounds[BASELINE])}
        row["parameters"] = parameters(name)
        row["date"] = datetime.datetime.now(datetime.UTC).date().isoformat()
        keep(chosen.json, row)
        ship(json.loads(chosen.json.read_text(encoding="utf-8")), chosen.shipped)
        ratios = ", ".join(f"{rate} {row[rate]['ratio']['median']:.2f}" for rate in RATES)
        print(f"{name}: {ratios} of the Transformer, peak {row['peak_mib']:,} MiB", flush=True)


def configuration(system: str) -> Config:
    """Return the IWSLT recipe of a system, or else the Transformer's with that system."""
    from jtrans import api
    from jtrans.config import recipe_names
    from jtrans.models.zoo import system_configs

    if f"{RECIPES}/{system}" in recipe_names():
        return api.load_recipe(f"{RECIPES}/{system}")
    values = api.load_recipe(f"{RECIPES}/{BASELINE}").model_dump()
    fields = system_configs()[system].model_fields
    shared = {key: value for key, value in values["model"].items() if key in fields}
    return api.load_recipe({**values, "model": {**shared, "system": system}})


def parameters(system: str) -> int:
    """Count the parameters of a system at this size."""
    import torch

    from jtrans.models.zoo import build_model

    with torch.device("meta"):
        model = build_model(configuration(system).model, *VOCABULARIES)
    return sum(parameter.numel() for parameter in model.parameters())


def prepare(system: str) -> Task:
    """Return updates of a system; after each, the rates of decoding are measured."""
    import torch

    from jtrans.models.zoo import build_model
    from jtrans.nn.device import prepare_device
    from jtrans.training.objective import Objective, batch_loss
    from jtrans.training.optimisation.optimiser import make_optimiser

    torch.set_num_threads(1)
    torch.manual_seed(1)
    cpu = torch.device("cpu")
    config = configuration(system)
    model = build_model(config.model, *VOCABULARIES)
    optimiser = make_optimiser(model, config.training)
    objective = Objective(config.training.label_smoothing, config.training.smoothing_form)
    size = POSITIONS // LENGTH**2 if model.is_joint else SENTENCES
    sizes = [min(size, SENTENCES - first) for first in range(0, SENTENCES, size)]

    rates: dict[str, float] = {}

    def train(number: int) -> Amounts:
        prepare_device(cpu, for_training=True)
        model.train()
        start = time.process_time()
        tokens = SENTENCES * LENGTH
        for batch in batches(sizes, seed=number):
            loss, _ = batch_loss(model, batch, objective)
            (loss / tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 25.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        rates["training"] = tokens / (time.process_time() - start)
        return {"tokens": tokens}

    def decode() -> Amounts:
        from jtrans.decoding.options import SearchOptions
        from jtrans.decoding.prepared.base import backend_for
        from jtrans.decoding.prepared.choose import prepared
        from jtrans.decoding.search.beam import beam_search

        # force LENGTH tokens: after a few updates some systems would end every hypothesis at once
        options = SearchOptions(beam=BEAM, max_length=str(LENGTH), min_length=LENGTH - 1)
        prepare_device(cpu)
        form = prepared(model.eval())
        for name, sentences in (("decoding", BATCH), ("decoding_single", 1)):
            (batch,) = batches([sentences], seed=0)
            start = time.process_time()
            with backend_for([form]):
                beam_search([form], batch.source, batch.source_mask, options)
            rates[name] = sentences / (time.process_time() - start)
        return dict(rates)

    return Task(train, decode)


def batches(sizes: Sequence[int], *, seed: int) -> list[Batch]:
    """Return random sentence pairs of equal lengths, in micro-batches of these sizes."""
    import torch

    from jtrans.data.batch import Batch
    from jtrans.text.vocabulary import EOS

    draw = torch.Generator().manual_seed(seed)
    result = []
    for B in sizes:
        source, target = (
            torch.randint(4, V, (B, LENGTH), generator=draw) for V in VOCABULARIES
        )  # [B, S], [B, T]
        source[:, -1] = target[:, -1] = EOS
        target_in = target.roll(1, 1)
        is_real = torch.ones(B, LENGTH, dtype=torch.bool)
        result.append(Batch(source, is_real, target_in, target, is_real, torch.arange(B)))
    return result


def measured(rounds: Sequence[Round], baseline: Sequence[Round]) -> dict[str, Any]:
    """Return the median rates, and their ratios to the Transformer's in the same round."""
    row: dict[str, Any] = {}
    for name in RATES:
        unit = "tokens_per_second" if name == "training" else "sentences_per_second"
        ours, theirs = ([done.values[name] for done in each] for each in (rounds, baseline))
        ratios = [timed / base for timed, base in zip(ours, theirs, strict=True)]
        row[name] = {unit: round(statistics.median(ours), 2), "ratio": spread(ratios)}
    row["peak_mib"] = round(rounds[-1].peak_mib)
    return row


def keep(path: Path, row: dict[str, Any]) -> None:
    """Add a row to the results, or replace the row of its system."""
    from jtrans.models.zoo import SYSTEMS

    rows = rows_with(path, row, "system")
    ordered = [rows[name] for name in SYSTEMS if name in rows]
    sizes = {"S": LENGTH, "T": LENGTH, "sentences": SENTENCES, "beam": BEAM, "batch": BATCH}
    write(path, command=recorded_command("systems"), sizes=sizes, rows=ordered)


def ship(results: dict[str, Any], path: Path) -> None:
    """Write the ratios that `jtrans models` shows."""
    speeds = {
        row["system"]: {rate: round(row[rate]["ratio"]["median"], 3) for rate in RATES[:2]}
        for row in results["rows"]
    }
    value = {
        "recipes": RECIPES,
        "machine": processor(),
        "date": max(row["date"] for row in results["rows"]),
        "systems": speeds,
    }
    write_json(path, value)

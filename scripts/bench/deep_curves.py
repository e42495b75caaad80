r"""Loss curves of deep encoders, plain and with DLCL, with post- and pre-norm.

Wang et al. 2019: a plain post-norm Transformer of 20 encoder layers fails to train; pre-norm or a
learned combination of layers (DLCL) cures that. Four narrow models train one after the other on
the same batches; the result of each is written and drawn as soon as it is there:

    python -m scripts.bench.deep_curves --data data/prepared/multi30k-de-en
    python -m scripts.bench.deep_curves --only dlcl-post-30     # repeats one measurement
    python -m scripts.bench.deep_curves --draw                  # only draws existing results

The settings are those of the recipes wmt14-en-de (6 decoder layers, dropout, Adam, no clipping)
except for those that turn hours on a cluster into minutes on one core:

    width     E 64, F 256, H 4 instead of 512, 2048, 8
    peak rate 2e-3 sqrt(512 / E): the square root of the width, as Vaswani et al. 2017 scale it
    warm-up   the same share of the updates, 16,000 of 50,000
    updates   2,048 target tokens instead of 65,536

A model whose encoder fails may still learn to continue the target sentence. Its valid loss with the
sources of other sentences shows whether it translates: if it does not, that loss is no worse.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.bench import curves
from scripts.bench.interleave import prepared_corpus, rows_with, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from jtrans.training.trainer import Trainer

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "data" / "benchmarks" / "deep_curves.json"
PICTURE = ROOT / "data" / "figures" / "deep_curves"

# name: recipe and the encoder layers it trains with here
VARIANTS: dict[str, tuple[str, int]] = {
    "transformer-post-20": ("wmt14-en-de/transformer-post-6", 20),
    "transformer-pre-20": ("wmt14-en-de/transformer-pre-20", 20),
    "dlcl-post-30": ("wmt14-en-de/dlcl-post-25", 30),
    "dlcl-pre-30": ("wmt14-en-de/dlcl-pre-30", 30),
}
RATE, WARMUP_SHARE, PUBLISHED_WIDTH = 2e-3, 16000 / 50000, 512  # of the deep models
SMOOTHED = 10  # updates per point of the train curve, which is their mean
VALIDATE_EVERY = 100  # updates


def main() -> None:
    """Train the models, write their curves, and draw them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=prepared_corpus, default=ROOT / "data/prepared/multi30k-de-en"
    )
    parser.add_argument("--updates", type=int, default=600)
    parser.add_argument("--width", type=int, default=64, help="E; F is 4 E")
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--draw", action="store_true", help="train nothing")
    parser.add_argument("--json", type=Path, default=RESULTS, help="keeps the curves")
    parser.add_argument("--picture", type=Path, default=PICTURE, help="without its ending")
    chosen = parser.parse_args()
    for name in [] if chosen.draw else chosen.only:
        recipe, layers = VARIANTS[name]
        settings = scaled(chosen.width, chosen.updates, chosen.batch_tokens)
        trainer = curves.make(chosen.data, recipe, [*settings, f"model.encoder_layers={layers}"])
        start = time.perf_counter()
        row = {"variant": name, "recipe": recipe, **curve(trainer, chosen.updates)}
        print(f"{name}: valid loss {row['valid'][-1]}, {time.perf_counter() - start:.0f} s")
        keep(chosen.json, row, settings, chosen.data, words_alone(trainer))
        draw(json.loads(chosen.json.read_text(encoding="utf-8")), chosen.picture)
    if chosen.draw:
        draw(json.loads(chosen.json.read_text(encoding="utf-8")), chosen.picture)


def scaled(width: int, updates: int, batch_tokens: int) -> list[str]:
    """Return the settings of a narrow model; the module's docstring explains them."""
    rate = RATE * math.sqrt(PUBLISHED_WIDTH / width)
    warmup = round(WARMUP_SHARE * updates)
    schedule = f'{{name = "inverse-sqrt", warmup = {warmup}, warmup_init = 1e-7, floor = 1e-9}}'
    return [
        f"model.width={width}",
        f"model.ffn_width={4 * width}",
        "model.heads=4",
        "model.tie=decoder",  # the vocabularies are separate
        f"training.batch_tokens={batch_tokens}",
        f"training.learning_rate={rate:.2e}",
        f"training.schedule={schedule}",
    ]


def curve(trainer: Trainer, updates: int) -> dict[str, Any]:
    """Return means of the train loss, and valid losses, up to a loss that is not finite."""
    train: list[float] = []
    valid: list[tuple[int, float]] = []
    chunk: list[float] = []
    for update, loss in enumerate(curves.losses(trainer), start=1):
        chunk.append(loss)
        if not math.isfinite(loss):
            break  # with a last validation, below
        if update % SMOOTHED == 0:
            train.append(round(statistics.fmean(chunk), 4))
            chunk = []
        if update % VALIDATE_EVERY == 0 or update == updates:
            measured = trainer.validator(trainer.model)["loss"]
            valid.append((update, round(measured, 4)))
            print(f"  update {update}: train {train[-1]}, valid {measured:.3f}", flush=True)
        if update == updates:
            break
    if not valid or valid[-1][0] != update:
        valid.append((update, round(trainer.validator(trainer.model)["loss"], 4)))
    return {
        "parameters": trainer.model.parameter_count(),
        "updates": update,
        "train": train,
        "valid": valid,
        "valid_other_sources": round(other_sources(trainer), 4),
    }


def other_sources(trainer: Trainer) -> float:
    """Return the valid loss if every sentence gets the source of the next one in its batch."""
    import torch

    from jtrans.data.batch import collate
    from jtrans.training.objective import Objective, batch_loss

    validator, model = trainer.validator, trainer.model
    total = 0.0
    model.eval()
    for indices in validator.batches:
        batch = collate(validator.pairs, indices)
        exchanged = dataclasses.replace(
            batch, source=batch.source.roll(1, 0), source_mask=batch.source_mask.roll(1, 0)
        )
        with torch.no_grad():
            total += float(batch_loss(model, exchanged, Objective())[1])
    model.train()
    return total / int(validator.pairs.target.lengths.sum())


def words_alone(trainer: Trainer) -> float:
    """Return the valid loss per token when only the frequencies of tokens are used."""
    import numpy as np

    train, _ = trainer.pairs.target.flat
    valid, _ = trainer.validator.pairs.target.flat
    counts = np.bincount(train, minlength=max(int(train.max()), int(valid.max())) + 1) + 1.0
    return round(float(-np.log(counts / counts.sum())[valid].mean()), 4)


def keep(path: Path, row: dict[str, Any], settings: list[str], data: Path, words: float) -> None:
    """Add a row to the results, or replace the row of the same name."""
    rows = rows_with(path, row, "variant")
    ordered = [rows[name] for name in VARIANTS if name in rows]
    command = f"python -m scripts.bench.deep_curves --data {data.name}"
    write(path, command=command, settings=settings, frequencies_alone=words, rows=ordered)


def draw(results: dict[str, Any], stem: Path) -> None:
    """Draw the curves of plain Transformers and of DLCL: one colour each, post-norm dashed."""
    from matplotlib.figure import Figure

    from jtrans.analysis.output.fonts import drawing_style
    from jtrans.analysis.output.plots import STYLE, save

    with drawing_style(STYLE, []):
        canvas = Figure(figsize=(6.8, 3.4), layout="constrained")
        axes = canvas.add_subplot()
        for row in results["rows"]:
            line(axes, row)
        grey: Any = {"color": "#707070", "fontsize": 8}
        axes.axhline(results["frequencies_alone"], color="#707070", linewidth=0.8, linestyle=":")
        axes.annotate(
            "frequencies of tokens alone",
            (0.99, results["frequencies_alone"]),
            (0, 3),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right",
            **grey,
        )
        axes.set_title("Deep encoders: plain and with DLCL", color="#222222")
        axes.set_xlabel("update")
        axes.set_ylabel("loss per target token (dots: valid)")
        axes.grid(axis="y", color="#E6E6E6", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        stem.parent.mkdir(parents=True, exist_ok=True)
        for path in save(canvas, stem, dots=160):
            print(f"wrote {path}")


def line(axes: Axes, row: dict[str, Any]) -> None:
    """Draw the train losses of a model as a line and its valid losses as dots."""
    from jtrans.analysis.output.scales import colour

    system, norm, layers = row["variant"].split("-")
    name = {"transformer": "Transformer", "dlcl": "DLCL"}[system]
    ink = colour(["transformer", "dlcl"].index(system))
    updates = [SMOOTHED * (place + 0.5) for place in range(len(row["train"]))]
    style: Any = {"color": ink, "linestyle": "--" if norm == "post" else "-"}
    axes.plot(
        updates, row["train"], linewidth=1.4, label=f"{name}, {layers} layers, {norm}-norm", **style
    )
    axes.plot(*zip(*row["valid"], strict=True), color=ink, linestyle="", marker="o", markersize=3)


if __name__ == "__main__":
    main()

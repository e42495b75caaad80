"""The table of Transformers in jtrans and in other toolkits: training and translating."""

from __future__ import annotations

import json
from typing import Any

from scripts.readme.markdown import BENCHMARKS, table

OURS = {  # the names of our rows: in this table, when training, when decoding
    "jtrans": ("jtrans Transformer fp32", "jtrans fp32, 1 x 2"),
    "jtrans, bf16": ("jtrans Transformer bf16", "jtrans bf16, 1 x 2"),
}


def toolkits(machine: str) -> str:
    """Return the table of a machine, from the files ``train_`` and ``decode_`` of its name."""
    training, decoding = (_results(f"{kind}_{machine}") for kind in ("train", "decode"))
    trained = {row["variant"]: row for row in training["rows"]}
    decoded = {(row["variant"], row["batch"]): row for row in decoding["rows"]}
    batches = list(dict.fromkeys(batch for _, batch in decoded))
    versions: dict[str, str] = training["toolkits"]
    names = OURS | {
        f"{name} {version}": (f"{name} fp32", f"{name} fp32, 1 x 2")
        for name, version in versions.items()
    }
    rows = [
        [
            name,
            _cell(trained[training_row], "tokens_per_second"),
            *(_cell(decoded[search_row, batch], "sentences_per_second") for batch in batches),
        ]
        for name, (training_row, search_row) in names.items()
        if training_row in trained  # bf16 is not, where the processor has no instructions for it
    ]
    head = ["float32, two threads", "trained target tokens/s"]
    head += [f"translated sentences/s, batch {batch}" for batch in batches]
    note = f"(Ratio to jtrans.) {decoding['machine']}, torch {decoding['torch']}."
    return f"{table(head, rows)}\n\n{note}"


def _results(name: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((BENCHMARKS / f"{name}.json").read_text(encoding="utf-8"))
    return value


def _cell(row: dict[str, Any], unit: str) -> str:
    rate = f"{row[unit]:,.0f}" if row[unit] >= 100 else f"{row[unit]:.1f}"
    return f"{rate} ({row['ratio']['median']:.2f})"

"""Which earlier layers each layer reads, in systems that learn it (DLCL, Wang et al., 2019)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from jtrans.analysis.figures.results import Cell, Heatmap, Table
from jtrans.evaluation.names import file_names
from jtrans.models.zoo import system_configs

if TYPE_CHECKING:  # importing it would load torch
    from jtrans.models.base import TranslationModel

EMBEDDING, OUTPUT = "emb.", "out"
NOTE = (
    "A row is the input of a layer, the last row the output of the stack; a column is the "
    "embedding or the output of an earlier layer. Weights are neither bounded nor normalised, "
    "and outputs differ in size where they are not normalised before weighting (post-norm)."
)


def has_layer_weights(system: str) -> bool:
    """Return whether a system learns how its layers combine earlier ones."""
    from jtrans.models.base import TranslationModel

    model = system_configs().entry(system).model_class()
    return model.layer_weights is not TranslationModel.layer_weights


def systems_with_layer_weights() -> list[str]:
    """Return the systems of this package that learn how their layers combine earlier ones."""
    from jtrans.models.zoo import SYSTEMS

    return [system for system in SYSTEMS if has_layer_weights(system)]


def layer_tables(models: Iterable[tuple[str, TranslationModel]]) -> list[Table]:
    """Return a summary of some models, then the weights of each of their stacks.

    The weights are tables [L + 1, L + 1], 0 above the diagonal: row k is the input of layer k + 1,
    its columns are the embedding and the outputs of layers 1 to k.
    """
    weights = [(name, model.layer_weights()) for name, model in models]
    endings = [f"-{name}" for name in file_names([name for name, _ in weights])]
    maps = [
        _heatmap(name, stack, table.tolist(), ending if len(weights) > 1 else "")
        for (name, tables), ending in zip(weights, endings, strict=True)
        for stack, table in tables.items()
    ]
    return [_summary(maps), *maps]


def _heatmap(name: str, stack: str, table: Sequence[Sequence[float]], ending: str) -> Heatmap:
    L = len(table) - 1
    outputs = [EMBEDDING, *(str(layer) for layer in range(1, L + 1))]
    inputs = [*outputs[1:], OUTPUT]
    weights = [[*row[: k + 1], *[None] * (L - k)] for k, row in enumerate(table)]
    return Heatmap(
        f"layers-{stack}{ending}",
        f"{name}: {stack}, weights of earlier layers",
        ["input of layer", *outputs],
        [[label, *row] for label, row in zip(inputs, weights, strict=True)],
        NOTE,
        question="How much does each layer read of every earlier one?",
        system=name,
        part=stack,
        column_axis="output of layer",
        shares=[_shares(row) for row in weights],
    )


def _shares(row: Sequence[float | None]) -> list[float | None]:
    """Return the share of every weight in the sum of absolute weights of a row."""
    total = sum(abs(weight) for weight in row if weight is not None)
    return [None if weight is None else abs(weight) / total if total else 0.0 for weight in row]


def _summary(maps: Sequence[Heatmap]) -> Table:
    rows: list[list[Cell]] = []
    for item in maps:
        for (label, *_), weights, shares in zip(item.rows, item.values, item.shares, strict=True):
            known = [share for share in shares if share is not None]
            strongest = max(range(len(known)), key=known.__getitem__)
            rows.append(
                [
                    item.system,
                    item.part,
                    label,
                    item.columns[1 + strongest],
                    weights[strongest],
                    known[strongest],
                    known[0],
                    known[-1],
                ]
            )
    columns = ["system", "stack", "input of", "strongest", "its weight"]
    columns += ["its share", "share of emb.", "share of the last"]
    note = "Shares are of the absolute weights in the input of a layer."
    return Table("layers", "What each layer reads most", columns, rows, note)

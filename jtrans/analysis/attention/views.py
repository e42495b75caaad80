"""Attention for pictures and tables: matrices with a labelled row per query token.

For a joint system these are the two slices of the paper's Figure 5: the source attention of one
source token given each target token, [T, S], and the target attention of one target token given
each source token, [S, positions up to that token].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jtrans.analysis.attention.explain import (
    ALONG_SOURCE,
    ALONG_TARGET,
    Explanation,
    LayerMap,
    Weights,
)
from jtrans.digits import whole_number
from jtrans.errors import DecodingError

SOURCE, PREDICTED, READ = "source token", "token predicted", "token read"


@dataclass(frozen=True)
class ViewSelection:
    """The layers, heads and slices to show."""

    layer: int | str | None = None  # counted from 1; None for the last; ``all`` for every one
    # counted from 1; None for the mean over heads; ``all`` for every one
    head: int | str | None = None
    # the source token of the slices of a joint system: its number from 1, or its text; None for
    # the token of the strongest (target, source) cell
    source_token: str | None = None
    target_token: str | None = None  # the target token of the slices, given in the same way

    def cell(self, explanation: Explanation) -> tuple[int, int]:
        """Return the (target, source) positions of the slices, from 0.

        Raises:
            DecodingError: no such token.
        """
        target_at, source_at = explanation.strongest_cell()
        if self.target_token is not None:
            target_at = _position("--target-token", self.target_token, explanation.predicted)
        if self.source_token is not None:
            source_at = _position("--source-token", self.source_token, explanation.source)
        return target_at, source_at


@dataclass(frozen=True)
class Matrix:
    """One map for display: each row is a distribution over the columns."""

    map: str  # its name in the model, such as ``joint.2.source``
    layer: int | None  # counted from 1, or None
    head: int | None  # counted from 1, None for the mean over heads or features
    rows: list[str]  # labels of the queries
    columns: list[str]  # labels of the keys
    values: Weights  # [R, C]

    @property
    def caption(self) -> str:
        """Layer and head in words; empty if there is neither."""
        parts = [("layer", self.layer), ("head", self.head)]
        return ", ".join(f"{name} {number}" for name, number in parts if number is not None)

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        rounded = [[round(float(value), 6) for value in row] for row in self.values]
        return {**vars(self), "values": rounded}


@dataclass(frozen=True)
class View:
    """Matrices that belong in one picture: one kind of attention, the chosen layers and heads."""

    kind: str  # such as ``decoder.cross``
    title: str  # the kind in words
    row_axis: str  # label of the rows
    column_axis: str  # label of the columns
    matrices: list[Matrix]  # one or several

    @property
    def name(self) -> str:
        """The name of its files."""
        return self.kind.replace(".", "-")

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**vars(self), "matrices": [matrix.to_json() for matrix in self.matrices]}


def views(explanation: Explanation, selection: ViewSelection | None = None) -> list[View]:
    """Return one view per kind of attention of a system.

    Args:
        explanation: the attention maps of one pair.
        selection: the layers, heads and slices. A stack with fewer layers than the requested
            number shows its last layer.

    Raises:
        DecodingError: no such layer, head or token.
    """
    selection = selection or ViewSelection()
    _check_number("layer", selection.layer, [m.layer or 1 for m in explanation.maps])
    _check_number("head", selection.head, [m.heads for m in explanation.maps])
    cell = selection.cell(explanation)
    result = []
    for kind in explanation.kinds:
        layers = explanation.layers(kind)
        chosen = [each for each in layers if selection.layer in ("all", each.layer)]
        matrices = [
            _matrix(explanation, layer_map, head, *cell)
            for layer_map in chosen or layers[-1:]
            for head in _pick_heads(layer_map, selection.head)
        ]
        title = _title(explanation, layers[0], *cell)
        result.append(View(kind, title, *_axes(layers[0]), matrices))
    return result


def kind_title(kind: str) -> str:
    """Return a kind of attention in words: ``decoder.cross`` is "Decoder cross-attention"."""
    stack, _, attention = kind.partition(".")
    return (f"{stack} {attention}-attention" if attention else f"{stack} weights").capitalize()


def _check_number(word: str, number: int | str | None, numbers: Sequence[int]) -> None:
    most = max(numbers, default=0)
    if isinstance(number, int) and not 1 <= number <= most:
        raise DecodingError(
            f"there is no {word} {number}",
            where=f"--{word}",
            hint=f"the {word}s are 1 to {most}; or: all",
            kind=f"analysis.{word}",
        )


def _position(option: str, token: str, labels: Sequence[str]) -> int:
    """Return the position of a token given by its number or its text."""
    number = whole_number(token)
    if number is not None and 1 <= number <= len(labels):
        return number - 1
    plain = [label.removesuffix("@@") for label in labels]
    folded = [label.casefold() for label in plain]
    for wanted, candidates in (token, list(labels)), (token, plain), (token.casefold(), folded):
        if wanted in candidates:
            return candidates.index(wanted)
    numbered = " ".join(f"{number}:{label}" for number, label in enumerate(labels, start=1))
    raise DecodingError(
        f"there is no token {token!r}",
        where=option,
        hint=f"the tokens are {numbered}",
        kind="analysis.position",
    )


def _pick_heads(layer_map: LayerMap, head: int | str | None) -> list[int | None]:
    if not layer_map.heads or head is None:
        return [None]
    if head == "all":
        return list(range(1, layer_map.heads + 1))
    return [min(int(head), layer_map.heads)]


def _matrix(
    explanation: Explanation, layer_map: LayerMap, head: int | None, target_at: int, source_at: int
) -> Matrix:
    weights = layer_map.mean() if head is None else layer_map.weights[head - 1]
    labels = {SOURCE: explanation.source, PREDICTED: explanation.predicted, READ: explanation.read}
    rows, columns = (labels[axis] for axis in _axes(layer_map))
    if layer_map.axes == ALONG_SOURCE:
        weights = weights[:, source_at]  # [T, S]
    elif layer_map.axes == ALONG_TARGET:
        weights = weights[:, target_at, : target_at + 1]  # [S, positions read so far]
        columns = columns[: target_at + 1]
    return Matrix(layer_map.name, layer_map.layer, head, rows, columns, weights)


def _axes(layer_map: LayerMap) -> tuple[str, str]:
    """Return the labels of the first axis, for rows, and of the last axis, for columns."""
    row = SOURCE if layer_map.axes[0] == "source" else PREDICTED
    return row, SOURCE if layer_map.axes[-1] == "source" else READ


def _title(explanation: Explanation, layer_map: LayerMap, target_at: int, source_at: int) -> str:
    if layer_map.axes == ALONG_SOURCE:
        return f"Source attention of “{explanation.source[source_at]}” given each target token"
    if layer_map.axes == ALONG_TARGET:
        predicted = explanation.predicted[target_at]
        return f"Target attention when predicting “{predicted}”, for each source token"
    return kind_title(layer_map.kind)

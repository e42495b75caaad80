"""Attention as pictures and tables show it: matrices with a labelled row per token that looks.

For a joint system these are the two slices of the paper's Figure 5: the source attention of one
source token given each target token, [T, S], and the target attention of one target token given
each source token, [S, positions up to that token].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jtrans.errors import DecodingError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from jtrans.analysis.attention.explain import Explanation, LayerMap

    Weights = NDArray[np.float32]

TITLES = {
    "encoder.self": "Encoder self-attention",
    "prenet.self": "PreNet self-attention",
    "decoder.self": "Decoder self-attention",
    "decoder.cross": "Attention to the source",
    "joint.source": "Source attention",
    "joint.target": "Target attention",
    "reduction": "Reduction weights",
}
SOURCE, PREDICTED, READ = "source token", "token predicted", "token read"


@dataclass(frozen=True)
class Choice:
    """Which layers, heads and slices to show.

    Args:
        layer: counted from 1; None for the last; ``all`` for every one.
        head: counted from 1; None for the mean over heads; ``all`` for every one.
        target_at: target position of the slices of a joint system, from 0; None for that of
            the strongest (target, source) cell.
        source_at: source position, likewise.
    """

    layer: int | str | None = None
    head: int | str | None = None
    target_at: int | None = None
    source_at: int | None = None


@dataclass(frozen=True)
class Matrix:
    """One map as it is shown: each row is a distribution over the columns.

    Args:
        map: the name the model gives it, such as ``joint.2.source``.
        layer: counted from 1, or None.
        head: counted from 1, None for the mean over heads or features.
        rows: labels of what looks.
        columns: labels of what is looked at.
        values: weights [R, C].
    """

    map: str
    layer: int | None
    head: int | None
    rows: list[str]
    columns: list[str]
    values: Weights

    @property
    def caption(self) -> str:
        """Layer and head in words; empty where there is neither."""
        parts = [("layer", self.layer), ("head", self.head)]
        return ", ".join(f"{name} {number}" for name, number in parts if number is not None)

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        rounded = [[round(float(value), 6) for value in row] for row in self.values]
        return {**vars(self), "values": rounded}


@dataclass(frozen=True)
class View:
    """Matrices that belong in one picture: one kind of attention, the chosen layers and heads.

    Args:
        kind: such as ``decoder.cross``.
        title: what it shows, in words.
        row_axis: what the rows are.
        column_axis: what the columns are.
        matrices: one or several.
    """

    kind: str
    title: str
    row_axis: str
    column_axis: str
    matrices: list[Matrix]

    @property
    def name(self) -> str:
        """The name of its files."""
        return self.kind.replace(".", "-")

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            **{name: value for name, value in vars(self).items() if name != "matrices"},
            "matrices": [matrix.to_json() for matrix in self.matrices],
        }


def views(explanation: Explanation, choice: Choice | None = None) -> list[View]:
    """Return one view per kind of attention a system has.

    Args:
        explanation: of one pair.
        choice: which layers, heads and slices. A stack that is not as deep as the layer asked
            for shows its last one.

    Raises:
        DecodingError: no such layer, head or position.
    """
    choice = choice or Choice()
    check_choice(explanation, choice)
    target_at, source_at = cell_of(explanation, choice)
    result = []
    for kind in explanation.kinds:
        found = explanation.layers(kind)
        matrices = [
            _matrix(explanation, item, head, target_at, source_at)
            for item in _pick_layers(found, choice.layer)
            for head in _pick_heads(item, choice.head)
        ]
        axes = _axes(found[0])
        title = _title(explanation, found[0], target_at, source_at)
        result.append(View(kind, title, *axes, matrices))
    return result


def cell_of(explanation: Explanation, choice: Choice) -> tuple[int, int]:
    """Return (target, source) positions of the slices."""
    target_at, source_at = explanation.strongest_cell()
    return (
        target_at if choice.target_at is None else choice.target_at,
        source_at if choice.source_at is None else choice.source_at,
    )


def check_choice(explanation: Explanation, choice: Choice) -> None:
    """Refuse what the explanation does not have.

    Raises:
        DecodingError: naming what there is.
    """
    heads = max((found.heads for found in explanation.maps), default=0)
    _check_number("--layer", "layer", choice.layer, explanation.deepest)
    _check_number("--head", "head", choice.head, heads)
    _check_position("--source-token", choice.source_at, explanation.source)
    _check_position("--target-token", choice.target_at, explanation.predicted)


def _check_number(option: str, word: str, number: int | str | None, most: int) -> None:
    if isinstance(number, int) and not 1 <= number <= most:
        raise DecodingError(
            f"there is no {word} {number}",
            where=option,
            hint=f"the {word}s are 1 to {most}; or: all",
            kind=f"analysis.{word}",
        )


def _check_position(option: str, position: int | None, labels: Sequence[str]) -> None:
    if position is not None and not 0 <= position < len(labels):
        shown = " ".join(f"{number}:{label}" for number, label in enumerate(labels, start=1))
        raise DecodingError(
            f"there is no token {position + 1}",
            where=option,
            hint=f"the tokens are {shown}",
            kind="analysis.position",
        )


def _pick_layers(found: Sequence[LayerMap], layer: int | str | None) -> list[LayerMap]:
    if layer == "all":
        return list(found)
    return [next((item for item in found if item.layer == layer), found[-1])]


def _pick_heads(found: LayerMap, head: int | str | None) -> list[int | None]:
    if not found.heads or head is None:
        return [None]
    return list(range(1, found.heads + 1)) if head == "all" else [min(int(head), found.heads)]


def _matrix(
    explanation: Explanation, found: LayerMap, head: int | None, target_at: int, source_at: int
) -> Matrix:
    weights = found.mean() if head is None else found.weights[head - 1]
    rows, columns = _labels(explanation, found)
    if found.axes == ("target", "source", "source"):
        weights = weights[:, source_at]  # [T, S]
    elif found.axes == ("source", "target", "target"):
        weights = weights[:, target_at, : target_at + 1]  # [S, positions read so far]
        columns = columns[: target_at + 1]
    return Matrix(found.name, found.layer, head, rows, columns, weights)


def _axes(found: LayerMap) -> tuple[str, str]:
    """Return what the rows and the columns are: the first axis and the last."""
    row = SOURCE if found.axes[0] == "source" else PREDICTED
    return row, SOURCE if found.axes[-1] == "source" else READ


def _labels(explanation: Explanation, found: LayerMap) -> tuple[list[str], list[str]]:
    known = {
        SOURCE: explanation.source,
        PREDICTED: explanation.predicted,
        READ: explanation.read,
    }
    row, column = _axes(found)
    return known[row], known[column]


def _title(explanation: Explanation, found: LayerMap, target_at: int, source_at: int) -> str:
    title = TITLES.get(found.kind, found.kind)
    if found.axes == ("target", "source", "source"):
        return f"{title} of “{explanation.source[source_at]}” given each target token"
    if found.axes == ("source", "target", "target"):
        return f"{title} when predicting “{explanation.predicted[target_at]}”, per source token"
    return title

"""Bins of whole numbers: lengths, positions, counts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jtrans.errors import ConfigError, name_hint

BINS = 5  # of the reference scripts
KINDS = ("reference", "quantile")


@dataclass(frozen=True)
class Bins:
    """Adjacent bins, the last one open-ended."""

    starts: tuple[int, ...]  # the lowest value of each bin, increasing
    shown_from: int = 0  # the number in labels for the value 0; 1 for positions counted from 1

    @classmethod
    def equal(cls, width: int, count: int = BINS, *, shown_from: int = 0) -> Bins:
        """Make `count` bins of equal width: ``min(value // width, count - 1)``."""
        return cls(tuple(range(0, width * count, width)), shown_from)

    @classmethod
    def between(cls, edges: Sequence[int], *, shown_from: int = 0) -> Bins:
        """Make bins that begin at 0 and at every edge."""
        return cls(tuple(sorted({0, *edges})), shown_from)

    @classmethod
    def quantiles(cls, values: NDArray[Any], count: int = BINS, *, shown_from: int = 0) -> Bins:
        """Make up to `count` bins with numbers of values that are as equal as ties allow."""
        ordered = np.sort(values)
        cuts = {int(ordered[ordered.size * k // count]) for k in range(1, count) if ordered.size}
        # a bin that begins at the lowest value would leave an empty one below
        return cls.between([cut for cut in cuts if cut > ordered[0]], shown_from=shown_from)

    def __len__(self) -> int:
        """The number of bins."""
        return len(self.starts)

    def find(self, values: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
        """Return the bin of every value; values below 0 give -1."""
        return np.searchsorted(self.starts, np.asarray(values), side="right") - 1

    @property
    def labels(self) -> list[str]:
        """The ranges in words, such as ``0–9``, ``10–19``, ``20+``."""
        labels = []
        for start, after in itertools.pairwise(self.starts):
            first, last = start + self.shown_from, after - 1 + self.shown_from
            labels.append(f"{first:,}" if first == last else f"{first:,}–{last:,}")
        return [*labels, f"{self.starts[-1] + self.shown_from:,}+"]


@dataclass(frozen=True)
class Binning:
    """The user's choice of bins: those of the reference scripts, equal numbers, or edges."""

    kind: str = "reference"  # ``reference`` or ``quantile``
    edges: tuple[int, ...] | None = None  # where bins begin; takes precedence

    def __post_init__(self) -> None:
        """Refuse an unknown kind."""
        if self.kind not in KINDS:
            raise ConfigError(
                f"unknown bins {self.kind!r}",
                where="--bins",
                hint=name_hint(self.kind, KINDS),
                kind="config.unknown-bins",
            )

    def make(self, values: NDArray[Any], reference: Bins) -> Bins:
        """Return the bins for some values, `reference` being those of the reference scripts."""
        if self.edges is not None:
            return Bins.between(self.edges, shown_from=reference.shown_from)
        if self.kind == "quantile":
            return Bins.quantiles(values, shown_from=reference.shown_from)
        return reference


AS_IN_PAPER = Binning()


def parse_edges(text: str | None) -> tuple[int, ...] | None:
    """Read edges such as ``5,10,20``.

    Raises:
        ConfigError: not increasing whole numbers above 0.
    """
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    edges = tuple(int(part) for part in parts if part.isascii() and part.isdigit())
    is_rising = all(a < b for a, b in itertools.pairwise(edges))
    if len(edges) != len(parts) or not is_rising or edges[0] < 1:
        raise ConfigError(
            f"edges {text!r} are not increasing whole numbers above 0",
            where="--edges",
            hint="--edges 5,10,20 gives the bins 0-4, 5-9, 10-19 and 20+",
            kind="config.edges",
        )
    return edges

"""Bins of whole numbers: lengths, positions, counts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jtrans.digits import whole_numbers
from jtrans.errors import ConfigError, name_hint

BINS = 5  # as in the reference scripts
KINDS = ("reference", "quantile")


@dataclass(frozen=True)
class Bins:
    """Adjacent bins, the last one open-ended."""

    starts: tuple[int, ...]  # the lowest value of each bin, increasing
    shown_from: int = 0  # what labels show for the value 0; 1 for positions counted from 1
    is_above: bool = False  # whether the last label is ``>10``, not ``11+``

    @classmethod
    def equal(cls, width: int, *, shown_from: int = 0) -> Bins:
        """Make `BINS` bins of equal width: ``min(value // width, BINS - 1)``."""
        return cls(tuple(range(0, width * BINS, width)), shown_from)

    @classmethod
    def between(cls, starts: Sequence[int], *, shown_from: int = 0) -> Bins:
        """Make bins that begin at 0 and at every number given."""
        return cls(tuple(sorted({0, *starts})), shown_from)

    @classmethod
    def up_to(cls, edges: Sequence[int], *, lowest: int, shown_from: int) -> Bins:
        """Make bins that end at the edges, and one for larger values: ``1–5, 6–10, >10``.

        Args:
            edges: the highest number of every bin, as its label shows it.
            lowest: the lowest possible value, where the first bin begins.
            shown_from: the number that labels show for the value 0.
        """
        starts = [edge + 1 - shown_from for edge in edges]
        inside = tuple(start for start in starts if start > lowest)
        return cls((lowest, *inside), shown_from, is_above=bool(inside))

    @classmethod
    def quantiles(cls, values: NDArray[Any], *, shown_from: int = 0) -> Bins:
        """Make up to `BINS` bins with numbers of values that are as equal as ties allow."""
        ordered = np.sort(values)
        cuts = {int(ordered[ordered.size * k // BINS]) for k in range(1, BINS) if ordered.size}
        # a bin that begins at the lowest value would leave an empty one below
        return cls.between([cut for cut in cuts if cut > ordered[0]], shown_from=shown_from)

    def __len__(self) -> int:
        """The number of bins."""
        return len(self.starts)

    def find(self, values: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
        """Return the bin of every value, [values]; -1 for a value below the first bin."""
        return np.searchsorted(self.starts, np.asarray(values), side="right") - 1

    @property
    def labels(self) -> list[str]:
        """The ranges in words, such as ``0–9``, ``10–19``, ``20+``; or ``>19``."""
        labels = []
        for start, after in itertools.pairwise(self.starts):
            first, last = start + self.shown_from, after - 1 + self.shown_from
            labels.append(f"{first:,}" if first == last else f"{first:,}–{last:,}")
        last = self.starts[-1] + self.shown_from
        return [*labels, f">{last - 1:,}" if self.is_above else f"{last:,}+"]


@dataclass(frozen=True)
class Binning:
    """The user's choice of bins: as in the reference scripts, of equal counts, or with edges."""

    kind: str = "reference"  # ``reference`` or ``quantile``
    edges: tuple[int, ...] | None = None  # the highest number of each bin; takes precedence

    def __post_init__(self) -> None:
        """Refuse an unknown kind."""
        if self.kind not in KINDS:
            raise ConfigError(
                f"unknown bins {self.kind!r}",
                where="--bins",
                hint=name_hint(self.kind, KINDS),
                kind="config.unknown-bins",
            )

    def make(self, values: NDArray[Any], reference: Bins, *, lowest: int | None = None) -> Bins:
        """Return the bins for some values.

        Args:
            values: all values to be put into bins.
            reference: the bins of the reference scripts.
            lowest: where the first bin begins; None: at the label 1, or at a lower value if any.
        """
        shown_from = reference.shown_from
        if self.edges is not None:
            if lowest is None:
                lowest = min([1 - shown_from, *values.tolist()])
            return Bins.up_to(self.edges, lowest=lowest, shown_from=shown_from)
        if self.kind == "quantile":
            return Bins.quantiles(values, shown_from=shown_from)
        return reference


AS_IN_PAPER = Binning()


def parse_edges(text: str | None) -> tuple[int, ...] | None:
    """Read edges such as ``5,10,20``.

    Raises:
        ConfigError: not increasing whole numbers.
    """
    if text is None:
        return None
    edges = whole_numbers(text)
    if edges is None or not all(a < b for a, b in itertools.pairwise(edges)):
        raise ConfigError(
            f"edges {text!r} are not increasing whole numbers",
            where="--edges",
            hint="--edges 5,10,20 gives the bins 1-5, 6-10, 11-20 and >20",
            kind="config.edges",
        )
    return tuple(edges)

"""A curve in one line of text, from eight heights of blocks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

BLOCKS = "▁▂▃▄▅▆▇█"
WIDTH = 48


def sparkline(values: Sequence[float], width: int = WIDTH) -> str:
    """Return the curve of `values`, at most `width` letters; each shows the mean of a stretch.

    Values that are not finite are left out.
    """
    finite = [value for value in values if math.isfinite(value)]
    columns = min(width, len(finite))
    borders = [len(finite) * column // columns for column in range(columns + 1)] if finite else []
    means = [sum(finite[start:end]) / (end - start) for start, end in itertools.pairwise(borders)]
    low, high = min(means, default=0.0), max(means, default=0.0)
    scale = (len(BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(BLOCKS[round((mean - low) * scale)] for mean in means)

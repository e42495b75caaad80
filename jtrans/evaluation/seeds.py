"""Means over seeds: how much they vary with the sentences and with the seeds, and by chance.

A system is trained with several seeds, and each of its runs translates the same test set. The
mean score varies for two reasons: other sentences would give other scores (bootstrap), and other
seeds would give other runs. Drawing runs with replacement, too (a hierarchical bootstrap), is no
answer: of three runs it sees two thirds of the variance and none of the tails. Instead:

- Over sentences: the deviations of the mean, or of the difference of two means, on the drawn test
  sets. They contain the part in which each run differs from its sisters sentence by sentence.
- Over sentences and seeds: the same without that part, which the runs' own scores contain already,
  plus a t-distributed term with the standard error of the means over seeds, ``sum of s^2 / runs``,
  and the degrees of freedom of Welch (1947) and Satterthwaite (1946). Splitting the variance is
  that of a crossed design of runs and sentences (Owen, 2007, "The pigeonhole bootstrap").

The larger p-value and the wider interval hold: a difference is significant only if it is so over
sentences and over sentences and seeds. Of equal systems, at most about 5 % get p < 0.05, with two
runs each fewer (docs/systems.md 10.6). A system with a single run takes the seeds'
variance of the other system, or, if that has a single run, too, of all others; where no system has
several runs, only sentences count, and nothing is known of other seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from jtrans.evaluation.bootstrap import SEED, half_width, p_value

FINENESS = 50  # random numbers for each quantile
PERCENTILES = (2.5, 97.5)


@dataclass(frozen=True, eq=False)
class SeedSample:
    """One number of every run of a system: on the test set, and on each drawn one.

    Args:
        values: [runs].
        drawn: [runs, samples]; nan where a drawn test set has none.
    """

    values: NDArray[np.float64]
    drawn: NDArray[np.float64]

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return len(self.values)

    @property
    def mean(self) -> float:
        """The mean over the runs."""
        return float(self.values.mean())

    @property
    def deviation(self) -> float | None:
        """The sample standard deviation between the runs, None for a single one."""
        return float(self.values.std(ddof=1)) if self.runs > 1 else None

    def interval(self) -> float | None:
        """Return half the width of the 95 % interval of the mean, over sentences and seeds."""
        return max((half_width(part) for part in self._parts()), default=None)

    def ends(self) -> tuple[float, float] | None:
        """Return the ends of the 95 % interval of the mean; None if no drawn test set has one."""
        drawn = self.drawn.mean(axis=0)
        centre = np.nanmean(drawn) if np.isfinite(drawn).any() else np.nan
        ends = [centre + np.percentile(part, PERCENTILES) for part in self._parts()]
        if not ends:
            return None
        return float(min(low for low, _ in ends)), float(max(high for _, high in ends))

    def _parts(self) -> list[NDArray[np.float64]]:
        drawn, own = _deviations(self.drawn.mean(axis=0)), _seed_variance(self)
        return _parts(drawn, [(1 / self.runs, own)] if own else [])


@dataclass(frozen=True)
class SeedTest:
    """The test of a difference between the means of two systems.

    Args:
        difference: mean of the system minus mean of the baseline.
        p_value: how often chance alone gives a difference of this size; None: no data.
        samples: how many drawn test sets it rests on.
        has_seeds: whether seeds were taken into account.
        is_borrowed: whether a system with one run took the variance of others.
    """

    difference: float
    p_value: float | None
    samples: int
    has_seeds: bool = False
    is_borrowed: bool = False


@dataclass(frozen=True)
class _SeedVariance:
    """The variance between runs, the part of it that lies in the sentences, degrees of freedom."""

    total: float
    in_sentences: float
    freedom: int


def compare_means(
    baseline: SeedSample,
    system: SeedSample,
    others: Sequence[SeedSample] = (),
    *,
    sentences: int,
) -> SeedTest:
    """Test whether two systems differ, over sentences and seeds.

    Args:
        baseline: its runs.
        system: its runs, on the same drawn test sets.
        others: further systems, whose seeds count where these two have one run each.
        sentences: how many the test set has. So few that flipping the sign of each sentence's
            difference gives no lower p decide nothing: p is at least ``2 / 2^sentences``.
    """
    difference = system.mean - baseline.mean
    drawn = _deviations(system.drawn.mean(axis=0) - baseline.drawn.mean(axis=0))
    if not drawn.size or not np.isfinite(difference):
        return SeedTest(difference, None, drawn.size)
    pair = (baseline, system)
    own = [_seed_variance(sample) for sample in pair]
    terms = [
        (1 / sample.runs, variance)
        for sample, variance in zip(pair, own, strict=True)
        if variance is not None
    ]
    pool = _pooled([variance for _, variance in terms] or [*map(_seed_variance, others)])
    is_borrowed = pool is not None and len(terms) < len(pair)
    if pool is not None and is_borrowed:
        terms = [(sum(1 / sample.runs for sample in pair), pool)]
    p = max(2.0 ** (1 - sentences), *(p_value(part, difference) for part in _parts(drawn, terms)))
    return SeedTest(difference, p, drawn.size, bool(terms), is_borrowed)


def _deviations(drawn: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the known numbers less their mean."""
    known = drawn[np.isfinite(drawn)]
    return known - known.mean() if known.size else known


def _parts(
    drawn: NDArray[np.float64], terms: Sequence[tuple[float, _SeedVariance]]
) -> list[NDArray[np.float64]]:
    """Return the deviations over sentences, then over sentences and seeds if these are known.

    Args:
        drawn: deviations on drawn test sets, [samples].
        terms: weights and variances between seeds, each estimated on its own.
    """
    if not drawn.size:
        return []
    variances = [weight * variance.total for weight, variance in terms]
    if not sum(variances):
        return [drawn]
    squares = [
        own**2 / variance.freedom for own, (_, variance) in zip(variances, terms, strict=True)
    ]
    counted_twice = sum(weight * variance.in_sentences for weight, variance in terms)
    share = max(0.0, 1 - counted_twice / drawn.var()) if drawn.var() else 0.0
    noise = _t_quantiles(sum(variances) ** 2 / sum(squares), drawn.size)
    return [drawn, np.sqrt(share) * drawn + np.sqrt(sum(variances)) * noise]


def _seed_variance(sample: SeedSample) -> _SeedVariance | None:
    """Return the variance between runs, None for a single one."""
    if sample.runs < 2:
        return None
    known = sample.drawn[:, np.isfinite(sample.drawn).all(axis=0)]
    apart = known - known.mean(axis=0)  # what each run has of its own
    inside = float(apart.var(axis=1).sum()) / (sample.runs - 1) if known.size else 0.0
    return _SeedVariance(float(sample.values.var(ddof=1)), inside, sample.runs - 1)


def _pooled(variances: Sequence[_SeedVariance | None]) -> _SeedVariance | None:
    """Return the mean of variances, weighted by their degrees of freedom."""
    known = [variance for variance in variances if variance is not None]
    freedom = sum(variance.freedom for variance in known)
    if not freedom:
        return None
    total = sum(variance.total * variance.freedom for variance in known) / freedom
    inside = sum(variance.in_sentences * variance.freedom for variance in known) / freedom
    return _SeedVariance(total, inside, freedom)


@lru_cache(maxsize=64)
def _t_quantiles(freedom: float, number: int) -> NDArray[np.float64]:
    """Return evenly spaced quantiles of Student's t, symmetric and in random order."""
    generator = np.random.default_rng(SEED)
    half = (number + 1) // 2
    sizes = np.sort(np.abs(generator.standard_t(freedom, size=half * FINENESS)))
    sizes = sizes[FINENESS // 2 :: FINENESS]
    return generator.permutation(np.concatenate([sizes, -sizes])[:number])

"""Means over seeds: their variance over sentences and seeds, and tests of differences.

Other sentences would give other scores, and other seeds other runs. A hierarchical bootstrap, which
also draws runs with replacement, sees only two thirds of the variance of three runs and none of the
tails. Instead, a t-distributed term is added to the deviations on the drawn test sets. It has the
standard error of the means over seeds and the degrees of freedom of Welch (1947) and Satterthwaite
(1946). The interaction of runs with sentences is already part of the deviations and is subtracted,
as in a crossed design (Owen, 2007). docs/systems.md 10.5 has the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from jtrans.evaluation.bootstrap import SEED, half_width, p_value

QUANTILES = 400  # of Student's t, each added to every deviation; an even number
FINENESS = 125  # random numbers for each quantile
PERCENTILES = (2.5, 97.5)
# Student's t at 97.5 % by degrees of freedom; the last is used beyond, where it is a bit too large
T_QUANTILES = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


@dataclass(frozen=True, eq=False)
class SeedSample:
    """One metric of every run of a system, on the test set and on each drawn test set."""

    values: NDArray[np.float64]  # [runs]
    drawn: NDArray[np.float64]  # [runs, samples]; nan where a drawn test set has no score

    @property
    def runs(self) -> int:
        """The number of runs."""
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
        """Return half the width of the 95 % interval of the mean, over sentences and seeds.

        None if no drawn set has a score, or all have the same, as those of a single sentence.
        """
        drawn = self._with_seeds()
        return (half_width(drawn) or None) if drawn.size else None

    def ends(self) -> tuple[float, float] | None:
        """Return the ends of the 95 % interval of the mean; None if no drawn set has a score."""
        drawn = self._with_seeds()
        if not drawn.size:
            return None
        low, high = np.nanmean(self.drawn.mean(axis=0)) + np.percentile(drawn, PERCENTILES)
        return float(low), float(high)

    def _with_seeds(self) -> NDArray[np.float64]:
        """Return the deviations of the mean over sentences and seeds."""
        drawn, variance = _deviations(self.drawn.mean(axis=0)), _seed_variance(self)
        return _with_seeds(drawn, [(1 / self.runs, variance)] if variance else [])


@dataclass(frozen=True)
class SeedTest:
    """The test of a difference between the means of two systems."""

    difference: float  # mean of the system minus mean of the baseline
    p_value: float  # the probability that chance alone gives a difference of this size
    samples: int  # number of drawn test sets
    has_seeds: bool = False  # whether seeds were taken into account
    is_borrowed: bool = False  # whether a system with one run took the variance of others


@dataclass(frozen=True)
class _SeedVariance:
    """The variance between runs, its part due to the drawn sentences, and degrees of freedom."""

    total: float
    in_sentences: float
    freedom: int


def compare_means(
    baseline: SeedSample, system: SeedSample, others: Sequence[SeedSample] = (), *, sentences: int
) -> SeedTest:
    """Test whether two systems differ, over sentences and seeds.

    Args:
        baseline: the runs of the baseline.
        system: the runs of the system, on the same drawn test sets.
        others: further systems, whose variance is borrowed if these two have one run each.
        sentences: size of the test set. p is at least ``2 / 2^sentences``, the lowest p-value of a
            test that flips the signs of the sentences' differences: very few decide nothing.
    """
    difference = system.mean - baseline.mean
    drawn = _deviations(system.drawn.mean(axis=0) - baseline.drawn.mean(axis=0))
    if not drawn.size or not np.isfinite(difference):
        return SeedTest(difference, 1.0, drawn.size)
    pair = (baseline, system)
    weighted = [(1 / sample.runs, _seed_variance(sample)) for sample in pair]
    terms = [(weight, variance) for weight, variance in weighted if variance is not None]
    pool = _pooled([variance for _, variance in terms] or [*map(_seed_variance, others)])
    is_borrowed = pool is not None and len(terms) < len(pair)
    if pool is not None and is_borrowed:
        # two or three runs estimate total - in_sentences too badly to lend it to another system
        terms = [(sum(weight for weight, _ in weighted), pool)]
    parts = [drawn, _with_seeds(drawn, terms, is_borrowed=is_borrowed)]
    p = max(2.0 ** (1 - sentences), *(p_value(part, difference) for part in parts))
    return SeedTest(difference, p, drawn.size, bool(terms), is_borrowed)


def t_quantile(freedom: int) -> float:
    """Return Student's t at 97.5 % for 1 or more degrees of freedom."""
    return T_QUANTILES[min(freedom, len(T_QUANTILES)) - 1]


def _deviations(drawn: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the finite numbers minus their mean."""
    known = drawn[np.isfinite(drawn)]
    return known - known.mean() if known.size else known


def _with_seeds(
    drawn: NDArray[np.float64],
    terms: Sequence[tuple[float, _SeedVariance]],
    *,
    is_borrowed: bool = False,
) -> NDArray[np.float64]:
    """Return the deviations over sentences and seeds, `QUANTILES` times `drawn` if there are seeds.

    Args:
        drawn: deviations on drawn test sets, [samples].
        terms: weights and variances between seeds, each estimated on its own.
        is_borrowed: whether a variance is that of another system.
    """
    share = 1.0
    variances = [weight * max(0.0, term.total - term.in_sentences) for weight, term in terms]
    if is_borrowed:
        variances = [weight * term.total for weight, term in terms]
        inside = sum(weight * term.in_sentences for weight, term in terms)
        share = max(0.0, 1 - inside / drawn.var()) if drawn.size and drawn.var() else 1.0
    if not sum(variances):
        return drawn
    squares = [part**2 / term.freedom for part, (_, term) in zip(variances, terms, strict=True)]
    noise = math.sqrt(sum(variances)) * _t_quantiles(sum(variances) ** 2 / sum(squares))
    # all pairs: with one quantile for each deviation, p would depend on which meets which
    return np.add.outer(math.sqrt(share) * drawn, noise).ravel()


def _seed_variance(sample: SeedSample) -> _SeedVariance | None:
    """Return the variance between runs; None for a single one, or if a score is not a number."""
    if sample.runs < 2 or not np.isfinite(sample.values).all():
        return None
    known = sample.drawn[:, np.isfinite(sample.drawn).all(axis=0)]
    apart = known - known.mean(axis=0)  # of each run from the mean of all
    inside = float(apart.var(axis=1).sum()) / (sample.runs - 1) if known.size else 0.0
    return _SeedVariance(float(sample.values.var(ddof=1)), inside, sample.runs - 1)


def _pooled(variances: Sequence[_SeedVariance | None]) -> _SeedVariance | None:
    """Return the mean of variances, weighted by their degrees of freedom."""
    known = [variance for variance in variances if variance is not None]
    if not known:
        return None
    freedoms = [variance.freedom for variance in known]
    parts = [(variance.total, variance.in_sentences) for variance in known]
    total, inside = np.average(parts, axis=0, weights=freedoms)
    return _SeedVariance(float(total), float(inside), sum(freedoms))


@lru_cache(maxsize=64)
def _t_quantiles(freedom: float) -> NDArray[np.float64]:
    """Return `QUANTILES` evenly spaced quantiles of Student's t, symmetric."""
    generator = np.random.default_rng(SEED)
    sizes = np.sort(np.abs(generator.standard_t(freedom, size=QUANTILES // 2 * FINENESS)))
    sizes = sizes[FINENESS // 2 :: FINENESS]
    return np.concatenate([-sizes[::-1], sizes])

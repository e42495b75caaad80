"""Means over seeds: their variance over sentences and seeds, and tests of differences.

Other sentences would give other scores, and other seeds other runs. A hierarchical bootstrap, which
also draws runs with replacement, would cover only two thirds of the variance of three runs and none
of the tails. Instead, a t-distributed term is added to the deviations on the drawn test sets, with
the standard error of the means over seeds and the degrees of freedom of Welch (1947) and
Satterthwaite (1946). The interaction of runs with sentences is already in the deviations and is
subtracted, as in a crossed design (Owen, 2007). docs/systems.md 10.6 has the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from jtrans.evaluation.bootstrap import half_width, p_value

QUANTILES = 400  # of Student's t, each added to every deviation, for intervals
ANGLES = 8001  # at which Student's t is integrated
PERCENTILES = (2.5, 97.5)


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
        """The sample standard deviation over the runs, None for a single one."""
        return deviation_of(self.values)

    def interval(self) -> float | None:
        """Return half the width of the 95 % interval of the mean, over sentences and seeds.

        None if no drawn set has a score, or all have the same, as with a single sentence.
        """
        drawn = self._with_seeds()
        return (half_width(drawn) or None) if drawn.size else None

    def ends(
        self, lowest: float = -math.inf, highest: float = math.inf
    ) -> tuple[float, float] | None:
        """Return the ends of the 95 % interval of the mean, within the range of its values.

        None if no drawn set has a score.
        """
        drawn = self._with_seeds()
        if not drawn.size:
            return None
        low, high = np.nanmean(self.drawn.mean(axis=0)) + np.percentile(drawn, PERCENTILES)
        return max(lowest, float(low)), min(float(high), highest)

    def _with_seeds(self) -> NDArray[np.float64]:
        """Return the deviations of the mean over sentences and seeds."""
        drawn, variance = _deviations(self.drawn.mean(axis=0)), _seed_variance(self)
        noise = _noise(drawn, [(1 / self.runs, variance)] if variance else [])
        if noise is None:
            return drawn
        # all pairs: with one quantile per deviation, the result would depend on their order
        return np.add.outer(noise.share * drawn, noise.scale * noise.quantiles()).ravel()


@dataclass(frozen=True)
class SeedTest:
    """The test of a difference between the means of two systems."""

    difference: float  # mean of the system minus mean of the baseline
    p_value: float  # the probability that chance alone gives a difference of this size
    samples: int  # number of drawn test sets
    has_seeds: bool = False  # whether seeds were taken into account
    is_borrowed: bool = False  # whether a system with one run was given the variance of others
    is_same_runs: bool = False  # whether both are the same runs, used in two ways


@dataclass(frozen=True)
class _SeedVariance:
    """The variance between runs, the part of it due to sentences, and the degrees of freedom."""

    total: float
    in_sentences: float
    freedom: int


@dataclass(frozen=True)
class _Noise:
    """What seeds add to the deviations over sentences: `scale` times Student's t."""

    share: float  # factor of each deviation
    scale: float
    freedom: float

    def quantiles(self) -> NDArray[np.float64]:
        """Return `QUANTILES` evenly spaced quantiles of t."""
        angles, below = _student(self.freedom)
        shares = (np.arange(QUANTILES) + 0.5) / QUANTILES
        return math.sqrt(self.freedom) * np.tan(np.interp(shares, below, angles))

    def p_value(self, deviations: NDArray[np.float64], difference: float) -> float:
        """Return the probability that a deviation plus noise is as large as a difference."""
        angles, below = _student(self.freedom)
        apart = np.array([[1.0], [-1.0]]) * self.share * deviations - abs(difference)
        t = apart / (self.scale * math.sqrt(self.freedom))
        return float(2.0 * np.interp(np.arctan(t), angles, below).mean())


def compare_means(
    baseline: SeedSample,
    system: SeedSample,
    others: Sequence[SeedSample] = (),
    *,
    sentences: int,
    is_same_runs: bool = False,
) -> SeedTest:
    """Test whether two systems differ, over sentences and seeds.

    Args:
        baseline: the runs of the baseline.
        system: the runs of the system, on the same drawn test sets.
        others: further systems, whose variance is borrowed if these two have one run each.
        sentences: size of the test set. p is at least ``2 / 2^sentences``, the lowest p-value of a
            test that flips the signs of the sentences' differences, so very few are never enough.
        is_same_runs: whether both are the same runs in the same order, for example with two beam
            sizes: then the differences of the runs are what varies, and nothing is borrowed.
    """
    difference = system.mean - baseline.mean
    drawn = _deviations(system.drawn.mean(axis=0) - baseline.drawn.mean(axis=0))
    if not drawn.size or not np.isfinite(difference):
        return SeedTest(difference, 1.0, drawn.size, is_same_runs=is_same_runs)
    pair = [baseline, system]
    if is_same_runs:
        pair = [SeedSample(system.values - baseline.values, system.drawn - baseline.drawn)]
        others = ()
    weighted = [(1 / sample.runs, _seed_variance(sample)) for sample in pair]
    terms = [(weight, variance) for weight, variance in weighted if variance is not None]
    pool = _pooled([variance for _, variance in terms] or [*map(_seed_variance, others)])
    is_borrowed = pool is not None and len(terms) < len(pair)
    if pool is not None and is_borrowed:
        # of two or three runs, total - in_sentences is too bad an estimate to lend
        terms = [(sum(weight for weight, _ in weighted), pool)]
    p = max(2.0 ** (1 - sentences), p_value(drawn, difference))
    noise = _noise(drawn, terms, is_borrowed=is_borrowed)
    if noise is not None and difference:
        p = max(p, noise.p_value(drawn, difference))
    return SeedTest(difference, p, drawn.size, bool(terms), is_borrowed, is_same_runs)


def deviation_of(values: Sequence[float] | NDArray[np.float64]) -> float | None:
    """Return the sample standard deviation, None for a single value."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def t_quantile(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t for 1 or more degrees of freedom."""
    angles, below = _student(freedom)
    return math.sqrt(freedom) * math.tan(float(np.interp(PERCENTILES[1] / 100, below, angles)))


def _deviations(drawn: NDArray[np.float64]) -> NDArray[np.float64]:
    known = drawn[np.isfinite(drawn)]
    return known - known.mean() if known.size else known


def _noise(
    drawn: NDArray[np.float64],
    terms: Sequence[tuple[float, _SeedVariance]],
    *,
    is_borrowed: bool = False,
) -> _Noise | None:
    """Return what seeds add to the deviations; None if they add nothing.

    Args:
        drawn: deviations on drawn test sets, [samples].
        terms: the weight and the variance between seeds of each system.
        is_borrowed: whether a variance is that of another system.
    """
    share = 1.0
    variances = [weight * max(0.0, term.total - term.in_sentences) for weight, term in terms]
    if is_borrowed:
        variances = [weight * term.total for weight, term in terms]
        inside = sum(weight * term.in_sentences for weight, term in terms)
        share = max(0.0, 1 - inside / drawn.var()) if drawn.size and drawn.var() else 1.0
    if not sum(variances):
        return None
    squares = [part**2 / term.freedom for part, (_, term) in zip(variances, terms, strict=True)]
    freedom = sum(variances) ** 2 / sum(squares)
    return _Noise(math.sqrt(share), math.sqrt(sum(variances)), freedom)


def _seed_variance(sample: SeedSample) -> _SeedVariance | None:
    """Return the variance between runs; None for a single run, or if a score is not finite."""
    if sample.runs < 2 or not np.isfinite(sample.values).all():
        return None
    known = sample.drawn[:, np.isfinite(sample.drawn).all(axis=0)]
    apart = known - known.mean(axis=0)  # each run's deviation from the mean of all
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
def _student(freedom: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the distribution of Student's t: angles, and the probability below each.

    With ``t = sqrt(freedom) tan(angle)`` the density is a power of the cosine.
    """
    angles = np.linspace(-math.pi / 2, math.pi / 2, ANGLES)
    density = np.maximum(np.cos(angles), 0.0) ** (freedom - 1)
    below = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    return angles, below / below[-1]

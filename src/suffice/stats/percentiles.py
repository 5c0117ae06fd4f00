"""Percentiles of samples in which failures are infinite, with intervals from order statistics, or refused.

A percentile that the samples cannot support has no interval, and nothing may be decided on it: P99 of thirty requests is their
largest value, whatever it is called.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.stats.intervals import DEFAULT_LEVEL, quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

_INFINITY: Final = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentile:
    """One percentile of ``samples`` values, in their unit.

    ``observed`` is the sample's own quantile, infinite when failures reach it. ``low`` and ``high`` enclose the population's
    quantile with at least ``level``; None when fewer than ``needed`` samples are there.
    """

    fraction: float
    samples: int
    observed: float
    low: float | None
    high: float | None
    level: float | None
    needed: int

    @property
    def supported(self) -> bool:
        """Whether the samples suffice for a two-sided interval."""
        return self.low is not None

    @property
    def value(self) -> float | None:
        """The observed value where it is supported and finite, else None."""
        return self.observed if self.supported and math.isfinite(self.observed) else None


def samples_needed(fraction: float, level: float = DEFAULT_LEVEL) -> int:
    """The least number of samples that give a two-sided interval: 6 for P50, 36 for P90, 72 for P95, 368 for P99 at 95 %.

    The largest of n samples lies below the quantile with probability fraction**n, which must not exceed half of what is left.
    """
    far = max(fraction, 1 - fraction)
    if not 0 < fraction < 1:
        raise ValueError(f"a percentile with an interval lies inside (0, 1), not at {fraction}")
    return math.ceil(math.log((1 - level) / 2) / math.log(far))


def percentile(samples: Sequence[float], fraction: float, level: float = DEFAULT_LEVEL) -> Percentile | None:
    """A percentile with its interval; None without samples.

    Infinite samples are failures: they stand above every other value. The interval assumes independence and nothing else; its
    ``level`` is its exact coverage (David and Nagaraja, Order Statistics, 2003, section 7.1).

    Raises:
        ValueError: a sample is NaN or minus infinity, or the fraction lies outside (0, 1).
    """
    ordered = sorted(samples)
    if not ordered:
        return None
    if any(math.isnan(value) or value == -_INFINITY for value in ordered):
        raise ValueError("samples are finite numbers, or infinite where they stand for failures")
    needed = samples_needed(fraction, level)
    ranks = _ranks(len(ordered), fraction, level) if len(ordered) >= needed else None
    low, high, coverage = (None, None, None) if ranks is None else (ordered[ranks[0]], ordered[ranks[1]], ranks[2])
    return Percentile(
        fraction=fraction,
        samples=len(ordered),
        observed=_observed(ordered, fraction),
        low=low,
        high=high,
        level=coverage,
        needed=needed,
    )


def _observed(ordered: list[float], fraction: float) -> float:
    """The quantile of type 7, infinite as soon as an infinite value has a share in it."""
    if ordered[-1] != _INFINITY:
        return quantile(ordered, fraction)
    position = (len(ordered) - 1) * fraction
    below, above = ordered[math.floor(position)], ordered[math.ceil(position)]
    if above == _INFINITY:
        return _INFINITY if above == below or position > math.floor(position) else below
    share = position - math.floor(position)
    return below * (1 - share) + above * share


def _ranks(n: int, fraction: float, level: float) -> tuple[int, int, float] | None:
    """Places (from 0) of the two order statistics, and their coverage; each tail has at most half of what ``level`` leaves."""
    tail = (1 - level) / 2
    low = high = None
    low_tail = at_most = 0.0
    for k in range(n):
        at_most += _probability(n, k, fraction)  # P(at most k of n samples lie below the quantile)
        if at_most <= tail:
            low, low_tail = k, at_most
        if at_most >= 1 - tail:
            high = k
            break
    if low is None or high is None:
        return None
    return low, high, min(at_most - low_tail, 1 - 1e-15)


def _probability(n: int, k: int, fraction: float) -> float:
    """The binomial probability of k of n, by logarithms: n may be a million."""
    ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(ways + k * math.log(fraction) + (n - k) * math.log(1 - fraction))

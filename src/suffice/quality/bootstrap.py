"""The bootstrap of a mean difference, clustered by group: groups are drawn with replacement, whole.

It is there to check the score interval of ``suffice.stats.paired`` by another way, and for whoever expects it; it does not decide.
By simulation (``docs/quality-statistics.md``) all three kinds cover too little with fewer than some fifty groups or where few items differ, and
where none does they have a width of zero.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import ndtr, ndtri

from suffice.stats.estimate import Interval
from suffice.stats.groups import LEAST_GROUPS
from suffice.stats.intervals import DEFAULT_LEVEL

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

DEFAULT_RESAMPLES: Final = 9_999
DEFAULT_SEED: Final = 20_011_979
_CELLS_AT_ONCE: Final = 2_000_000  # draws in memory: 16 MB of weights


class BootstrapKind(StrEnum):
    """How the interval is read from the resamples."""

    PERCENTILE = "percentile bootstrap"
    BCA = "BCa bootstrap"
    STUDENTIZED = "studentized bootstrap"


def bootstrap_interval(
    differences: Sequence[float],
    groups: Sequence[Hashable] | None = None,
    kind: BootstrapKind = BootstrapKind.BCA,
    level: float = DEFAULT_LEVEL,
    *,
    resamples: int = DEFAULT_RESAMPLES,
    seed: int = DEFAULT_SEED,
) -> Interval | None:
    """The interval of the mean of ``differences``, by resampling whole groups (or items, without groups).

    Percentile and BCa: Efron, J. Am. Stat. Assoc. 82, 1987; studentized: Efron and Tibshirani, An Introduction to the Bootstrap,
    1993, section 12.5; groups drawn whole: Davison and Hinkley, Bootstrap Methods and their Application, 1997, section 3.8. The same
    seed gives the same interval.

    None with fewer than five groups, or without any variation between them: a width of zero would be no interval.

    Raises:
        ValueError: no differences, one that is not finite, or not one group name per difference.
    """
    totals, sizes = _totals(differences, groups)
    mean = totals.sum() / sizes.sum()
    residuals = totals - mean * sizes
    if len(totals) < LEAST_GROUPS or np.allclose(residuals, 0, atol=1e-15):
        return None
    means, errors = _resample(totals, sizes, resamples, seed)
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    if kind is BootstrapKind.STUDENTIZED:
        error = float(np.sqrt(np.sum(residuals**2))) / sizes.sum()
        moved = errors > 0  # a resample without variation has no standard error
        quantiles = np.quantile((means[moved] - mean) / errors[moved], tails)
        low, high = mean - quantiles[1] * error, mean - quantiles[0] * error
    else:
        low, high = np.quantile(means, tails if kind is BootstrapKind.PERCENTILE else _bca(tails, means, totals, sizes))
    return Interval(low=float(low), high=float(high), level=level, method=kind.value)


def _totals(differences: Sequence[float], groups: Sequence[Hashable] | None) -> tuple[Floats, Floats]:
    """The sum and the number of each group, groups in the order of their first item."""
    values = np.asarray(differences, dtype=np.float64)
    if values.size == 0 or not np.all(np.isfinite(values)):
        raise ValueError("differences must be finite numbers, and at least one")
    if groups is None:
        return values, np.ones(len(values))
    if len(groups) != len(values):
        raise ValueError(f"{len(values)} differences have {len(groups)} group names")
    places: dict[Hashable, int] = {}
    labels = np.array([places.setdefault(group, len(places)) for group in groups])
    totals: Floats = np.bincount(labels, weights=values).astype(np.float64)
    return totals, np.bincount(labels).astype(np.float64)


def _resample(totals: Floats, sizes: Floats, resamples: int, seed: int) -> tuple[Floats, Floats]:
    """The mean and its standard error in each resample."""
    random = np.random.default_rng(seed)
    number = len(totals)
    means, errors = np.empty(resamples), np.empty(resamples)
    step = max(1, _CELLS_AT_ONCE // number)
    for start in range(0, resamples, step):
        rows = slice(start, min(start + step, resamples))
        weights = random.multinomial(number, np.full(number, 1 / number), size=rows.stop - rows.start).astype(float)
        items = weights @ sizes
        mean = weights @ totals / items
        squares = weights @ totals**2 - 2 * mean * (weights @ (totals * sizes)) + mean**2 * (weights @ sizes**2)
        means[rows] = mean
        errors[rows] = np.sqrt(np.maximum(squares, 0)) / items
    return means, errors


def _bca(tails: Floats, means: Floats, totals: Floats, sizes: Floats) -> Floats:
    """Where to read the quantiles: moved for bias and for the skewness that the jackknife over groups shows (Efron 1987)."""
    mean = totals.sum() / sizes.sum()
    below = (np.mean(means < mean) + np.mean(means <= mean)) / 2
    bias = ndtri(np.clip(below, 1 / len(means), 1 - 1 / len(means)))
    left_out = (totals.sum() - totals) / (sizes.sum() - sizes)
    deviations = left_out.mean() - left_out
    acceleration = np.sum(deviations**3) / (6 * np.sum(deviations**2) ** 1.5)
    normal = bias + ndtri(tails)
    moved: Floats = ndtr(bias + normal / (1 - acceleration * normal))
    return moved

"""How many times another thing something is, from independent repetitions of both, and what a tolerance makes of it.

Everything is computed on logarithms: half and double are equally far from the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

from suffice.stats.estimate import Estimate, Interval
from suffice.stats.intervals import DEFAULT_LEVEL, median

if TYPE_CHECKING:
    from collections.abc import Sequence

# Above this many pairs the normal approximation of Mann-Whitney's statistic is closer than 1 % of its deviation.
_MOST_EXACT_PAIRS: Final = 900
# The same of Wilcoxon's.
_MOST_EXACT_ROUNDS: Final = 60
# Four of five: the power that a smallest change is stated for, as is usual.
POWER: Final = 0.8


class Better(StrEnum):
    """Which way of a figure is the good one."""

    HIGHER = "higher"
    LOWER = "lower"


class Change(StrEnum):
    """What has been shown of a ratio against a tolerance."""

    WORSE = "worse"  # the whole interval is beyond the tolerance on the bad side
    WITHIN = "within"  # its bad end is not: no worse than the tolerance, perhaps better
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How much worse is no loss yet: ``share`` 0.05 takes rates of 95 % and times of 105 % for the same.

    Raises:
        ValueError: a share outside (0, 1).
    """

    share: float
    better: Better

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ValueError(f"a tolerance lies between 0 and 1, not at {self.share}")

    @property
    def limit(self) -> float:
        """The ratio new / base that is still taken for the same."""
        return 1 - self.share if self.better is Better.HIGHER else 1 + self.share


def shift_ratio(base: Sequence[float], new: Sequence[float], level: float = DEFAULT_LEVEL) -> Estimate | None:
    """How many times the values of ``base`` those of ``new`` are.

    The Hodges-Lehmann shift of the logarithms with the interval of the Mann-Whitney test: it assumes two distributions of one shape and
    independent repetitions, and one or two wild ones do not move it (Hollander, Wolfe, Chicken, Nonparametric Statistical Methods, 2014,
    sections 4.2 and 4.3). Its ``level`` is the exact coverage, at least the one asked for.

    Args:
        base: positive repetitions.
        new: the same.
        level: of the interval.

    Returns:
        None where a side is empty; without an interval where the samples cannot support one: 95 % needs four of each.

    Raises:
        ValueError: a value that is not finite and positive.
    """
    if not base or not new:
        return None
    if not all(math.isfinite(value) and value > 0 for value in (*base, *new)):
        raise ValueError("a ratio needs finite, positive values")
    differences = sorted(math.log(value) - math.log(other) for value in new for other in base)
    point = math.exp(median(differences))
    rank, coverage = _rank(len(base), len(new), level)
    if rank is None:
        return Estimate(point=point, interval=None, samples=())
    interval = Interval(
        low=min(math.exp(differences[rank]), point),
        high=max(math.exp(differences[-1 - rank]), point),
        level=coverage,
        method="Mann-Whitney on logarithms",
    )
    return Estimate(point=point, interval=interval, samples=())


def _rank(m: int, n: int, level: float) -> tuple[int | None, float]:
    """The place (from 0) of the ordered differences at which the interval begins, and what it covers; None: no place reaches the level."""
    tail = (1 - level) / 2
    if m * n > _MOST_EXACT_PAIRS:
        deviation = math.sqrt(m * n * (m + n + 1) / 12)
        rank = math.floor(m * n / 2 + NormalDist().inv_cdf(tail) * deviation - 0.5)
        return (rank, level) if rank >= 0 else (None, level)
    return _first_place(_mann_whitney_counts(m, n), math.comb(m + n, n), tail)


def _first_place(counts: Sequence[int], total: int, tail: float) -> tuple[int | None, float]:
    """The largest statistic that is, together with all below it, no likelier than ``tail``, and what lies beyond both of its ends."""
    below, found = 0, None
    for place, count in enumerate(counts):
        if (below + count) / total > tail:
            break
        below, found = below + count, place
    # The interval from the (c+1)-th difference on covers all but the cases in which at most c differences lie beyond the shift.
    return found, min(1 - 2 * below / total, math.nextafter(1, 0))


def _mann_whitney_counts(m: int, n: int) -> list[int]:
    """In how many orders of m and n values the statistic is 0, 1, ..., m*n: the Gaussian binomial coefficient.

    It is the product of (1 - q^(n+i)) / (1 - q^i) over i = 1 to m (Andrews, The Theory of Partitions, 1976, section 3.2).
    """
    counts = [1] + [0] * (m * n)
    for i in range(1, m + 1):
        for power in range(m * n, n + i - 1, -1):
            counts[power] -= counts[power - n - i]
        for power in range(i, m * n + 1):
            counts[power] += counts[power - i]
    return counts


def paired_shift_ratio(ratios: Sequence[float], level: float = DEFAULT_LEVEL) -> Estimate | None:
    """The ratio that pairs have in common: the Hodges-Lehmann estimate of their logarithms with the interval of Wilcoxon's signed ranks.

    It assumes independent pairs whose logarithms scatter evenly to both sides, of whatever shape: a wild pair or two do not move it, as they
    do a mean; neither end of the interval either, from twelve pairs on at 95 % (Hollander, Wolfe, Chicken, as above, sections 3.2 and 3.3). ``level`` is the exact coverage, at least the one asked for.

    Args:
        ratios: new over base of each pair, positive.
        level: of the interval.

    Returns:
        None where the pairs cannot support an interval: 95 % needs six.

    Raises:
        ValueError: a ratio that is not finite and positive.
    """
    if not all(math.isfinite(ratio) and ratio > 0 for ratio in ratios):
        raise ValueError("a ratio needs finite, positive values")
    logs = [math.log(ratio) for ratio in ratios]
    rank, coverage = _signed_rank(len(logs), level)
    if rank is None:
        return None
    walsh = sorted((one + other) / 2 for place, one in enumerate(logs) for other in logs[place:])
    point = math.exp(median(walsh))
    interval = Interval(
        low=min(math.exp(walsh[rank]), point),
        high=max(math.exp(walsh[-1 - rank]), point),
        level=coverage,
        method="Wilcoxon's signed ranks on logarithms",
    )
    return Estimate(point=point, interval=interval, samples=tuple(ratios))


def _signed_rank(n: int, level: float) -> tuple[int | None, float]:
    """As :func:`_rank`, of the ordered means of two logarithms each."""
    tail, largest = (1 - level) / 2, n * (n + 1) // 2
    if n > _MOST_EXACT_ROUNDS:
        deviation = math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        return math.floor(largest / 2 + NormalDist().inv_cdf(tail) * deviation - 0.5), level
    counts = [1] + [0] * largest  # in how many ways signs give ranks of this sum
    for rank in range(1, n + 1):
        for total in range(largest, rank - 1, -1):
            counts[total] += counts[total - rank]
    return _first_place(counts, 2**n, tail)


def with_scatter(ratio: Estimate, log_deviation: float, degrees_of_freedom: float = math.inf) -> Estimate:
    """The ratio with an independent error of the logarithm beside the one that its interval holds.

    Repetitions of one run scatter less than two runs of the same thing differ; the deviation of that difference is given here. Both
    half widths are added as independent errors are.

    Args:
        ratio: with an interval, or exact without one.
        log_deviation: standard deviation of log(new / base) between runs.
        degrees_of_freedom: that the deviation was estimated with; infinite where it is known.
    """
    level = DEFAULT_LEVEL if ratio.interval is None else ratio.interval.level
    half = _quantile(degrees_of_freedom, 0.5 + level / 2) * log_deviation
    low, high = (ratio.point, ratio.point) if ratio.interval is None else (ratio.interval.low, ratio.interval.high)
    centre = math.log(ratio.point)
    method = "scatter between runs" if ratio.interval is None else f"{ratio.interval.method}, and scatter between runs"
    interval = Interval(
        low=math.exp(centre - math.hypot(centre - math.log(low), half)),
        high=math.exp(centre + math.hypot(math.log(high) - centre, half)),
        level=level,
        method=method,
    )
    return Estimate(point=ratio.point, interval=interval, samples=ratio.samples)


def _quantile(degrees_of_freedom: float, probability: float) -> float:
    """Student's, or the normal one for infinitely many degrees of freedom."""
    if math.isinf(degrees_of_freedom):
        return NormalDist().inv_cdf(probability)
    from scipy.special import stdtrit  # noqa: PLC0415  # half a second to import, and rarely needed

    return float(stdtrit(degrees_of_freedom, probability))


def predicted_ratio(
    runs: Sequence[float], new: float, *, least_deviation: float, level: float = DEFAULT_LEVEL
) -> Estimate:
    """How many times earlier runs a new one is, with the interval in which one more run of the same thing would lie around 1.

    Student's prediction interval on logarithms, new - mean +- t s sqrt(1 + 1/n): the scatter between runs is that of the runs themselves
    (Hahn and Meeker, Statistical Intervals, 1991, section 4.2).

    Args:
        runs: one figure of each earlier run, two at least.
        new: that of the new run.
        least_deviation: of the logarithm between runs; a few runs that happen to agree do not make it smaller.
        level: of the interval.

    Raises:
        ValueError: fewer than two runs, or a value that is not finite and positive.
    """
    if len(runs) < 2 or not all(math.isfinite(value) and value > 0 for value in (*runs, new)):  # noqa: PLR2004  # one has no scatter
        raise ValueError("a prediction needs two runs and finite, positive values")
    logs = [math.log(value) for value in runs]
    mean = math.fsum(logs) / len(logs)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in logs) / (len(logs) - 1))
    half = _quantile(len(logs) - 1, 0.5 + level / 2) * max(deviation, least_deviation) * math.sqrt(1 + 1 / len(logs))
    centre = math.log(new) - mean
    interval = Interval(
        low=math.exp(centre - half),
        high=math.exp(centre + half),
        level=level,
        method=f"Student's prediction interval of {len(runs)} runs",
    )
    return Estimate(point=math.exp(centre), interval=interval, samples=tuple(runs))


def judge_change(ratio: Estimate, tolerance: Tolerance) -> Change:
    """The regression rule: worse when the whole interval is beyond the tolerance, within it when the bad end is not; else unknown."""
    if ratio.interval is None:
        return Change.UNKNOWN
    low, high = ratio.interval.low, ratio.interval.high
    if tolerance.better is Better.LOWER:
        return _judged(good_end=1 / low, bad_end=1 / high, limit=1 / tolerance.limit)
    return _judged(good_end=high, bad_end=low, limit=tolerance.limit)


def _judged(*, good_end: float, bad_end: float, limit: float) -> Change:
    if bad_end >= limit:
        return Change.WITHIN
    return Change.WORSE if good_end < limit else Change.UNKNOWN


def smallest_change(ratio: Estimate, tolerance: Tolerance) -> float | None:
    """The least true loss that would have been shown in four of five such comparisons, as a share: 0.09 is 9 % slower, or longer.

    The whole interval must fall beyond the tolerance, so a loss must exceed it by the half width towards the good side, and by
    0.84 deviations more for the power. None without an interval.
    """
    if ratio.interval is None:
        return None
    good = ratio.interval.high if tolerance.better is Better.HIGHER else ratio.interval.low
    half = abs(math.log(good) - math.log(ratio.point))
    normal = NormalDist()
    reach = half * (1 + normal.inv_cdf(POWER) / normal.inv_cdf(0.5 + ratio.interval.level / 2))
    return abs(1 - math.exp(math.copysign(abs(math.log(tolerance.limit)) + reach, math.log(tolerance.limit))))

"""Medians and their confidence intervals.

Samples are independent repetitions (runs, passes, processes), never the correlated tokens of one run.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from suffice.stats.estimate import Estimate, Interval

if TYPE_CHECKING:
    from collections.abc import Sequence

# From six samples on, the smallest and the largest enclose the median with at least 1 - 2 * 0.5**6 = 96.9 %.
MIN_ORDER_STATISTIC_SAMPLES: Final = 6
DEFAULT_LEVEL: Final = 0.95


def _checked(samples: Sequence[float]) -> tuple[float, ...]:
    values = tuple(float(value) for value in samples)
    if not values:
        raise ValueError("no samples: there is nothing to estimate")
    if not all(math.isfinite(value) for value in values):
        raise ValueError("samples must be finite numbers")
    return values


def median(samples: Sequence[float]) -> float:
    """The middle value, or the mean of the two middle ones: ``median([3, 1, 2]) == 2``."""
    return quantile(samples, 0.5)


def quantile(samples: Sequence[float], fraction: float) -> float:
    """The quantile by linear interpolation between order statistics (Hyndman and Fan 1996, type 7, NumPy's default).

    Raises:
        ValueError: no samples, a sample that is not finite, or a fraction outside [0, 1].
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"a quantile's fraction lies in [0, 1], not {fraction}")
    ordered = sorted(_checked(samples))
    position = (len(ordered) - 1) * fraction
    below = math.floor(position)
    above = math.ceil(position)
    share = position - below
    return ordered[below] * (1 - share) + ordered[above] * share


def _narrowest_pair(n: int, level: float) -> tuple[int, float]:
    """The largest k so that the (k+1)-th order statistics from both ends cover the median with ``level``, and what they cover.

    Below the (k+1)-th lies the median when at most k of n fair coins show heads: a sum of binomial coefficients, taken up one by one.
    """
    k, coefficient, total, whole = 0, 1, 1, 2**n
    while k + 1 < n / 2:
        coefficient = coefficient * (n - k) // (k + 1)
        if 1 - 2 * ((total + coefficient) / whole) < level:
            break
        total, k = total + coefficient, k + 1
    return k, 1 - 2 * (total / whole)


def median_interval(samples: Sequence[float], level: float = DEFAULT_LEVEL) -> Interval | None:
    """A confidence interval for the median of the population that the samples come from.

    Six samples or more, at 95 %: the narrowest symmetric pair of order statistics that covers at least ``level``; it assumes
    nothing but independence, and its ``level`` is the exact coverage, so at least the one asked for (David and Nagaraja,
    Order Statistics, 2003, section 7.1). Two to five samples cannot reach 95 % that way (nor six or seven 99 %); they get
    Student's t on the logarithms, which assumes log-normal noise and says so in ``method``. One sample has no interval.

    Raises:
        ValueError: no samples, or a sample that is not finite.
    """
    values = _checked(samples)
    n = len(values)
    if n == 1:
        return None
    if 1 - 2 * 0.5**n < level:  # 95 %: fewer than MIN_ORDER_STATISTIC_SAMPLES
        return _t_interval(values, level)
    k, coverage = _narrowest_pair(n, level)
    ordered = sorted(values)
    return Interval(low=ordered[k], high=ordered[n - 1 - k], level=coverage, method="order statistics")


def geometric_interval(samples: Sequence[float], level: float = DEFAULT_LEVEL) -> Interval:
    """Student's t on the logarithms: a confidence interval for the geometric mean, which assumes log-normal noise.

    Raises:
        ValueError: fewer than two samples, or one that is not finite and positive.
    """
    values = _checked(samples)
    if len(values) < 2 or min(values) <= 0:  # noqa: PLR2004  # one value has no spread
        raise ValueError("an interval of the geometric mean needs two positive samples or more")
    from scipy.special import stdtrit  # noqa: PLC0415  # half a second to import, and rarely needed

    logs = [math.log(value) for value in values]
    n = len(logs)
    mean = math.fsum(logs) / n
    variance = math.fsum((x - mean) ** 2 for x in logs) / (n - 1)
    half_width = float(stdtrit(n - 1, 0.5 + level / 2)) * math.sqrt(variance / n)
    return Interval(
        low=math.exp(mean - half_width),
        high=math.exp(mean + half_width),
        level=level,
        method="Student's t on logarithms",
    )


def _t_interval(values: tuple[float, ...], level: float) -> Interval | None:
    """Student's t on the logarithms, centred on their mean; None when a value is not positive."""
    if min(values) <= 0:
        return None
    found = geometric_interval(values, level)
    # The point is a median; it must not fall outside its own interval by a rounding of exp(log(x)).
    centre = median(values)
    return Interval(
        low=min(found.low, centre),
        high=max(found.high, centre),
        level=level,
        method=f"{found.method} (too few samples for order statistics)",
    )


def estimate_from(samples: Sequence[float], level: float = DEFAULT_LEVEL) -> Estimate:
    """Median and interval of independent repetitions, with the samples kept.

    Raises:
        ValueError: no samples, or a sample that is not finite.
    """
    values = _checked(samples)
    return Estimate(point=median(values), interval=median_interval(values, level), samples=values)


def map_estimate(estimate: Estimate, factor: float, *, invert: bool = False) -> Estimate:
    """The estimate of ``factor * x`` or, inverted, of ``factor / x``: a step time becomes a rate, its interval with it.

    Medians and order statistics go through monotone maps unchanged; an even number of samples makes the point the map
    of the middle, so that the rate and the time never disagree.
    """

    def mapped(value: float) -> float:
        return factor / value if invert else factor * value

    interval = estimate.interval
    if interval is not None:
        low, high = sorted((mapped(interval.low), mapped(interval.high)))
        interval = Interval(low=low, high=high, level=interval.level, method=interval.method)
    return Estimate(
        point=mapped(estimate.point),
        interval=interval,
        samples=tuple(mapped(value) for value in estimate.samples),
    )

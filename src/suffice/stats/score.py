"""The score statistics of a share and of a paired difference, and the inversion that turns a statistic into bounds.

A score statistic compares what was seen with a hypothesis, in standard errors *under that hypothesis*. Its intervals stay inside the
possible range, have no width of zero, and keep their coverage where few items differ (Wilson 1927 for one share; Tango, Statistics in
Medicine 17, 1998, 891-908, for paired shares; both recommended by Fagerland, Lydersen and Laake, Statistics in Medicine 33, 2014, 2850).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from scipy.special import ndtr, ndtri, stdtr, stdtrit

if TYPE_CHECKING:
    from collections.abc import Callable

_BISECTIONS: Final = 60  # an interval of 2 halved so often is narrower than a double can show


def quantile_of(probability: float, degrees_of_freedom: float | None) -> float:
    """The quantile of Student's t, or of the normal distribution where ``degrees_of_freedom`` is None."""
    if degrees_of_freedom is None:
        return float(ndtri(probability))
    return float(stdtrit(degrees_of_freedom, probability))


def upper_tail(statistic: float, degrees_of_freedom: float | None) -> float:
    """The chance of a statistic this large or larger."""
    if math.isinf(statistic):
        return 0.0 if statistic > 0 else 1.0
    return float(ndtr(-statistic) if degrees_of_freedom is None else stdtr(degrees_of_freedom, -statistic))


def share_statistic(successes: float, trials: float, share: float, correction: float = 0.0) -> float:
    """How far ``successes`` of ``trials`` lie above the hypothesis ``share``, in standard errors under it (Wilson 1927).

    Numbers need not be whole: they may be effective ones. ``correction`` is taken off the distance, in successes.
    """
    return standardized(successes - trials * share, trials * share * (1 - share), correction)


def paired_variance(gained: float, lost: float, items: float, difference: float) -> float:
    """The variance of ``gained - lost`` under a hypothetical ``difference`` of the two shares (Tango 1998, equation 9).

    The share of items that only the reference has right is estimated by maximum likelihood under the hypothesis; its score equation is
    ``a q^2 + b q + c = 0``, of which the larger root is the estimate.
    """
    agreeing = items - gained - lost
    a = 2 * items
    b = 2 * lost * difference + 2 * agreeing * difference - (gained + lost) * (1 - difference)
    c = -lost * difference * (1 - difference)
    share_lost = (math.sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)
    share_lost = min(max(share_lost, 0.0, -difference), (1 - difference) / 2)
    return items * max(0.0, 2 * share_lost + difference - difference * difference)


def paired_statistic(gained: float, lost: float, items: float, difference: float, correction: float = 0.0) -> float:
    """How far the observed difference lies above a hypothetical one, in standard errors under it (Tango 1998).

    Args:
        gained: items that only the candidate has right; need not be whole.
        lost: items that only the reference has right.
        items: all items.
        difference: the hypothetical share of the candidate less that of the reference, -1 to 1.
        correction: what is taken off the distance, in items (0 is Tango's statistic).
    """
    return standardized(
        gained - lost - items * difference, paired_variance(gained, lost, items, difference), correction
    )


def standardized(distance: float, variance: float, correction: float) -> float:
    """Distance over standard deviation, shrunk by the correction but never past zero."""
    size = max(0.0, abs(distance) - correction)
    if size == 0:
        return 0.0
    if variance <= 0:
        return math.copysign(math.inf, distance)
    return math.copysign(size / math.sqrt(variance), distance)


def bounds_of(statistic: Callable[[float], float], quantile: float, low: float, high: float) -> tuple[float, float]:
    """The smallest and the largest hypothesis within [``low``, ``high``] that a falling ``statistic`` does not reject."""
    return _crossing(statistic, quantile, low, high), _crossing(statistic, -quantile, low, high)


def _crossing(statistic: Callable[[float], float], target: float, low: float, high: float) -> float:
    """Where a falling function passes ``target``, by bisection; an end where it does not."""
    if statistic(low) <= target:
        return low
    if statistic(high) >= target:
        return high
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if statistic(middle) > target:
            low = middle
        else:
            high = middle
    return (low + high) / 2

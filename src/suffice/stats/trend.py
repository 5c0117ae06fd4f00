"""Does a series of values drift? The test of Mann and Kendall, and the slope of Theil and Sen.

Both compare values in pairs and ask for no distribution: an outlier counts as one value. They take values as independent but for the
drift: a machine whose slow moments last several repetitions drifts by this test as well, which is meant.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final

from suffice.stats.intervals import median

if TYPE_CHECKING:
    from collections.abc import Sequence

# The least number whose most extreme order has a two-sided p below 5 % (2 / 5! = 1.7 %; 4 values reach 8.3 %).
LEAST_VALUES: Final = 5
# Up to here orders are counted; the normal approximation with continuity correction is off by less than 0.003 beyond.
_EXACT_UP_TO: Final = 12
TREND_RISK: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """A drift of a series.

    Attributes:
        slope_share: change from one value to the next, as a share of the median (Sen, J. Am. Stat. Assoc. 63, 1968).
        p_value: chance of an order at least as one-sided were there no drift, two-sided (Kendall, Rank Correlation Methods, 1970).
        values: how many there were.
    """

    slope_share: float
    p_value: float
    values: int

    @property
    def is_drift(self) -> bool:
        """Whether it is more than chance, at a risk of 1 %."""
        return self.p_value <= TREND_RISK

    @property
    def total_share(self) -> float:
        """Change from the first value to the last, as a share of the median."""
        return self.slope_share * (self.values - 1)


def trend(values: Sequence[float]) -> Trend | None:
    """The drift of values in the order in which they were taken; None for fewer than five.

    Raises:
        ValueError: a value that is not positive and finite.
    """
    if any(not 0 < value < math.inf for value in values):
        raise ValueError("a drift is told of positive, finite values")
    if len(values) < LEAST_VALUES:
        return None
    pairs = list(combinations(range(len(values)), 2))
    slopes = [(values[j] - values[i]) / (j - i) for i, j in pairs]
    score = sum((slope > 0) - (slope < 0) for slope in slopes)
    return Trend(slope_share=median(slopes) / median(values), p_value=_p_value(score, values), values=len(values))


def _p_value(score: int, values: Sequence[float]) -> float:
    n = len(values)
    ties = [count for count in Counter(values).values() if count > 1]
    if not ties and n <= _EXACT_UP_TO:
        return _exact_p(abs(score), n)
    variance = (_kendall(n) - sum(_kendall(count) for count in ties)) / 18
    if variance <= 0:
        return 1.0
    statistic = max(0, abs(score) - 1) / math.sqrt(variance)
    return math.erfc(statistic / math.sqrt(2))


def _kendall(n: int) -> int:
    return n * (n - 1) * (2 * n + 5)


def _exact_p(score: int, n: int) -> float:
    """Two-sided, from the number of orders of n values by their inversions (Mahonian numbers)."""
    orders = [1]
    for size in range(2, n + 1):
        grown = [0] * (len(orders) + size - 1)
        for inversions, count in enumerate(orders):
            for more in range(size):
                grown[inversions + more] += count
        orders = grown
    most = n * (n - 1) // 2  # the score of an order with i inversions is most - 2 i
    extreme = sum(count for inversions, count in enumerate(orders) if most - 2 * inversions >= score)
    return min(1.0, 2 * extreme / math.factorial(n))

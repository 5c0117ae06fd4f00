"""Steps in a series of figures: where its level changed for good, and how likely chance alone makes such a step.

Binary segmentation (Vostrikova, Soviet Mathematics Doklady 24, 55, 1981): the split of a series with the largest likelihood ratio of two means
against one (Sen and Srivastava, Annals of Statistics 3, 98, 1975) is tested by permuting the series (as in the hierarchical E-Divisive of
Matteson and James, JASA 109, 334, 2014), and where it is a step, both sides are searched in the same way. No distribution is assumed,
only that figures without a step could have come in any order. A single wild figure is no step: it makes every split less likely.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.stats.intervals import median

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Fewer figures on one side of a split are an outlier or two, not a level.
LEAST_SEGMENT: Final = 3
# With 999 permutations and one order as it came, p is a multiple of 0.001.
PERMUTATIONS: Final = 999
DEFAULT_SIGNIFICANCE: Final = 0.01
_MULTIPLIER: Final = 6364136223846793005
_INCREMENT: Final = 1442695040888963407
_STATE: Final = 2**64
_UPPER: Final = 33


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A change of level. ``index`` is the first figure of the new one; ``ratio`` the medians, new over old, of the two segments beside it."""

    index: int
    ratio: float
    p_value: float


def find_steps(values: Sequence[float], significance: float = DEFAULT_SIGNIFICANCE) -> tuple[Step, ...]:
    """The steps of a series, in its order; found on logarithms, the same ones for the same series.

    Args:
        values: positive figures, oldest first.
        significance: the largest p of a step. At 0.01 fifteen figures can show one wherever it lies, nine cannot.

    Raises:
        ValueError: a value that is not finite and positive.
    """
    if not all(math.isfinite(value) and value > 0 for value in values):
        raise ValueError("steps are looked for among finite, positive figures")
    logs = [math.log(value) for value in values]
    found = sorted(_segmented(logs, 0, len(logs), significance))
    bounds = [0, *(index for index, _ in found), len(logs)]
    return tuple(
        Step(
            index=index,
            ratio=median(values[index : bounds[place + 2]]) / median(values[bounds[place] : index]),
            p_value=p_value,
        )
        for place, (index, p_value) in enumerate(found)
    )


def last_segment(values: Sequence[float], significance: float = DEFAULT_SIGNIFICANCE) -> int:
    """Where the present level began: the index of the last step, 0 without any."""
    steps = find_steps(values, significance)
    return steps[-1].index if steps else 0


def _segmented(logs: Sequence[float], start: int, end: int, significance: float) -> Iterator[tuple[int, float]]:
    """Index and p of each step between two indices."""
    part = logs[start:end]
    if len(part) < 2 * LEAST_SEGMENT:
        return
    mean = math.fsum(part) / len(part)
    centred = [value - mean for value in part]
    place, size = _best_split(centred)
    if size <= 0:
        return
    p_value = _permutation_p(centred, size, significance)
    if p_value > significance:
        return
    yield start + place, p_value
    yield from _segmented(logs, start, start + place, significance)
    yield from _segmented(logs, start + place, end, significance)


def _best_split(centred: Sequence[float]) -> tuple[int, float]:
    """The first index of the right side, and the size of the best split.

    The likelihood ratio of two means grows with S_k^2 n / (k (n - k)), S_k the sum of the first k centred values; the total variance is the
    same in every order, so that orders can be compared by it.
    """
    n, total, best, place = len(centred), 0.0, 0.0, LEAST_SEGMENT
    for k in range(1, n - LEAST_SEGMENT + 1):
        total += centred[k - 1]
        size = total * total / (k * (n - k))
        if k >= LEAST_SEGMENT and size > best:
            best, place = size, k
    return place, best


def _permutation_p(centred: Sequence[float], size: float, significance: float) -> float:
    """The share of orders with a split as large; counting ends where it cannot be significant any more."""
    values, state, larger = list(centred), len(centred), 0
    enough = size * (1 - math.ulp(1.0) * len(values) * 8)  # sums in another order differ by their rounding
    for count in range(1, PERMUTATIONS + 1):
        for last in range(len(values) - 1, 0, -1):
            # Knuth's linear congruential generator (MMIX): the same orders each time, and good enough to shuffle by.
            state = (state * _MULTIPLIER + _INCREMENT) % _STATE
            other = (state >> _UPPER) % (last + 1)
            values[last], values[other] = values[other], values[last]
        larger += _best_split(values)[1] >= enough
        if (larger + 1) / (PERMUTATIONS + 1) > significance:
            return (larger + 1) / (count + 1)
    return (larger + 1) / (PERMUTATIONS + 1)

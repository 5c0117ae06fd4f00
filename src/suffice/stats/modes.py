"""Where most of the fast values lie, and whether there is more than one place where they gather.

A machine that is disturbed some of the time makes a mixture: times of a quiet machine, which lie close together, and slower ones, which lie
anywhere above. The **lower mode** is the fastest place where values gather: the fastest value flatters, and the median belongs to the
disturbed half as soon as more than half are disturbed.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

from suffice.stats.intervals import median

if TYPE_CHECKING:
    from collections.abc import Sequence

# Fewer values gather nowhere: five within a window are the fewest whose median an outlier on either side does not move out of it.
LEAST_VALUES: Final = 5
# Half of a mode's width, in standard deviations of its scatter: 99.7 % of normal noise is kept, so that cutting the rest off moves a mean by
# less than 0.01 of that deviation.
MODE_DEVIATIONS: Final = 3.0
# While the mode is looked for, the window is narrower: a slower one that lies four deviations away must not draw it there.
SEARCH_DEVIATIONS: Final = 2.0
# Steps of a quiet machine vary by 2 to 4 % (p10 to median 124 and 129 ms, reference machine); what scatters by less than two thirds of a
# percent is as steady as the clock and the scheduler's tick allow, and slower values within 10 % cannot be told from noise.
LEAST_TOLERANCE: Final = 0.02
LARGEST_TOLERANCE: Final = 0.10
# Faster values than those of the fastest mode are noise: normal noise has 0.1 % of them below three deviations. With more than 5 % something
# faster was there, too short or too rare to gather, and the mode is one of a slower machine.
MOST_FASTER_SHARE: Final = 0.05
_NORMAL_MEDIAN: Final = 0.6745  # of the absolute value of a standard normal number
_ROUNDS: Final = 20  # the shift of a window ends where it stands still; it has never taken ten
# sqrt(n) times the dip of n uniform numbers, the hardest unimodal case (Hartigan and Hartigan 1985, section 5), is below this in 99 % of
# cases: 0.503, 0.546, 0.591 and 0.593 for 10, 30, 100 and 300 numbers (10 000 draws each, 4 000 for 300; test_stats_modes.py draws fewer).
DIP_LIMIT: Final = 0.60
LEAST_DIP_VALUES: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerMode:
    """The fastest place where values gather.

    Attributes:
        centre: the median of the values there, in their unit.
        tolerance: how far from the centre values still belong to it, as a share: ``centre / (1 + t)`` to ``centre * (1 + t)``.
        share: of the sum of all values (the time, where values are times) that lies there.
    """

    centre: float
    tolerance: float
    share: float

    def holds(self, value: float) -> bool:
        """Whether a value belongs to the mode."""
        return self.centre / (1 + self.tolerance) <= value <= self.centre * (1 + self.tolerance)

    def is_slower(self, value: float) -> bool:
        """Whether a time is above the mode."""
        return value > self.centre * (1 + self.tolerance)


def local_scatter(rows: Sequence[Sequence[float]]) -> float | None:
    """The relative standard deviation of neighbours, from the median difference of successive logarithms within each row.

    Slow drifts and bursts that last many values change few differences (the idea of von Neumann, Ann. Math. Stat. 12, 1941; with a median
    in place of the mean). None where no row has two values.

    Raises:
        ValueError: a value that is not positive.
    """
    gaps = [abs(math.log(later) - math.log(earlier)) for row in rows for earlier, later in pairwise(row)]
    return median(gaps) / (_NORMAL_MEDIAN * math.sqrt(2)) if gaps else None


def _clamped(deviations: float, scatter: float, largest: float = LARGEST_TOLERANCE) -> float:
    return min(largest, max(LEAST_TOLERANCE, deviations * scatter))


def _start(ordered: Sequence[float], tolerance: float, least_share: float) -> float | None:
    """The median of the lowest window of twice the tolerance that holds the least share of the sum."""
    sums = [0.0, *accumulate(ordered)]
    width = (1 + tolerance) ** 2
    for first, value in enumerate(ordered):
        last = bisect_right(ordered, value * width)
        if last - first >= min(LEAST_VALUES, len(ordered)) and sums[last] - sums[first] >= least_share * sums[-1]:
            return median(ordered[first:last])
    return None


def _settled(ordered: Sequence[float], centre: float, tolerance: float) -> float:
    """The centre moved to the median of its window until it stands still (mean shift: Fukunaga and Hostetler 1975)."""
    for _ in range(_ROUNDS):
        low = bisect_left(ordered, centre / (1 + tolerance))
        high = bisect_right(ordered, centre * (1 + tolerance))
        moved = median(ordered[low:high])
        if moved == centre:
            break
        centre = moved
    return centre


def lower_mode(rows: Sequence[Sequence[float]], least_share: float) -> LowerMode | None:
    """The fastest mode of all values of all rows that holds at least ``least_share`` of their sum.

    None where there is none, or where more than one value and more than 5 % of them are faster.

    It is looked for with a window as wide as the scatter of neighbours tells; how wide it is then comes from the values below its centre.

    Raises:
        ValueError: a value that is not positive and finite.
    """
    ordered = sorted(value for row in rows for value in row)
    if any(not 0 < value < math.inf for value in ordered):
        raise ValueError("times must be positive and finite")
    if len(ordered) < LEAST_VALUES:
        return None
    scatter = local_scatter(rows)
    tolerance = LARGEST_TOLERANCE if scatter is None else _clamped(SEARCH_DEVIATIONS, scatter)
    centre = _start(ordered, tolerance, least_share)
    if centre is None:
        return None
    centre = _settled(ordered, centre, tolerance)
    # Its width by the values below the centre alone: slower ones that lie close must not widen it.
    low = bisect_left(ordered, centre / (1 + LARGEST_TOLERANCE))
    below = [math.log(centre / value) for value in ordered[low : bisect_right(ordered, centre)]]
    tolerance = _clamped(MODE_DEVIATIONS, median(below) / _NORMAL_MEDIAN)
    mode = LowerMode(centre=centre, tolerance=tolerance, share=0.0)
    share = math.fsum(value for value in ordered if mode.holds(value)) / math.fsum(ordered)
    faster = bisect_left(ordered, centre / (1 + tolerance))
    if share < least_share or faster > max(1, MOST_FASTER_SHARE * len(ordered)):
        return None
    return LowerMode(centre=centre, tolerance=tolerance, share=share)


def is_bimodal(values: Sequence[float]) -> bool | None:
    """Whether values gather at more than one place, by the dip at a risk of 1 %; None for fewer than ten values.

    False is no proof of a single mode: slow values that are spread widely are one long tail.
    """
    if len(values) < LEAST_DIP_VALUES:
        return None
    return dip(values) * math.sqrt(len(values)) > DIP_LIMIT


def dip(values: Sequence[float]) -> float:
    """Hartigan's dip: the largest distance of the empirical distribution to the nearest unimodal one, 1/(2n) to 1/4.

    Hartigan and Hartigan, Annals of Statistics 13, 70 (1985); the algorithm is AS 217 (Hartigan 1985, with the corrections of
    Maechler's ``diptest``): the greatest convex minorant and the least concave majorant are compared on an interval that shrinks towards
    the mode.

    Raises:
        ValueError: no values.
    """
    x = sorted(values)
    if not x:
        raise ValueError("no values have no dip")
    n = len(x)
    if x[0] == x[-1]:
        return 1 / (2 * n)
    minorant, majorant = _minorant(x), _majorant(x)
    low, high, found = 0, n - 1, 1.0
    while True:
        convex = _path(high, low, minorant)[::-1]  # from low to high
        concave = _path(low, high, majorant)
        distance, left, right = _widest(x, convex, concave)
        if distance < found:
            break
        below = max((_under(x, *edge) for edge in pairwise(convex) if edge[1] <= left), default=0.0)
        above = max((_over(x, *edge) for edge in pairwise(concave) if edge[0] >= right), default=0.0)
        found = max(found, below, above)
        if (low, high) == (left, right):
            break
        low, high = left, right
    return found / (2 * n)


def _minorant(x: Sequence[float]) -> list[int]:
    """For each point, the corner before it on the greatest convex minorant of all points up to it."""
    before = [0] * len(x)
    for j in range(1, len(x)):
        before[j] = j - 1
        while (k := before[j]) and (x[j] - x[k]) * (k - before[k]) >= (x[k] - x[before[k]]) * (j - k):
            before[j] = before[k]
    return before


def _majorant(x: Sequence[float]) -> list[int]:
    """For each point, the corner after it on the least concave majorant of all points from it on."""
    last = len(x) - 1
    after = [last] * len(x)
    for j in range(last - 1, -1, -1):
        after[j] = j + 1
        while (k := after[j]) != last and (x[k] - x[j]) * (after[k] - k) >= (x[after[k]] - x[k]) * (k - j):
            after[j] = after[k]
    return after


def _path(start: int, end: int, links: Sequence[int]) -> list[int]:
    corners = [start]
    while corners[-1] != end:
        corners.append(links[corners[-1]])
    return corners


def _height(x: Sequence[float], corners: Sequence[int], at: int) -> float:
    """The number of points below ``at`` by the line through the corners; one less than the ranks, which start at 1."""
    place = min(max(1, bisect_right(corners, at)), len(corners) - 1)
    left, right = corners[place - 1], corners[place]
    if x[right] == x[left]:
        return float(right)
    return left + (x[at] - x[left]) * (right - left) / (x[right] - x[left])


def _widest(x: Sequence[float], convex: Sequence[int], concave: Sequence[int]) -> tuple[float, int, int]:
    """The largest gap between majorant and minorant at a corner of either, and the corners of both around it."""
    if len(convex) == len(concave) == 2:  # noqa: PLR2004  # both are the one straight line
        return 1.0, convex[0], concave[-1]
    best = (0.0, convex[0], concave[-1])
    for at in concave[1:]:
        gap = at - _height(x, convex, at) + 1
        if gap >= best[0]:
            best = (gap, convex[max(0, bisect_right(convex, at) - 1)], at)
    for at in convex[:-1]:
        gap = _height(x, concave, at) - at + 1
        if gap >= best[0]:
            best = (gap, at, concave[min(len(concave) - 1, bisect_left(concave, at))])
    return best


def _under(x: Sequence[float], start: int, end: int) -> float:
    """How far the empirical distribution rises above an edge of the minorant."""
    if end - start <= 1 or x[end] == x[start]:
        return 1.0
    slope = (end - start) / (x[end] - x[start])
    return max(1.0, *((j - start + 1) - (x[j] - x[start]) * slope for j in range(start, end + 1)))


def _over(x: Sequence[float], start: int, end: int) -> float:
    """How far the empirical distribution falls below an edge of the majorant."""
    if end - start <= 1 or x[end] == x[start]:
        return 1.0
    slope = (end - start) / (x[end] - x[start])
    return max(1.0, *((x[j] - x[start]) * slope - (j - start - 1) for j in range(start, end + 1)))

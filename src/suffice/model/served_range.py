"""Between which values a percentile over all attempts lies, from a tool's raw times or from the percentiles that it gives.

A failure is infinitely slow. A tool that takes percentiles of its successes only has thrown that away; where it says how many failed, the
order statistics of all attempts are found again among those of the successes: the k-th fastest attempt is the k-th fastest success, and
beyond the successes there is nothing but infinity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from suffice.model.served import Mapping
from suffice.stats.percentiles import percentile, samples_needed

if TYPE_CHECKING:
    from suffice.model.served import AttemptsPercentile, ServedTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedRange:
    """A percentile over attempts: ``low`` and ``high`` enclose it, None where nothing does. ``needed`` attempts support it.

    ``low`` is of the successes alone: that requests fail is no proof that the machine is slow, and has a reason of its own.
    """

    point: float
    low: float | None
    high: float | None
    attempts: int
    needed: int

    @property
    def supported(self) -> bool:
        """Whether the attempts suffice for an interval; nothing is decided on one that they do not support."""
        return self.attempts >= self.needed


def served_range(times: ServedTimes, fraction: float, failed: int | None, cut_off: int = 0) -> ServedRange | None:
    """The range of a percentile; None where the file holds no such time.

    ``failed`` None: not known, so nothing bounds it from above. Requests that were cut off at the end may have become anything.

    Raises:
        ValueError: the fraction lies outside (0, 1).
    """
    if times.of_attempts:
        return _given(times.of_attempts, fraction)
    count = len(times.values_s) if times.values_s is not None else times.count
    if not times.usable or not count:
        return None
    lost = (failed or 0) + cut_off
    high_rank, low_rank = _ranks(count + lost, fraction)[1], _ranks(count, fraction)[0]
    low = None if low_rank is None else _at_most_the(times, count, low_rank)
    high = None if high_rank is None or failed is None else _at_least_the(times, count, high_rank)
    point = _at_least_the(times, count, math.floor((count + lost - 1) * fraction))
    if point is None:  # no percentile of the file reaches so high: the highest of them is all that can be shown
        point = times.percentiles[-1][1]
    return ServedRange(
        point=point,
        low=None if times.mapping is Mapping.UPPER else low,
        high=None if times.mapping is Mapping.LOWER else high,
        attempts=count + lost,
        needed=samples_needed(fraction),
    )


def _given(of_attempts: tuple[AttemptsPercentile, ...], fraction: float) -> ServedRange | None:
    """The tool's own interval of just this percentile; of another one nothing is known."""
    for one in of_attempts:
        if math.isclose(one.fraction, fraction):
            low = None if one.low_s == math.inf else one.low_s  # that requests fail is no proof of slowness
            return ServedRange(point=one.observed_s, low=low, high=one.high_s, attempts=one.samples, needed=one.needed)
    return None


@lru_cache(maxsize=256)
def _ranks(n: int, fraction: float) -> tuple[int | None, int | None]:
    """Places (from 0) of the two order statistics that enclose the percentile; None where n are too few."""
    found = percentile(range(n), fraction)
    if found is None or found.low is None or found.high is None:
        return None, None
    return round(found.low), round(found.high)


def _at_least_the(times: ServedTimes, count: int, rank: int) -> float | None:
    """A value that the attempt at ``rank`` does not exceed: infinity beyond the successes, None where the file has none.

    A percentile at fraction p of n values lies at place (n - 1) p or above, whichever of the usual rules made it.
    """
    if rank >= count:
        return math.inf
    if times.values_s is not None:
        return times.values_s[rank]
    return next((value for share, value in times.percentiles if math.floor((count - 1) * share) >= rank), None)


def _at_most_the(times: ServedTimes, count: int, rank: int) -> float | None:
    """A value that the success at ``rank`` is not below; None where the file has none."""
    if times.values_s is not None:
        return times.values_s[rank]
    below = [value for share, value in times.percentiles if math.ceil((count - 1) * share) <= rank]
    return below[-1] if below else None

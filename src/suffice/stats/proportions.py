"""Shares of successes and their Wilson intervals."""

from __future__ import annotations

import math
from typing import Final

from suffice.stats.estimate import Interval

_Z_95: Final = 1.959963984540054  # the normal distribution's 97.5 % point


def wilson_interval(successes: int, trials: int) -> Interval | None:
    """The 95 % score interval of a share (Wilson, J. Am. Stat. Assoc. 22, 1927): inside [0, 1], and never of width 0.

    None without trials: nothing is known then, and 0 to 1 is no answer.

    Raises:
        ValueError: more successes than trials, or a negative number.
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes of {trials} trials cannot be")
    if trials == 0:
        return None
    share = successes / trials
    square = _Z_95 * _Z_95 / trials
    centre = (share + square / 2) / (1 + square)
    half = _Z_95 * math.sqrt(share * (1 - share) / trials + square / (4 * trials)) / (1 + square)
    return Interval(
        low=0.0 if successes == 0 else max(0.0, centre - half),
        high=1.0 if successes == trials else min(1.0, centre + half),
        level=0.95,
        method="Wilson score",
    )

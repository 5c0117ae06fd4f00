"""How busy a server may be before too many wait too long, by queueing theory: what needs no simulation to be ruled out."""

from __future__ import annotations

import math
from typing import Final

BUSY_SPREAD: Final = 1.1
"""Over the busy share of theory: with the lengths that were drawn, simulated servers held up to 1.06 of it (docs/plan.md)."""
EVEN: Final = 2.0
"""Services of one length let others wait half as long as those of an M/M/1 queue (Pollaczek and Khinchine): who rules something out counts a wait double."""
_STEPS: Final = 6  # of Newton's method, which comes from below and does not pass the root


def busy_under_wait(places: float, wait: float, may_wait: float) -> float:
    """The busy share rho at which ``may_wait`` of all wait longer than ``wait`` services for one of ``places``.

    The root of rho^places exp(-(1 - rho) wait) = may_wait, whose logarithm grows and is concave in rho.

    Example:
        Who may not wait at all finds a free place with 1 - rho; who may wait for ever lets a machine be busy all the time.

        >>> busy_under_wait(1, 0.0, 0.05)
        0.05
        >>> busy_under_wait(1, math.inf, 0.05)
        1.0
    """
    if may_wait >= 1 or math.isinf(wait):
        return 1.0
    wait = max(0.0, wait)
    share = math.pow(may_wait, 1 / places)
    for _ in range(_STEPS if wait else 0):
        missing = math.log(may_wait) + wait - places * math.log(share) - share * wait
        share = min(1.0, share + missing / (places / share + wait))
    return share

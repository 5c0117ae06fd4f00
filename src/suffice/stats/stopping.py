"""When to stop measuring: the interval is narrow enough, or the budget is spent; and which of the two it was."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from suffice.stats.intervals import MIN_ORDER_STATISTIC_SAMPLES, estimate_from

if TYPE_CHECKING:
    from collections.abc import Sequence


class StopReason(StrEnum):
    """Why a series of repetitions ended."""

    NARROW = "interval narrow enough"
    BUDGET = "budget spent"
    MAXIMUM = "maximum of repetitions reached"
    DISTURBED = "given up, most repetitions were disturbed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppingRule:
    """Go on until the relative half width of the interval is at most ``relative_half_width``, within bounds.

    Looking at the interval after every repetition makes it stop a little early on lucky streaks; ``minimum`` keeps that
    small, and the coverage that is left is measured in ``tests/unit/test_stopping.py``.
    """

    relative_half_width: float = 0.03
    least: int = 3  # made whatever the budget: one repetition has no interval, and no verdict can rest on it
    minimum: int = 8
    maximum: int = 60

    def __post_init__(self) -> None:
        if not MIN_ORDER_STATISTIC_SAMPLES <= self.minimum <= self.maximum:
            raise ValueError("a stopping rule needs 6 <= minimum <= maximum repetitions")
        if not 1 <= self.least <= self.minimum:
            raise ValueError("a stopping rule needs 1 <= least <= minimum repetitions")


def should_stop(  # what was measured and what may be spent
    rule: StoppingRule,
    samples: Sequence[float],
    *,
    elapsed_s: float,
    next_s: float,
    budget_s: float,
    disturbed: Sequence[bool | None] = (),
) -> StopReason | None:
    """The reason to stop now, or None to go on.

    A repetition that is known to be disturbed is made again: it counts against the maximum and the budget, but neither for the
    minimum nor for the interval. So a series goes on until enough of it is quiet, or says that it was not to be had.

    Args:
        rule: what is narrow enough.
        samples: one value per repetition so far.
        disturbed: a mark for each of them; None: not known. Empty: nobody watched.
        elapsed_s: time spent on this series so far.
        next_s: what one more repetition is expected to take.
        budget_s: what the series may take; ``rule.least`` repetitions are always made.
    """
    if len(samples) < rule.least:
        return None
    calm = [value for value, mark in zip(samples, disturbed, strict=True) if not mark] if disturbed else samples
    if len(calm) >= rule.minimum:
        half_width = estimate_from(calm).relative_half_width
        if half_width is not None and half_width <= rule.relative_half_width:
            return StopReason.NARROW
    most_disturbed = 2 * len(calm) < len(samples)
    if len(samples) >= rule.maximum:
        return StopReason.DISTURBED if most_disturbed else StopReason.MAXIMUM
    if elapsed_s + next_s > budget_s:
        return StopReason.DISTURBED if most_disturbed else StopReason.BUDGET
    return None

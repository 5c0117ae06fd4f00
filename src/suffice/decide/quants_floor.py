"""Whether a model's score reaches the demand's quality floor, at the floors as well at which there is no test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.stats.noninferiority import DEFAULT_POWER, Decision, Judgement, Question, above_floor

if TYPE_CHECKING:
    from suffice.stats.shares import ShareSummary


def floor_judgement(summary: ShareSummary, floor: float | None, confidence: float) -> Judgement | None:
    """The judgement on the floor; None without one, and at 0, which every score reaches.

    A floor of 1 is never shown to be reached, and one item that is not wholly right shows that it is not.
    """
    if floor is None or floor <= 0:
        return None
    if floor < 1:
        return above_floor(summary, floor, confidence)
    missed = summary.total < summary.items
    return Judgement(
        question=Question.ABOVE_FLOOR,
        decision=Decision.NO if missed else Decision.NOT_ENOUGH,
        limit=floor,
        confidence=confidence,
        estimate=summary.share,
        low=None,
        high=None,
        p_yes=1.0,
        p_no=0.0 if missed else 1.0,
        items=summary.items,
        items_enough=None,
        then=None,
        power=DEFAULT_POWER,
        shortage=summary.shortage,
        method="one item that is not right",
    )

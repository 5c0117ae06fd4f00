"""Is the candidate good enough? Yes, no, or not enough items, with the number that would be.

"Loses at most d points with 95 % confidence" is a statement about one side: yes, when the lower one-sided 95 % bound of the difference
(candidate less reference) is at least -d; no, when the upper one-sided 95 % bound is below -d. A difference that is not significant is
neither. The one-sided bounds are the ends of the two-sided *90 %* interval, so that a yes can stand beside a 95 % interval whose lower
end is a little below -d. Each decision shows its own bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from suffice.stats.groups import Shortage, correction_of
from suffice.stats.intervals import DEFAULT_LEVEL
from suffice.stats.paired import difference_interval, p_above, p_below, whole_difference
from suffice.stats.score import paired_variance, quantile_of
from suffice.stats.shares import p_share_above, p_share_below, share_bounds, share_variance

if TYPE_CHECKING:
    from suffice.stats.paired import PairedSummary
    from suffice.stats.shares import ShareSummary

DEFAULT_POWER: Final = 0.8
_EVEN: Final = 0.5  # a coin's chance: below it, nothing is shown
MOST_ITEMS: Final = 10_000_000  # a number of items beyond this is no plan


class Decision(StrEnum):
    """Whether a requirement is met."""

    YES = "yes"
    NO = "no"
    NOT_ENOUGH = "not enough items"


class Question(StrEnum):
    """What was asked."""

    NON_INFERIOR = "loses at most the margin"
    EQUIVALENT = "differs by at most the margin"
    ABOVE_FLOOR = "reaches the floor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One question, its answer, and what the answer rests on.

    ``limit`` is the margin or the floor, as a share (0.01 is one point). ``low`` and ``high`` are one-sided bounds, each with
    ``confidence``; ``p_yes`` and ``p_no`` the chances of evidence this strong for the answer if it were wrong: None with a shortage.
    ``items_enough`` is the number of items with which the answer ``then`` comes out at the chance ``power``, if the differences seen so
    far are the true ones: None when decided, or when no number of items would do.
    """

    question: Question
    decision: Decision
    limit: float
    confidence: float
    estimate: float
    low: float | None
    high: float | None
    p_yes: float | None
    p_no: float | None
    items: int
    items_enough: int | None
    then: Decision | None
    power: float
    shortage: Shortage | None
    method: str


def non_inferior(
    summary: PairedSummary, margin: float, confidence: float = DEFAULT_LEVEL, power: float = DEFAULT_POWER
) -> Judgement:
    """Does the candidate lose at most ``margin`` (0.01 is one point)?

    Raises:
        ValueError: a margin outside (0, 1), or a confidence or power that is none.
    """
    _check(margin, confidence, power)
    return _paired_judgement(
        Question.NON_INFERIOR,
        summary,
        margin,
        (p_above(summary, -margin), p_below(summary, -margin)),
        nearest=-margin,
        holds=summary.difference > -margin,
        levels=(confidence, power),
    )


def equivalent(
    summary: PairedSummary, margin: float, confidence: float = DEFAULT_LEVEL, power: float = DEFAULT_POWER
) -> Judgement:
    """Do the two differ by at most ``margin``, either way? Two one-sided tests (Schuirmann, J. Pharmacokin. Biopharm. 15, 1987).

    Raises:
        ValueError: a margin outside (0, 1), or a confidence or power that is none.
    """
    _check(margin, confidence, power)
    inside = (p_above(summary, -margin), p_below(summary, margin))
    outside = (p_below(summary, -margin), p_above(summary, margin))
    p_yes = None if None in inside else max(p for p in inside if p is not None)
    # Two ways to be outside, at most one of which can be true: no more than the smaller p is needed for either.
    p_no = None if None in outside else min(p for p in outside if p is not None)
    return _paired_judgement(
        Question.EQUIVALENT,
        summary,
        margin,
        (p_yes, p_no),
        nearest=-margin if summary.difference < 0 else margin,
        holds=abs(summary.difference) < margin,
        levels=(confidence, power),
    )


def _paired_judgement(
    question: Question,
    summary: PairedSummary,
    margin: float,
    p_values: tuple[float | None, float | None],
    *,
    nearest: float,
    holds: bool,
    levels: tuple[float, float],
) -> Judgement:
    """The judgement on a difference: ``nearest`` is the limit that it is told from, ``holds`` what more items would show."""
    confidence, power = levels
    p_yes, p_no = p_values
    low, high = _bounds(summary, confidence)
    decision = _decide(p_yes, p_no, 1 - confidence)
    needed = items_to_decide(summary, nearest, confidence, power) if decision is Decision.NOT_ENOUGH else None
    return Judgement(
        question=question,
        decision=decision,
        limit=margin,
        confidence=confidence,
        estimate=summary.difference,
        low=low,
        high=high,
        p_yes=p_yes,
        p_no=p_no,
        items=summary.items,
        items_enough=needed,
        then=None if needed is None else _direction(holds),
        power=power,
        shortage=summary.shortage,
        method=summary.kind.value,
    )


def above_floor(
    summary: ShareSummary, floor: float, confidence: float = DEFAULT_LEVEL, power: float = DEFAULT_POWER
) -> Judgement:
    """Is the share right, or the mean score, at least ``floor``?

    Raises:
        ValueError: a floor outside (0, 1), or a confidence or power that is none.
    """
    _check(floor, confidence, power)
    bounds = share_bounds(summary, confidence)
    p_yes, p_no = p_share_above(summary, floor), p_share_below(summary, floor)
    decision = _decide(p_yes, p_no, 1 - confidence)
    needed = None
    if decision is Decision.NOT_ENOUGH and summary.shortage is None:
        needed = _items_for_floor(summary, floor, confidence, power)
    return Judgement(
        question=Question.ABOVE_FLOOR,
        decision=decision,
        limit=floor,
        confidence=confidence,
        estimate=summary.share,
        low=None if bounds is None else bounds[0],
        high=None if bounds is None else bounds[1],
        p_yes=p_yes,
        p_no=p_no,
        items=summary.items,
        items_enough=needed,
        then=None if needed is None else _direction(summary.share > floor),
        power=power,
        shortage=summary.shortage,
        method="exact binomial" if summary.is_exact else "Wilson score with a correction",
    )


def _items_for_floor(summary: ShareSummary, floor: float, confidence: float, power: float) -> int | None:
    """As :func:`items_to_decide`; exact where all items, or none, are right."""
    if summary.is_exact and summary.variance == 0:
        alike = math.log(floor if summary.total else 1 - floor)  # of the chance that one more item is like the others
        return math.ceil(math.log(1 - confidence) / alike)
    scale = summary.design_effect
    return _scaled(
        distance=abs(summary.share - floor) / scale,
        spread=_spread(
            share_variance(summary, floor) / scale,
            summary.variance / scale,
            (confidence, power),
            summary.degrees_of_freedom,
        ),
        correction=correction_of(summary.groups),
    )


def items_to_decide(
    summary: PairedSummary, limit: float, confidence: float = DEFAULT_LEVEL, power: float = DEFAULT_POWER
) -> int | None:
    """The items with which a difference like the observed one is told from ``limit`` at the chance ``power``.

    The observed shares of items gained and lost are taken for the true ones; their spread is that under the hypothesis for the level and
    that seen for the power (Nam, Biometrics 53, 1997). So two models that never differ need no more items than it takes to show it. Groups
    are taken to stay as large as they are. None with a shortage, where the difference is the limit itself, and beyond ten million.
    """
    if summary.shortage is not None:
        return None
    scale, items = summary.design_effect, summary.items
    gained, lost = summary.whole_gained / items, summary.whole_lost / items
    supposed = paired_variance(gained, lost, 1.0, whole_difference(summary, limit))
    seen = max(0.0, gained + lost - (gained - lost) * (gained - lost))
    return _scaled(
        distance=abs(summary.difference - limit) / scale,
        spread=_spread(supposed / scale, seen / scale, (confidence, power), summary.degrees_of_freedom),
        correction=correction_of(summary.groups),
    )


def _scaled(*, distance: float, spread: float, correction: float) -> int | None:
    """The least n with ``n * distance - correction >= spread * sqrt(n)``: a quadratic in the root of n."""
    if distance <= 0:
        return None
    root = (spread + math.sqrt(spread * spread + 4 * distance * correction)) / (2 * distance)
    items = root * root
    return math.ceil(items) if items <= MOST_ITEMS else None


def _spread(supposed: float, seen: float, levels: tuple[float, float], freedom: float | None) -> float:
    """Quantile times standard deviation of an item, of the level under the hypothesis and of the power as it was seen."""
    confidence, power = levels
    return quantile_of(confidence, freedom) * math.sqrt(supposed) + quantile_of(power, freedom) * math.sqrt(seen)


def _bounds(summary: PairedSummary, confidence: float) -> tuple[float | None, float | None]:
    interval = difference_interval(summary, 2 * confidence - 1)
    return (None, None) if interval is None else (interval.low, interval.high)


def _decide(p_yes: float | None, p_no: float | None, risk: float) -> Decision:
    """The answer that has been shown at the risk, if one has."""
    if p_yes is None or p_no is None:
        return Decision.NOT_ENOUGH
    if p_yes <= risk:
        return Decision.YES
    return Decision.NO if p_no <= risk else Decision.NOT_ENOUGH


def _direction(met: bool) -> Decision:  # noqa: FBT001  # a comparison's result
    return Decision.YES if met else Decision.NO


def _check(limit: float, confidence: float, power: float) -> None:
    if not 0 < limit < 1:
        raise ValueError(f"a margin or floor is a share between 0 and 1, not {limit}: one point is 0.01")
    if not _EVEN < confidence < 1 or not _EVEN <= power < 1:
        raise ValueError(f"confidence and power lie between 0.5 and 1, not at {confidence} and {power}")

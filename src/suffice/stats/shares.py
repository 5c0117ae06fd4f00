"""The accuracy, or mean score, of one model with its interval and its bounds.

The interval is Wilson's, on effective numbers of items where they come in groups. The bounds, which decide about a floor, are exact for
independent items that are right or wrong (Clopper and Pearson, Biometrika 26, 1934), and else those of Wilson's score with a correction. Of
graded scores the spread is what was seen, and as much more as scores of 0 or 1 that were not seen would bring with the hypothesis, up to
that of right and wrong.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy.special import bdtr, bdtrc, betaincinv

from suffice.stats.estimate import Interval
from suffice.stats.groups import (
    EXTRA_ITEMS_SHARE,
    Shortage,
    by_group,
    correction_of,
    design_effect,
    effective_groups,
    shortage_of,
)
from suffice.stats.intervals import DEFAULT_LEVEL
from suffice.stats.score import bounds_of, quantile_of, standardized, upper_tail

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSummary:
    """What a share right, or a mean score from 0 to 1, rests on; ``shortage`` says why it has no interval, None when it has.

    ``total`` is the sum of the scores, ``variance`` that of one score, ``design_effect`` how many items are worth one independent item;
    ``degrees_of_freedom`` is None for the normal distribution.
    """

    items: int
    groups: int | None
    total: float
    variance: float
    is_binary: bool
    design_effect: float
    degrees_of_freedom: float | None
    shortage: Shortage | None

    @property
    def share(self) -> float:
        """Share right, or mean score."""
        return self.total / self.items

    @property
    def is_exact(self) -> bool:
        """Whether items are independent, and right or wrong, so that their number is binomial."""
        return self.is_binary and self.groups is None


def summarize_share(scores: Sequence[float], groups: Sequence[Hashable] | None = None) -> ShareSummary:
    """The summary of one model's scores, 0 to 1; ``groups`` names the document of each item.

    Raises:
        ValueError: no scores, one outside [0, 1], or not one group name per score.
    """
    if not scores:
        raise ValueError("no items: there is no share")
    if not all(0 <= score <= 1 for score in scores):
        raise ValueError("scores lie between 0 and 1")
    values = [[float(score)] for score in scores] if groups is None else by_group(scores, groups)
    return summarize_share_groups(
        [math.fsum(group) for group in values],
        [len(group) for group in values],
        binary=all(score in (0, 1) for score in scores),
        squares=math.fsum(score * score for score in scores),
    )


def summarize_share_groups(
    totals: Sequence[float], sizes: Sequence[int], *, binary: bool, squares: float | None = None
) -> ShareSummary:
    """The summary from the sum of scores and the number of items of each group.

    Args:
        totals: of each group, or item where items are independent.
        sizes: items of each.
        binary: whether each score is 0 or 1.
        squares: the sum of all scores' squares; needed where they are not 0 or 1.

    Raises:
        ValueError: graded scores without their squares.
    """
    if squares is None and not binary:
        raise ValueError("the spread of graded scores needs the sum of their squares")
    items, total = sum(sizes), math.fsum(totals)
    grouped, share = items > len(sizes), total / items
    variance = share * (1 - share)
    if squares is not None and not binary:
        variance = min(variance, max(0.0, (squares - total * share) / max(1, items - 1)))
    plain = binary and not grouped
    shortage = None if plain else shortage_of(sizes, grouped=grouped)
    effect = 1.0
    if grouped and shortage is None:
        effect = design_effect(
            [part - share * size for part, size in zip(totals, sizes, strict=True)],
            sizes,
            independent_variance=items * variance,
            extra=EXTRA_ITEMS_SHARE,
        )
    return ShareSummary(
        items=items,
        groups=len(sizes) if grouped else None,
        total=total,
        variance=variance,
        is_binary=binary,
        design_effect=effect,
        degrees_of_freedom=None if plain or shortage is not None else effective_groups(sizes) - 1,
        shortage=shortage,
    )


def share_variance(summary: ShareSummary, share: float) -> float:
    """The variance of one score if ``share`` were the true one: for right and wrong that of a coin, at most that for graded scores."""
    coin = share * (1 - share)
    return coin if summary.is_binary else min(coin, summary.variance + abs(summary.share - share))


def share_interval(summary: ShareSummary, level: float = DEFAULT_LEVEL) -> Interval | None:
    """The two-sided interval: Wilson's score, which ``suffice.stats.proportions`` has in closed form at 95 %; None with a shortage.

    It has no correction, and its mean coverage is the level; ``p_share_above`` decides, and is corrected.
    """
    if summary.shortage is not None:
        return None
    low, high = bounds_of(
        lambda share: _statistic(summary, share, 0.0),
        quantile_of((1 + level) / 2, summary.degrees_of_freedom),
        0.0,
        1.0,
    )
    method = "Wilson score" if summary.degrees_of_freedom is None else "Wilson score on effective items"
    return Interval(low=low, high=high, level=level, method=method)


def share_bounds(summary: ShareSummary, confidence: float) -> tuple[float, float] | None:
    """The lower and the upper one-sided bound, each with ``confidence``; exact where they can be, else corrected. None with a shortage."""
    if summary.shortage is not None:
        return None
    if summary.is_exact:
        right, items = round(summary.total), summary.items
        low = float(betaincinv(right, items - right + 1, 1 - confidence)) if right else 0.0
        return low, float(betaincinv(right + 1, items - right, confidence)) if right < items else 1.0
    quantile = quantile_of(confidence, summary.degrees_of_freedom)
    return bounds_of(lambda share: _statistic(summary, share, correction_of(summary.groups)), quantile, 0.0, 1.0)


def p_share_above(summary: ShareSummary, share: float) -> float | None:
    """The one-sided p-value of "the true share is at most ``share``": small speaks for more; None with a shortage."""
    if summary.shortage is not None:
        return None
    if summary.is_exact:
        right = round(summary.total)
        return float(bdtrc(right - 1, summary.items, share)) if right else 1.0
    return upper_tail(_statistic(summary, share, correction_of(summary.groups)), summary.degrees_of_freedom)


def p_share_below(summary: ShareSummary, share: float) -> float | None:
    """The one-sided p-value of "the true share is at least ``share``": small speaks for less; None with a shortage."""
    if summary.shortage is not None:
        return None
    if summary.is_exact:
        return float(bdtr(round(summary.total), summary.items, share))
    return 1 - upper_tail(_statistic(summary, share, correction_of(summary.groups)), summary.degrees_of_freedom)


def _statistic(summary: ShareSummary, share: float, correction: float) -> float:
    scale = summary.design_effect
    effective = summary.items / scale
    return standardized(
        summary.total / scale - effective * share, effective * share_variance(summary, share), correction
    )

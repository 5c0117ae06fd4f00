"""The accuracy, or mean score, of one model with its interval: Wilson's, on effective numbers of items where they come in groups."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from suffice.stats.estimate import Interval
from suffice.stats.groups import CORRECTION, Shortage, by_group, design_effect, effective_groups, shortage_of
from suffice.stats.intervals import DEFAULT_LEVEL
from suffice.stats.score import bounds_of, quantile_of, share_statistic, upper_tail

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSummary:
    """What a share right, or a mean score from 0 to 1, rests on; ``shortage`` says why it has no interval, None when it has.

    ``total`` is the sum of the scores, ``design_effect`` how many items are worth one independent item of right and wrong;
    ``degrees_of_freedom`` is None for the normal distribution.
    """

    items: int
    groups: int | None
    total: float
    design_effect: float
    degrees_of_freedom: float | None
    shortage: Shortage | None

    @property
    def share(self) -> float:
        """Share right, or mean score."""
        return self.total / self.items


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
    )


def summarize_share_groups(totals: Sequence[float], sizes: Sequence[int], *, binary: bool) -> ShareSummary:
    """The summary from the sum of scores and the number of items of each group."""
    items, total = sum(sizes), math.fsum(totals)
    grouped = items > len(sizes)
    plain = binary and not grouped
    shortage = None if plain else shortage_of(sizes, grouped=grouped)
    effect, freedom = 1.0, None
    if not plain and shortage is None:
        share = total / items
        effect = design_effect(
            [part - share * size for part, size in zip(totals, sizes, strict=True)],
            sizes,
            independent_variance=items * share * (1 - share),
            largest=1.0,
            grouped=grouped,
        )
        effect = max(1.0, effect) if binary else effect
        freedom = effective_groups(sizes) - 1
    return ShareSummary(
        items=items,
        groups=len(sizes) if grouped else None,
        total=total,
        design_effect=effect,
        degrees_of_freedom=freedom,
        shortage=shortage,
    )


def share_interval(summary: ShareSummary, level: float = DEFAULT_LEVEL) -> Interval | None:
    """The two-sided interval: Wilson's score, which ``suffice.stats.proportions`` has in closed form at 95 %; None with a shortage.

    It has no correction, and its mean coverage is the level; ``p_share_above`` decides, and is corrected.
    """
    if summary.shortage is not None:
        return None
    scale = summary.design_effect
    low, high = bounds_of(
        lambda share: share_statistic(summary.total / scale, summary.items / scale, share),
        quantile_of((1 + level) / 2, summary.degrees_of_freedom),
        0.0,
        1.0,
    )
    method = "Wilson score" if summary.degrees_of_freedom is None else "Wilson score on effective items"
    return Interval(low=low, high=high, level=level, method=method)


def share_bounds(summary: ShareSummary, confidence: float) -> tuple[float, float] | None:
    """The lower and the upper one-sided bound, each with ``confidence``, corrected for the fewness of items; None with a shortage."""
    if summary.shortage is not None:
        return None
    quantile = quantile_of(confidence, summary.degrees_of_freedom)
    return bounds_of(lambda share: _corrected(summary, share), quantile, 0.0, 1.0)


def p_share_above(summary: ShareSummary, share: float) -> float | None:
    """The one-sided p-value of "the true share is at most ``share``": small speaks for more; None with a shortage."""
    if summary.shortage is not None:
        return None
    return upper_tail(_corrected(summary, share), summary.degrees_of_freedom)


def _corrected(summary: ShareSummary, share: float) -> float:
    scale = summary.design_effect
    return share_statistic(summary.total / scale, summary.items / scale, share, CORRECTION)

"""The difference of two models on the same items, with an interval: right or wrong, or graded from 0 to 1, alone or in groups.

One method for all four cases: Tango's score statistic (``suffice.stats.score``) on effective numbers of items gained and lost, of which a
group's design effect (``suffice.stats.groups``) takes its part. Graded scores enter by their *whole items*: the sums of squares of what
was gained and lost, which for right and wrong are the numbers of items. A hypothesis is then as far from the whole items as it is from the
difference. So graded items have the interval of right and wrong ones with the same second moments, and what was not seen may always be an
item that is lost altogether, however many small differences hide it. Chosen by simulated coverage against the percentile, BCa and
studentized bootstrap, all of which cover too little where few items differ or groups are few; the tables are in
``docs/quality-statistics.md``, made by ``benchmarks/interval_coverage.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from suffice.stats.estimate import Interval
from suffice.stats.groups import (
    EXTRA_ITEMS_PAIRED,
    Shortage,
    by_group,
    correction_of,
    design_effect,
    effective_groups,
    shortage_of,
)
from suffice.stats.intervals import DEFAULT_LEVEL
from suffice.stats.score import bounds_of, paired_statistic, quantile_of, upper_tail

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from suffice.stats.mcnemar import PairedCounts

_ROUNDING: Final = 1e-11  # scores that are computed by two ways differ by so little


class PairedKind(StrEnum):
    """What the items are, which says how the interval was made."""

    BINARY = "Tango score with correction 3/8"
    GRADED = "Tango score on whole items"
    BINARY_GROUPED = "score on effective items, clustered by group"
    GRADED_GROUPED = "score on effective items, clustered by group, graded"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedSummary:
    """All that the comparison of two models on the same items needs.

    ``gained`` and ``lost`` are sums over the items on which the candidate scored higher or lower: numbers of items, when scores are right
    or wrong. ``whole_gained`` and ``whole_lost`` are the sums of their squares, the same for right and wrong. ``design_effect`` is how many
    items are worth one independent item. ``degrees_of_freedom`` is None for the normal distribution. ``shortage`` says why no interval is possible; None when one is. McNemar's test is valid for
    ``PairedKind.BINARY`` only: items of one group are no independent sample.
    """

    items: int
    groups: int | None
    gained: float
    lost: float
    whole_gained: float
    whole_lost: float
    differing: int
    design_effect: float
    degrees_of_freedom: float | None
    kind: PairedKind
    shortage: Shortage | None

    @property
    def difference(self) -> float:
        """The mean score of the candidate less that of the reference: negative is a loss."""
        return (self.gained - self.lost) / self.items

    @property
    def mcnemar_is_valid(self) -> bool:
        """Whether McNemar's test may be used beside the interval."""
        return self.kind is PairedKind.BINARY


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDifferences:
    """One group's items, what the candidate gained and lost on them, and the sums of the squares of both (see the module)."""

    items: int
    gained: float
    lost: float
    whole_gained: float
    whole_lost: float


def summarize_counts(counts: PairedCounts) -> PairedSummary:
    """The summary of independent items, right or wrong."""
    return PairedSummary(
        items=counts.items,
        groups=None,
        gained=float(counts.only_candidate),
        lost=float(counts.only_reference),
        whole_gained=float(counts.only_candidate),
        whole_lost=float(counts.only_reference),
        differing=counts.discordant,
        design_effect=1.0,
        degrees_of_freedom=None,
        kind=PairedKind.BINARY,
        shortage=None,
    )


def summarize_scores(
    reference: Sequence[float], candidate: Sequence[float], groups: Sequence[Hashable] | None = None
) -> PairedSummary:
    """The summary of two models' scores, 0 to 1, item by item; ``groups`` names the document of each item.

    Groups of one item each are no groups. Where each score is 0 or 1, items count as right or wrong.

    Raises:
        ValueError: different numbers of scores, none, or a score outside [0, 1].
    """
    if len(reference) != len(candidate):
        raise ValueError(f"{len(reference)} scores of the reference cannot be paired with {len(candidate)}")
    if not reference:
        raise ValueError("no items: there is nothing to compare")
    if not all(0 <= score <= 1 for score in (*reference, *candidate)):
        raise ValueError("scores lie between 0 and 1")
    differences = [b - a if abs(b - a) > _ROUNDING else 0.0 for a, b in zip(reference, candidate, strict=True)]
    grouped = [[value] for value in differences] if groups is None else by_group(differences, groups)
    return summarize_groups(
        [_group(group) for group in grouped],
        binary=all(score in (0, 1) for score in (*reference, *candidate)),
        differing=sum(value != 0 for value in differences),
    )


def _group(values: Sequence[float]) -> GroupDifferences:
    gains, losses = [value for value in values if value > 0], [-value for value in values if value < 0]
    return GroupDifferences(
        items=len(values),
        gained=math.fsum(gains),
        lost=math.fsum(losses),
        whole_gained=math.fsum(value * value for value in gains),
        whole_lost=math.fsum(value * value for value in losses),
    )


def summarize_groups(groups: Sequence[GroupDifferences], *, binary: bool, differing: int) -> PairedSummary:
    """The summary from the sums of each group, for whoever has the sums already.

    Args:
        groups: one entry per group, or per item where items are independent.
        binary: whether each score is 0 or 1.
        differing: the number of items on which the two models' scores differ.
    """
    items = sum(group.items for group in groups)
    gained, lost = math.fsum(group.gained for group in groups), math.fsum(group.lost for group in groups)
    whole_gained = math.fsum(group.whole_gained for group in groups)
    whole_lost = math.fsum(group.whole_lost for group in groups)
    grouped = items > len(groups)
    kind = _kind(binary=binary, grouped=grouped)
    sizes = [group.items for group in groups]
    shortage = None if kind is PairedKind.BINARY else shortage_of(sizes, grouped=grouped)
    effect, freedom = 1.0, None
    if kind is not PairedKind.BINARY and shortage is None:
        freedom = effective_groups(sizes) - 1
    if grouped and shortage is None:
        mean = (gained - lost) / items
        effect = design_effect(
            [group.gained - group.lost - mean * group.items for group in groups],
            sizes,
            independent_variance=whole_gained + whole_lost - items * mean * mean,
            extra=EXTRA_ITEMS_PAIRED,
        )
    return PairedSummary(
        items=items,
        groups=len(groups) if grouped else None,
        gained=gained,
        lost=lost,
        whole_gained=whole_gained,
        whole_lost=whole_lost,
        differing=differing,
        design_effect=effect,
        degrees_of_freedom=freedom,
        kind=kind,
        shortage=shortage,
    )


def _kind(*, binary: bool, grouped: bool) -> PairedKind:
    if grouped:
        return PairedKind.BINARY_GROUPED if binary else PairedKind.GRADED_GROUPED
    return PairedKind.BINARY if binary else PairedKind.GRADED


def difference_interval(summary: PairedSummary, level: float = DEFAULT_LEVEL) -> Interval | None:
    """The two-sided interval of the difference, candidate less reference; None where ``summary.shortage`` says why not.

    Its ends are one-sided bounds of ``(1 + level) / 2`` each: ``level=0.9`` gives two of 95 %. Perfect agreement gives a difference of
    0, and an interval that is not zero: as many items that differ may have gone unseen.
    """
    if summary.shortage is not None:
        return None
    quantile = quantile_of((1 + level) / 2, summary.degrees_of_freedom)
    low, high = bounds_of(lambda difference: _statistic(summary, difference), quantile, -1.0, 1.0)
    return Interval(low=low, high=high, level=level, method=summary.kind.value)


def p_above(summary: PairedSummary, difference: float) -> float | None:
    """The one-sided p-value of "the true difference is at most ``difference``": small speaks for more; None with a shortage.

    It agrees with the interval: it is at most ``(1 - level) / 2`` exactly where the interval of ``level`` lies above ``difference``.
    """
    if summary.shortage is not None:
        return None
    return upper_tail(_statistic(summary, difference), summary.degrees_of_freedom)


def p_below(summary: PairedSummary, difference: float) -> float | None:
    """The one-sided p-value of "the true difference is at least ``difference``": small speaks for less; None with a shortage."""
    above = p_above(summary, difference)
    return None if above is None else 1 - above


def p_different(summary: PairedSummary) -> float | None:
    """The two-sided p-value of "no difference", for groups as well, where McNemar's is not valid; None with a shortage.

    For independent items that are right or wrong, ``suffice.stats.mcnemar`` has the exact one.
    """
    above = p_above(summary, 0.0)
    return None if above is None else min(1.0, 2 * min(above, 1 - above))


def whole_difference(summary: PairedSummary, difference: float) -> float:
    """The difference of whole items that is as far from what was seen of them as ``difference`` is from the difference that was seen."""
    return difference - summary.difference + (summary.whole_gained - summary.whole_lost) / summary.items


def _statistic(summary: PairedSummary, difference: float) -> float:
    scale, whole = summary.design_effect, whole_difference(summary, difference)
    if abs(whole) > 1:  # no number of items could make up for what was seen
        return -math.copysign(math.inf, whole)
    return paired_statistic(
        summary.whole_gained / scale,
        summary.whole_lost / scale,
        summary.items / scale,
        whole,
        correction_of(summary.groups),
    )

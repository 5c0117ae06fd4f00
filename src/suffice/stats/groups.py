"""Items that come in groups (the questions on one document): how much they are worth, and when they are too few to say anything.

Items of one group are alike, so that n of them tell less than n independent ones. The **design effect** says how many times less: the
variance of the total seen between groups, over the variance that independent items would have (Kish, Survey Sampling, 1965, section 5.4;
for paired shares Eliasziw and Donner, Statistics in Medicine 10, 1991, and Obuchowski, Statistics in Medicine 17, 1998). A score interval
is then made from the effective numbers, items over design effect, with Student's t on the effective number of groups less one.

Where few items differ, the variance between groups is hardly known, and zero where none does. It is therefore drawn towards the worst
case, groups whose items are all alike, by some differing items that were never seen. How many is a choice made by simulated
coverage (``benchmarks/interval_coverage.py``).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

LEAST_GROUPS: Final = 5
LEAST_EFFECTIVE_GROUPS: Final = 3.0  # one document with most of the items makes five documents no five documents
EXTRA_ITEMS_SHARE: Final = 2.0
EXTRA_ITEMS_PAIRED: Final = 4.0  # a few documents that are lost as a whole make the more uneven a sum
# Taken off every distance from a hypothesis, in effective items: three quarters of the usual half. Without it the one-sided error of few
# differing items reaches 9 % instead of 5 %; with all of a half, intervals are wider than need be.
CORRECTION: Final = 0.375
# The same in groups: documents that are lost as a whole are of unlike size, which makes few of them the more uneven.
CORRECTION_GROUPED: Final = 0.75


def correction_of(groups: int | None) -> float:
    """What is taken off a distance, in effective items; ``groups`` None: items are independent."""
    return CORRECTION if groups is None else CORRECTION_GROUPED


class Shortage(StrEnum):
    """Why there is no interval."""

    GROUPS = "not enough groups"
    UNEVEN = "not enough groups of comparable size"
    ITEMS = "not enough items"
    VARIATION = "all values alike"


def by_group(values: Sequence[float], groups: Sequence[Hashable]) -> list[list[float]]:
    """The values of each group, groups in the order of their first item.

    Raises:
        ValueError: not exactly one group name per value.
    """
    if len(values) != len(groups):
        raise ValueError(f"{len(values)} values have {len(groups)} group names")
    found: dict[Hashable, list[float]] = {}
    for value, group in zip(values, groups, strict=True):
        found.setdefault(group, []).append(value)
    return list(found.values())


def effective_groups(sizes: Sequence[float]) -> float:
    """How many groups of equal size tell as much: (sum of sizes) squared over the sum of squares (Kish 1965)."""
    return sum(sizes) ** 2 / sum(size * size for size in sizes)


def shortage_of(sizes: Sequence[float], *, grouped: bool) -> Shortage | None:
    """Why these groups (or items on their own) cannot carry an interval; None when they can."""
    if len(sizes) < LEAST_GROUPS:
        return Shortage.GROUPS if grouped else Shortage.ITEMS
    return Shortage.UNEVEN if effective_groups(sizes) < LEAST_EFFECTIVE_GROUPS else None


def design_effect(
    residuals: Sequence[float], sizes: Sequence[float], *, independent_variance: float, extra: float
) -> float:
    """The variance of the total between groups over that of independent items, drawn towards groups of items that are all alike.

    At least 1: items of one group that are less alike than by chance are a chance, too.

    Args:
        residuals: of each group, its total less what the overall mean gives it.
        sizes: items of each group.
        independent_variance: the variance of the total if all items were independent.
        extra: how many unseen items that are all alike are added.
    """
    number = effective_groups(sizes)
    alike = sum(size * size for size in sizes) / sum(sizes)  # items in the group of an average item
    between = sum(value * value for value in residuals) * number / (number - 1)
    return max(1.0, (between + extra * alike) / (independent_variance + extra))

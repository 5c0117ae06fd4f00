"""Things that are measured in turns: in which order, and the ratio of two of them from rounds that both were measured in.

A machine drifts, and neighbours come and go. What is measured one after the other meets different machines; within one round all meet
nearly the same, so the ratio of two of them within a round is free of what lasts longer than the round.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from suffice.stats.estimate import Estimate
from suffice.stats.intervals import DEFAULT_LEVEL, geometric_interval, median

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Two ratios have one degree of freedom: their interval spans factors, and says nothing.
LEAST_ROUNDS: Final = 3


def balanced_order(count: int, number: int) -> tuple[int, ...]:
    """The order in which ``count`` things have their turns in round ``number`` (from 0), as their indices.

    Over ``count`` rounds (twice as many for an odd count) each is at every place equally often, and follows each other equally often
    within a round: a Williams design (Williams, Aust. J. Sci. Res. A 2, 149, 1949). Two things: ``0 1``, ``1 0``, ``0 1`` ...

    Raises:
        ValueError: nothing to order, or a negative number.
    """
    if count < 1 or number < 0:
        raise ValueError(f"no order of {count} things in round {number}")
    zigzag = [(place + 1) // 2 if place % 2 else -(place // 2) for place in range(count)]
    row = number % (count if count % 2 == 0 else 2 * count)
    order = tuple((start + row) % count for start in zigzag)
    return order if row < count else order[::-1]


def paired_ratio(
    reference: Mapping[int, Sequence[float]], candidate: Mapping[int, Sequence[float]], level: float = DEFAULT_LEVEL
) -> Estimate | None:
    """How many times the reference's values the candidate's are.

    In every round that both have: the ratio of the medians. The point is the geometric mean of these ratios, the interval Student's t
    on their logarithms, the samples are the ratios by round. Rounds are independent only as far as what disturbs them ends with them.

    Args:
        reference: positive values (rates, or times) by round.
        candidate: the same.
        level: of the interval.

    Returns:
        None where fewer than three rounds are shared.
    """
    shared = sorted(number for number in reference.keys() & candidate.keys() if reference[number] and candidate[number])
    if len(shared) < LEAST_ROUNDS:
        return None
    ratios = tuple(median(candidate[number]) / median(reference[number]) for number in shared)
    interval = geometric_interval(ratios, level)
    point = math.exp(math.fsum(math.log(ratio) for ratio in ratios) / len(ratios))
    return Estimate(point=point, interval=interval, samples=ratios)

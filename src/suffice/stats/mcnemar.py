"""Two models on the same items, right or wrong: the four counts, McNemar's exact test and Tango's interval.

The counts are of independent items. Items of one document are none: see ``suffice.stats.paired``, which then uses neither.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from scipy.special import bdtr, gammaln

from suffice.stats.estimate import Interval
from suffice.stats.intervals import DEFAULT_LEVEL
from suffice.stats.score import bounds_of, paired_statistic, quantile_of

if TYPE_CHECKING:
    from collections.abc import Mapping


class Alternative(StrEnum):
    """What a small p-value speaks for."""

    DIFFERENT = "different"
    CANDIDATE_WORSE = "candidate worse"
    CANDIDATE_BETTER = "candidate better"


class McNemarKind(StrEnum):
    """How the tail of the binomial distribution counts what was observed."""

    EXACT = "exact McNemar"
    MID_P = "mid-p McNemar"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedCounts:
    """The items of a comparison by who had them right."""

    both_right: int
    only_reference: int  # lost by the candidate
    only_candidate: int  # gained by the candidate
    both_wrong: int

    def __post_init__(self) -> None:
        if min(self.both_right, self.only_reference, self.only_candidate, self.both_wrong) < 0:
            raise ValueError("counts of items are not negative")
        if self.items == 0:
            raise ValueError("no items: there is nothing to compare")

    @property
    def items(self) -> int:
        """All items."""
        return self.both_right + self.only_reference + self.only_candidate + self.both_wrong

    @property
    def discordant(self) -> int:
        """Items that exactly one of the two has right."""
        return self.only_reference + self.only_candidate

    @property
    def difference(self) -> float:
        """Share right of the candidate less that of the reference: negative is a loss."""
        return (self.only_candidate - self.only_reference) / self.items


@dataclass(frozen=True, slots=True, kw_only=True)
class McNemar:
    """The result of McNemar's test: the chance of counts at least as uneven if both models were equally good."""

    p_value: float
    alternative: Alternative
    kind: McNemarKind
    discordant: int


def paired_counts(reference: Mapping[str, bool], candidate: Mapping[str, bool]) -> PairedCounts:
    """The four counts from the answers of two models by item id; the order of the two does not matter.

    Raises:
        ValueError: the two did not answer the same items, or none.
    """
    alone = reference.keys() ^ candidate.keys()
    if alone:
        raise ValueError(f"{len(alone)} items were answered by one model only, {min(alone)!r} among them")
    pairs = [(reference[item], candidate[item]) for item in reference]
    return PairedCounts(
        both_right=sum(a and b for a, b in pairs),
        only_reference=sum(a and not b for a, b in pairs),
        only_candidate=sum(b and not a for a, b in pairs),
        both_wrong=sum(not a and not b for a, b in pairs),
    )


def mcnemar(
    counts: PairedCounts, alternative: Alternative = Alternative.DIFFERENT, kind: McNemarKind = McNemarKind.EXACT
) -> McNemar:
    """McNemar's test, exact and conditional on the discordant items: each is a fair coin if both models are equally good.

    Exact never rejects too often, and therefore too rarely; mid-p counts half of the observed outcome, and is close to its level
    (Fagerland, Lydersen and Laake, BMC Medical Research Methodology 13:91, 2013). Without discordant items nothing speaks against
    equality, and p is 1. Items on which both agree do not enter.
    """
    lost, gained = counts.only_reference, counts.only_candidate
    if alternative is Alternative.DIFFERENT:
        p_value = min(1.0, 2 * _tail(min(lost, gained), lost + gained, kind))
    else:
        p_value = _tail(gained if alternative is Alternative.CANDIDATE_WORSE else lost, lost + gained, kind)
    return McNemar(p_value=p_value, alternative=alternative, kind=kind, discordant=counts.discordant)


def _tail(few: int, tosses: int, kind: McNemarKind) -> float:
    """The chance of at most ``few`` heads; with mid-p, half of that of exactly ``few`` is left out."""
    if tosses == 0:
        return 1.0
    tail = float(bdtr(few, tosses, 0.5))
    if kind is McNemarKind.MID_P:
        ways = float(gammaln(tosses + 1) - gammaln(few + 1) - gammaln(tosses - few + 1))
        tail -= 0.5 * math.exp(ways - tosses * math.log(2))
    return min(1.0, max(0.0, tail))


def tango_interval(counts: PairedCounts, level: float = DEFAULT_LEVEL) -> Interval:
    """The score interval of the difference (candidate less reference) of two paired shares, as published (Tango 1998).

    Its coverage is close to ``level`` for few items as well, with dips to 93.0 % where some four to six items are all lost or all gained;
    ``suffice.stats.paired`` therefore adds a small correction. At other levels than 95 %, its ends are one-sided bounds:
    ``level=0.9`` gives two of 95 % each.
    """
    low, high = bounds_of(
        lambda difference: paired_statistic(counts.only_candidate, counts.only_reference, counts.items, difference),
        quantile_of((1 + level) / 2, None),
        -1.0,
        1.0,
    )
    return Interval(low=low, high=high, level=level, method="Tango score")

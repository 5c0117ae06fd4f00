"""Quantiles and the largest of a quantity over the tokens of documents: P99 and maximum of a KL divergence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from suffice.stats.documents import share_of_documents_above_largest
from suffice.stats.estimate import Interval
from suffice.stats.groups import Shortage
from suffice.stats.intervals import DEFAULT_LEVEL
from suffice.stats.score import bounds_of, quantile_of, share_statistic
from suffice.stats.shares import summarize_share_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTail:
    """One quantile over all tokens, with an interval by document, and the largest value.

    ``interval`` is None where ``shortage`` says why. ``documents_above_largest`` is the share of further documents that may hold a value
    above ``largest``, with the interval's level: all that can be said of a maximum.
    """

    fraction: float
    observed: float
    interval: Interval | None
    largest: float
    documents_above_largest: float
    documents: int
    tokens: int
    shortage: Shortage | None


def token_tail(
    documents: Sequence[NDArray[np.float64]], fraction: float = 0.99, level: float = DEFAULT_LEVEL
) -> TokenTail:
    """The quantile ``fraction`` over the tokens of all documents.

    The interval is Woodruff's (J. Am. Stat. Assoc. 47, 1952): that of the share of tokens below the observed quantile, with documents as
    groups, read off at the order statistics. It is refused where its upper end would lie beyond the largest token.

    Raises:
        ValueError: no tokens, a value that is not finite, or a fraction outside (0, 1).
    """
    if not 0 < fraction < 1:
        raise ValueError(f"a quantile with an interval lies inside (0, 1), not at {fraction}")
    filled = [np.asarray(values, dtype=np.float64) for values in documents if len(values)]
    if not filled or not all(np.all(np.isfinite(values)) for values in filled):
        raise ValueError("a quantile needs at least one token, and finite values")
    ordered = np.sort(np.concatenate(filled))
    observed = float(np.quantile(ordered, fraction))
    summary = summarize_share_groups(
        [float(np.count_nonzero(values <= observed)) for values in filled],
        [len(values) for values in filled],
        binary=True,
    )
    interval, shortage = None, summary.shortage
    if shortage is None:
        effective = summary.items / summary.design_effect
        low, high = bounds_of(
            lambda share: share_statistic(effective * fraction, effective, share),
            quantile_of((1 + level) / 2, summary.degrees_of_freedom),
            0.0,
            1.0,
        )
        interval = _read(ordered, low, high, effective, level)
        shortage = Shortage.ITEMS if interval is None else None
    return TokenTail(
        fraction=fraction,
        observed=observed,
        interval=interval,
        largest=float(ordered[-1]),
        documents_above_largest=share_of_documents_above_largest(len(filled), level),
        documents=len(filled),
        tokens=len(ordered),
        shortage=shortage,
    )


def _read(ordered: NDArray[np.float64], low: float, high: float, effective: float, level: float) -> Interval | None:
    """The order statistics at two shares; None when less than one effective token lies outside."""
    if effective * (1 - high) < 1 or effective * low < 1:
        return None
    last = len(ordered) - 1
    return Interval(
        low=float(ordered[max(0, math.floor(low * len(ordered)) - 1)]),
        high=float(ordered[min(last, math.ceil(high * len(ordered)))]),
        level=level,
        method="order statistics by document (Woodruff)",
    )

"""How alike the outputs of two models are, whether or not anybody knows what is right."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from suffice.decide.quants_types import Agreement, Share
from suffice.model.items import ScoreKind
from suffice.stats.documents import DocumentTotal, document_mean
from suffice.stats.estimate import Interval
from suffice.stats.groups import by_group
from suffice.stats.intervals import median
from suffice.stats.shares import share_interval, summarize_share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.quants_pairs import Row


def agreement_of(rows: Sequence[Row], confidence: float) -> Agreement | None:
    """The agreement on all rows that have two texts, labelled or not; None without any.

    A choice that was taken is compared as such; lengths and places of divergence are of texts that were written.
    """
    both = [row for row in rows if row.reference.text is not None and row.candidate.text is not None]
    if not both:
        return None
    choices = [row for row in both if row.task.kind is ScoreKind.MULTIPLE_CHOICE]
    texts = [row for row in both if row.task.kind is not ScoreKind.MULTIPLE_CHOICE]
    places = [_divergence(row) for row in texts if row.reference.text != row.candidate.text]
    shares = [share for _, share in places if share is not None]
    lengths = _lengths(texts)
    ratios = [(math.log(b / a), row.cluster) for row, a, b in lengths.pairs if a > 0 and b > 0]
    mean, interval = _geometric_mean(ratios, confidence)
    return Agreement(
        identical=_share(texts, confidence),
        same_choice=_share(choices, confidence),
        divergence_characters=median([place for place, _ in places]) if places else None,
        divergence_share=median(shares) if shares else None,
        length_ratio=mean,
        length_interval=interval,
        length_median=math.exp(median([ratio for ratio, _ in ratios])) if ratios else None,
        length_unit=lengths.unit if ratios else None,
        empty=len(texts) - len(ratios),
        all_cut=bool(texts) and all(row.reference.is_cut and row.candidate.is_cut for row in texts),
    )


class _Lengths:
    """Lengths of both texts of each row, in tokens where all are known, else in characters."""

    def __init__(self, rows: Sequence[Row]) -> None:
        in_tokens = all(row.reference.tokens is not None and row.candidate.tokens is not None for row in rows)
        self.unit = "tokens" if in_tokens else "characters"
        self.pairs = [
            (row, row.reference.tokens or 0, row.candidate.tokens or 0)
            if in_tokens
            else (row, len(row.reference.text or ""), len(row.candidate.text or ""))
            for row in rows
        ]


def _lengths(rows: Sequence[Row]) -> _Lengths:
    return _Lengths(rows)


def _share(rows: Sequence[Row], confidence: float) -> Share | None:
    if not rows:
        return None
    same = [float(row.reference.text == row.candidate.text) for row in rows]
    summary = summarize_share(same, [row.cluster for row in rows])
    return Share(
        value=summary.share,
        items=summary.items,
        interval=share_interval(summary, confidence),
        shortage=None if summary.shortage is None else summary.shortage.value,
    )


def _divergence(row: Row) -> tuple[int, float | None]:
    """Characters before the first difference, and the same over the shorter text's; None where that has none."""
    first, second = row.reference.text or "", row.candidate.text or ""
    shorter = min(len(first), len(second))
    place = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), shorter)
    return place, place / shorter if shorter else None


def _geometric_mean(ratios: Sequence[tuple[float, str]], confidence: float) -> tuple[float | None, Interval | None]:
    """The geometric mean of ratios from their logarithms, with the jackknife's interval by cluster."""
    if not ratios:
        return None, None
    grouped = by_group([ratio for ratio, _ in ratios], [cluster for _, cluster in ratios])
    mean = document_mean(
        [DocumentTotal(total=math.fsum(group), tokens=len(group)) for group in grouped], level=confidence
    )
    interval = mean.interval
    if interval is not None:
        interval = Interval(
            low=math.exp(interval.low),
            high=math.exp(interval.high),
            level=interval.level,
            method="jackknife of log ratios by cluster",
        )
    return math.exp(mean.value), interval

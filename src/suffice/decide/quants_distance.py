"""What the distances of a comparison show: how far a candidate's next-token distributions are from the reference's, and the noise floor."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from suffice.stats.documents import (
    DocumentTotal,
    Scale,
    document_mean,
    perplexity,
    perplexity_ratio,
    share_of_documents_above_largest,
)
from suffice.stats.intervals import DEFAULT_LEVEL
from suffice.stats.shares import share_interval, summarize_share_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.quants_types import QualityPolicy
    from suffice.model.quants import Distance, QuantsRecord
    from suffice.stats.documents import DocumentMean
    from suffice.stats.estimate import Interval

_MOST_NATS: Final = 700.0  # a mean loss per token whose perplexity a double holds


class NoiseStanding(StrEnum):
    """A candidate's mean divergence beside that of the reference from itself."""

    WITHIN = "within the noise floor"
    ABOVE = "above the noise floor"
    NOT_TOLD_APART = "not told apart from the noise floor"
    UNKNOWN = "no noise floor was measured"
    NOT_MEASURED = "not measured: every document fits into one batch"
    IS_FLOOR = "the noise floor"


@dataclass(frozen=True, slots=True, kw_only=True)
class DistanceFigures:
    """The figures of one distance; divergences in nats per token, intervals by document.

    ``documents_above_largest`` is the share of further documents that may hold a larger divergence than ``largest``, with the policy's
    confidence: all that can be said of a maximum. Perplexities are None where they are beyond what a number holds.
    """

    candidate: str
    is_self: bool
    documents: int
    tokens: int
    divergence: DocumentMean
    p99: float
    p99_low: float | None
    p99_high: float | None
    p99_shortage: str | None
    largest: float
    documents_above_largest: float
    same_top: float
    same_top_interval: Interval | None
    reference_perplexity: DocumentMean | None
    candidate_perplexity: DocumentMean | None
    perplexity_ratio: DocumentMean | None
    noise: NoiseStanding
    settings: dict[str, object]


def compare_distances(record: QuantsRecord, policy: QualityPolicy | None = None) -> tuple[DistanceFigures, ...]:
    """The figures of every distance that was measured, in the record's order."""
    level = DEFAULT_LEVEL if policy is None else policy.confidence
    floors = [_divergence(one, level) for one in record.distances if one.is_self and one.documents]
    floor = max(floors, key=lambda mean: mean.value) if floors else None
    one_batch = _fit_one_batch(record.distances)
    return tuple(_figures(one, floor, level, one_batch=one_batch) for one in record.distances if one.documents)


def _fit_one_batch(distances: Sequence[Distance]) -> bool:
    """Whether a floor of 0 only says that nothing was computed in another order: no document is longer than the floor's own batch."""
    batches = [
        (one, batch)
        for one in distances
        if one.is_self and one.documents and isinstance(batch := one.settings.get("other_n_batch"), int)
    ]
    # Every token but a document's first is foretold, so that a document has one more.
    return bool(batches) and all(
        document.tokens < batch and document.divergence == 0 for one, batch in batches for document in one.documents
    )


def _figures(distance: Distance, floor: DocumentMean | None, level: float, *, one_batch: bool) -> DistanceFigures:
    documents = distance.documents
    divergence = _divergence(distance, level)
    same = summarize_share_groups(
        [float(one.same_top) for one in documents], [one.tokens for one in documents], binary=True
    )
    first = [DocumentTotal(total=one.reference_loss, tokens=one.tokens) for one in documents]
    second = [DocumentTotal(total=one.candidate_loss, tokens=one.tokens) for one in documents]
    bounded = _is_bounded(first) and _is_bounded(second)
    standing = NoiseStanding.IS_FLOOR if distance.is_self else _standing(divergence, floor)
    if standing is not NoiseStanding.UNKNOWN and one_batch:
        standing = NoiseStanding.NOT_MEASURED
    return DistanceFigures(
        candidate=distance.candidate,
        is_self=distance.is_self,
        documents=len(documents),
        tokens=sum(one.tokens for one in documents),
        divergence=divergence,
        p99=distance.p99.value,
        p99_low=distance.p99.low,
        p99_high=distance.p99.high,
        p99_shortage=distance.p99.shortage,
        largest=distance.largest,
        documents_above_largest=share_of_documents_above_largest(len(documents), level),
        same_top=same.share,
        same_top_interval=share_interval(same, level),
        reference_perplexity=perplexity(first, level) if bounded else None,
        candidate_perplexity=perplexity(second, level) if bounded else None,
        perplexity_ratio=perplexity_ratio(first, second, level) if bounded else None,
        noise=standing,
        settings=dict(distance.settings),
    )


def _divergence(distance: Distance, level: float) -> DocumentMean:
    totals = [DocumentTotal(total=one.divergence, tokens=one.tokens) for one in distance.documents]
    return document_mean(totals, Scale.LOGARITHMIC, level)


def _is_bounded(losses: Sequence[DocumentTotal]) -> bool:
    return abs(math.fsum(one.total for one in losses)) <= _MOST_NATS * sum(one.tokens for one in losses)


def _standing(own: DocumentMean, floor: DocumentMean | None) -> NoiseStanding:
    """Not above the floor's figure is within it; above is said where the two intervals do not meet.

    A floor of exactly 0 is a fact about the run and no estimate: what is more than 0 is above it.
    """
    if floor is None:
        return NoiseStanding.UNKNOWN
    if own.value <= floor.value:
        return NoiseStanding.WITHIN
    if floor.value == 0:
        return NoiseStanding.ABOVE
    if own.interval is None or floor.interval is None or own.interval.low <= floor.interval.high:
        return NoiseStanding.NOT_TOLD_APART
    return NoiseStanding.ABOVE

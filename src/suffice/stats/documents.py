"""Means per token over documents: KL divergence, log-loss, perplexity and the ratio of two perplexities.

The tokens of a document are alike, and a standard error over tokens is far too small. A mean per token is a ratio, the documents' totals
over their tokens, and its sampling unit is the document. The variance is that of the jackknife that leaves out one document at a time
(Efron and Tibshirani, An Introduction to the Bootstrap, 1993, section 11.1), about the mean of all; for a ratio it has a closed form.
Student's t has the effective number of documents less one as its degrees of freedom, or fewer where a few documents make most of the
variance (Satterthwaite, Biometrics Bulletin 2, 1946, from the spread of the squared residuals).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from suffice.stats.estimate import Interval
from suffice.stats.groups import Shortage, effective_groups, shortage_of
from suffice.stats.intervals import DEFAULT_LEVEL
from suffice.stats.score import quantile_of

if TYPE_CHECKING:
    from collections.abc import Sequence


class Scale(StrEnum):
    """On which scale the interval is symmetric."""

    PLAIN = "plain"
    LOGARITHMIC = "logarithmic"


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentTotal:
    """The sum of a quantity over the tokens of one document."""

    total: float
    tokens: int

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ValueError("a document has at least one token")
        if not math.isfinite(self.total):
            raise ValueError("a document's total must be a finite number")


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentMean:
    """A mean per token (or what was made of it) with its interval by document; ``shortage`` says why there is none, None when there is."""

    value: float
    interval: Interval | None
    documents: int
    effective_documents: float
    tokens: int
    shortage: Shortage | None


def document_mean(
    totals: Sequence[DocumentTotal], scale: Scale = Scale.PLAIN, level: float = DEFAULT_LEVEL
) -> DocumentMean:
    """The mean per token over all documents, with an interval by document.

    ``Scale.LOGARITHMIC`` suits what is positive and skewed, such as a KL divergence: the interval is then symmetric on the logarithm and
    stays above zero; it falls back to the plain scale where the mean is not positive. Documents that are all alike have no interval:
    a model compared with itself has a divergence of exactly 0, which is a fact about the run and no estimate.

    Raises:
        ValueError: no documents.
    """
    if not totals:
        raise ValueError("no documents: there is no mean")
    tokens = [document.tokens for document in totals]
    mean = math.fsum(document.total for document in totals) / sum(tokens)
    shortage = shortage_of(tokens, grouped=True)
    interval = None
    if shortage is None:
        interval = _interval(totals, mean, scale if mean > 0 else Scale.PLAIN, level)
        shortage = Shortage.VARIATION if interval is None else None
    return DocumentMean(
        value=mean,
        interval=interval,
        documents=len(totals),
        effective_documents=effective_groups(tokens),
        tokens=sum(tokens),
        shortage=shortage,
    )


def _interval(totals: Sequence[DocumentTotal], mean: float, scale: Scale, level: float) -> Interval | None:
    tokens = sum(document.tokens for document in totals)
    squares = [((document.total - mean * document.tokens) / (1 - document.tokens / tokens)) ** 2 for document in totals]
    number = len(totals)
    error = math.sqrt(math.fsum(squares) * (number - 1) / number) / tokens
    if error == 0:
        return None
    freedom = _degrees_of_freedom(squares, [document.tokens for document in totals], scale)
    half = quantile_of((1 + level) / 2, freedom) * error
    if scale is Scale.PLAIN:
        return Interval(low=mean - half, high=mean + half, level=level, method="ratio jackknife by document")
    return Interval(
        low=mean * math.exp(-half / mean),
        high=mean * math.exp(half / mean),
        level=level,
        method="ratio jackknife by document, on logarithms",
    )


def _degrees_of_freedom(squares: Sequence[float], tokens: Sequence[int], scale: Scale) -> float:
    """The effective number of documents less one, or what the spread of the squared residuals leaves of it.

    ``2 V^2 / sum((square - V / n)^2)`` is the number of documents when residuals are normal, and less when few documents make the
    variance. For skewed quantities, on logarithms, half of it keeps the coverage; chosen by simulation.
    """
    total = math.fsum(squares)
    average = total / len(squares)
    spread = math.fsum((square - average) ** 2 for square in squares)
    known = effective_groups(tokens) - 1
    if spread == 0:
        return known
    seen = 2 * total * total / spread
    return max(1.0, min(known, seen if scale is Scale.PLAIN else seen / 2))


def perplexity(losses: Sequence[DocumentTotal], level: float = DEFAULT_LEVEL) -> DocumentMean:
    """The perplexity, ``exp`` of the mean negative log-likelihood per token in nats; the interval is that of the mean, through ``exp``."""
    return _exponential(document_mean(losses, level=level))


def perplexity_ratio(
    reference: Sequence[DocumentTotal], candidate: Sequence[DocumentTotal], level: float = DEFAULT_LEVEL
) -> DocumentMean:
    """The candidate's perplexity over the reference's on the same documents, paired: above 1 is a loss.

    Raises:
        ValueError: the documents differ in number or in tokens: the two were not run on the same text with the same vocabulary.
    """
    if [document.tokens for document in reference] != [document.tokens for document in candidate]:
        raise ValueError("the two models were not run on the same documents and tokens")
    differences = [
        DocumentTotal(total=b.total - a.total, tokens=a.tokens) for a, b in zip(reference, candidate, strict=True)
    ]
    return _exponential(document_mean(differences, level=level))


def _exponential(mean: DocumentMean) -> DocumentMean:
    interval = mean.interval
    if interval is not None:
        interval = Interval(
            low=math.exp(interval.low),
            high=math.exp(min(interval.high, 700.0)),  # exp(709) is the largest double
            level=interval.level,
            method=interval.method,
        )
    return DocumentMean(
        value=math.exp(mean.value),
        interval=interval,
        documents=mean.documents,
        effective_documents=mean.effective_documents,
        tokens=mean.tokens,
        shortage=mean.shortage,
    )


def share_of_documents_above_largest(documents: int, confidence: float = DEFAULT_LEVEL) -> float:
    """The largest share of further documents that may hold a value above the largest seen: the maximum has no interval, this has.

    If a share s of documents had a larger value, none of n would show one with the chance ``(1 - s)**n``: 3 documents of 100 at 95 %.
    """
    if documents < 1:
        raise ValueError("no documents: nothing is known of the largest value")
    return float(-math.expm1(math.log1p(-confidence) / documents))

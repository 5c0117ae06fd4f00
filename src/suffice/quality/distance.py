"""How far candidates' next-token distributions are from the reference's, on the same text, in double precision.

Kullback-Leibler divergence ``sum p (ln p - ln q)`` in nats per token, p the reference's and q a candidate's distribution; whether both
find the same token most likely; and the log-probability that each gives to the token that really came. A row at a time, so that memory
stays flat and what is worked on stays in the processor's cache; logits go in as the engine made them (float32), nothing is rounded to 16
bits as llama-perplexity's files are. A reference against itself is exactly 0, as every term of the sum is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from suffice.stats.documents import DocumentTotal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Logits = NDArray[np.float32]
    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenDistances:
    """One value for each token: ``divergence`` and the two losses (negative log-probabilities of the true token) in nats."""

    divergence: NDArray[np.float64]
    same_top: NDArray[np.bool_]
    reference_loss: NDArray[np.float64]
    candidate_loss: NDArray[np.float64]


def token_distances(
    reference: NDArray[np.float32], candidate: NDArray[np.float32], truth: Sequence[int] | NDArray[np.int64]
) -> TokenDistances:
    """The distances of a block of logits, a row for each token; ``truth`` are the tokens that really came next.

    Of equally likely tokens the one with the smallest number is the top. A logit of minus infinity is an impossible token.

    Raises:
        ValueError: the blocks differ in shape (two vocabularies cannot be compared), do not fit to ``truth``, or hold what is no number.
    """
    (found,) = distances_in_step(reference, [candidate], truth)
    return found


def distances_in_step(
    reference: Logits, candidates: Sequence[Logits], truth: Sequence[int] | NDArray[np.int64]
) -> tuple[TokenDistances, ...]:
    """:func:`token_distances` of several candidates; what is needed of the reference is computed once for all of them.

    Raises:
        ValueError: see :func:`token_distances`.
    """
    true_tokens = np.asarray(truth, dtype=np.int64)
    for candidate in candidates:
        _check_shapes(reference, candidate, true_tokens)
    if not all(are_numbers(rows) for rows in (reference, *candidates)):
        raise ValueError("the logits are no numbers: the model's weights are damaged")
    found = [_empty(len(true_tokens)) for _ in candidates]
    first, second = _Row(reference.shape[1]), _Row(reference.shape[1])
    for place, true in enumerate(true_tokens.tolist()):
        first.take(reference[place])
        reference_loss = first.loss(true)
        for distances, candidate in zip(found, candidates, strict=True):
            second.take(candidate[place])
            distances.same_top[place] = first.top == second.top
            distances.reference_loss[place] = reference_loss
            distances.candidate_loss[place] = second.loss(true)
            distances.divergence[place] = first.divergence_from(second)
    return tuple(found)


def are_numbers(logits: Logits) -> bool:
    """Whether every row has a largest logit that is a finite number; NaN anywhere, or nothing but impossible tokens, has none."""
    return bool(np.all(np.isfinite(logits.max(axis=1, initial=-np.inf))))


def _check_shapes(reference: Logits, candidate: Logits, truth: NDArray[np.int64]) -> None:
    if reference.ndim != 2 or reference.shape != candidate.shape or truth.shape != reference.shape[:1]:  # noqa: PLR2004
        raise ValueError(
            f"logits of {reference.shape} and {candidate.shape} and {truth.shape[0]} tokens do not belong together"
        )
    n_rows, n_tokens = reference.shape
    if n_rows and not (truth.min() >= 0 and truth.max() < n_tokens):
        raise ValueError(f"a token of the text is none of the {n_tokens} that there are logits for")


def _empty(count: int) -> TokenDistances:
    return TokenDistances(
        divergence=np.empty(count),
        same_top=np.empty(count, dtype=bool),
        reference_loss=np.empty(count),
        candidate_loss=np.empty(count),
    )


class _Row:
    """One row of logits in double precision, less its largest, with the sum of their exponentials; the arrays are used again."""

    def __init__(self, n_tokens: int) -> None:
        self._shifted = np.empty(n_tokens)
        self._weights = np.empty(n_tokens)
        self._difference = np.empty(n_tokens)
        self._total = self._log_total = math.nan
        self.top = 0

    def take(self, logits: Logits) -> None:
        self.top = int(logits.argmax())
        np.subtract(logits, logits[self.top], out=self._shifted, dtype=np.float64)
        np.exp(self._shifted, out=self._weights)
        self._total = float(self._weights.sum())
        self._log_total = math.log(self._total)

    def loss(self, token: int) -> float:
        """Minus the log-probability of a token."""
        return self._log_total - float(self._shifted[token])

    def divergence_from(self, candidate: _Row) -> float:
        """``sum p (ln p - ln q)``. Rounding may leave -1e-17 of a sum that cannot be negative."""
        with np.errstate(invalid="ignore"):  # a token that both exclude: minus infinity less minus infinity
            np.subtract(self._shifted, candidate._shifted, out=self._difference)
        mean = _dot(self._weights, self._difference) / self._total
        if not math.isfinite(mean):
            possible = self._weights > 0
            mean = _dot(self._weights[possible], self._difference[possible]) / self._total
        return max(0.0, mean - self._log_total + candidate._log_total)


def _dot(first: Floats, second: Floats) -> float:
    """Not BLAS's, whose threads would wake for each row and spin on where the engine computes."""
    return float(np.einsum("i,i->", first, second))


def _joined(pieces: Sequence[TokenDistances]) -> TokenDistances:
    if not pieces:
        return _empty(0)
    return TokenDistances(
        divergence=np.concatenate([piece.divergence for piece in pieces]),
        same_top=np.concatenate([piece.same_top for piece in pieces]),
        reference_loss=np.concatenate([piece.reference_loss for piece in pieces]),
        candidate_loss=np.concatenate([piece.candidate_loss for piece in pieces]),
    )


@dataclass(slots=True)
class DocumentDistances:
    """What was found of each document so far, in the order of their first tokens: a few numbers per token, none per logit."""

    _pieces: dict[str, list[TokenDistances]] = field(default_factory=dict)

    def add(self, document: str, distances: TokenDistances) -> None:
        """Add tokens to a document; a document may come in many blocks."""
        if len(distances.divergence):
            self._pieces.setdefault(document, []).append(distances)

    @property
    def documents(self) -> tuple[str, ...]:
        """The names of the documents that have tokens."""
        return tuple(self._pieces)

    def of(self, document: str) -> TokenDistances:
        """All tokens of a document."""
        return _joined(self._pieces[document])

    def divergences(self) -> tuple[NDArray[np.float64], ...]:
        """The divergences of each document's tokens, for quantiles and the largest."""
        return tuple(self.of(document).divergence for document in self._pieces)

    def divergence_totals(self) -> tuple[DocumentTotal, ...]:
        """The summed divergence of each document, for the mean per token."""
        return self._totals("divergence")

    def reference_losses(self) -> tuple[DocumentTotal, ...]:
        """The summed loss of the reference, for its perplexity."""
        return self._totals("reference_loss")

    def candidate_losses(self) -> tuple[DocumentTotal, ...]:
        """The summed loss of the candidate."""
        return self._totals("candidate_loss")

    def same_top_totals(self) -> tuple[DocumentTotal, ...]:
        """How many tokens of each document have the same most likely token."""
        return self._totals("same_top")

    def _totals(self, name: str) -> tuple[DocumentTotal, ...]:
        return tuple(
            DocumentTotal(
                total=float(sum(getattr(piece, name).sum(dtype=np.float64) for piece in pieces)),
                tokens=sum(len(piece.divergence) for piece in pieces),
            )
            for pieces in self._pieces.values()
        )

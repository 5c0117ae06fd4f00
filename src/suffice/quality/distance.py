"""How far a candidate's next-token distributions are from the reference's, on the same text, in double precision.

Kullback-Leibler divergence ``sum p (ln p - ln q)`` in nats per token, p the reference's and q the candidate's distribution; whether both
find the same token most likely; and the log-probability that each gives to the token that really came. A block of rows at a time, so
that memory stays flat; logits go in as the engine made them (float32), nothing is rounded to 16 bits as llama-perplexity's files are.
A reference against itself is exactly 0, as every term of the sum is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from suffice.stats.documents import DocumentTotal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_NUMBERS_AT_A_TIME: Final = 1 << 19  # so that the temporary arrays of doubles stay within some tens of MB


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
    true_tokens = np.asarray(truth, dtype=np.int64)
    if reference.ndim != 2 or reference.shape != candidate.shape or true_tokens.shape != reference.shape[:1]:  # noqa: PLR2004
        raise ValueError(
            f"logits of {reference.shape} and {candidate.shape} and {true_tokens.shape[0]} tokens do not belong together"
        )
    n_rows, n_tokens = reference.shape
    if n_rows and not (true_tokens.min() >= 0 and true_tokens.max() < n_tokens):
        raise ValueError(f"a token of the text is none of the {n_tokens} that there are logits for")
    size = max(1, _NUMBERS_AT_A_TIME // max(1, n_tokens))
    pieces = [
        _distances(reference[i : i + size], candidate[i : i + size], true_tokens[i : i + size])
        for i in range(0, n_rows, size)
    ]
    return _joined(pieces)


def _distances(
    reference: NDArray[np.float32], candidate: NDArray[np.float32], truth: NDArray[np.int64]
) -> TokenDistances:
    first, second = _log_softmax(reference), _log_softmax(candidate)
    rows = np.arange(len(truth))
    losses = -first[rows, truth], -second[rows, truth]
    same = reference.argmax(axis=1) == candidate.argmax(axis=1)
    probability = np.exp(first)
    possible = probability > 0
    difference = np.subtract(first, second, out=np.zeros_like(first), where=possible)
    divergence = np.einsum("ij,ij->i", probability, difference)
    return TokenDistances(
        divergence=np.maximum(divergence, 0.0),  # rounding may leave -1e-17 of a sum that cannot be negative
        same_top=same,
        reference_loss=losses[0],
        candidate_loss=losses[1],
    )


def _log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    top = logits.max(axis=1, keepdims=True, initial=-np.inf)
    if not np.all(np.isfinite(top)):
        raise ValueError("the logits are no numbers: the model's weights are damaged")
    shifted: NDArray[np.float64] = np.subtract(logits, top, dtype=np.float64)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted


def _joined(pieces: Sequence[TokenDistances]) -> TokenDistances:
    if not pieces:
        nothing = np.empty(0)
        return TokenDistances(
            divergence=nothing, same_top=np.empty(0, dtype=bool), reference_loss=nothing, candidate_loss=nothing
        )
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

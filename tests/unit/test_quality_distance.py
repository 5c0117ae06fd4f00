"""Distances between two models' logits, against sums of Python's own and SciPy's entropy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import log_softmax
from scipy.stats import entropy

from suffice.quality.distance import DocumentDistances, distances_in_step, token_distances
from suffice.stats.documents import document_mean, perplexity, perplexity_ratio


def blocks(rows: int, columns: int, noise: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits of a reference and a candidate that differs by noise, and the true tokens."""
    random = np.random.default_rng(7)
    reference = (random.standard_normal((rows, columns)) * 4).astype(np.float32)
    candidate = (reference + random.standard_normal((rows, columns)) * noise).astype(np.float32)
    return reference, candidate, random.integers(0, columns, rows)


def test_divergence_and_losses_are_those_of_scipy() -> None:
    """KL is scipy.stats.entropy of the two softmaxes, losses are log_softmax at the true tokens, in every row."""
    reference, candidate, truth = blocks(30, 700, 0.5)
    found = token_distances(reference, candidate, truth)
    first, second = (log_softmax(rows.astype(np.float64), axis=1) for rows in (reference, candidate))
    np.testing.assert_allclose(found.divergence, entropy(np.exp(first), np.exp(second), axis=1), rtol=1e-10)
    np.testing.assert_allclose(found.reference_loss, -first[np.arange(30), truth], rtol=1e-12)
    np.testing.assert_allclose(found.candidate_loss, -second[np.arange(30), truth], rtol=1e-12)
    np.testing.assert_array_equal(found.same_top, reference.argmax(1) == candidate.argmax(1))
    assert 0 < found.same_top.mean() < 1


def test_a_hand_made_row() -> None:
    """Probabilities 1/2, 1/4, 1/4 against 1/4, 1/4, 1/2: KL is ln(2)/4, another top, losses ln 2 and ln 4."""
    reference = np.log(np.array([[0.5, 0.25, 0.25]], dtype=np.float32))
    candidate = np.log(np.array([[0.25, 0.25, 0.5]], dtype=np.float32))
    found = token_distances(reference, candidate, [0])
    assert found.divergence[0] == pytest.approx(math.log(2) / 4, rel=1e-6)
    assert not found.same_top[0]
    assert (found.reference_loss[0], found.candidate_loss[0]) == pytest.approx((math.log(2), math.log(4)), rel=1e-6)


def test_a_model_against_itself_is_exactly_zero() -> None:
    """Not nearly: every divergence is 0.0, all tops are the same, and losses are equal to the last bit."""
    reference, _, truth = blocks(20, 5_000, 0.0)
    found = token_distances(reference, reference.copy(), truth)
    assert np.all(found.divergence == 0.0)
    assert np.all(found.same_top)
    np.testing.assert_array_equal(found.reference_loss, found.candidate_loss)


def test_tiny_divergences_are_not_lost() -> None:
    """Noise of 1e-4 gives a divergence of about half its variance, which a 16-bit file would round to nothing."""
    reference, candidate, truth = blocks(40, 2_000, 1e-4)
    found = token_distances(reference, candidate, truth)
    probabilities = np.exp(log_softmax(reference.astype(np.float64), axis=1))
    difference = candidate.astype(np.float64) - reference.astype(np.float64)
    mean = (probabilities * difference).sum(axis=1, keepdims=True)
    variance = (probabilities * (difference - mean) ** 2).sum(axis=1)
    np.testing.assert_allclose(found.divergence, variance / 2, rtol=1e-3)


def test_blocks_of_any_size_give_the_same() -> None:
    """How many rows are looked at together changes no number."""
    reference, candidate, truth = blocks(9, 300, 0.3)
    whole = token_distances(reference, candidate, truth)
    parts = [token_distances(reference[i : i + 4], candidate[i : i + 4], truth[i : i + 4]) for i in (0, 4, 8)]
    for name in ("divergence", "candidate_loss", "reference_loss", "same_top"):
        np.testing.assert_array_equal(getattr(whole, name), np.concatenate([getattr(part, name) for part in parts]))


def test_candidates_in_step_get_what_each_gets_alone() -> None:
    """Two candidates whose reference is worked on once: to the last bit the distances of each on its own."""
    reference, candidate, truth = blocks(8, 400, 0.3)
    other = reference + np.float32(0.2) * candidate
    together = distances_in_step(reference, [candidate, other, reference], truth)
    for rows, found in zip((candidate, other, reference), together, strict=True):
        alone = token_distances(reference, rows, truth)
        for name in ("divergence", "candidate_loss", "reference_loss", "same_top"):
            np.testing.assert_array_equal(getattr(found, name), getattr(alone, name))
    assert np.all(together[2].divergence == 0.0)


def test_impossible_tokens() -> None:
    """A token that both exclude adds nothing; one that only the candidate excludes makes the divergence infinite."""
    reference = np.array([[0.0, 0.0, -np.inf], [0.0, 0.0, 0.0]], dtype=np.float32)
    candidate = np.array([[0.0, 0.0, -np.inf], [0.0, 0.0, -np.inf]], dtype=np.float32)
    found = token_distances(reference, candidate, [0, 0])
    assert found.divergence[0] == 0.0
    assert math.isinf(found.divergence[1])


@pytest.mark.parametrize(
    ("reference", "candidate", "truth"),
    [
        (np.zeros((2, 3)), np.zeros((2, 4)), [0, 0]),
        (np.zeros((2, 3)), np.zeros((2, 3)), [0]),
        (np.zeros((2, 3)), np.zeros((2, 3)), [0, 3]),
        (np.zeros((1, 3)), np.zeros((1, 3)), [-1]),
        (np.full((1, 3), np.nan), np.zeros((1, 3)), [0]),
        (np.zeros((1, 3)), np.full((1, 3), -np.inf), [0]),
    ],
)
def test_what_cannot_be_compared_is_refused(reference: np.ndarray, candidate: np.ndarray, truth: list[int]) -> None:
    """Other vocabularies, missing or strange tokens, and logits that are no numbers raise, and give no distance."""
    with pytest.raises(ValueError, match=r"belong|none of|no numbers"):
        token_distances(reference.astype(np.float32), candidate.astype(np.float32), truth)


def test_documents_collect_blocks() -> None:
    """Totals by document are those of all their tokens, in the order of their first token; perplexities follow."""
    reference, candidate, truth = blocks(12, 50, 0.4)
    documents = DocumentDistances()
    for start, end, name in ((0, 5, "b"), (5, 8, "a"), (8, 12, "b"), (12, 12, "empty")):
        documents.add(name, token_distances(reference[start:end], candidate[start:end], truth[start:end]))
    whole = token_distances(reference, candidate, truth)
    assert documents.documents == ("b", "a")
    assert [len(values) for values in documents.divergences()] == [9, 3]
    assert document_mean(documents.divergence_totals()).value == pytest.approx(whole.divergence.mean(), rel=1e-12)
    assert document_mean(documents.same_top_totals()).value == pytest.approx(whole.same_top.mean(), rel=1e-12)
    assert perplexity(documents.reference_losses()).value == pytest.approx(np.exp(whole.reference_loss.mean()))
    ratio = perplexity_ratio(documents.reference_losses(), documents.candidate_losses())
    assert ratio.value == pytest.approx(np.exp((whole.candidate_loss - whole.reference_loss).mean()))

"""Means per token by document, tails, and the clustered bootstrap, against SciPy, slow oracles and planted truths."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from suffice.quality.bootstrap import BootstrapKind, bootstrap_interval
from suffice.quality.tails import token_tail
from suffice.stats.documents import (
    DocumentTotal,
    Scale,
    document_mean,
    perplexity,
    perplexity_ratio,
    share_of_documents_above_largest,
)
from suffice.stats.groups import Shortage, effective_groups
from suffice.stats.paired import difference_interval, summarize_scores

# Student's sleep data (Biometrika 6, 1908; R's `sleep`): hours gained by ten patients under the second drug less those under the first.
SLEEP = (1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4)


def totals(pairs: list[tuple[float, int]]) -> list[DocumentTotal]:
    """Documents from (total, tokens)."""
    return [DocumentTotal(total=total, tokens=tokens) for total, tokens in pairs]


def test_documents_of_one_length_have_students_interval() -> None:
    """The sleep data as documents of one token: R's t.test gives 1.58 and 0.70 to 2.46, here a little more (one outlier)."""
    found = document_mean(totals([(value, 1) for value in SLEEP]))
    expected = scipy_stats.ttest_1samp(SLEEP, 0).confidence_interval(0.95)

    assert found.interval is not None
    assert found.value == pytest.approx(1.58)
    assert [expected.low, expected.high] == pytest.approx([0.7001142, 2.4598858], abs=1e-6)
    assert expected.low - 0.5 < found.interval.low < expected.low
    assert expected.high < found.interval.high < expected.high + 0.5


def test_the_error_is_that_of_the_jackknife() -> None:
    """Leaving each document out in turn, slowly, gives the standard error; t has the effective number of documents less one."""
    documents = totals([(210, 100), (390, 200), (77, 30), (500, 220), (333, 150), (160, 90), (95, 50)])
    tokens = [document.tokens for document in documents]
    mean = sum(document.total for document in documents) / sum(tokens)
    without = [
        sum(other.total for other in documents if other is not left)
        / sum(other.tokens for other in documents if other is not left)
        for left in documents
    ]
    error = math.sqrt(6 / 7 * sum((value - mean) ** 2 for value in without))
    found = document_mean(documents)

    assert found.interval is not None
    half = (found.interval.high - found.interval.low) / 2
    assert found.value == pytest.approx(mean)
    assert half / error >= float(scipy_stats.t.ppf(0.975, effective_groups(tokens) - 1)) - 1e-9
    assert half / error == pytest.approx(float(scipy_stats.t.ppf(0.975, effective_groups(tokens) - 1)), rel=0.2)


def test_skewed_and_positive_stays_positive() -> None:
    """A KL divergence with one bad document: the interval on logarithms lies above zero and reaches further up than down."""
    found = document_mean(totals([(1, 100), (2, 100), (1, 120), (30, 100), (1, 90), (2, 110)]), Scale.LOGARITHMIC)

    assert found.interval is not None
    assert 0 < found.interval.low < found.value < found.interval.high
    assert found.interval.high - found.value > found.value - found.interval.low


def test_a_model_against_itself_has_no_interval() -> None:
    """All zero: exactly zero, a fact about the run; a width of zero would be a claim about the world."""
    found = document_mean(totals([(0.0, 50)] * 8), Scale.LOGARITHMIC)

    assert (found.value, found.interval, found.shortage) == (0.0, None, Shortage.VARIATION)


def test_rounding_below_zero_is_shown_as_it_is() -> None:
    """A mean KL of a hair below zero falls back to the plain scale, without an error."""
    found = document_mean(totals([(-1e-9 * i, 50) for i in range(8)]), Scale.LOGARITHMIC)

    assert found.interval is not None
    assert found.interval.low < found.value < 0


@pytest.mark.parametrize(
    ("tokens", "shortage"), [([10, 10, 10, 10], Shortage.GROUPS), ([10_000, 10, 10, 10, 10, 10], Shortage.UNEVEN)]
)
def test_few_documents_have_no_interval(tokens: list[int], shortage: Shortage) -> None:
    """Four, or six of which one is nearly all of the text."""
    found = document_mean(totals([(2.0 * n + i, n) for i, n in enumerate(tokens)]))

    assert (found.interval, found.shortage) == (None, shortage)
    assert found.documents == len(tokens)


def test_perplexity_and_the_ratio_of_two() -> None:
    """The exponential of the mean loss; a candidate that loses 0.02 nats per token and a little noise has a ratio of 1.02."""
    noise = [0.3, -0.2, 0.1, -0.4, 0.2, 0.0, -0.1, 0.1]
    reference = totals([(2.0 * n + 5 * e, n) for n, e in zip(range(100, 180, 10), noise, strict=True)])
    candidate = totals([(d.total + 0.02 * d.tokens + e, d.tokens) for d, e in zip(reference, noise, strict=True)])
    alone, ratio = perplexity(reference), perplexity_ratio(reference, candidate)

    assert alone.value == pytest.approx(math.exp(2), rel=0.01)
    assert ratio.value == pytest.approx(math.exp(0.02), rel=1e-3)
    assert alone.interval is not None
    assert ratio.interval is not None
    assert 1 < ratio.interval.low < math.exp(0.02) < ratio.interval.high
    assert ratio.interval.high - ratio.interval.low < (alone.interval.high - alone.interval.low) / 20
    with pytest.raises(ValueError, match="same documents and tokens"):
        perplexity_ratio(reference, candidate[1:])


def test_documents_that_are_none_are_refused() -> None:
    """No documents, no tokens, no number."""
    with pytest.raises(ValueError, match="no documents"):
        document_mean([])
    with pytest.raises(ValueError, match="at least one token"):
        DocumentTotal(total=1.0, tokens=0)
    with pytest.raises(ValueError, match="finite"):
        DocumentTotal(total=math.inf, tokens=3)
    with pytest.raises(ValueError, match="no documents"):
        share_of_documents_above_largest(0)


def test_the_largest_has_the_rule_of_three() -> None:
    """None of 100 documents above it: up to 2.95 % of further ones may be, 1 - 0.05**(1/100)."""
    assert share_of_documents_above_largest(100) == pytest.approx(1 - 0.05 ** (1 / 100), rel=1e-12)
    assert share_of_documents_above_largest(1) == pytest.approx(0.95)


def test_the_tail_by_document() -> None:
    """P99 of 60,000 tokens in 60 documents: the truth of an exponential, ln 100, inside, and the largest value seen."""
    random = np.random.default_rng(5)
    documents = [random.exponential(size=1000) for _ in range(60)]
    found = token_tail(documents)

    assert found.interval is not None
    assert found.interval.low < math.log(100) < found.interval.high
    assert found.interval.high - found.interval.low < 0.6
    assert found.largest == max(values.max() for values in documents)
    assert (found.documents, found.tokens, found.shortage) == (60, 60_000, None)


def test_a_tail_in_few_documents_is_wider_or_refused() -> None:
    """The same tokens, with the large ones all in two documents: wider; eight short documents: refused; four: refused by number."""
    random = np.random.default_rng(6)
    values = random.exponential(size=60_000)
    spread = token_tail(list(values.reshape(60, 1000)))
    gathered = np.sort(values).reshape(60, 1000)
    narrow, wide = spread.interval, token_tail(list(gathered)).interval
    short, few = token_tail([values[i : i + 30] for i in range(8)]), token_tail(list(values.reshape(4, -1)))

    assert narrow is not None
    assert wide is None or wide.high - wide.low > 1.5 * (narrow.high - narrow.low)
    assert (short.interval, short.shortage) == (None, Shortage.ITEMS)
    assert (few.interval, few.shortage) == (None, Shortage.GROUPS)


@pytest.mark.parametrize(
    ("documents", "fraction"), [([], 0.99), ([[]], 0.99), ([[1.0, math.nan]], 0.99), ([[1.0]], 1.0)]
)
def test_a_tail_of_nothing_is_refused(documents: list[list[float]], fraction: float) -> None:
    """No tokens, no numbers, or the maximum asked for as a quantile."""
    with pytest.raises(ValueError, match="quantile"):
        token_tail([np.array(values) for values in documents], fraction)


@pytest.mark.parametrize(("kind", "method"), [(BootstrapKind.PERCENTILE, "percentile"), (BootstrapKind.BCA, "BCa")])
def test_the_bootstrap_without_groups_is_scipys(kind: BootstrapKind, method: str) -> None:
    """Student's sleep data: the ends agree with scipy.stats.bootstrap within what two sets of 9,999 resamples differ."""
    ours = bootstrap_interval(SLEEP, kind=kind)
    theirs = scipy_stats.bootstrap(
        (np.array(SLEEP),), np.mean, method=method, n_resamples=9_999, rng=np.random.default_rng(1)
    ).confidence_interval

    assert ours is not None
    assert [ours.low, ours.high] == pytest.approx([theirs.low, theirs.high], abs=0.06)


def test_the_bootstrap_by_group_is_scipys_on_groups() -> None:
    """Groups of unlike size, drawn whole: scipy.stats.bootstrap on pairs of (total, size) with the ratio as its statistic."""
    random = np.random.default_rng(2)
    sizes = np.array([2, 5, 3, 8, 4, 6, 3, 5, 7, 2, 4, 6])
    names = np.repeat(np.arange(12), sizes).tolist()
    values = random.normal(0.1, 0.2, int(sizes.sum())) + np.repeat(random.normal(0, 0.2, 12), sizes)
    sums = np.bincount(names, weights=values)

    def ratio(total: np.ndarray, size: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.asarray(total.sum(axis=axis) / size.sum(axis=axis))

    for kind, method in ((BootstrapKind.PERCENTILE, "percentile"), (BootstrapKind.BCA, "BCa")):
        ours = bootstrap_interval(values.tolist(), names, kind)
        theirs = scipy_stats.bootstrap(
            (sums, sizes), ratio, paired=True, method=method, n_resamples=9_999, rng=np.random.default_rng(3)
        ).confidence_interval

        assert ours is not None
        assert [ours.low, ours.high] == pytest.approx([theirs.low, theirs.high], abs=0.008)


def test_the_same_seed_gives_the_same_interval() -> None:
    """Deterministic by default, other with another seed; the studentized one lies near Student's."""
    first, again = (bootstrap_interval(SLEEP, kind=BootstrapKind.STUDENTIZED, resamples=999) for _ in range(2))
    other = bootstrap_interval(SLEEP, kind=BootstrapKind.STUDENTIZED, resamples=999, seed=4)

    assert first is not None
    assert first == again != other
    assert [first.low, first.high] == pytest.approx([0.70, 2.46], abs=0.9)


def test_a_bootstrap_without_variation_or_groups_is_refused() -> None:
    """Perfect agreement and four groups: None, where a width of zero would be the plain answer."""
    assert bootstrap_interval([0.0] * 50) is None
    assert bootstrap_interval([0.0, 1.0] * 10, [i % 4 for i in range(20)]) is None
    with pytest.raises(ValueError, match="finite"):
        bootstrap_interval([])
    with pytest.raises(ValueError, match="group names"):
        bootstrap_interval([1.0, 2.0], [1])


def test_score_interval_and_bootstrap_agree_on_many_items() -> None:
    """Ten thousand graded items in 2,000 documents: another way, ends within a fifth of the width, and ours never the narrower."""
    random = np.random.default_rng(8)
    reference = random.uniform(0.3, 0.7, 10_000)
    candidate = reference + random.normal(-0.02, 0.1, 10_000) + np.repeat(random.normal(0, 0.03, 2000), 5)
    candidate = np.clip(candidate, 0, 1)
    names = np.repeat(np.arange(2000), 5).tolist()
    score = difference_interval(summarize_scores(reference.tolist(), candidate.tolist(), names))
    resampled = bootstrap_interval((candidate - reference).tolist(), names, resamples=999)

    assert score is not None
    assert resampled is not None
    assert score.low < resampled.low < resampled.high < score.high
    assert [score.low, score.high] == pytest.approx(
        [resampled.low, resampled.high], abs=0.2 * (resampled.high - resampled.low)
    )

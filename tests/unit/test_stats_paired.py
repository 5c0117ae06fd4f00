"""Paired comparisons: published and independent values, slow oracles, coverage, refusals."""

from __future__ import annotations

import math

import pytest
from scipy.stats import binom, binomtest

from suffice.stats.groups import Shortage
from suffice.stats.mcnemar import Alternative, McNemarKind, PairedCounts, mcnemar, paired_counts, tango_interval
from suffice.stats.paired import (
    PairedKind,
    PairedSummary,
    difference_interval,
    p_above,
    p_below,
    p_different,
    summarize_counts,
    summarize_scores,
)
from suffice.stats.proportions import wilson_interval
from suffice.stats.score import paired_statistic, paired_variance
from suffice.stats.shares import p_share_above, share_bounds, share_interval, summarize_share


def counts(gained: int, lost: int, items: int) -> PairedCounts:
    """Counts in which the agreeing items are all right."""
    return PairedCounts(both_right=items - gained - lost, only_reference=lost, only_candidate=gained, both_wrong=0)


# Airway hyper-responsiveness (Bentur et al. 2009) and complete response (Cavo et al. 2012), the worked examples of Fagerland, Lydersen and
# Laake, Statistics in Medicine 33, 2014, and of their R package contingencytables, in its tables' order.
BENTUR = PairedCounts(both_right=1, only_reference=7, only_candidate=1, both_wrong=12)
CAVO = PairedCounts(both_right=59, only_reference=16, only_candidate=6, both_wrong=80)


@pytest.mark.parametrize(
    ("gained", "lost", "expected"),
    [  # statsmodels 0.15.0: mcnemar([[10, gained], [lost, 10]], exact=True).pvalue
        (1, 7, 0.0703125),
        (6, 16, 0.052478790283203125),
        (6, 2, 0.2890625),
        (12, 25, 0.04703102743951604),
        (0, 5, 0.0625),
        (40, 20, 0.01348929373119186),
    ],
)
def test_exact_mcnemar_is_that_of_statsmodels(gained: int, lost: int, expected: float) -> None:
    """The two-sided exact p-value, and SciPy's binomial test for both one-sided ones."""
    table = counts(gained, lost, 100)

    assert mcnemar(table).p_value == pytest.approx(expected, rel=1e-12)
    assert mcnemar(table, Alternative.CANDIDATE_WORSE).p_value == pytest.approx(
        binomtest(lost, gained + lost, alternative="greater").pvalue, rel=1e-12
    )
    assert mcnemar(table, Alternative.CANDIDATE_BETTER).p_value == pytest.approx(
        binomtest(gained, gained + lost, alternative="greater").pvalue, rel=1e-12
    )


@pytest.mark.parametrize(("table", "expected"), [(BENTUR, 0.0390625), (CAVO, 0.034690)])
def test_mid_p_is_the_published_one(table: PairedCounts, expected: float) -> None:
    """McNemar's mid-p: 10/256 by hand for 1 and 7, 0.034690 in contingencytables for 6 and 16."""
    assert mcnemar(table, kind=McNemarKind.MID_P).p_value == pytest.approx(expected, abs=5e-7)


def test_without_discordant_items_nothing_speaks_against_equality() -> None:
    """No division by zero: p is 1, of each kind and for each alternative."""
    same = counts(0, 0, 50)

    assert {mcnemar(same, a, k).p_value for a in Alternative for k in McNemarKind} == {1.0}


@pytest.mark.parametrize(("table", "low", "high"), [(BENTUR, -0.5172, -0.0260), (CAVO, -0.1240, -0.0054)])
def test_tangos_interval_is_the_published_one(table: PairedCounts, low: float, high: float) -> None:
    """Fagerland et al. 2014 and contingencytables print these ends, to four places."""
    interval = tango_interval(table)

    assert [interval.low, interval.high] == pytest.approx([low, high], abs=5e-5)


@pytest.mark.parametrize(
    ("gained", "lost", "items", "difference"), [(7, 1, 21, 0.1), (0, 3, 40, -0.2), (2, 9, 60, 0.05)]
)
def test_the_variance_under_a_hypothesis_is_at_the_largest_likelihood(
    gained: int, lost: int, items: int, difference: float
) -> None:
    """A slow search over a grid for the likeliest share of lost items finds the one of the closed form."""
    steps = [i / 200_000 for i in range(1, 200_000)]
    shares = [q for q in steps if q + difference > 0 and 2 * q + difference < 1]

    def likelihood(q: float) -> float:
        return (
            gained * math.log(q + difference)
            + lost * math.log(q)
            + (items - gained - lost) * math.log(1 - 2 * q - difference)
        )

    best = max(shares, key=likelihood)
    slow = items * (2 * best + difference - difference**2)

    assert paired_variance(gained, lost, items, difference) == pytest.approx(slow, rel=2e-3)


@pytest.mark.parametrize("difference", [-1.0, -0.3, 0.0, 0.4, 1.0])
def test_the_statistic_exists_at_the_ends(difference: float) -> None:
    """All lost, all gained and nothing changed are no trouble, nor are hypotheses of minus and plus one."""
    for gained, lost in ((0, 0), (20, 0), (0, 20)):
        value = paired_statistic(gained, lost, 20, difference)

        assert not math.isnan(value)
        observed = (gained - lost) / 20
        assert (value > 0, value < 0) == (observed > difference, observed < difference)


def test_pairs_are_made_by_item_and_not_by_order() -> None:
    """Two answer sets in different order pair by id; an item that one of them lacks is refused by name."""
    table = paired_counts(
        {"a": True, "b": True, "c": False, "d": False}, {"d": True, "c": False, "b": False, "a": True}
    )

    assert table == PairedCounts(both_right=1, only_reference=1, only_candidate=1, both_wrong=1)
    with pytest.raises(ValueError, match="1 items were answered by one model only, 'b' among them"):
        paired_counts({"a": True, "b": True}, {"a": True})


def _covered(items: int, gain: float, loss: float) -> tuple[float, float, float]:
    """Two-sided coverage and both one-sided errors, summed over all outcomes."""
    inside = low = high = 0.0
    for gained in range(binom.ppf(1 - 1e-9, items, gain).astype(int) + 1 if gain else 1):
        for lost in range(int(binom.ppf(1 - 1e-9, items, loss)) + 1):
            chance = binom.pmf(gained, items, gain) * binom.pmf(lost, items - gained, loss / (1 - gain))
            if chance > 1e-9:
                p = p_above(summarize_counts(counts(gained, lost, items)), gain - loss)
                assert p is not None
                inside += chance * (0.025 < p < 0.975)
                low += chance * (p < 0.05)
                high += chance * (p > 0.95)
    return inside, low, high


@pytest.mark.parametrize(
    ("items", "gain", "loss"),
    [(30, 0.0, 0.3), (100, 0.0, 0.05), (200, 0.0, 0.02), (300, 0.004, 0.011), (500, 0.001, 0.009)],
)
def test_coverage_where_tangos_own_dips(items: int, gain: float, loss: float) -> None:
    """The worst places of Tango's interval (93.0 %, and 9 % one-sided): at least 94.5 % here, and at most 6.5 % on either side."""
    inside, low, high = _covered(items, gain, loss)

    assert inside > 0.945
    assert max(low, high) < 0.065


def test_p_values_and_intervals_agree() -> None:
    """At an end of the 90 % interval, the one-sided p-value is 5 %: for counts, graded scores and groups."""
    reference = [1, 1, 0, 1, 0, 1, 1, 1, 0, 1] * 4
    candidate = [1, 0, 0, 1, 1, 1, 0, 1, 0, 0] * 4
    groups = [i // 4 for i in range(40)]
    for summary in (
        summarize_counts(CAVO),
        summarize_scores(reference, candidate, groups),
        summarize_scores([x / 2 for x in reference], [x / 3 for x in candidate]),
    ):
        interval = difference_interval(summary, 0.9)

        assert interval is not None
        assert p_above(summary, interval.low) == pytest.approx(0.05, abs=1e-9)
        assert p_below(summary, interval.high) == pytest.approx(0.05, abs=1e-9)


def test_groups_of_like_items_are_worth_less() -> None:
    """Twenty documents whose ten items all flip together: the interval is some three times that of 200 independent items."""
    reference = [1.0] * 200
    candidate = [0.0 if document < 4 else 1.0 for document in range(20) for _ in range(10)]
    documents = [document for document in range(20) for _ in range(10)]

    alone, grouped = summarize_scores(reference, candidate), summarize_scores(reference, candidate, documents)
    narrow, wide = difference_interval(alone), difference_interval(grouped)

    assert (alone.kind, grouped.kind) == (PairedKind.BINARY, PairedKind.BINARY_GROUPED)
    assert (alone.mcnemar_is_valid, grouped.mcnemar_is_valid) == (True, False)
    assert grouped.design_effect == pytest.approx(10, rel=0.1)
    assert narrow is not None
    assert wide is not None
    assert wide.high - wide.low > 2.5 * (narrow.high - narrow.low)
    significant, unclear = p_different(alone), p_different(grouped)
    assert significant is not None
    assert unclear is not None
    assert significant < 0.0001
    assert 0.05 < unclear < 0.2


@pytest.mark.parametrize(
    ("groups", "shortage"),
    [
        ([i % 4 for i in range(40)], Shortage.GROUPS),
        ([0] * 33 + [1, 2, 3, 4, 5, 6, 7], Shortage.UNEVEN),
    ],
)
def test_few_or_lopsided_groups_are_refused(groups: list[int], shortage: Shortage) -> None:
    """Four documents, or eight of which one holds nearly all items: no interval, no p-value, and the reason."""
    summary = summarize_scores([1, 0] * 20, [1, 1] * 20, groups)

    assert summary.shortage is shortage
    assert (difference_interval(summary), p_above(summary, 0), p_different(summary)) == (None, None, None)
    assert summary.difference == 0.5


def test_groups_of_one_item_are_no_groups() -> None:
    """Each item its own document is the same as no documents."""
    reference, candidate = [1, 0, 1, 1, 1, 0], [1, 1, 0, 1, 1, 0]

    assert summarize_scores(reference, candidate, list("abcdef")) == summarize_scores(reference, candidate)


def test_small_graded_differences_are_told_apart() -> None:
    """A loss of 0.02 +- 0.02 on each of 300 graded items is plain, though right and wrong would need thousands."""
    reference = [0.5 + 0.003 * (i % 10) for i in range(300)]
    candidate = [score - 0.02 * (1 + math.sin(3 * i)) for i, score in enumerate(reference)]

    interval = difference_interval(summarize_scores(reference, candidate))

    assert interval is not None
    assert -0.05 < interval.low < -0.02 < interval.high < -0.004


def test_rounding_is_no_difference() -> None:
    """0.1 + 0.2 and 0.3 are one score: fifty such items are perfect agreement, no evidence of tiny differences."""
    found = summarize_scores([0.1 + 0.2] * 50, [0.3] * 50)

    assert (found.differing, found.gained, found.lost) == (0, 0.0, 0.0)
    assert found == summarize_scores([0.3] * 50, [0.3] * 50)


@pytest.mark.parametrize(
    ("reference", "candidate", "message"),
    [
        ([1], [1, 0], "cannot be paired"),
        ([], [], "no items"),
        ([1.2], [1], "between 0 and 1"),
        ([math.nan], [1], "between"),
    ],
)
def test_scores_that_are_none_are_refused(reference: list[float], candidate: list[float], message: str) -> None:
    """Unequal lengths, nothing at all, and what is no score."""
    with pytest.raises(ValueError, match=message):
        summarize_scores(reference, candidate)


def test_group_names_must_fit() -> None:
    """One name too few is refused."""
    with pytest.raises(ValueError, match="2 values have 1 group names"):
        summarize_scores([1, 0], [0, 0], ["a"])


@pytest.mark.parametrize(("right", "items"), [(0, 7), (9, 10), (91, 100), (100, 100), (600, 1000)])
def test_the_share_of_independent_items_has_wilsons_interval(right: int, items: int) -> None:
    """By inversion, the closed form of `suffice.stats.proportions`."""
    found = share_interval(summarize_share([1.0] * right + [0.0] * (items - right)))
    expected = wilson_interval(right, items)

    assert found is not None
    assert expected is not None
    assert [found.low, found.high] == pytest.approx([expected.low, expected.high], abs=1e-12)


def test_wilson_at_other_levels_is_that_of_statsmodels() -> None:
    """As in statsmodels 0.15.0: proportion_confint(91, 100, 0.1, "wilson") and proportion_confint(9, 10, 0.01, "wilson")."""
    ninety = share_interval(summarize_share([1.0] * 91 + [0.0] * 9), 0.9)
    ninety_nine = share_interval(summarize_share([1.0] * 9 + [0.0]), 0.99)

    assert ninety is not None
    assert ninety_nine is not None
    assert [ninety.low, ninety.high] == pytest.approx([0.8515117505459098, 0.9468872184118873])
    assert [ninety_nine.low, ninety_nine.high] == pytest.approx([0.49276822876710635, 0.988148496588967])


def test_bounds_of_a_share_are_corrected_and_agree_with_its_p_value() -> None:
    """The lower bound lies a little below Wilson's, and p at it is 5 %; in groups it lies further away."""
    scores = [1.0] * 45 + [0.0] * 5
    alone = summarize_share(scores)
    grouped = summarize_share(scores, [i // 5 for i in range(50)])
    plain, bounds, wide = share_interval(alone, 0.9), share_bounds(alone, 0.95), share_bounds(grouped, 0.95)

    assert plain is not None
    assert bounds is not None
    assert wide is not None
    assert wide[0] < bounds[0] < plain.low < plain.high < bounds[1]
    assert p_share_above(alone, bounds[0]) == pytest.approx(0.05, abs=1e-9)
    assert share_bounds(summarize_share(scores, [i % 3 for i in range(50)]), 0.95) is None


def test_a_share_needs_scores() -> None:
    """Nothing, and what is no score, are refused."""
    with pytest.raises(ValueError, match="no items"):
        summarize_share([])
    with pytest.raises(ValueError, match="between 0 and 1"):
        summarize_share([2.0])


def test_a_summary_can_be_made_from_counts_or_scores() -> None:
    """The same items by counts and one by one."""
    by_counts = summarize_counts(PairedCounts(both_right=2, only_reference=1, only_candidate=2, both_wrong=1))
    by_scores: PairedSummary = summarize_scores([1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 1, 0])

    assert by_counts == by_scores
    with pytest.raises(ValueError, match="no items"):
        PairedCounts(both_right=0, only_reference=0, only_candidate=0, both_wrong=0)
    with pytest.raises(ValueError, match="not negative"):
        PairedCounts(both_right=3, only_reference=-1, only_candidate=0, both_wrong=0)

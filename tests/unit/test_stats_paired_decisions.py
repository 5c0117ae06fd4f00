"""Good enough, as good, or not enough items; and many candidates at once."""

from __future__ import annotations

import numpy as np
import pytest

from suffice.stats.groups import Shortage
from suffice.stats.mcnemar import PairedCounts
from suffice.stats.multiplicity import bonferroni_level, holm, judge_together
from suffice.stats.noninferiority import Decision, above_floor, equivalent, items_to_decide, non_inferior
from suffice.stats.paired import PairedSummary, difference_interval, summarize_counts, summarize_scores
from suffice.stats.shares import summarize_share


def summary(gained: int, lost: int, items: int) -> PairedSummary:
    """Independent items, the agreeing ones all right."""
    return summarize_counts(
        PairedCounts(both_right=items - gained - lost, only_reference=lost, only_candidate=gained, both_wrong=0)
    )


@pytest.mark.parametrize(
    ("gained", "lost", "items", "decision"),
    [
        (0, 0, 30, Decision.NOT_ENOUGH),  # thirty items say nothing about one point, flips or none
        (1, 2, 30, Decision.NOT_ENOUGH),
        (0, 0, 1000, Decision.YES),  # a model against itself
        (10, 12, 5000, Decision.YES),
        (5, 45, 1000, Decision.NO),
        (0, 12, 30, Decision.NO),  # thirty are enough for a catastrophe
        (20, 25, 1000, Decision.NOT_ENOUGH),
    ],
)
def test_one_point_at_most(gained: int, lost: int, items: int, decision: Decision) -> None:
    """Yes and no are shown by a bound, at 95 % each; what lies between is undecided."""
    found = non_inferior(summary(gained, lost, items), 0.01)

    assert found.decision is decision
    assert found.low is not None
    assert found.high is not None
    assert (found.low >= -0.01) == (decision is Decision.YES)
    assert (found.high < -0.01) == (decision is Decision.NO)
    assert (found.items_enough is None) == (decision is not Decision.NOT_ENOUGH)


def test_the_bounds_are_the_ends_of_the_90_percent_interval() -> None:
    """One-sided 95 % each: a yes may stand beside a 95 % interval that reaches below the margin."""
    found = summary(12, 16, 1500)
    judged = non_inferior(found, 0.01)
    ninety, ninety_five = difference_interval(found, 0.9), difference_interval(found)

    assert ninety is not None
    assert ninety_five is not None
    assert (judged.low, judged.high) == (ninety.low, ninety.high)
    assert judged.decision is Decision.YES
    assert ninety_five.low < -0.01 < ninety.low


@pytest.mark.parametrize(
    ("gained", "lost", "items", "then"), [(1, 1, 30, Decision.YES), (0, 0, 30, Decision.YES), (1, 4, 100, Decision.NO)]
)
def test_the_items_that_would_be_enough_are(gained: int, lost: int, items: int, then: Decision) -> None:
    """With the same shares on that many items the answer is there; on the seen number it is not."""
    found = non_inferior(summary(gained, lost, items), 0.01)
    assert found.items_enough is not None
    factor = found.items_enough / items
    scaled = summary(round(gained * factor), round(lost * factor), found.items_enough)

    assert (found.decision, found.then) == (Decision.NOT_ENOUGH, then)
    assert non_inferior(scaled, 0.01).decision is then


def test_the_number_of_items_is_that_of_nams_formula() -> None:
    """Of 1000 items 25 are gained and 25 lost; one point: (1.645 x 0.22745 + 0.842 x 0.22361)^2 / 0.01^2 = 3162, and 75 for the correction."""
    # Under a loss of 0.01: 2000 q^2 - 70 q + 0.2525 = 0, q = 0.0309165, variance 2 q - 0.01 - 0.0001 = 0.051733 an item; seen: 0.05.
    assert items_to_decide(summary(25, 25, 1000), -0.01) == 3237


def test_no_number_of_items_tells_a_limit_from_itself() -> None:
    """A loss of exactly the margin is told from it by no sample; one beside it by hair's breadth by none that anybody runs."""
    assert items_to_decide(summary(0, 10, 1000), -0.01) is None
    assert non_inferior(summary(0, 10, 1000), 0.01).items_enough is None
    assert items_to_decide(summary(4_000, 5_000, 100_001), -0.01) is None


def test_groups_ask_for_more_items() -> None:
    """The same flips, gathered in few documents."""
    reference = [1.0] * 400
    candidate = [0.0 if i % 100 < 5 else 1.0 for i in range(400)]
    alone = items_to_decide(summarize_scores(reference, candidate), -0.03)
    grouped = items_to_decide(summarize_scores(reference, candidate, [i // 5 for i in range(400)]), -0.03)

    assert alone is not None
    assert grouped is not None
    assert grouped > 2 * alone


def test_too_few_groups_decide_nothing() -> None:
    """Four documents: not enough, whatever the flips, and no number of items is guessed."""
    found = non_inferior(summarize_scores([1] * 40, [0] * 40, [i % 4 for i in range(40)]), 0.01)

    assert (found.decision, found.shortage) == (Decision.NOT_ENOUGH, Shortage.GROUPS)
    assert (found.low, found.p_yes, found.p_no, found.items_enough, found.then) == (None, None, None, None, None)


@pytest.mark.parametrize(
    ("gained", "lost", "items", "decision"),
    [
        (0, 0, 1000, Decision.YES),
        (15, 15, 5000, Decision.YES),
        (0, 60, 1000, Decision.NO),
        (60, 0, 1000, Decision.NO),  # better is not the same
        (0, 0, 30, Decision.NOT_ENOUGH),
        (22, 10, 1500, Decision.NOT_ENOUGH),
    ],
)
def test_no_difference_needs_its_own_evidence(gained: int, lost: int, items: int, decision: Decision) -> None:
    """Equivalent within one point: the whole 90 % interval lies inside, or outside; "not significant" is neither."""
    found = equivalent(summary(gained, lost, items), 0.01)

    assert found.decision is decision
    assert found.low is not None
    assert found.high is not None
    assert (found.low >= -0.01 and found.high <= 0.01) == (decision is Decision.YES)
    assert (found.items_enough is None) == (decision is not Decision.NOT_ENOUGH)


@pytest.mark.parametrize(
    ("right", "items", "decision", "then"),
    [
        (950, 1000, Decision.YES, None),
        (850, 1000, Decision.NO, None),
        (905, 1000, Decision.NOT_ENOUGH, Decision.YES),
        (26, 30, Decision.NOT_ENOUGH, Decision.NO),
        (32, 32, Decision.YES, None),  # 0.9**32 = 3.4 %
        (27, 27, Decision.NOT_ENOUGH, Decision.YES),  # 0.9**27 = 5.8 %
        (900, 1000, Decision.NOT_ENOUGH, None),  # on the floor itself: no number would do
    ],
)
def test_an_absolute_floor(right: int, items: int, decision: Decision, then: Decision | None) -> None:
    """Accuracy of at least 0.9: shown, refuted or open."""
    found = above_floor(summarize_share([1.0] * right + [0.0] * (items - right)), 0.9)

    assert (found.decision, found.then) == (decision, then)
    assert found.low is not None
    assert (found.low >= 0.9) == (decision is Decision.YES)


def test_a_floor_over_too_few_documents_is_open() -> None:
    """Three documents: not enough."""
    found = above_floor(summarize_share([1.0] * 30, [i % 3 for i in range(30)]), 0.9)

    assert (found.decision, found.low, found.items_enough) == (Decision.NOT_ENOUGH, None, None)


@pytest.mark.parametrize(("margin", "confidence"), [(0, 0.95), (1, 0.95), (-0.01, 0.95), (0.01, 0.5), (0.01, 95)])
def test_what_is_no_margin_or_confidence_is_refused(margin: float, confidence: float) -> None:
    """Percent given for shares, and margins that ask for nothing."""
    with pytest.raises(ValueError, match="between 0"):
        non_inferior(summary(1, 1, 100), margin, confidence)


def test_holm_is_that_of_statsmodels() -> None:
    """As in statsmodels 0.15.0: multipletests(p, method="holm"); and by hand: 4 x 0.005, 3 x 0.01, 2 x 0.03, then no smaller."""
    assert holm([0.01, 0.02, 0.022, 0.09, 0.1, 0.0005, 0.4]) == pytest.approx([0.06, 0.1, 0.1, 0.27, 0.27, 0.0035, 0.4])
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == ()
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm([0.5, 1.5])


def test_one_candidate_is_not_corrected() -> None:
    """Alone among one, the decision and the p-value are those without the others."""
    (found,) = judge_together({"q8_0": summary(3, 4, 1000)}, 0.01)

    assert (found.decision, found.p_yes, found.p_no) == (found.alone.decision, found.alone.p_yes, found.alone.p_no)
    assert found.interval == difference_interval(summary(3, 4, 1000))


def test_luck_among_many_is_no_pass() -> None:
    """A p of 3 % passes alone; among five such candidates it does not, while one with a p of 1e-6 still does."""
    lucky, good = summary(12, 16, 1500), summary(1, 1, 3000)
    many = judge_together({"lucky": lucky, "good": good, "c": lucky, "d": lucky, "e": lucky}, 0.01)
    by_name = {judged.name: judged for judged in many}

    assert list(by_name) == ["lucky", "good", "c", "d", "e"]
    assert by_name["lucky"].alone.decision is Decision.YES
    assert by_name["lucky"].decision is Decision.NOT_ENOUGH
    assert by_name["good"].decision is Decision.YES
    assert by_name["lucky"].interval is not None
    assert by_name["lucky"].interval.level == pytest.approx(0.99)
    assert bonferroni_level(0.95, 5) == pytest.approx(0.99)


def test_a_candidate_that_cannot_be_tested_does_not_count() -> None:
    """Its neighbours are corrected for those that were tested, and it is open itself."""
    short = summarize_scores([1] * 40, [0] * 40, [i % 4 for i in range(40)])
    first, second = judge_together({"a": summary(0, 0, 1000), "short": short}, 0.01)

    assert (first.candidates, first.decision, first.p_yes) == (1, Decision.YES, first.alone.p_yes)
    assert (second.decision, second.p_yes, second.interval) == (Decision.NOT_ENOUGH, None, None)
    with pytest.raises(ValueError, match="at least one"):
        bonferroni_level(0.95, 0)


def test_the_chance_of_any_wrong_pass_is_kept() -> None:
    """Six candidates that all lose exactly the margin: 5 % of the sets pass one by Holm, and four times as many without it."""
    random = np.random.default_rng(20)
    corrected = alone = 0
    for draws in random.multinomial(400, [0.94, 0.045, 0.015], size=(400, 6)):
        found = judge_together(
            {str(i): summary(int(gained), int(lost), 400) for i, (_, lost, gained) in enumerate(draws)}, 0.03
        )
        corrected += any(judged.decision is Decision.YES for judged in found)
        alone += any(judged.alone.decision is Decision.YES for judged in found)

    assert 0.01 < corrected / 400 < 0.075
    assert alone / 400 > 0.15

"""What is concluded from the rows of a comparison."""

from __future__ import annotations

from dataclasses import replace

import pytest

from helpers.quants import asked, comparison, paired_scores, tasks
from suffice.decide.quants import compare_quality
from suffice.decide.quants_conclusion import conclude
from suffice.decide.quants_pairs import clusters_of
from suffice.decide.quants_types import Direction, Finding, QualityPolicy
from suffice.decide.words import CPU, CPU_THIN
from suffice.errors import RecordError, UsageError
from suffice.model.items import ScoreKind
from suffice.model.quants import QuantsRecord
from suffice.stats.mcnemar import PairedCounts, mcnemar
from suffice.stats.noninferiority import non_inferior
from suffice.stats.paired import summarize_scores

POLICY = QualityPolicy()


def test_the_reference_against_itself_is_not_enough_on_30_items() -> None:
    """Not one item differs, and still nothing is decided: 13 points either way are open."""
    (look,) = compare_quality(comparison([1.0] * 20 + [0.0] * 10, [1.0] * 20 + [0.0] * 10), POLICY).candidates

    assert look.finding is Finding.NOT_ENOUGH_ITEMS
    assert look.decision == "not enough items"
    assert look.direction is Direction.NONE_SHOWN
    assert look.items_enough is not None
    assert look.items_enough > 300


def test_the_reference_against_itself_is_equivalent_on_350_items() -> None:
    """As many as docs/quality-statistics.md promises; the words say that there is no difference."""
    found = conclude(comparison([1.0] * 300 + [0.0] * 50, [1.0] * 300 + [0.0] * 50))

    assert found.quality.candidates[0].finding is Finding.EQUIVALENT
    assert "no difference, equivalent within 1 point" in found.sentences[0]


def test_counts_and_p_are_those_of_mcnemar() -> None:
    """40 lost and 10 gained of 1000: -3 points, and the exact test's p-value."""
    reference, candidate = paired_scores(1000, right=900, lost=40, gained=10)

    (look,) = compare_quality(comparison(reference, candidate), POLICY).candidates

    assert look.paired is not None
    assert (look.paired.gained, look.paired.lost) == (10, 40)
    assert look.paired.difference == pytest.approx(-0.03)
    counts = PairedCounts(both_right=860, only_reference=40, only_candidate=10, both_wrong=90)
    assert look.paired.p_value == mcnemar(counts).p_value
    assert look.finding is Finding.FAILS
    assert look.direction is Direction.WORSE
    assert len(look.flips) == 50


def test_worse_is_said_where_the_size_of_the_loss_is_open() -> None:
    """-1.2 points, certainly a loss, but not certainly more than one point."""
    reference, candidate = paired_scores(1000, right=912, lost=18, gained=6)

    (look,) = compare_quality(comparison(reference, candidate), POLICY).candidates

    assert look.finding is Finding.WORSE
    assert look.decision == "not enough items"
    assert look.then is Finding.FAILS


def test_a_pass_of_many_candidates_is_corrected() -> None:
    """What passes alone does not pass as one of ten that are all as uncertain."""
    reference, candidate = paired_scores(2000, right=1800, lost=16, gained=8)

    alone = compare_quality(comparison(reference, candidate), POLICY).candidates[0]
    among_ten = compare_quality(comparison(reference, *[candidate] * 10), POLICY).candidates[0]

    assert alone.decision == "passes"
    assert among_ten.finding is Finding.NOT_ENOUGH_ITEMS
    assert among_ten.p_yes == pytest.approx(10 * (alone.p_yes or 0))


def test_items_enough_count_the_candidates() -> None:
    """Ten candidates need more items each than one does, never fewer than there are."""
    reference, candidate = paired_scores(500, right=450, lost=5, gained=4)

    one = compare_quality(comparison(reference, candidate), POLICY).candidates[0].items_enough
    ten = compare_quality(comparison(reference, *[candidate] * 10), POLICY).candidates[0].items_enough

    assert one is not None
    assert ten is not None
    assert 500 < one < ten


def test_more_than_five_percent_without_a_pair_decide_nothing() -> None:
    """51 of 1000 are too many, 50 are not; the sentence says which."""
    reference, _ = paired_scores(1000, right=900, lost=0)
    too_many = [None] * 51 + reference[51:]
    few = [None] * 50 + reference[50:]

    found = conclude(comparison(reference, too_many, few))

    first, second = found.quality.candidates
    assert (first.finding, first.decision) == (Finding.TOO_MANY_UNSCORED, "undecided")
    assert first.left_out.candidate_only == 51
    assert first.p_yes is None
    assert "51 of 1,000 labelled items" in found.sentences[0]
    assert second.finding is Finding.EQUIVALENT
    assert second.stands_with_left_out is False
    assert "would not stand" in found.sentences[1]


def test_items_unknown_on_both_sides_count_as_left_out_as_well() -> None:
    """Each kind of gap has its own number."""
    reference: list[float | None] = [None, None, 1.0, *[1.0] * 97]
    candidate: list[float | None] = [None, 1.0, None, *[1.0] * 97]

    (look,) = compare_quality(comparison(reference, candidate), POLICY).candidates

    assert (look.left_out.reference_only, look.left_out.candidate_only, look.left_out.both) == (1, 1, 1)
    assert look.paired is not None
    assert look.paired.summary.items == 97


def test_the_reasons_of_unknown_scores_are_counted() -> None:
    """By reason, with the number of errors and of answers that were cut."""
    record = comparison([1.0] * 10, [None, None, *[1.0] * 8])
    outcomes = list(record.models[1].outcomes)
    outcomes[5] = replace(outcomes[5], is_cut=True)
    outcomes[6] = replace(outcomes[6], score=None, reason="the pattern did not end")
    record = replace(record, models=(record.models[0], replace(record.models[1], outcomes=tuple(outcomes))))

    model = compare_quality(record, POLICY).models[1]

    assert model.unscored == (("the engine failed", 2), ("the pattern did not end", 1))
    assert (model.scored, model.errors, model.cut) == (7, 2, 1)


def test_the_same_question_twice_is_one_cluster() -> None:
    """Equal hashes join items and their groups; an empty hash joins nothing."""
    first, second, third, fourth, fifth = tasks(5, groups=None)
    same = replace(third, item_hash=first.item_hash)
    nameless = [replace(fourth, item_hash=""), replace(fifth, item_hash="")]

    clusters = clusters_of([first, second, same, *nameless])

    assert clusters[0] == clusters[2]
    assert len(set(clusters)) == 4


def test_a_question_asked_a_hundred_times_decides_nothing() -> None:
    """1000 items that are ten questions: no exact test, and not equivalent."""
    record = comparison([1.0] * 1000, [1.0] * 1000)
    copies = tuple(replace(task, item_hash=f"{place % 10}") for place, task in enumerate(record.tasks))

    quality = compare_quality(replace(record, tasks=copies), POLICY)

    assert (quality.clusters, quality.repeated) == (10, 990)
    assert quality.candidates[0].finding is Finding.NOT_ENOUGH_ITEMS
    assert quality.candidates[0].paired is not None
    assert not quality.candidates[0].paired.summary.mcnemar_is_valid


def test_too_few_groups_decide_nothing_and_say_so() -> None:
    """Four documents have no interval, however many items they hold."""
    reference, candidate = paired_scores(400, right=380, lost=300)
    record = replace(comparison(reference, candidate), tasks=tasks(400, groups=4))

    found = conclude(record)

    assert found.quality.candidates[0].finding is Finding.NOT_ENOUGH_ITEMS
    assert found.quality.candidates[0].direction is Direction.NOT_TESTED
    assert found.sentences[0].endswith(
        "no interval: not enough groups): not enough groups to say whether it loses more than 1 point"
    )


def test_without_labels_there_is_agreement_and_no_decision() -> None:
    """Texts are compared: identical, place of the first difference, length."""
    reference = asked("ref", [None] * 4, ["abcd", "same", "ab", "x"])
    candidate = asked("c", [None] * 4, ["abXd", "same", "abcd", ""])
    record = QuantsRecord(
        items_source="i", items_hash=None, tasks=tasks(4, labelled=False), models=(reference, candidate)
    )

    found = conclude(record)

    (look,) = found.quality.candidates
    assert (look.finding, look.decision, look.paired) == (Finding.NO_LABELS, "undecided", None)
    assert look.agreement is not None
    assert look.agreement.identical is not None
    assert look.agreement.identical.value == 0.25
    assert look.agreement.divergence_characters == 2
    assert look.agreement.divergence_share == 0.75  # 2 of 4 and 2 of 2; the empty text has no share
    assert "output identical on 25.0 %" in found.sentences[0]


def test_lengths_are_in_tokens_where_all_are_known_else_in_characters() -> None:
    """Twice as long is 2 either way; a text without length is counted apart."""
    reference, candidate = asked("ref", [None] * 3, ["ab", "abc", "a"]), asked("c", [None] * 3, ["abab", "abcabc", ""])
    without = [replace(outcome, tokens=None) for outcome in candidate.outcomes]
    record = QuantsRecord(
        items_source="i",
        items_hash=None,
        tasks=tasks(3, labelled=False),
        models=(reference, replace(candidate, outcomes=tuple(without))),
    )

    agreement = compare_quality(record, POLICY).candidates[0].agreement

    assert agreement is not None
    assert (agreement.length_unit, agreement.empty) == ("characters", 1)
    assert agreement.length_ratio == pytest.approx(2)
    assert agreement.length_median == pytest.approx(2)


def test_choices_agree_by_the_choice_that_was_taken() -> None:
    """Choices are not texts: no first difference, no length."""
    models = (asked("ref", [1.0, 0.0], ["A", "B"]), asked("c", [1.0, 1.0], ["A", "A"]))
    record = QuantsRecord(
        items_source="i", items_hash=None, tasks=tasks(2, kind=ScoreKind.MULTIPLE_CHOICE), models=models
    )

    agreement = compare_quality(record, POLICY).candidates[0].agreement

    assert agreement is not None
    assert agreement.same_choice is not None
    assert agreement.same_choice.value == 0.5
    assert (agreement.identical, agreement.divergence_characters, agreement.length_ratio) == (None, None, None)


def test_kinds_are_told_apart_and_corrected() -> None:
    """All that is lost is lost on numbers: worse there, no difference shown on choices."""
    reference, candidate = paired_scores(400, right=380, lost=40)
    kinds = tuple(
        replace(task, kind=ScoreKind.NUMBER if place < 200 else ScoreKind.MULTIPLE_CHOICE)
        for place, task in enumerate(tasks(400))
    )

    (look,) = compare_quality(replace(comparison(reference, candidate), tasks=kinds), POLICY).candidates

    assert [(one.kind, one.direction) for one in look.kinds] == [
        (ScoreKind.MULTIPLE_CHOICE, Direction.NONE_SHOWN),
        (ScoreKind.NUMBER, Direction.WORSE),
    ]
    assert look.kinds[1].p_holm == pytest.approx(2 * (look.kinds[1].paired.p_value or 0))


def test_a_floor_has_to_be_reached_as_well() -> None:
    """Equivalent to a reference that is below the floor is no pass; a floor far below changes nothing."""
    reference, candidate = paired_scores(2000, right=1600, lost=0)

    def finding(floor: float | None) -> Finding:
        return compare_quality(comparison(reference, candidate), QualityPolicy(floor=floor)).candidates[0].finding

    assert finding(None) is Finding.EQUIVALENT
    assert finding(0.0) is Finding.EQUIVALENT
    assert finding(0.7) is Finding.EQUIVALENT
    assert finding(0.8) is Finding.NOT_ENOUGH_ITEMS
    assert finding(0.9) is Finding.FAILS
    assert finding(1.0) is Finding.FAILS


def test_a_perfect_score_never_shows_a_floor_of_one() -> None:
    """No number of right answers shows that none is wrong."""
    (look,) = compare_quality(comparison([1.0] * 5000, [1.0] * 5000), QualityPolicy(floor=1.0)).candidates

    assert look.finding is Finding.NOT_ENOUGH_ITEMS
    assert look.items_enough is None


def test_the_sentence_is_that_of_the_example() -> None:
    """Names, both means, the difference with its interval, what it passes, and how the verdict moves."""
    reference, candidate = paired_scores(5000, right=4560, lost=30, gained=10)

    found = conclude(comparison(reference, candidate), QualityPolicy(floor=0.88), verdicts={"c1": (CPU_THIN, CPU)})

    figures = "accuracy 91.2 % -> 90.8 % (-0.40, 95 % -0.68..-0.15)"
    shown = "passes your floor of 88 %; shown worse, yet equivalent within 1 point"
    assert found.sentences == (f"c1: {figures}: {shown}; moves the verdict from thin margin to cpu",)


def test_graded_scores_are_a_mean_and_not_an_accuracy() -> None:
    """Halves count as halves; McNemar's test is not used."""
    reference = [0.5, 1.0, 0.0, 0.75] * 100
    found = conclude(replace(comparison(reference, [0.0, *reference[1:]]), tasks=tasks(400, kind=ScoreKind.JSON)))

    (look,) = found.quality.candidates
    assert look.paired is not None
    assert "McNemar" not in look.paired.p_method
    assert look.paired.difference == pytest.approx(-0.5 / 400)
    assert "mean score 56.2 % -> 56.1 %" in found.sentences[0]


def test_one_candidate_is_judged_as_the_statistics_say() -> None:
    """The decision of one candidate without a floor is that of the non-inferiority question."""
    for lost, gained in ((0, 0), (5, 3), (30, 2), (12, 12), (60, 0)):
        reference, candidate = paired_scores(800, right=700, lost=lost, gained=gained)
        judged = non_inferior(summarize_scores(reference, candidate), 0.01).decision
        look = compare_quality(comparison(reference, candidate), POLICY).candidates[0]
        assert {"passes": "yes", "fails": "no", "not enough items": "not enough items"}[look.decision] == judged


def test_an_unfinished_comparison_says_so() -> None:
    """What is concluded is of the items so far."""
    quality = compare_quality(replace(comparison([1.0], [1.0]), complete=False), POLICY)

    assert quality.notes == ("the comparison is not finished: these are the items so far",)


@pytest.mark.parametrize("policy", [{"max_loss": 0.0}, {"max_loss": 1.0}, {"floor": 1.1}, {"confidence": 0.5}])
def test_a_policy_that_is_none_is_refused(policy: dict[str, float]) -> None:
    """A loss of nothing can never be shown; a floor is a share."""
    with pytest.raises(UsageError):
        QualityPolicy(**policy)


def test_rows_that_do_not_belong_together_are_refused() -> None:
    """As many outcomes as items, a name for each model, and at least one model."""
    record = comparison([1.0], [1.0])
    for broken in (
        replace(record, tasks=tasks(2)),
        replace(record, models=(record.models[0], record.models[0])),
        replace(record, models=()),
    ):
        with pytest.raises(RecordError):
            compare_quality(broken, POLICY)

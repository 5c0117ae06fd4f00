"""Laws of paired comparisons."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from suffice.quality.bootstrap import bootstrap_interval
from suffice.stats.documents import DocumentTotal, perplexity_ratio
from suffice.stats.mcnemar import Alternative, McNemarKind, PairedCounts, mcnemar, tango_interval
from suffice.stats.multiplicity import holm
from suffice.stats.noninferiority import Decision, equivalent, non_inferior
from suffice.stats.paired import PairedSummary, difference_interval, p_above, p_different, summarize_scores

QUICK = settings(max_examples=40, deadline=None, derandomize=True)
SCORES = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(min_value=0, max_value=1))
COUNTS = st.builds(
    lambda a, b, c, d: PairedCounts(both_right=a, only_reference=b, only_candidate=c, both_wrong=d),
    *[st.integers(1, 60)] * 4,
)
Items = list[tuple[float, float, int]]


def items_of(scores: st.SearchStrategy[float]) -> st.SearchStrategy[Items]:
    """Items with two scores and a document of seven."""
    return st.lists(st.tuples(scores, scores, st.integers(0, 6)), min_size=8, max_size=40)


ITEMS = st.one_of(items_of(SCORES), items_of(st.sampled_from([0.0, 1.0])))


def summary(items: Items, *, grouped: bool) -> PairedSummary:
    """The summary of items, with or without their documents."""
    reference, candidate, groups = zip(*items, strict=True)
    return summarize_scores(reference, candidate, groups if grouped else None)


@QUICK
@given(ITEMS, st.booleans())
def test_swapping_the_models_mirrors(items: Items, grouped: bool) -> None:  # noqa: FBT001
    """What the candidate gains, the reference loses: the interval is mirrored, and so is its one-sided p."""
    found = summary(items, grouped=grouped)
    mirrored = summary([(b, a, group) for a, b, group in items], grouped=grouped)
    one, other = difference_interval(found), difference_interval(mirrored)

    assert found.difference == pytest.approx(-mirrored.difference)
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert [one.low, one.high] == pytest.approx([-other.high, -other.low], abs=1e-9)
        assert p_different(found) == pytest.approx(p_different(mirrored), abs=1e-9)


@QUICK
@given(ITEMS, st.booleans(), st.randoms(use_true_random=False))
def test_order_does_not_matter(items: Items, grouped: bool, random: object) -> None:  # noqa: FBT001
    """Neither that of the items nor that of the documents, whatever they are called."""
    shuffled = [(a, b, -group) for a, b, group in items]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = (difference_interval(summary(some, grouped=grouped)) for some in (items, shuffled))

    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert [one.low, one.high] == pytest.approx([other.low, other.high], abs=1e-9)


@QUICK
@given(ITEMS, st.booleans(), st.floats(0.5, 0.9))
def test_the_difference_lies_inside_and_more_level_is_wider(items: Items, grouped: bool, level: float) -> None:  # noqa: FBT001
    """Low <= difference <= high at every level, within -1 and 1, and never a width of zero."""
    found = summary(items, grouped=grouped)
    inner, outer = difference_interval(found, level), difference_interval(found, 0.95)

    if inner is not None and outer is not None:
        assert -1 <= outer.low <= inner.low <= found.difference + 1e-12
        assert found.difference - 1e-12 <= inner.high <= outer.high <= 1
        assert outer.high > outer.low


@QUICK
@given(st.lists(SCORES, min_size=6, max_size=60), st.booleans())
def test_perfect_agreement_is_no_certainty(scores: list[float], grouped: bool) -> None:  # noqa: FBT001
    """A difference of 0, an interval about it that is not zero, and no decision on so few items."""
    items = [(score, score, i % 6) for i, score in enumerate(scores)]
    found = summary(items, grouped=grouped)
    interval = difference_interval(found)

    assert found.difference == 0
    assert interval is not None
    assert interval.low < -0.03 < 0.03 < interval.high
    assert equivalent(found, 0.01).decision is Decision.NOT_ENOUGH


@QUICK
@given(COUNTS, st.integers(1, 5000), st.sampled_from(Alternative), st.sampled_from(McNemarKind))
def test_agreeing_items_never_change_mcnemar(
    counts: PairedCounts, more: int, alternative: Alternative, kind: McNemarKind
) -> None:
    """McNemar's p depends on the discordant items alone; the interval of the difference narrows."""
    fuller = PairedCounts(
        both_right=counts.both_right + more,
        only_reference=counts.only_reference,
        only_candidate=counts.only_candidate,
        both_wrong=counts.both_wrong,
    )
    before, after = tango_interval(counts), tango_interval(fuller)

    assert mcnemar(counts, alternative, kind) == mcnemar(fuller, alternative, kind)
    assert after.high - after.low < before.high - before.low


@QUICK
@given(COUNTS)
def test_both_sides_of_mcnemar_hold_together(counts: PairedCounts) -> None:
    """The one-sided p-values add up to 1 and the observed outcome, mid-p to 1; the two-sided one is twice the smaller, at most 1."""
    worse, better = (mcnemar(counts, a).p_value for a in (Alternative.CANDIDATE_WORSE, Alternative.CANDIDATE_BETTER))
    mid = [
        mcnemar(counts, a, McNemarKind.MID_P).p_value
        for a in (Alternative.CANDIDATE_WORSE, Alternative.CANDIDATE_BETTER)
    ]

    assert worse + better > 1
    assert sum(mid) == pytest.approx(1)
    assert mcnemar(counts).p_value == pytest.approx(min(1, 2 * min(worse, better)))


@QUICK
@given(ITEMS)
def test_the_same_documents_again_are_more_evidence(items: Items) -> None:
    """As many documents with the same answers, under other names: the same difference, a narrower interval."""
    found = summary(items, grouped=True)
    again = summary(items + [(a, b, group + 100) for a, b, group in items], grouped=True)
    before, after = difference_interval(found), difference_interval(again)
    assume(before is not None)

    assert again.difference == pytest.approx(found.difference)
    assert before is not None
    assert after is not None
    assert after.high - after.low < before.high - before.low


@QUICK
@given(ITEMS, st.booleans(), st.floats(0.005, 0.2), st.floats(1.0, 3.0))
def test_a_wider_margin_never_turns_a_yes(items: Items, grouped: bool, margin: float, factor: float) -> None:  # noqa: FBT001
    """Who loses at most a point loses at most two; p falls."""
    found = summary(items, grouped=grouped)
    narrow, wide = non_inferior(found, margin), non_inferior(found, margin * factor)

    if narrow.decision is Decision.YES:
        assert wide.decision is Decision.YES
    if narrow.p_yes is not None and wide.p_yes is not None:
        assert wide.p_yes <= narrow.p_yes + 1e-12
        assert p_above(found, -margin) == narrow.p_yes


@QUICK
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_lies_between_raw_and_bonferroni(p_values: list[float]) -> None:
    """Never below the raw p-value, never above Bonferroni's, and in the same order."""
    adjusted = holm(p_values)

    for raw, holms in zip(p_values, adjusted, strict=True):
        assert raw <= holms <= min(1.0, raw * len(p_values)) + 1e-12
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    assert [adjusted[i] for i in order] == sorted(adjusted)


@QUICK
@given(st.lists(st.tuples(st.floats(0.5, 5), st.floats(0.5, 5), st.integers(1, 400)), min_size=1, max_size=12))
def test_the_ratio_of_perplexities_inverts(documents: list[tuple[float, float, int]]) -> None:
    """Reference over candidate is one over candidate over reference, interval and all."""
    first = [DocumentTotal(total=a * n, tokens=n) for a, _, n in documents]
    second = [DocumentTotal(total=b * n, tokens=n) for _, b, n in documents]
    one, other = perplexity_ratio(first, second), perplexity_ratio(second, first)

    assert one.value == pytest.approx(1 / other.value)
    assert one.shortage is other.shortage
    if one.interval is not None and other.interval is not None and one.interval.high < 1e100:
        assert one.interval.low == pytest.approx(1 / other.interval.high, rel=1e-6)


@QUICK
@given(st.lists(st.floats(-1, 1), min_size=1, max_size=15), st.integers(0, 3))
def test_the_bootstrap_stays_within_the_groups(differences: list[float], seed: int) -> None:
    """Its ends lie between the smallest and the largest value, whatever the seed."""
    interval = bootstrap_interval(differences, resamples=99, seed=seed)

    if interval is not None:
        assert min(differences) - 1e-12 <= interval.low <= interval.high <= max(differences) + 1e-12

"""Laws of the guard: what must hold for any figures."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.guard import guarded
from suffice.decide.compare_runs import compare_with_baseline
from suffice.decide.guard_fingerprint import Comparability, causes_of, compare_fingerprints
from suffice.decide.guard_types import Metric, Outcome
from suffice.stats.ratio import Better, Change, Tolerance, judge_change, shift_ratio
from suffice.stats.steps import LEAST_SEGMENT, find_steps

rates = st.lists(st.floats(min_value=0.1, max_value=1e4), min_size=4, max_size=12)
few = settings(max_examples=60, deadline=None)


@few
@given(rates, rates)
def test_a_ratio_turned_round_is_its_inverse(base: list[float], new: list[float]) -> None:
    """New over base and base over new are the same evidence."""
    one, other = shift_ratio(base, new), shift_ratio(new, base)

    assert one is not None
    assert other is not None
    assert one.interval is not None
    assert other.interval is not None
    assert one.point == pytest.approx(1 / other.point)
    assert one.interval.low == pytest.approx(1 / other.interval.high)


@few
@given(rates, rates, st.floats(min_value=0.01, max_value=100))
def test_units_do_not_matter(base: list[float], new: list[float], factor: float) -> None:
    """Both in another unit: the same ratio."""
    one, other = shift_ratio(base, new), shift_ratio([x * factor for x in base], [x * factor for x in new])

    assert one is not None
    assert other is not None
    assert one.point == pytest.approx(other.point)


@few
@given(rates, rates, st.floats(min_value=0.01, max_value=0.5))
def test_times_and_rates_are_judged_alike(base: list[float], new: list[float], share: float) -> None:
    """Never worse in one direction and within the tolerance in the other at once; an interval that holds 1 is never worse."""
    found = shift_ratio(base, new)
    assert found is not None
    assert found.interval is not None

    changes = {judge_change(found, Tolerance(share=share, better=better)) for better in Better}

    assert changes != {Change.WORSE}
    if found.interval.low <= 1 <= found.interval.high:
        assert Change.WORSE not in changes


@few
@given(st.floats(min_value=1, max_value=35), st.floats(min_value=1, max_value=35))
def test_faster_is_never_worse(decode: float, faster: float) -> None:
    """Of two runs against one baseline the faster has the better outcome or the same."""
    order = (Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.PASS)
    slow, fast = sorted((decode, faster))

    outcomes = [
        compare_with_baseline(guarded(), guarded(decode=one), metrics=[Metric.DECODE])[1][0].outcome
        for one in (slow, fast)
    ]

    assert order.index(outcomes[0]) <= order.index(outcomes[1])


values = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(allow_nan=False)
names = st.sampled_from(["cpu_model", "isa", "depth", "kernel", "model_hash", "memory_total_bytes", "slices", "basis"])
prints = st.dictionaries(names, values, max_size=8)


@few
@given(prints, prints)
def test_fingerprints_are_compared_alike_from_both_sides(one: dict[str, object], other: dict[str, object]) -> None:
    """Any values: no crash, the same answer whichever is the base, every cause a text, and unknown machines are not comparable."""
    found, turned = compare_fingerprints(one, other), compare_fingerprints(other, one)  # type: ignore[arg-type]  # any values

    assert found.comparability is turned.comparability
    assert [difference.field for difference in found.differences] == [d.field for d in turned.differences]
    assert all(causes_of(found))
    if one.get("cpu_model") is None:
        assert found.comparability is Comparability.NOT_COMPARABLE


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(min_value=0.1, max_value=100), max_size=30))
def test_levels_have_their_least_length(series: list[float]) -> None:
    """Steps are in order, and every level between them has three figures at least."""
    steps = find_steps(series)
    bounds = [0, *(step.index for step in steps), len(series)]

    assert all(later - earlier >= LEAST_SEGMENT for earlier, later in pairwise(bounds) if steps)
    assert all(0 < step.p_value <= 0.01 and math.isfinite(step.ratio) for step in steps)

"""Laws of the ratio over rounds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.stats.rounds import balanced_order, paired_ratio

QUICK = settings(max_examples=60, deadline=None, derandomize=True)
VALUES = st.floats(min_value=1e-3, max_value=1e3)
ROUNDS = st.dictionaries(st.integers(1, 9), st.lists(VALUES, min_size=1, max_size=3), min_size=3, max_size=9)


@QUICK
@given(ROUNDS, ROUNDS)
def test_the_other_way_round_is_the_inverse(first: dict[int, list[float]], second: dict[int, list[float]]) -> None:
    """A is twice B exactly when B is half of A, ends of the interval included, where each round has one value."""
    one = {number: values[:1] for number, values in first.items()}
    other = {number: values[:1] for number, values in second.items()}
    forth, back = paired_ratio(one, other), paired_ratio(other, one)

    assert (forth is None) == (back is None)
    if forth is not None and back is not None:
        assert forth.interval is not None
        assert back.interval is not None
        assert forth.point == pytest.approx(1 / back.point)
        assert forth.interval.low == pytest.approx(1 / back.interval.high)
        assert forth.interval.low <= forth.point <= forth.interval.high


@QUICK
@given(ROUNDS, st.lists(VALUES, min_size=9, max_size=9))
def test_what_a_round_does_to_both_cancels(rounds: dict[int, list[float]], slow: list[float]) -> None:
    """A machine that is slower by any factor in any round leaves every ratio of that round as it was."""
    other = {number: [3 * value for value in values] for number, values in rounds.items()}
    plain = paired_ratio(rounds, other)
    slowed = [
        {number: [value * slow[number - 1] for value in values] for number, values in one.items()}
        for one in (rounds, other)
    ]
    disturbed = paired_ratio(slowed[0], slowed[1])

    assert plain is not None
    assert disturbed is not None
    assert plain.point == pytest.approx(3)
    assert disturbed.samples == pytest.approx(plain.samples)


@QUICK
@given(st.integers(1, 30), st.integers(0, 1000))
def test_each_has_one_turn_in_a_round(count: int, number: int) -> None:
    """No model is left out of a round, and none has two turns in it."""
    assert sorted(balanced_order(count, number)) == list(range(count))

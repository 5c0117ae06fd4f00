"""Turns in a balanced order, and the ratio of two things over rounds: worked values, SciPy, coverage by simulation."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from suffice.stats.intervals import geometric_interval
from suffice.stats.rounds import balanced_order, paired_ratio


def test_two_take_turns_to_begin() -> None:
    """A B, B A, A B: whatever drifts evenly costs both the same."""
    assert [balanced_order(2, number) for number in range(3)] == [(0, 1), (1, 0), (0, 1)]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 7])
def test_orders_are_balanced(count: int) -> None:
    """Over one whole design each is at each place equally often, and follows each other equally often."""
    rounds = count if count % 2 == 0 else 2 * count
    orders = [balanced_order(count, number) for number in range(rounds)]

    assert all(sorted(order) == list(range(count)) for order in orders)
    places = Counter((place, who) for order in orders for place, who in enumerate(order))
    followers = Counter(pair for order in orders for pair in pairwise(order))
    assert set(places.values()) == {rounds // count}
    assert len(followers) == count * (count - 1)
    assert len(set(followers.values())) <= 1


@pytest.mark.parametrize(("count", "number"), [(0, 0), (2, -1)])
def test_there_is_no_order_of_nothing(count: int, number: int) -> None:
    """No things, or a round before the first, is a mistake of the caller."""
    with pytest.raises(ValueError, match="no order"):
        balanced_order(count, number)


def test_a_ratio_worked_by_hand() -> None:
    """Ratios 2, 4 and 8 of medians: their geometric mean is 4, and ln 4 +- 4.3027 ln 2 / sqrt 3 is from 0.714 to 22.4."""
    reference = {1: [10.0], 2: [9.0, 10.0, 50.0], 4: [1.0]}
    candidate = {1: [20.0], 2: [40.0], 4: [7.0, 9.0], 5: [1.0]}

    found = paired_ratio(reference, candidate)

    assert found is not None
    assert found.interval is not None
    assert found.samples == pytest.approx((2, 4, 8))
    assert found.point == pytest.approx(4)
    half_width = 4.302653 * math.log(2) / math.sqrt(3)
    assert found.interval.low == pytest.approx(math.exp(math.log(4) - half_width))
    assert found.interval.high == pytest.approx(math.exp(math.log(4) + half_width))


def test_less_than_three_shared_rounds_tell_nothing() -> None:
    """Rounds that only one of them has, or in which one has no row, do not count."""
    reference = {1: [1.0], 2: [1.0], 3: [1.0], 4: []}
    candidate = {1: [1.0], 2: [1.0], 4: [1.0], 5: [1.0]}

    assert paired_ratio(reference, candidate) is None


def test_the_interval_is_that_of_scipy() -> None:
    """Student's t on the logarithms, as scipy.stats.t.interval computes it."""
    ratios = np.random.default_rng(5).lognormal(0.2, 0.1, size=9)
    logs = np.log(ratios)
    low, high = stats.t.interval(0.9, 8, loc=logs.mean(), scale=stats.sem(logs))

    found = geometric_interval(ratios.tolist(), 0.9)

    assert (found.low, found.high) == pytest.approx((math.exp(low), math.exp(high)))


@pytest.mark.parametrize("samples", [[1.0], [1.0, 0.0], [1.0, -1.0]])
def test_what_has_no_geometric_mean_is_refused(samples: list[float]) -> None:
    """One value has no spread, and what is not positive has no logarithm."""
    with pytest.raises(ValueError, match="two positive samples"):
        geometric_interval(samples)


@pytest.mark.parametrize("rounds", [3, 10])
def test_the_interval_covers_the_true_ratio(rounds: int) -> None:
    """A machine that drifts by a random factor from round to round changes nothing: 95 % of intervals hold the true ratio of 1.5."""
    random = np.random.default_rng(rounds)
    inside = 0
    for _ in range(1000):
        drift = np.exp(np.cumsum(random.normal(0, 0.5, size=rounds)))
        noise = random.lognormal(0, 0.1, size=(2, rounds))
        reference = {i: [value] for i, value in enumerate(drift * noise[0])}
        candidate = {i: [value] for i, value in enumerate(1.5 * drift * noise[1])}
        found = paired_ratio(reference, candidate)
        assert found is not None
        assert found.interval is not None
        inside += found.interval.low <= 1.5 <= found.interval.high

    # 1000 draws: the standard error of a share of 0.95 is 0.007; three of them are allowed.
    assert inside / 1000 == pytest.approx(0.95, abs=0.021)

"""Ratios of repetitions: published tables, slow oracles, coverage, and the rule that a tolerance makes of them."""

from __future__ import annotations

import math
import random
from itertools import combinations

import pytest

from suffice.stats.estimate import Estimate, Interval
from suffice.stats.ratio import (
    Better,
    Change,
    Tolerance,
    judge_change,
    paired_shift_ratio,
    predicted_ratio,
    shift_ratio,
    smallest_change,
    with_scatter,
)
from suffice.stats.ratio import _mann_whitney_counts as counts_of

FASTER = Tolerance(share=0.05, better=Better.HIGHER)
SHORTER = Tolerance(share=0.05, better=Better.LOWER)


def ratio(low: float, point: float, high: float) -> Estimate:
    """A ratio with an interval of one's choice."""
    return Estimate(point=point, interval=Interval(low=low, high=high, level=0.95, method="given"), samples=())


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3), (4, 4), (3, 5)])
def test_counts_are_those_of_all_orders(m: int, n: int) -> None:
    """Counting every way to interleave m and n values gives the same distribution of the statistic."""
    slow = [0] * (m * n + 1)
    for places in combinations(range(m + n), m):
        slow[sum(place - rank for rank, place in enumerate(places))] += 1

    assert counts_of(m, n) == slow


@pytest.mark.parametrize(
    ("m", "n", "critical"), [(4, 4, 0), (5, 5, 2), (6, 6, 5), (8, 8, 13), (10, 10, 23), (5, 8, 6), (20, 20, 127)]
)
def test_intervals_begin_behind_the_published_critical_value(m: int, n: int, critical: int) -> None:
    """Two-sided 5 % table of Mann and Whitney's U: the interval begins at the ordered difference behind it."""
    base, new = [1.0] * m, [math.exp(number / (m * n) / 10 + 1) for number in range(n)]
    differences = sorted(math.log(value) - math.log(other) for value in new for other in base)

    found = shift_ratio(base, new)

    assert found is not None
    assert found.interval is not None
    assert found.interval.low == pytest.approx(math.exp(differences[critical]))
    assert found.interval.high == pytest.approx(math.exp(differences[-1 - critical]))
    assert found.interval.level >= 0.95


def test_three_of_each_have_no_interval() -> None:
    """Of 20 orders of three and three none is rare enough: a branch that can never reject is not entered."""
    found = shift_ratio([1, 2, 3], [7, 8, 9])

    assert found is not None
    assert found.interval is None


def test_nothing_has_no_ratio_and_zero_is_refused() -> None:
    """No samples: None; a value that is not positive is a defect of the caller."""
    assert shift_ratio([], [1.0]) is None
    with pytest.raises(ValueError, match="positive"):
        shift_ratio([1.0, 0.0], [1.0, 1.0])


@pytest.mark.parametrize(("m", "n"), [(4, 6), (8, 8), (31, 40)])
def test_the_interval_covers_the_true_ratio(m: int, n: int) -> None:
    """In 400 draws with a true ratio of 0.9 at most 7.5 % of the 95 % intervals miss it, exact and approximate ones alike."""
    chance = random.Random(7)  # noqa: S311  # a seed, so that a failure can be repeated
    missed = 0
    for _ in range(400 if m < 20 else 120):
        base = [chance.lognormvariate(0, 0.05) for _ in range(m)]
        new = [0.9 * chance.lognormvariate(0, 0.05) for _ in range(n)]
        found = shift_ratio(base, new)
        assert found is not None
        assert found.interval is not None
        missed += not found.interval.low <= 0.9 <= found.interval.high

    assert missed <= (30 if m < 20 else 11)


def test_one_wild_repetition_moves_nothing() -> None:
    """Ten repetitions of which one took ten times as long: the ratio stays within 1 %."""
    base = [10 + 0.01 * number for number in range(10)]

    found = shift_ratio(base, [*base[:-1], 1.0])

    assert found is not None
    assert found.point == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize(("n", "critical"), [(6, 0), (8, 3), (10, 8), (12, 13), (20, 52), (25, 89)])
def test_rounds_begin_behind_the_published_critical_value(n: int, critical: int) -> None:
    """Two-sided 5 % table of Wilcoxon's signed ranks: the interval begins at the ordered mean of two behind it."""
    logs = [math.sqrt(place) / 10 for place in range(n)]
    means = sorted((one + other) / 2 for place, one in enumerate(logs) for other in logs[place:])

    found = paired_shift_ratio([math.exp(value) for value in logs])

    assert found is not None
    assert found.interval is not None
    assert found.interval.low == pytest.approx(math.exp(means[critical]))
    assert found.interval.high == pytest.approx(math.exp(means[-1 - critical]))
    assert found.interval.level >= 0.95


def test_five_rounds_have_no_signed_ranks() -> None:
    """Of 32 ways to sign five ranks the rarest is too likely; a ratio of nothing is refused."""
    assert paired_shift_ratio([1.0] * 5) is None
    with pytest.raises(ValueError, match="positive"):
        paired_shift_ratio([1.0] * 6 + [0.0])


@pytest.mark.parametrize("n", [6, 10, 70])
def test_rounds_cover_the_true_ratio(n: int) -> None:
    """In 300 draws around 0.9 at most 7.5 % of the intervals miss it, exact and approximate ones alike."""
    chance = random.Random(9)  # noqa: S311  # a seed, so that a failure can be repeated
    missed = 0
    for _ in range(300 if n < 20 else 60):
        found = paired_shift_ratio([0.9 * chance.lognormvariate(0, 0.05) for _ in range(n)])
        assert found is not None
        assert found.interval is not None
        missed += not found.interval.low <= 0.9 <= found.interval.high

    assert missed <= (22 if n < 20 else 6)


@pytest.mark.parametrize("wild", [0.1, 10.0])
def test_one_wild_round_moves_nothing(wild: float) -> None:
    """Eleven rounds within 1 % and one at a tenth or tenfold: both ends stay within 2 %, as they do from twelve rounds on."""
    found = paired_shift_ratio([*(1 + place / 1000 for place in range(-5, 6)), wild])

    assert found is not None
    assert found.interval is not None
    assert 0.98 < found.interval.low <= found.interval.high < 1.02


@pytest.mark.parametrize(
    ("low", "point", "high", "change"),
    [
        (0.951, 0.97, 0.99, Change.WITHIN),
        (0.95, 0.97, 0.99, Change.WITHIN),
        (1.2, 1.3, 1.4, Change.WITHIN),
        (0.90, 0.92, 0.949, Change.WORSE),
        (0.90, 0.92, 0.95, Change.UNKNOWN),
        (0.94, 0.97, 1.10, Change.UNKNOWN),
    ],
)
def test_the_rule_for_rates(low: float, point: float, high: float, change: Change) -> None:
    """Worse only when the whole interval is below 95 %, within when its low end is not, an improvement passes."""
    assert judge_change(ratio(low, point, high), FASTER) is change


@pytest.mark.parametrize(
    ("low", "point", "high", "change"),
    [
        (1.0, 1.02, 1.05, Change.WITHIN),
        (0.5, 0.6, 0.7, Change.WITHIN),
        (1.051, 1.1, 1.2, Change.WORSE),
        (1.0, 1.03, 1.06, Change.UNKNOWN),
    ],
)
def test_the_rule_for_times_and_memory(low: float, point: float, high: float, change: Change) -> None:
    """Worse only when the whole interval is above 105 %; less is an improvement and passes."""
    assert judge_change(ratio(low, point, high), SHORTER) is change


def test_no_interval_shows_nothing() -> None:
    """A bare ratio, however bad, is unknown."""
    assert judge_change(Estimate(point=0.1, interval=None, samples=()), FASTER) is Change.UNKNOWN
    assert smallest_change(Estimate(point=0.1, interval=None, samples=()), FASTER) is None


def test_scatter_adds_as_independent_errors_do() -> None:
    """A half width of 3 % and a scatter of 1.96 x 2.04 % = 4 % make 5 %; without an interval the scatter is all."""
    own = ratio(math.exp(-0.03), 1.0, math.exp(0.03))

    both = with_scatter(own, 0.04 / 1.959964).interval
    alone = with_scatter(Estimate(point=1.0, interval=None, samples=()), 0.04 / 1.959964).interval

    assert both is not None
    assert alone is not None
    assert math.log(both.high) == pytest.approx(0.05, rel=1e-5)
    assert math.log(alone.low) == pytest.approx(-0.04, rel=1e-5)


def test_few_degrees_of_freedom_widen() -> None:
    """Student's factor of 4 degrees is 2.776 (any table) where the normal one is 1.960."""
    base = Estimate(point=1.0, interval=None, samples=())

    wide, narrow = with_scatter(base, 0.01, 4).interval, with_scatter(base, 0.01).interval

    assert wide is not None
    assert narrow is not None
    assert math.log(wide.high) / math.log(narrow.high) == pytest.approx(2.7764 / 1.95996, rel=1e-4)


def test_a_prediction_by_hand() -> None:
    """Logarithms -0.01, 0, 0.01: mean 0, deviation 0.01; t of 2 degrees 4.3027, so half = 4.3027 x 0.01 x sqrt(4/3)."""
    runs = [math.exp(value) for value in (-0.01, 0.0, 0.01)]

    found = predicted_ratio(runs, math.exp(0.02), least_deviation=0.001)

    assert found.interval is not None
    assert math.log(found.point) == pytest.approx(0.02)
    assert math.log(found.interval.high) == pytest.approx(0.02 + 4.30265 * 0.01 * math.sqrt(4 / 3), rel=1e-5)


def test_runs_that_happen_to_agree_do_not_make_a_prediction_certain() -> None:
    """Five equal runs: the least deviation stands in, and one run has no scatter at all."""
    found = predicted_ratio([10.0] * 5, 10.0, least_deviation=0.01)

    assert found.interval is not None
    assert math.log(found.interval.high) == pytest.approx(2.7764 * 0.01 * math.sqrt(1.2), rel=1e-4)
    with pytest.raises(ValueError, match="two runs"):
        predicted_ratio([10.0], 10.0, least_deviation=0.01)


@pytest.mark.parametrize(("tolerance", "factor"), [(FASTER, 0.95), (SHORTER, 1.05)])
def test_the_smallest_change_is_shown_in_four_of_five(tolerance: Tolerance, factor: float) -> None:
    """Normal errors of 1 %: a true loss of that size is worse in 77 to 83 % of 4,000 draws, and it is beyond the tolerance."""
    chance = random.Random(11)  # noqa: S311  # a seed, so that a failure can be repeated
    half = 1.959964 * 0.01
    size = smallest_change(ratio(math.exp(-half), 1.0, math.exp(half)), tolerance)
    assert size is not None
    true = math.log(1 - size if tolerance is FASTER else 1 + size)

    shown = 0
    for _ in range(4000):
        point = true + chance.gauss(0, 0.01)
        found = ratio(math.exp(point - half), math.exp(point), math.exp(point + half))
        shown += judge_change(found, tolerance) is Change.WORSE

    assert 0.77 < shown / 4000 < 0.83
    assert size > abs(factor - 1)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, math.nan])
def test_a_tolerance_is_a_share(share: float) -> None:
    """Nothing and everything are no tolerances."""
    with pytest.raises(ValueError, match="tolerance"):
        Tolerance(share=share, better=Better.HIGHER)

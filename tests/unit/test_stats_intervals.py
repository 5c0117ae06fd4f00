"""Medians, quantiles and their intervals: coverage by simulation, other implementations, a published table, identities."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom
from scipy.stats import t as student_t

from suffice.stats import Estimate, Interval, estimate_from, median, median_interval, quantile
from suffice.stats.intervals import map_estimate

# Nonparametric interval (X_(d), X_(n-d+1)) for the median with confidence of at least 95 %: largest d.
# Conover, Practical Nonparametric Statistics, 3rd ed. 1999, table A3; Hollander and Wolfe, table A2 (sign test, .05 two-sided).
PUBLISHED_RANKS = {
    6: 1, 7: 1, 8: 1, 9: 2, 10: 2, 11: 2, 12: 3, 13: 3, 14: 3, 15: 4, 16: 4, 17: 5, 18: 5, 19: 5, 20: 6,
    25: 8, 30: 10, 40: 14, 50: 18,
}  # fmt: skip


def _coverage(n: int, draws: int, sigma: float = 0.3) -> float:
    """How often the interval encloses the true median, which is 1, of log-normal noise."""
    random = np.random.default_rng(n)
    inside = 0
    for row in random.lognormal(0.0, sigma, size=(draws, n)):
        interval = median_interval(row.tolist())
        assert interval is not None
        inside += interval.low <= 1.0 <= interval.high
    return inside / draws


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_small_samples_cover_log_normal_noise(n: int) -> None:
    """Two to five repetitions: Student's t on logarithms covers the true median in 95 % of cases, no less and no more."""
    # 1000 draws: the standard error of a share of 0.95 is 0.007; three of them are allowed.
    assert _coverage(n, 1000) == pytest.approx(0.95, abs=0.021)


@pytest.mark.parametrize("n", [6, 8, 13, 20, 35, 60])
def test_order_statistics_cover_at_their_stated_level(n: int) -> None:
    """From six on the interval covers with the level that it states, which is at least 95 %."""
    interval = median_interval(list(range(n)))
    assert interval is not None

    assert interval.level >= 0.95
    assert _coverage(n, 1000) == pytest.approx(interval.level, abs=0.021)


@pytest.mark.parametrize(("n", "rank"), PUBLISHED_RANKS.items())
def test_ranks_are_those_of_the_published_table(n: int, rank: int) -> None:
    """The pair of order statistics is the one in the tables for the median."""
    interval = median_interval([float(i) for i in range(1, n + 1)])

    assert interval is not None
    assert (interval.low, interval.high) == (rank, n - rank + 1)


@pytest.mark.parametrize("n", range(6, 61))
def test_the_stated_level_is_the_binomial_probability(n: int) -> None:
    """SciPy's binomial gives the same coverage, and the next narrower pair would miss 95 %."""
    interval = median_interval(list(range(n)))
    assert interval is not None
    k = int(interval.low)

    assert interval.level == pytest.approx(1 - 2 * binom.cdf(k, n, 0.5))
    assert 1 - 2 * binom.cdf(k + 1, n, 0.5) < 0.95
    assert interval.method == "order statistics"


def test_a_level_that_the_samples_cannot_reach_is_not_claimed() -> None:
    """Six samples reach 96.9 %, not 99 %: the answer is Student's t and says so, never a narrower pair at a lower level."""
    interval = median_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], level=0.99)

    assert interval is not None
    assert interval.level == 0.99
    assert interval.method.startswith("Student's t")


def test_small_samples_agree_with_scipy() -> None:
    """Other implementation: scipy.stats.t.interval on the logarithms."""
    samples = [9.0, 10.0, 12.5, 11.0]
    logs = np.log(samples)
    low, high = student_t.interval(0.95, 3, loc=logs.mean(), scale=logs.std(ddof=1) / 2)

    interval = median_interval(samples)

    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((math.exp(low), math.exp(high)))
    assert "Student" in interval.method


@pytest.mark.parametrize("fraction", [0, 0.05, 0.25, 0.5, 0.9, 0.95, 1])
def test_quantiles_agree_with_numpy(fraction: float) -> None:
    """Other implementation: numpy.quantile, for sizes from one to forty."""
    random = np.random.default_rng(3)
    for n in range(1, 41):
        samples = random.normal(size=n)
        assert quantile(samples.tolist(), fraction) == pytest.approx(float(np.quantile(samples, fraction)))


def test_one_sample_has_no_interval() -> None:
    """One repetition says nothing of the spread: no interval, and no relative width, instead of one of width 0."""
    single = estimate_from([5.0])

    assert single == Estimate(point=5.0, interval=None, samples=(5.0,))
    assert single.relative_half_width is None


def test_no_samples_raise() -> None:
    """Nothing measured is an error, never a 0."""
    for function in (median, median_interval, estimate_from):
        with pytest.raises(ValueError, match="no samples"):
            function([])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_samples_that_are_no_numbers_raise(bad: float) -> None:
    """NaN and infinity are refused before they can become an estimate."""
    with pytest.raises(ValueError, match="finite"):
        estimate_from([1.0, bad])


def test_samples_that_are_not_positive_have_no_small_interval() -> None:
    """Logarithms need positive values: four samples with a zero get no interval."""
    assert median_interval([0.0, 1.0, 2.0, 3.0]) is None


def test_a_quantile_outside_of_its_range_raises() -> None:
    """A fraction of 95 instead of 0.95 is an error."""
    with pytest.raises(ValueError, match="fraction"):
        quantile([1.0], 95)


def test_equal_samples_have_a_point_for_an_interval() -> None:
    """Zero variance: the interval is the value, and its relative width 0."""
    constant = estimate_from([4.0] * 8)

    assert constant.interval is not None
    assert (constant.interval.low, constant.interval.high, constant.relative_half_width) == (4.0, 4.0, 0.0)


def test_rate_and_time_never_disagree() -> None:
    """The rate made from a time is 1 / that time in point and interval, also where an even number makes medians differ."""
    time = estimate_from([0.1, 0.2, 0.4, 0.5, 0.7, 0.9])

    rate = map_estimate(time, 1.0, invert=True)

    assert time.interval is not None
    assert rate.interval is not None
    assert rate.point == 1 / time.point != median([1 / value for value in time.samples])
    assert (rate.interval.low, rate.interval.high) == (1 / time.interval.high, 1 / time.interval.low)
    assert rate.samples == tuple(1 / value for value in time.samples)


def test_impossible_intervals_cannot_be_made() -> None:
    """An interval that is upside down, or of a level outside of (0, 1), raises."""
    with pytest.raises(ValueError, match="upside down"):
        Interval(low=2.0, high=1.0, level=0.95, method="x")
    with pytest.raises(ValueError, match="confidence level"):
        Interval(low=1.0, high=2.0, level=95, method="x")


def test_many_samples_have_the_pair_of_ranks_that_the_binomial_gives() -> None:
    """Of 5,000 samples the ranks at +- 1.96 standard deviations of the binomial, sqrt(n) / 2, to one; in no time to speak of."""
    n = 5000
    interval = median_interval([float(value) for value in range(n)])

    assert interval is not None
    assert interval.low == pytest.approx(n / 2 - 1.96 * math.sqrt(n) / 2, abs=1.5)
    assert interval.low + interval.high == n - 1
    assert 0.95 <= interval.level < 0.953

"""Percentiles with failures in them, and shares."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suffice.stats.intervals import median_interval, quantile
from suffice.stats.percentiles import percentile, samples_needed
from suffice.stats.proportions import wilson_interval

INF = math.inf


@pytest.mark.parametrize(("fraction", "needed"), [(0.5, 6), (0.9, 36), (0.95, 72), (0.99, 368)])
def test_the_least_samples_are_those_of_theory(fraction: float, needed: int) -> None:
    """One sample fewer has no interval; exactly as many have one."""
    enough = percentile(range(needed), fraction)
    short = percentile(range(needed - 1), fraction)

    assert samples_needed(fraction) == needed
    assert enough is not None
    assert enough.supported
    assert short is not None
    assert (short.supported, short.value, short.low) == (False, None, None)


@pytest.mark.parametrize("n", [6, 9, 40, 150])
def test_the_medians_interval_is_the_one_that_medians_have(n: int) -> None:
    """Two implementations, one by coins and one by binomial logarithms, agree."""
    samples = [float((7 * i) % n) for i in range(n)]
    other = median_interval(samples)
    found = percentile(samples, 0.5)

    assert found is not None
    assert other is not None
    assert (found.low, found.high) == (other.low, other.high)
    assert found.level == pytest.approx(other.level)


def test_intervals_cover_as_often_as_they_say() -> None:
    """P90 of an exponential: of 400 samples of 80, at least 93 % of the intervals hold the true value."""
    chance = random.Random(3)  # noqa: S311  # a test's samples
    truth = -math.log(0.1)
    hits = 0
    for _ in range(400):
        found = percentile([chance.expovariate(1) for _ in range(80)], 0.9)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= truth <= found.high

    assert hits >= 372


def test_failures_stand_above_everything() -> None:
    """Two failures of a hundred: P50 and P90 are unharmed, P99 is unbounded, and nothing is NaN."""
    samples = [*map(float, range(98)), INF, INF]
    values = {fraction: percentile(samples, fraction) for fraction in (0.5, 0.9, 0.99)}

    assert [found.observed for found in values.values() if found] == [49.5, pytest.approx(89.1), INF]
    assert values[0.99] is not None
    assert values[0.99].value is None


@given(st.lists(st.floats(0, 10) | st.just(INF), min_size=1, max_size=60), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_failure_in_place_of_a_time_never_improves_a_percentile(samples: list[float], fraction: float) -> None:
    """Laws: finite samples give NumPy's quantile, failing the first request makes nothing smaller, intervals hold the order."""
    found = percentile(samples, fraction)
    worse = percentile([INF, *samples[1:]], fraction)

    assert found is not None
    assert worse is not None
    assert worse.observed >= found.observed
    if INF not in samples:
        assert found.observed == quantile(samples, fraction)
    if found.low is not None and found.high is not None:
        assert found.low <= found.high


def test_nothing_and_nonsense() -> None:
    """No samples have no percentile; NaN is refused."""
    assert percentile([], 0.5) is None
    with pytest.raises(ValueError, match="finite"):
        percentile([math.nan], 0.5)
    with pytest.raises(ValueError, match="inside"):
        percentile([1.0], 1.0)


def test_wilson_gives_published_values() -> None:
    """R: prop.test(81, 263, correct = FALSE) has 0.2553 and 0.3662 (Newcombe, Stat. Med. 17, 1998, example a)."""
    found = wilson_interval(81, 263)

    assert found is not None
    assert (round(found.low, 4), round(found.high, 4)) == (0.2553, 0.3662)


def test_wilson_at_the_edges() -> None:
    """All of ten is not certainty, none of none is nothing, and more than all is refused."""
    found = wilson_interval(10, 10)

    assert found is not None
    assert found.high == 1.0
    assert 0.7 < found.low < 0.75
    assert wilson_interval(0, 0) is None
    with pytest.raises(ValueError, match="cannot be"):
        wilson_interval(2, 1)

"""Laws of medians, quantiles and intervals."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.stats import estimate_from, median, median_interval, quantile
from suffice.stats.intervals import map_estimate

QUICK = settings(max_examples=60, deadline=None, derandomize=True)
VALUES = st.floats(min_value=1e-6, max_value=1e6)
SAMPLES = st.lists(VALUES, min_size=1, max_size=40)
FACTORS = st.floats(min_value=1e-3, max_value=1e3)


@QUICK
@given(SAMPLES)
def test_the_point_lies_in_its_interval(samples: list[float]) -> None:
    """Low <= median <= high, and from six samples on both ends were measured."""
    found = estimate_from(samples)

    if len(samples) == 1:
        assert found.interval is None
    else:
        assert found.interval is not None
        assert found.interval.low <= found.point <= found.interval.high
        if len(samples) >= 6:
            assert {found.interval.low, found.interval.high} <= set(samples)


@QUICK
@given(SAMPLES, st.randoms(use_true_random=False))
def test_order_does_not_matter(samples: list[float], random: object) -> None:
    """A shuffled series has the same estimate."""
    shuffled = list(samples)
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    first, second = estimate_from(samples), estimate_from(shuffled)

    assert first.point == second.point
    if first.interval is not None and second.interval is not None:
        assert first.interval.low == pytest.approx(second.interval.low)
        assert first.interval.high == pytest.approx(second.interval.high)


@QUICK
@given(SAMPLES, FACTORS)
def test_scaling_the_unit_scales_the_answer(samples: list[float], factor: float) -> None:
    """Milliseconds instead of seconds multiply point and interval by a thousand, and nothing else."""
    plain, scaled = estimate_from(samples), estimate_from([value * factor for value in samples])

    assert scaled.point == pytest.approx(plain.point * factor)
    if plain.interval is not None:
        assert scaled.interval is not None
        assert scaled.interval.low == pytest.approx(plain.interval.low * factor)
        assert scaled.interval.high == pytest.approx(plain.interval.high * factor)


@QUICK
@given(SAMPLES, FACTORS)
def test_times_and_rates_never_disagree(samples: list[float], tokens: float) -> None:
    """A time turned into a rate and back is the same time; its interval stays around its point, the right way up."""
    time = estimate_from(samples)

    rate = map_estimate(time, tokens, invert=True)

    assert rate.point * time.point == pytest.approx(tokens)
    again = map_estimate(rate, tokens, invert=True)
    assert again.point == pytest.approx(time.point)
    if rate.interval is not None:
        assert rate.interval.low <= rate.point * (1 + 1e-12)
        assert rate.point <= rate.interval.high * (1 + 1e-12)


@QUICK
@given(SAMPLES, st.floats(0, 1), st.floats(0, 1))
def test_quantiles_rise_with_their_fraction(samples: list[float], first: float, second: float) -> None:
    """A higher fraction is never a lower value (up to rounding), and the ends are smallest and largest."""
    low, high = sorted((first, second))

    assert quantile(samples, low) <= quantile(samples, high) * (1 + 1e-12)
    assert (quantile(samples, 0), quantile(samples, 1)) == (min(samples), max(samples))


@QUICK
@given(st.lists(VALUES, min_size=1, max_size=15))
def test_the_median_agrees_with_a_slow_oracle(samples: list[float]) -> None:
    """As many values on one side as on the other, by counting."""
    middle = median(samples)
    below = sum(value < middle for value in samples)
    above = sum(value > middle for value in samples)

    assert below <= len(samples) / 2
    assert above <= len(samples) / 2
    assert min(samples) <= middle <= max(samples)


@QUICK
@given(st.lists(VALUES, min_size=6, max_size=30), st.floats(0.5, 0.999))
def test_the_stated_level_is_at_least_the_one_asked_for(samples: list[float], level: float) -> None:
    """Whatever level is asked for, none that is lower is given."""
    interval = median_interval(samples, level)

    assert interval is not None
    assert interval.level >= level - 1e-12
    assert math.isfinite(interval.low)

"""Laws of the two speeds, of the dip and of the drift."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.stats.modes import dip, lower_mode
from suffice.stats.quiet import Repetition, two_speeds
from suffice.stats.trend import trend

QUICK = settings(max_examples=60, deadline=None, derandomize=True)
TIMES = st.floats(min_value=1e-3, max_value=1e3)
# Powers of two scale numbers without rounding them.
FACTORS = st.sampled_from([0.125, 0.5, 4.0, 64.0])


@st.composite
def repetitions(draw: st.DrawFn) -> list[Repetition]:
    """A few repetitions of a few steps, marked anyhow."""
    marks = st.sampled_from([True, False, None])
    found = []
    for _ in range(draw(st.integers(1, 8))):
        steps = tuple(draw(st.lists(TIMES, min_size=1, max_size=6)))
        sampled = tuple(draw(st.lists(marks, min_size=len(steps), max_size=len(steps)))) if draw(st.booleans()) else ()
        found.append(Repetition(step_s=steps, disturbed=draw(marks), step_disturbed=sampled))
    return found


@QUICK
@given(repetitions())
def test_an_estimate_or_a_reason(made: list[Repetition]) -> None:
    """Exactly one of the quiet estimate and the reason for none; shares lie in [0, 1]; what is quiet was found within what was measured."""
    found = two_speeds(made)
    assert (found.quiet is None) == (found.no_quiet is not None) == (found.basis is None) == (found.slowdown is None)
    if found.disturbed_share is not None:
        assert -1e-9 <= found.disturbed_share <= 1
    if found.quiet is not None:
        steps = [step for one in made for step in one.step_s]
        assert 1 / max(steps) * (1 - 1e-9) <= found.quiet.point <= 1 / min(steps) * (1 + 1e-9)
    assert found.marked + found.unmarked <= len(made)


@QUICK
@given(repetitions(), FACTORS)
def test_a_slower_clock_scales_both_speeds(made: list[Repetition], factor: float) -> None:
    """All times longer by a factor: both rates smaller by it, shares and reasons the same."""
    plain = two_speeds(made)
    scaled = two_speeds([replace(one, step_s=tuple(factor * step for step in one.step_s)) for one in made])
    assert scaled.as_found.point == pytest.approx(plain.as_found.point / factor)
    assert (scaled.basis, scaled.no_quiet, scaled.bimodal) == (plain.basis, plain.no_quiet, plain.bimodal)
    if plain.quiet is not None:
        assert scaled.quiet is not None
        assert scaled.quiet.point == pytest.approx(plain.quiet.point / factor)
        assert scaled.slowdown == pytest.approx(plain.slowdown)


@QUICK
@given(repetitions())
def test_marks_that_all_say_undisturbed_change_nothing(made: list[Repetition]) -> None:
    """Where every repetition is marked undisturbed, what is quiet is what was found, whatever the steps look like."""
    found = two_speeds([replace(one, disturbed=False) for one in made])
    assert found.quiet == found.as_found
    assert found.slowdown is not None
    assert found.slowdown > 0


@QUICK
@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=40), FACTORS, st.integers(-64, 64))
def test_dip_does_not_know_units(values: list[int], factor: float, shift: int) -> None:
    """Scaled, moved or mirrored values have the same dip, which lies between 1/(2n) and 1/4 (or is 1/(2n))."""
    plain = dip(values)
    assert dip([factor * value + shift for value in values]) == pytest.approx(plain)
    assert dip([-value for value in values]) == pytest.approx(plain)
    assert 1 / (2 * len(values)) <= plain <= max(0.25, 1 / (2 * len(values)))


@QUICK
@given(st.lists(TIMES, min_size=5, max_size=30), st.randoms(use_true_random=False))
def test_a_mode_does_not_know_the_order_of_rows(values: list[float], order: object) -> None:
    """One value a row: any order has the same mode, and the mode holds the share that it was asked for."""
    rows = [[value] for value in values]
    mode = lower_mode(rows, 0.3)
    order.shuffle(rows)  # type: ignore[attr-defined]
    assert lower_mode(rows, 0.3) == mode
    if mode is not None:
        assert mode.share >= 0.3
        assert mode.holds(mode.centre)
        assert not mode.is_slower(mode.centre)


@QUICK
@given(st.lists(TIMES, min_size=5, max_size=20))
def test_a_drift_turns_around_with_time(values: list[float]) -> None:
    """Backwards the slope changes its sign and the evidence stays; forwards the p-value is a probability."""
    forth, back = trend(values), trend(values[::-1])
    assert forth is not None
    assert back is not None
    assert back.slope_share == pytest.approx(-forth.slope_share)
    assert back.p_value == pytest.approx(forth.p_value)
    assert 0 < forth.p_value <= 1

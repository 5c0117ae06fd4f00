"""The line through slices, on numbers that can be checked with pencil and paper."""

from __future__ import annotations

import math

import pytest

from suffice.model.extrapolation import LayerFit, SliceTime, extrapolate, fit_layers


def line(lengths: tuple[float, ...], fixed: float, slope: float) -> list[SliceTime]:
    """Slices of one kind that lie on a line."""
    return [SliceTime(counts=(n,), seconds=fixed + slope * n) for n in lengths]


def test_three_points_on_a_line() -> None:
    """2, 4 and 8 layers in 12.4, 20 and 35.2: 4.8 fixed, 3.8 each, so 32 layers take 126.4, and nothing is left over."""
    fit = fit_layers(line((2.0, 4.0, 8.0), 4.8, 3.8), [1.0])

    assert fit.fixed_s == pytest.approx(4.8)
    assert fit.layer_s == pytest.approx((3.8,))
    assert fit.total_s([32.0]) == pytest.approx(126.4)
    assert fit.largest_residual == pytest.approx(0, abs=1e-9)


def test_the_fixed_part_may_be_negative() -> None:
    """In prefill the last layer saves work: 1, 2 and 3 layers in 5, 15 and 25 give -5 fixed and 10 each."""
    fit = fit_layers(line((1.0, 2.0, 3.0), -5.0, 10.0), [7.0])

    assert (fit.fixed_s, fit.layer_s[0]) == pytest.approx((-5, 10))
    assert fit.total_s([80.0]) == pytest.approx(795)


def test_a_bent_line_has_a_residual() -> None:
    """10, 20 and 40 for 1, 2 and 3 layers bend upwards: the middle lies below the line, the ends above, and one by more than 5 %."""
    times = [SliceTime(counts=(float(n),), seconds=s) for n, s in ((1, 10.0), (2, 20.0), (3, 40.0))]

    fit = fit_layers(times, [1.0])

    assert [residual > 0 for residual in fit.residuals] == [True, False, True]
    assert fit.largest_residual > 0.05
    assert fit.largest_residual == max(map(abs, fit.residuals))


def test_kinds_that_the_slices_tell_apart_need_no_ratio() -> None:
    """Four slices of two kinds of 3 and 5 with one fixed second: found within 12 % though the work says they are 1 to 4."""
    counts = [(1.0, 0.0), (0.0, 1.0), (6.0, 1.0), (1.0, 6.0), (9.0, 0.0), (0.0, 9.0)]
    slices = [SliceTime(counts=(a, b), seconds=1 + 3 * a + 5 * b) for a, b in counts]

    fit = fit_layers(slices, [1.0, 4.0])

    assert fit.layer_s == pytest.approx((3, 5), rel=0.12)
    assert fit.total_s([16.0, 16.0]) == pytest.approx(1 + 48 + 80, rel=0.05)


def test_kinds_that_always_go_together_are_told_apart_by_their_work() -> None:
    """Each slice has as many of both: 8 for a pair, 1 fixed; work of 3 to 5 gives 3 and 5."""
    slices = [SliceTime(counts=(n, n), seconds=1 + 8 * n) for n in (1.0, 2.0, 3.0)]

    fit = fit_layers(slices, [30.0, 50.0])

    assert fit.layer_s == pytest.approx((3, 5), rel=1e-6)
    assert fit.total_s([10.0, 20.0]) == pytest.approx(1 + 30 + 100, rel=1e-6)


def test_work_that_is_not_known_holds_nothing() -> None:
    """A head of work 0 takes what the slices say, here 40, whatever the layers' work."""
    plans = [(1.0, 0.1), (2.0, 0.1), (3.0, 0.1), (1.0, 0.5)]
    slices = [SliceTime(counts=plan, seconds=2 + 10 * plan[0] + 40 * plan[1]) for plan in plans]

    fit = fit_layers(slices, [1e9, 0.0])

    assert fit.layer_s == pytest.approx((10, 40), rel=1e-6)
    assert fit.largest_residual < 1e-9


def test_a_model_takes_no_less_than_a_slice_of_it() -> None:
    """Times that fall with the number of layers are noise: the total is that of the slowest slice."""
    times = [SliceTime(counts=(float(n),), seconds=s) for n, s in ((1, 10.0), (2, 9.0), (3, 8.0))]

    assert fit_layers(times, [1.0]).total_s([32.0]) == 10.0


def test_repetitions_are_fitted_one_by_one() -> None:
    """The second repetition was twice as slow in all slices: so is its total."""
    first = (12.4, 20.0, 35.2)
    rows = [(seconds, 2 * seconds) for seconds in first]

    totals = extrapolate([(2.0,), (4.0,), (8.0,)], rows, [1.0], [32.0])

    assert totals == pytest.approx((126.4, 252.8))


def test_no_repetitions_give_no_totals() -> None:
    """A series that has not begun has no totals, and is no error."""
    assert extrapolate([(2.0,), (4.0,), (8.0,)], [[], [], []], [1.0], [32.0]) == ()


@pytest.mark.parametrize(
    ("slices", "work", "complaint"),
    [
        (line((2.0, 4.0), 1, 1), [1.0], "2 slices proves nothing"),
        (line((4.0, 4.0, 4.0), 1, 1), [1.0], "one length"),
        (line((2.0, 4.0, 8.0), 1, 1), [1.0, 2.0], "each kind"),
        (line((2.0, 4.0, 8.0), 1, 1), [0.0], "work"),
        (line((2.0, 4.0, 8.0), 1, 1), [-1.0], "work"),
        ([SliceTime(counts=(), seconds=1.0)] * 3, [], "work"),
    ],
)
def test_what_cannot_be_fitted_is_refused(slices: list[SliceTime], work: list[float], complaint: str) -> None:
    """Too few slices, all of one length, or numbers that do not match: refused, with the reason."""
    with pytest.raises(ValueError, match=complaint):
        fit_layers(slices, work)


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.inf, math.nan])
def test_a_time_is_positive(seconds: float) -> None:
    """A slice cannot take no time."""
    with pytest.raises(ValueError, match="positive"):
        SliceTime(counts=(1.0,), seconds=seconds)


def test_counts_of_another_model_are_refused() -> None:
    """A total needs a number of layers for each kind."""
    fit = LayerFit(fixed_s=1.0, layer_s=(1.0, 2.0), residuals=(0.0,), slowest_slice_s=1.0)

    with pytest.raises(ValueError, match="zip"):
        fit.total_s([3.0])


def test_ragged_repetitions_are_refused() -> None:
    """A slice that lacks a repetition would shift all that follow."""
    with pytest.raises(ValueError, match="zip"):
        extrapolate([(2.0,), (4.0,), (8.0,)], [[1.0, 1.0], [2.0], [3.0, 3.0]], [1.0], [32.0])

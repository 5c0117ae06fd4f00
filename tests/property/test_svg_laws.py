"""Whatever is drawn lies within its picture, is XML, and says nothing but what it was given."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.svg import read_svg
from suffice.decide.verdict import Grade
from suffice.report.svg import draw
from suffice.report.svg.scales import scale_of
from suffice.report.svg.types import (
    Along,
    Axis,
    Chart,
    CostBar,
    CostChart,
    Course,
    CrossoverChart,
    HeadroomChart,
    HeadroomRow,
    LatencyChart,
    Limit,
    Mark,
    ParetoChart,
    Point,
    RooflineChart,
    Series,
)

QUICK = settings(max_examples=60, deadline=None, derandomize=True)
_ANY = st.one_of(
    st.floats(-1e100, 1e100, allow_nan=False), st.floats(-10, 10), st.sampled_from([0.0, 1.0, 1e-300, 1e99, -0.0])
)
_POSITIVE = st.one_of(st.floats(1e-60, 1e60), st.floats(0.1, 100), st.sampled_from([1.0, 1e-9, 5e7]))
_UP = st.one_of(st.floats(0, 1e100), st.floats(0, 20))
_TEXTS = st.one_of(
    st.text(max_size=40), st.sampled_from(["", "<b>&\"'", "大模型量化" * 20, "x" * 300, "\u202eabc\x00", "a b " * 50])
)
_SIZES = st.tuples(st.integers(240, 1300), st.integers(160, 700))


def _maybe(values: st.SearchStrategy[float]) -> st.SearchStrategy[float | None]:
    return st.one_of(st.none(), values)


def _series(values: st.SearchStrategy[float], *, named: bool = False) -> st.SearchStrategy[tuple[Series, ...]]:
    ends = _maybe(values)
    points = st.builds(
        Point,
        x=values,
        y=values,
        x_low=ends,
        x_high=ends,
        y_low=ends,
        y_high=ends,
        label=_TEXTS if named else st.just(""),
    )
    one = st.builds(
        Series,
        name=_TEXTS,
        points=st.lists(points, max_size=5).map(tuple),
        course=st.sampled_from(Course),
        hollow=st.booleans(),
    )
    return st.lists(one, max_size=8).map(tuple)


def _axes(*, log: bool) -> st.SearchStrategy[Axis]:
    return st.builds(Axis, label=_TEXTS, unit=_TEXTS, log=st.just(log), from_zero=st.booleans())


@st.composite
def _charts(draw_: st.DrawFn) -> Chart:
    log = draw_(st.booleans())
    values = _POSITIVE if log else _ANY
    axes: dict[str, Any] = {"x": draw_(_axes(log=log)), "y": draw_(_axes(log=log))}
    told: dict[str, Any] = {"title": draw_(_TEXTS), "description": draw_(_TEXTS)}
    limits = draw_(
        st.lists(st.builds(Limit, label=_TEXTS, value=_ANY, along=st.sampled_from(Along)), max_size=3).map(tuple)
    )
    kind = draw_(st.sampled_from([LatencyChart, ParetoChart, CrossoverChart, RooflineChart]))
    series = draw_(_series(_POSITIVE if kind is RooflineChart else values, named=True))
    if kind is LatencyChart:
        return LatencyChart(**told, **axes, curves=series, limits=limits)
    if kind is ParetoChart:
        return ParetoChart(**told, **axes, groups=series, limits=limits)
    if kind is CrossoverChart:
        marks = draw_(st.lists(st.builds(Mark, label=_TEXTS, x=values, y=values), max_size=3).map(tuple))
        return CrossoverChart(**told, **axes, lines=series, crossings=marks, limits=limits)
    slope, peak = draw_(st.floats(1e-9, 1e9)), draw_(_maybe(st.floats(1e-9, 1e9)))
    return RooflineChart(**told, **axes, slope=slope, peak=peak, roof_label=draw_(_TEXTS), points=series)


@st.composite
def _bar_charts(draw_: st.DrawFn) -> Chart:
    told: dict[str, Any] = {"title": draw_(_TEXTS), "description": draw_(_TEXTS), "axis": draw_(_axes(log=False))}
    words = tuple((grade, draw_(_TEXTS)) for grade in Grade)
    ends, grades = _maybe(_UP), st.sampled_from(Grade)
    if draw_(st.booleans()):
        bar = st.builds(CostBar, label=_TEXTS, text=_TEXTS, amount=ends, low=ends, high=ends, grade=grades)
        bars = draw_(st.lists(bar, max_size=6).map(tuple))
        limits = draw_(st.lists(st.builds(Limit, label=_TEXTS, value=_UP), max_size=2).map(tuple))
        return CostChart(**told, bars=bars, limits=limits, grade_words=words)
    row = st.builds(
        HeadroomRow,
        label=_TEXTS,
        text=_TEXTS,
        headroom=ends,
        low=ends,
        high=ends,
        margin=st.floats(1, 1e6),
        grade=grades,
    )
    rows = draw_(st.lists(row, max_size=6).map(tuple))
    labels: dict[str, Any] = {"required_label": draw_(_TEXTS), "margin_label": draw_(_TEXTS)}
    return HeadroomChart(**told, **labels, rows=rows, grade_words=words)


@QUICK
@given(chart=st.one_of(_charts(), _bar_charts()), size=_SIZES)
def test_everything_lies_within_the_picture(chart: Chart, size: tuple[int, int]) -> None:
    """No coordinate is NaN or outside of the view box, and hostile texts leave the XML well-formed and without elements of their own."""
    drawn = read_svg(draw(chart, width=size[0], height=size[1]))

    assert drawn.outside == []
    assert drawn.width == size[0]
    kinds = {element.tag.rpartition("}")[2] for element in drawn.root.iter()}
    assert kinds <= {"svg", "title", "desc", "line", "polyline", "polygon", "circle", "text"}


@QUICK
@given(
    values=st.lists(_ANY, min_size=1, max_size=5),
    from_zero=st.booleans(),
    count=st.integers(2, 12),
    end=st.floats(50, 900),
)
def test_a_linear_axis_holds_its_values_in_order(
    values: list[float], count: int, end: float, *, from_zero: bool
) -> None:
    """Every value is within the ends, larger values are no further left, ticks rise by one step and their labels differ."""
    scale = scale_of(values, Axis(label="x", from_zero=from_zero), 0.0, end, count)

    assert all(scale.holds(value) for value in values)
    pixels = [scale.at(value) for value in sorted(values)]
    assert pixels == sorted(pixels)
    assert len(set(scale.labels)) == len(scale.ticks) >= 2
    assert len(scale.ticks) <= count + 3
    steps = [later - earlier for earlier, later in zip(scale.ticks, scale.ticks[1:], strict=False)]
    assert steps == pytest.approx([steps[0]] * len(steps), rel=1e-5)


@QUICK
@given(values=st.lists(_POSITIVE, min_size=1, max_size=5), count=st.integers(2, 12))
def test_a_log_axis_gives_equal_factors_equal_lengths(values: list[float], count: int) -> None:
    """Doubling a value moves it by the same pixels wherever it is, and there are no more ticks than were asked for."""
    scale = scale_of(values, Axis(label="x", log=True), 0.0, 500.0, count)

    assert all(scale.holds(value) for value in values)
    assert 1 <= len(scale.ticks) <= count
    per_factor = 500.0 / math.log(scale.high / scale.low)
    for value in values:
        assert scale.at(value) == pytest.approx(per_factor * math.log(value / scale.low), abs=1e-6)

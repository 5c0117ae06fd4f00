from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import Any

import pytest

from helpers.charts import LONG_NAME, QUANTS, example_charts
from helpers.hostile import HOSTILE
from helpers.svg import Drawn, read_svg
from suffice.decide.verdict import Grade
from suffice.report.svg import draw, responsive
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
from suffice.report.tables import one_line

CHARTS = [*example_charts("en"), *example_charts("zh")]
X, Y = Axis(label="load", unit="users"), Axis(label="TTFT", unit="s")
PAYLOADS = (
    *HOSTILE[:-1],
    "<script>window.owned=1</script>",
    '"><img src=x onerror=alert(1)>',
    "</svg></style><script>1</script>",
    "javascript:alert(1)",
    "]]><!-- &#60;b&#62; -->",
    "\u202egnp.exe\u2066\u2069",
)


def _latency(*points: Point, limits: tuple[Limit, ...] = (), x: Axis = X, y: Axis = Y, **more: Any) -> LatencyChart:  # noqa: ANN401  # fields of Series
    curve = Series(name="P90", points=points, **more)
    return LatencyChart(title="t", description="d", x=x, y=y, curves=(curve,), limits=limits)


def _costs(*amounts: float | None, limits: tuple[Limit, ...] = ()) -> CostChart:
    bars = tuple(
        CostBar(label=f"m{number}", text=f"{amount} USD", amount=amount, grade=Grade.ENOUGH)
        for number, amount in enumerate(amounts)
    )
    return CostChart(title="t", description="d", axis=Axis(label="cost", unit="USD"), bars=bars, limits=limits)


def _read(chart: Chart, width: int = 640) -> Drawn:
    return read_svg(draw(chart, width=width))


def _find(drawn: Drawn, name: str) -> list[dict[str, str]]:
    return [dict(element.attrib) for element in drawn.root.iter() if element.tag.endswith(f"}}{name}")]


def _bars(drawn: Drawn) -> list[tuple[float, float]]:
    """Left and right end of each bar that is not a sample in the legend."""
    shapes = [[float(place.split(",")[0]) for place in one["points"].split()] for one in _find(drawn, "polygon")]
    return [(min(xs), max(xs)) for xs in shapes]


@pytest.mark.parametrize("width", [340, 720])
@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: type(chart).__name__)
def test_every_chart_is_an_image_with_alt_text(chart: Chart, width: int) -> None:
    """A screen reader is told the title and the description; everything lies within the picture."""
    drawn = _read(chart, width)

    named = drawn.root.attrib["aria-labelledby"].split()
    told = {element.attrib["id"]: element.text for element in drawn.root.iter() if "id" in element.attrib}
    assert drawn.root.attrib["role"] == "img"
    assert [told[name] for name in named] == [chart.title, chart.description]
    assert drawn.outside == []
    assert len(drawn.texts) > 5


@pytest.mark.parametrize("chart", CHARTS[:7], ids=lambda chart: type(chart).__name__)
def test_nothing_is_run_and_nothing_is_loaded(chart: Chart) -> None:
    """No script, no style attribute (pages forbid it), no reference, no address but the name of SVG's own space."""
    text = responsive(chart)

    assert not re.search(r"<(script|style|image|use|a|foreignObject)\b|\b(style|href|on\w+)=|url\(", text)
    assert set(re.findall(r"\w+://[^\"']+", text)) == {"http://www.w3.org/2000/svg"}


def test_ids_never_clash_on_a_page() -> None:
    """Different charts, sizes and names have different ids; the same call gives the same bytes."""
    pictures = [responsive(chart, name=name) for chart in CHARTS for name in ("a", "b")]
    ids = re.findall(r'\bid="([^"]+)"', "".join(pictures))

    assert len(ids) == len(set(ids)) == 4 * 2 * len(CHARTS)
    assert responsive(CHARTS[0], name="a") == pictures[0]


def _hostile_charts(text: str) -> list[Chart]:
    point = Point(x=1, y=2, label=text)
    axis = Axis(label=text, unit=text)
    limits = (Limit(label=text, value=1.5),)
    return [
        LatencyChart(
            title=text, description=text, x=axis, y=axis, curves=(Series(name=text, points=(point,)),), limits=limits
        ),
        CrossoverChart(title=text, description=text, x=X, y=Y, lines=(), crossings=(Mark(label=text, x=1, y=2),)),
        CostChart(
            title=text,
            description=text,
            axis=axis,
            bars=(CostBar(label=text, text=text, amount=1, grade=Grade.THIN),),
            limits=limits,
            grade_words=((Grade.THIN, text),),
        ),
        HeadroomChart(
            title=text,
            description=text,
            axis=axis,
            required_label=text,
            margin_label=text,
            rows=(HeadroomRow(label=text, text=text, headroom=2, margin=1.5, grade=Grade.OPEN),),
            grade_words=((Grade.OPEN, text),),
        ),
    ]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_names_from_outside_cannot_become_markup(payload: str) -> None:
    """Every text stays text: the elements are those of a harmless name, and no control or bidi character comes through."""
    for hostile, harmless in zip(_hostile_charts(payload), _hostile_charts("name"), strict=True):
        drawn, usual = _read(hostile), _read(harmless)

        assert {one.tag for one in drawn.root.iter()} <= {one.tag for one in usual.root.iter()}
        assert {key for one in drawn.root.iter() for key in one.attrib} <= {
            key for one in usual.root.iter() for key in one.attrib
        } | {"font-size", "font-weight", "text-anchor"}
        assert drawn.outside == []
        told = [one.text or "" for one in drawn.root.iter() if one.tag.endswith(("title", "desc"))]
        assert told == [one_line(payload)] * 2


def test_numbers_beside_bars_are_never_cut_on_a_phone() -> None:
    """At 340 pixels a long name loses its middle, and the text with the figures stands whole below it."""
    texts = _read(example_charts()[4], 340).texts

    assert "1,622.00 USD (900.00 to 2,100.00)" in texts
    assert LONG_NAME not in texts
    assert any(text.startswith("hybrid: ") and "…" in text for text in texts)


def test_points_lie_where_the_ticks_say() -> None:
    """The mark of (4, 2) is on the line of the tick 4 and on that of the tick 2."""
    drawn = _read(_latency(Point(x=0, y=0), Point(x=4, y=2), Point(x=8, y=4), course=Course.POINTS))
    circle = _find(drawn, "circle")[-2]
    labels = {(one.text, one.attrib.get("text-anchor")): one.attrib for one in drawn.root.iter() if "x" in one.attrib}

    assert float(circle["cx"]) == pytest.approx(float(labels["4", "middle"]["x"]), abs=0.1)
    assert float(circle["cy"]) + 4 == pytest.approx(float(labels["2", "end"]["y"]), abs=0.1)


def test_bars_are_as_long_as_their_amounts() -> None:
    """Twice the cost, twice the length; an unknown one has no bar."""
    first, second = _bars(_read(_costs(250, 500, None)))

    assert first[0] == second[0]
    assert second[1] - second[0] == pytest.approx(2 * (first[1] - first[0]), abs=0.1)


def test_an_enormous_cost_does_not_hide_the_others() -> None:
    """A bar of 1000 times the median is cut with an arrow: five corners instead of four; the others keep a length to compare."""
    drawn = _read(_costs(100, 120, 120_000))
    shapes = [one["points"].split() for one in _find(drawn, "polygon")]
    bars = _bars(drawn)

    assert [len(shape) for shape in shapes] == [4, 4, 5]
    assert bars[0][1] - bars[0][0] > 50
    assert "120000 USD" in drawn.texts


@pytest.mark.parametrize("width", [340, 800, 1180])
def test_no_line_runs_through_the_texts_of_bars(width: int) -> None:
    """Neither the budget nor the grid touches a name or an amount, wherever it falls."""
    for budget in (120.0, 240.0, 360.0, 480.0):
        chart = _costs(100, 250, 500, limits=(Limit(label="budget", value=budget),))
        drawn = _read(chart, width)
        lines = [one for one in _find(drawn, "line") if one["x1"] == one["x2"]]
        beside = [one for one in drawn.root.iter() if one.text in {"250 USD", "500 USD", "100 USD"}]
        assert len(lines) > 4
        assert len(beside) == 3
        for text in beside:
            bottom = float(text.attrib["y"]) + 3.0  # what hangs below the line of writing
            top = float(text.attrib["y"]) - 12.0
            through = [one for one in lines if float(one["y1"]) < bottom and float(one["y2"]) > top]
            assert through == []


def test_what_is_required_is_at_one_and_each_margin_at_its_own() -> None:
    """The line of the requirement is where the axis says 1, and a row's margin of 1.5 half as far again from 0."""
    row = HeadroomRow(label="decode", text="", headroom=2, margin=1.5, grade=Grade.ENOUGH)
    drawn = _read(HeadroomChart(title="t", description="d", axis=X, required_label="r", margin_label="m", rows=(row,)))
    thick = [one for one in _find(drawn, "line") if one["stroke-width"] == "2" and one["x1"] == one["x2"]]
    dashed, full = sorted(thick, key=lambda one: "stroke-dasharray" not in one)
    start, end = _bars(drawn)[-1]

    assert float(full["x1"]) - start == pytest.approx((end - start) / 2, abs=0.1)
    assert float(dashed["x1"]) - start == pytest.approx((end - start) * 0.75, abs=0.1)


@pytest.mark.parametrize(
    ("low", "high", "caps"), [(None, None, 0), (1.8, None, 1), (None, 2.4, 1), (1.8, 2.4, 2), (1.8, 1e9, 1)]
)
def test_an_unknown_end_of_an_interval_is_not_drawn(low: float | None, high: float | None, caps: int) -> None:
    """Each known end has a cap; one far outside ends at the edge without a cap, and the point stays readable."""
    points = (Point(x=1, y=1), Point(x=2, y=2, y_low=low, y_high=high))
    drawn = _read(_latency(*points, course=Course.POINTS))
    lines = [one for one in _find(drawn, "line") if one["stroke-width"] == "1.2"]

    assert sum(one["y1"] == one["y2"] for one in lines) == caps
    assert sum(one["x1"] == one["x2"] for one in lines) == sum(end is not None for end in (low, high))
    first, second = (float(one["cy"]) for one in _find(drawn, "circle")[-2:])
    assert first - second > 20


@pytest.mark.parametrize(
    ("value", "along", "text", "lines"),
    [
        (3.0, Along.Y, "limit", 1),
        (300.0, Along.Y, "↑ limit", 0),
        (3.0, Along.X, "limit", 1),
        (300.0, Along.X, "limit →", 0),
    ],
)
def test_a_limit_far_away_is_named_and_not_drawn_to_scale(value: float, along: Along, text: str, lines: int) -> None:
    """A limit near the data is a line; one of a hundred times the data would press that into a corner."""
    drawn = _read(_latency(Point(x=1, y=1), Point(x=2, y=2), limits=(Limit(label="limit", value=value, along=along),)))

    assert text in drawn.texts
    assert sum("chart-limit" in one["stroke"] for one in _find(drawn, "line")) == lines


def test_steps_hold_until_the_next_point() -> None:
    """A line of steps has no slope anywhere."""
    points = [Point(x=x, y=y) for x, y in ((1, 10), (2, 20), (4, 40))]
    path = _find(_read(_latency(*points, course=Course.STEPS)), "polyline")[0]["points"]
    places = [tuple(place.split(",")) for place in path.split()]

    assert len(places) == 5
    assert all((x1 == x2) != (y1 == y2) for (x1, y1), (x2, y2) in pairwise(places))


def test_a_curve_goes_from_left_to_right_however_it_was_measured() -> None:
    """Levels come in the order in which a search tried them."""
    path = _find(_read(_latency(Point(x=4, y=2), Point(x=1, y=1), Point(x=8, y=3))), "polyline")[0]["points"]
    xs = [float(place.split(",")[0]) for place in path.split()]

    assert xs == sorted(xs)


def test_names_stand_apart_where_there_is_room() -> None:
    """On a wide picture each of eight names is written once, beside its point, and none covers another."""
    drawn = _read(example_charts()[3], 720)
    boxes = []
    for one in drawn.root.iter():
        if one.text is not None and one.text.startswith("Qwen2.5"):
            left, baseline = float(one.attrib["x"]), float(one.attrib["y"])
            boxes.append((left, left + 6 * len(one.text), baseline - 8, baseline))

    assert len(boxes) == len(QUANTS)
    covered = [
        (one, other)
        for number, one in enumerate(boxes)
        for other in boxes[number + 1 :]
        if min(one[1], other[1]) > max(one[0], other[0]) and min(one[3], other[3]) > max(one[2], other[2])
    ]
    assert covered == []


def test_names_become_numbers_where_there_is_no_room() -> None:
    """On a phone the points have numbers, and the legend says which name each number is of."""
    texts = _read(example_charts()[3], 340).texts

    for number, (name, _, _) in enumerate(QUANTS, 1):
        assert texts.count(f"Qwen2.5-7B-{name}") == 1
        assert texts.count(str(number)) >= 2


def test_a_roofline_has_its_ridge_where_both_roofs_meet() -> None:
    """Bandwidth 50 GB/s and 400 GFLOP/s meet at 8 FLOP/byte: left of it the roof rises, right of it it is level."""
    work = Series(name="decode", points=(Point(x=8, y=100),))
    chart = RooflineChart(title="t", description="d", x=X, y=Y, slope=50, peak=400, roof_label="roof", points=(work,))
    drawn = _read(chart)
    (x1, y1), (x2, y2), (x3, y3) = (
        tuple(map(float, place.split(","))) for place in _find(drawn, "polyline")[0]["points"].split()
    )

    assert x1 < x2 < x3
    assert y1 > y2 == y3
    assert x2 == pytest.approx(float(_find(drawn, "circle")[-1]["cx"]), abs=0.1)


@pytest.mark.parametrize(
    "points",
    [
        (),
        (Point(x=1, y=1),),
        (Point(x=3, y=3), Point(x=3, y=3)),
        (Point(x=0, y=0),),
        (Point(x=-5, y=-1e90), Point(x=5, y=1e90)),
        tuple(Point(x=n, y=n % 7) for n in range(1, 3001)),
    ],
    ids=["none", "one", "equal", "zero", "huge", "many"],
)
def test_odd_data_is_drawn_all_the_same(points: tuple[Point, ...]) -> None:
    """No point, one, equal ones, huge ranges, thousands: a picture comes out, with all of it inside."""
    for course in Course:
        drawn = _read(_latency(*points, course=course))

        assert drawn.outside == []
        assert drawn.count("circle") <= len(points) + 1


def test_a_chart_of_many_lines_grows_instead_of_hiding_them() -> None:
    """Forty curves have forty names in the legend, and the plot keeps its height."""
    curves = tuple(Series(name=f"curve number {n}", points=(Point(x=1, y=n), Point(x=2, y=n + 1))) for n in range(40))
    drawn = _read(LatencyChart(title="t", description="d", x=X, y=Y, curves=curves))

    assert {one.name for one in curves} <= set(drawn.texts)
    assert drawn.height > 360
    assert drawn.outside == []


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e101])
def test_numbers_that_cannot_be_drawn_are_refused(bad: float) -> None:
    """NaN, infinity and what no axis could hold raise ValueError where the chart is made, not a broken picture."""
    for make in (
        lambda: Point(x=bad, y=1),
        lambda: Point(x=1, y=1, y_high=bad),
        lambda: Limit(label="l", value=bad),
        lambda: Mark(label="m", x=1, y=bad),
        lambda: CostBar(label="l", text="t", amount=bad, grade=Grade.OPEN),
        lambda: HeadroomRow(label="l", text="t", headroom=bad, grade=Grade.OPEN),
        lambda: RooflineChart(title="t", description="d", x=X, y=Y, slope=bad, peak=None, roof_label="r"),
    ):
        with pytest.raises(ValueError, match="finite numbers"):
            make()


def test_other_nonsense_is_refused() -> None:
    """Negative costs and headroom, roofs at 0, a log axis of shares, 0 on a log axis, and pictures that nobody could read."""
    with pytest.raises(ValueError, match="costs"):
        CostBar(label="l", text="t", amount=-1, grade=Grade.OPEN)
    with pytest.raises(ValueError, match="headroom"):
        HeadroomRow(label="l", text="t", headroom=-1, grade=Grade.OPEN)
    with pytest.raises(ValueError, match="roofs"):
        RooflineChart(title="t", description="d", x=X, y=Y, slope=0, peak=None, roof_label="r")
    with pytest.raises(ValueError, match="shares"):
        Axis(label="x", log=True, percent=True)
    with pytest.raises(ValueError, match="above 0"):
        draw(_latency(Point(x=0, y=1), x=Axis(label="users", log=True)))
    with pytest.raises(ValueError, match="too small"):
        draw(CHARTS[0], width=100)


def test_the_title_can_be_left_to_the_page() -> None:
    """Without heading the title is in the alt text only, and the picture says nothing twice beside a caption."""
    chart = CHARTS[2]
    drawn = read_svg(draw(chart, heading=False))

    assert chart.title in _read(chart).texts
    assert chart.title not in drawn.texts
    assert drawn.root[0].text == chart.title


def test_shares_are_percentages_up_to_one_hundred() -> None:
    """An axis of scores does not go beyond 100 %, though the best is at 99.5 %."""
    point = Point(x=1, y=0.995, y_high=1.0)
    chart = ParetoChart(
        title="t",
        description="d",
        x=X,
        y=Axis(label="score", percent=True, from_zero=False),
        groups=(Series(name="g", points=(point, Point(x=2, y=0.8))),),
    )
    labels = [text for text in _read(chart).texts if text.endswith("%")]

    assert "100 %" in labels
    assert max(float(label.removesuffix(" %")) for label in labels) == 100


def test_a_long_name_of_a_limit_keeps_its_figures() -> None:
    """Beside an upright line in the middle of a narrow picture the name is broken into lines, and none of it is cut."""
    name = "at the demand's load of 15 requests a second with the margin of 1.25"
    points = (Point(x=1, y=1), Point(x=29, y=2))
    drawn = _read(_latency(*points, limits=(Limit(label=name, value=15, along=Along.X),)), 340)
    at = float(next(one for one in _find(drawn, "line") if "chart-limit" in one["stroke"])["x1"])
    parts = [one for one in drawn.root.iter() if one.text and one.attrib.get("font-size") == "11" and one.text in name]

    assert " ".join(one.text or "" for one in parts) == name
    assert len(parts) > 1
    assert all(float(one.attrib["x"]) > at for one in parts)


def test_the_name_of_a_limit_far_above_keeps_clear_of_the_curve() -> None:
    """The curve runs along the top edge; the name of the limit above it goes below the curve."""
    points = tuple(Point(x=x, y=38) for x in range(1, 9))
    drawn = _read(_latency(*points, limits=(Limit(label="limit 200 ms", value=200),)))
    name = next(one for one in drawn.root.iter() if one.text == "↑ limit 200 ms")
    curve = {float(place.split(",")[1]) for place in _find(drawn, "polyline")[0]["points"].split()}

    assert float(name.attrib["y"]) - 10 > max(curve) + 4

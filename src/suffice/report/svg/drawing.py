"""From a chart to one element of SVG that stands for itself: with its alt text, without scripts, styles or addresses."""

from __future__ import annotations

import hashlib
from html import escape
from typing import TYPE_CHECKING, Final

from suffice.report.svg.bars import draw_costs, draw_headroom
from suffice.report.svg.canvas import TEXT_PIXELS, Canvas, pixel
from suffice.report.svg.curves import Picture, draw_picture
from suffice.report.svg.types import (
    Axis,
    Chart,
    CostChart,
    Course,
    CrossoverChart,
    HeadroomChart,
    HistoryChart,
    LatencyChart,
    ParetoChart,
    Point,
    RooflineChart,
    Series,
)
from suffice.report.tables import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

_NAMESPACE: Final = "http://www.w3.org/2000/svg"  # a name: nothing is fetched
_FONTS: Final = "system-ui, 'Noto Sans', 'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', sans-serif"
_LEAST_WIDTH: Final = 240
_LEAST_HEIGHT: Final = 160
_WIDE: Final = (820, 390)
_NARROW: Final = (340, 340)
_ROOM: Final = 8.0  # how far a roofline goes beyond the outermost point, as a factor


def draw(chart: Chart, *, width: int = 640, height: int = 360, name: str = "", heading: bool = True) -> str:
    """One ``<svg role="img">`` with the chart's title and description as its alt text.

    Args:
        chart: what is drawn.
        width: of the picture in pixels, 240 at least.
        height: the same, 160 at least; it grows where the legend or the rows need more.
        name: tells two drawings of the same chart on one page apart; their ids differ then.
        heading: whether the title is drawn; without it only the alt text has it, for pages with a caption of their own.

    Raises:
        ValueError: the picture is too small, or a log axis has a value of 0 or below.
    """
    if width < _LEAST_WIDTH or height < _LEAST_HEIGHT:
        raise ValueError(
            f"a chart of {width} x {height} pixels is too small to be read; {_LEAST_WIDTH} x {_LEAST_HEIGHT} is the least"
        )
    canvas = _draw(chart, chart.title if heading else "", width, height)
    mark = f"chart-{_fingerprint((chart, width, height, name))}"
    size = f'viewBox="0 0 {pixel(canvas.width)} {pixel(canvas.height)}" width="{pixel(canvas.width)}" height="{pixel(canvas.height)}"'
    names = f'aria-labelledby="{mark}-title {mark}-desc"'
    font = f'font-family="{_FONTS}" font-size="{pixel(TEXT_PIXELS)}"'
    told = (
        f'<title id="{mark}-title">{escape(one_line(chart.title))}</title>'
        f'<desc id="{mark}-desc">{escape(one_line(chart.description))}</desc>'
    )
    return f'<svg xmlns="{_NAMESPACE}" class="chart" role="img" {names} {size} {font}>{told}{canvas.content}</svg>'


def responsive(chart: Chart, *, name: str = "", heading: bool = True) -> str:
    """The same chart for wide and for narrow screens; :data:`~suffice.report.svg.CHART_STYLE` shows one of them, to readers and to screen readers."""
    pictures = ((kind, size) for kind, size in (("wide", _WIDE), ("narrow", _NARROW)))
    return "".join(
        f'<div class="chart-{kind}">{draw(chart, width=width, height=height, name=name, heading=heading)}</div>'
        for kind, (width, height) in pictures
    )


def _fingerprint(content: object) -> str:
    return hashlib.sha256(repr(content).encode("utf-8", "backslashreplace")).hexdigest()[:12]


def _draw(chart: Chart, title: str, width: float, height: float) -> Canvas:
    match chart:
        case HeadroomChart():
            return draw_headroom(chart, title, width, height)
        case CostChart():
            return draw_costs(chart, title, width, height)
        case RooflineChart():
            picture = _roofline(chart, title)
        case LatencyChart():
            picture = Picture(title=title, x=chart.x, y=chart.y, series=chart.curves, limits=chart.limits)
        case ParetoChart():
            groups = [_apart(group) for group in chart.groups]
            picture = Picture(title=title, x=chart.x, y=chart.y, series=groups, limits=chart.limits)
        case CrossoverChart():
            picture = Picture(
                title=title, x=chart.x, y=chart.y, series=chart.lines, limits=chart.limits, marks=chart.crossings
            )
        case HistoryChart():
            picture = Picture(title=title, x=chart.x, y=chart.y, series=chart.series, limits=chart.limits)
    return draw_picture(picture, width, height)


def _apart(group: Series) -> Series:
    return Series(name=group.name, points=group.points, course=Course.POINTS, hollow=group.hollow)


def _roofline(chart: RooflineChart, title: str) -> Picture:
    """Both axes in equal factors, and the roofs a little beyond the outermost points."""
    points = [point for series in chart.points for point in series.points]
    xs = [point.x for point in points if point.x > 0]
    if chart.peak is not None:
        xs.append(chart.peak / chart.slope)
    roof = Series(name=chart.roof_label, points=_corners(chart, xs or [1.0]))
    return Picture(
        title=title,
        x=Axis(label=chart.x.label, unit=chart.x.unit, log=True),
        y=Axis(label=chart.y.label, unit=chart.y.unit, log=True),
        series=[_apart(series) for series in chart.points],
        roof=roof,
    )


def _corners(chart: RooflineChart, xs: Sequence[float]) -> tuple[Point, ...]:
    places = [min(xs) / _ROOM, max(xs) * _ROOM]
    if chart.peak is None:
        return tuple(Point(x=x, y=x * chart.slope) for x in places)
    ridge = chart.peak / chart.slope
    return tuple(Point(x=x, y=min(x * chart.slope, chart.peak)) for x in sorted({*places, ridge}))

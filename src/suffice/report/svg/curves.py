"""Series, limits and marks in a frame: roofline, latency, Pareto, crossover and history are all of this kind."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from suffice.report.svg.canvas import TEXT_PIXELS, Box, text_width
from suffice.report.svg.frame import SAMPLE_PIXELS, Entry, Frame, Plan, framed
from suffice.report.svg.labels import SMALL_PIXELS, LineSide, Taken, name_line, name_point
from suffice.report.svg.palette import FRAME, LIMIT, ROOF, Ink, SeriesStyle, series_style
from suffice.report.svg.types import Along, Axis, Course, Limit, Mark, Point, Series

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from suffice.report.svg.canvas import Canvas
    from suffice.report.svg.scales import Scale

_FAR: Final = (
    4.0  # a limit that is so many times all data is named, not drawn: to scale it would press the data into a line
)
_FAR_LOG: Final = 100.0
_REACH: Final = 1.0  # how far intervals may widen an axis, in spans of the points
_CAP: Final = 3.0
_MARK_ROOM: Final = 6.0
_MOST_MARKS: Final = 12  # of a line; a curve of many points has them here and there
_SAMPLES: Final = 12.0  # pixels between places of a line that names keep clear of
_BAND_OPACITY: Final = 0.14
_FEW_NAMES: Final = 4
_CROWDED: Final = 1.8  # widths of the picture that all names together take


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """What all charts with two axes consist of. ``roof``: a line of its own weight, by name in the legend."""

    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    limits: Sequence[Limit] = ()
    marks: Sequence[Mark] = ()
    roof: Series | None = None


def draw_picture(picture: Picture, width: float, height: float) -> Canvas:
    """Everything, the lines below and the names above.

    Raises:
        ValueError: a log axis, and a value of 0 or below.
    """
    styles = [series_style(number) for number in range(len(picture.series))]
    xs, ys = _range(picture, Along.X), _range(picture, Along.Y)
    picture, key = _with_key(picture, width)
    entries = [*_entries(picture, styles), *key]
    plan = Plan(title=picture.title, x=picture.x, y=picture.y, xs=xs, ys=ys, entries=entries)
    frame = framed(plan, width, height)
    taken = Taken(inside=frame.inside)
    if picture.roof is not None:
        _draw_line(frame, taken, picture.roof, ROOF)
    drawn = [one for one in picture.limits if _scale(frame, one.along).holds(one.value)]
    for limit in drawn:
        _draw_limit(frame, taken, limit)
    for series, style in zip(picture.series, styles, strict=True):
        _draw_series(frame, taken, series, style)
    _draw_names(frame, taken, picture, drawn)
    return frame.canvas


def _entries(picture: Picture, styles: Sequence[SeriesStyle]) -> list[Entry]:
    entries = [] if picture.roof is None else [Entry(name=picture.roof.name, draw=_sample(picture.roof, None))]
    pairs = zip(picture.series, styles, strict=True)
    return entries + [Entry(name=one.name, draw=_sample(one, style)) for one, style in pairs]


def _with_key(picture: Picture, width: float) -> tuple[Picture, list[Entry]]:
    """Numbers beside the points, and their names in the legend, where names beside the points would cover each other."""
    names = [point.label for series in picture.series for point in series.points if point.label.strip()]
    if len(names) < _FEW_NAMES or sum(text_width(name, SMALL_PIXELS) for name in names) < _CROWDED * width:
        return picture, []
    numbers = {name: str(number) for number, name in enumerate(dict.fromkeys(names), 1)}
    series = [
        replace(one, points=tuple(replace(point, label=numbers.get(point.label, "")) for point in one.points))
        for one in picture.series
    ]
    return replace(picture, series=series), [Entry(name=name, draw=_number(text)) for name, text in numbers.items()]


def _number(text: str) -> Callable[[Canvas, float, float], None]:
    def draw(canvas: Canvas, left: float, middle: float) -> None:
        canvas.text(text, left + SAMPLE_PIXELS, middle + TEXT_PIXELS / 3, anchor="end", bold=True)

    return draw


def _sample(series: Series, style: SeriesStyle | None) -> Callable[[Canvas, float, float], None]:
    def draw(canvas: Canvas, left: float, middle: float) -> None:
        if series.course is not Course.POINTS:
            canvas.line(left, middle, left + SAMPLE_PIXELS, middle, ROOF if style is None else style.ink)
        if style is not None:
            centre = left + SAMPLE_PIXELS / 2
            canvas.mark(style.mark, centre, middle, style.ink.colour, hollow=series.hollow)

    return draw


def _range(picture: Picture, along: Along) -> list[float]:
    """The values that an axis must hold."""
    axis = picture.x if along is Along.X else picture.y
    points = [point for series in _all(picture) for point in series.points]
    values = [point.x if along is Along.X else point.y for point in points]
    values += [mark.x if along is Along.X else mark.y for mark in picture.marks]
    limits = [limit.value for limit in picture.limits if limit.along is along]
    values += [limit for limit in limits if _is_near(limit, values, axis)]
    return values + _interval_ends(points, values, along, axis)


def _all(picture: Picture) -> list[Series]:
    return [*picture.series, *([] if picture.roof is None else [picture.roof])]


def _is_near(limit: float, values: Sequence[float], axis: Axis) -> bool:
    if axis.log:
        return limit > 0 and (not values or min(values) / _FAR_LOG <= limit <= max(values) * _FAR_LOG)
    return not values or abs(limit) <= _FAR * max(abs(value) for value in values)


def _interval_ends(points: Sequence[Point], values: Sequence[float], along: Along, axis: Axis) -> list[float]:
    """Ends of intervals, as far as they leave the points readable."""
    if not values or axis.log:
        return []
    low, high = min(values), max(values)
    span = _REACH * ((high - low) or abs(high))
    ends = [end for point in points for end in _ends(point, along)]
    return [min(max(end, low - span), high + span) for end in ends]


def _ends(point: Point, along: Along) -> list[float]:
    low, high = (point.x_low, point.x_high) if along is Along.X else (point.y_low, point.y_high)
    return [end for end in (low, high) if end is not None]


def _scale(frame: Frame, along: Along) -> Scale:
    return frame.x if along is Along.X else frame.y


def _draw_series(frame: Frame, taken: Taken, series: Series, style: SeriesStyle) -> None:
    points = series.points if series.course is Course.POINTS else sorted(series.points, key=lambda point: point.x)
    if series.course is Course.POINTS:
        for point in points:
            _draw_intervals(frame, taken, point, style.ink)
    else:
        _draw_band(frame, points, style)
        _draw_line(frame, taken, series, style.ink)
    every = 1 if series.course is Course.POINTS else max(1, math.ceil(len(points) / _MOST_MARKS))
    for number, point in enumerate(points):
        x, y = frame.x.at(point.x), frame.y.at(point.y)
        if number % every == 0 or number == len(points) - 1:
            frame.canvas.mark(style.mark, x, y, style.ink.colour, hollow=series.hollow)
            taken.hard.append(_around(x, y))


def _draw_intervals(frame: Frame, taken: Taken, point: Point, ink: Ink) -> None:
    """Bars from end to end, with a cap where the end is within the picture."""
    x, y, thin = frame.x.at(point.x), frame.y.at(point.y), Ink(colour=ink.colour, width=1.2)
    for value in _ends(point, Along.X):
        end = frame.x.at(value)
        frame.canvas.line(x, y, end, y, thin)
        taken.soft.append(Box(left=min(x, end), top=y - 2, right=max(x, end), bottom=y + 2))
        if frame.x.holds(value):
            frame.canvas.line(end, y - _CAP, end, y + _CAP, thin)
    for value in _ends(point, Along.Y):
        end = frame.y.at(value)
        frame.canvas.line(x, y, x, end, thin)
        taken.soft.append(Box(left=x - 2, top=min(y, end), right=x + 2, bottom=max(y, end)))
        if frame.y.holds(value):
            frame.canvas.line(x - _CAP, end, x + _CAP, end, thin)


def _draw_band(frame: Frame, points: Sequence[Point], style: SeriesStyle) -> None:
    """Between the ends of the intervals, of points that have both."""
    known = [(frame.x.at(one.x), one.y_low, one.y_high) for one in points]
    lower = [(x, frame.y.at(low)) for x, low, high in known if low is not None and high is not None]
    upper = [(x, frame.y.at(high)) for x, low, high in known if low is not None and high is not None]
    if len(lower) > 1:
        frame.canvas.polygon([*lower, *reversed(upper)], fill=style.ink.colour, opacity=_BAND_OPACITY)
    elif lower:
        frame.canvas.line(*lower[0], *upper[0], Ink(colour=style.ink.colour, width=1.2))


def _draw_line(frame: Frame, taken: Taken, series: Series, ink: Ink) -> None:
    places = list(_places(frame, series))
    if len(places) > 1:
        frame.canvas.polyline(places, ink)
        taken.soft.extend(_along(places))


def _places(frame: Frame, series: Series) -> Iterator[tuple[float, float]]:
    before: float | None = None
    for point in sorted(series.points, key=lambda point: point.x):
        x, y = frame.x.at(point.x), frame.y.at(point.y)
        if series.course is Course.STEPS and before is not None:
            yield x, before
        yield x, y
        before = y


def _along(places: Sequence[tuple[float, float]]) -> Iterator[Box]:
    """Small boxes along a line: what names keep clear of."""
    for (x1, y1), (x2, y2) in pairwise(places):
        count = int(max(abs(x2 - x1), abs(y2 - y1)) / _SAMPLES) + 1
        for number in range(count):
            share = (number + 0.5) / count
            yield _around(x1 + share * (x2 - x1), y1 + share * (y2 - y1))


def _around(x: float, y: float) -> Box:
    return Box(left=x - _MARK_ROOM, top=y - _MARK_ROOM, right=x + _MARK_ROOM, bottom=y + _MARK_ROOM)


def _draw_limit(frame: Frame, taken: Taken, limit: Limit) -> None:
    inside, at = frame.inside, _scale(frame, limit.along).at(limit.value)
    if limit.along is Along.X:
        frame.canvas.line(at, inside.top, at, inside.bottom, LIMIT)
        taken.soft.append(Box(left=at - 1, top=inside.top, right=at + 1, bottom=inside.bottom))
    else:
        frame.canvas.line(inside.left, at, inside.right, at, LIMIT)
        taken.soft.append(Box(left=inside.left, top=at - 1, right=inside.right, bottom=at + 1))


def _draw_names(frame: Frame, taken: Taken, picture: Picture, drawn: Sequence[Limit]) -> None:
    for mark in picture.marks:
        x, y = frame.x.at(mark.x), frame.y.at(mark.y)
        frame.canvas.mark(0, x, y, FRAME.colour, hollow=True, size=1.8)
        taken.hard.append(_around(x, y))
    for limit in picture.limits:
        _name_limit(frame, taken, limit, is_drawn=limit in drawn)
    for mark in picture.marks:
        name_point(frame.canvas, taken, mark.label, frame.x.at(mark.x), frame.y.at(mark.y))
    for series in picture.series:
        for point in series.points:
            name_point(frame.canvas, taken, point.label, frame.x.at(point.x), frame.y.at(point.y))


def _name_limit(frame: Frame, taken: Taken, limit: Limit, *, is_drawn: bool) -> None:
    scale = _scale(frame, limit.along)
    at, is_above = scale.at(limit.value), limit.value > scale.high
    if limit.along is Along.Y:
        label = limit.label if is_drawn else f"{'↑' if is_above else '↓'} {limit.label}"
        name_line(frame.canvas, taken, label, LineSide(inside=frame.inside, y=at, is_drawn=is_drawn))
    else:
        label = limit.label if is_drawn else f"{limit.label} {'→' if is_above else '←'}"
        name_line(frame.canvas, taken, label, LineSide(inside=frame.inside, x=at))

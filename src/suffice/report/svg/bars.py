"""Bars from left to right with their texts above them, which leaves room for long names on narrow screens."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.report.svg.canvas import TEXT_PIXELS, Canvas, text_width
from suffice.report.svg.frame import EDGE, LINE_PIXELS, SAMPLE_PIXELS, Entry, Head, axis_text, line_sample
from suffice.report.svg.palette import FRAME, GRID, LIMIT, REQUIRED, WITH_MARGIN, GradeStyle, Ink, grade_style
from suffice.report.svg.scales import Scale, scale_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from suffice.decide.verdict import Grade
    from suffice.report.svg.types import Axis, CostChart, HeadroomChart, Limit

_ROW_PIXELS: Final = 42.0
_BAR_PIXELS: Final = 13.0
_BELOW_BAR: Final = 5.0
_MOST_HEADROOM: Final = 4.0  # beyond this a bar is cut: that it is plenty is said by its text
_MOST_MEDIANS: Final = 5.0  # a cost of so many times the median is cut: others could not be compared
_TICK_EVERY: Final = 60.0
_ARROW: Final = 7.0
_BEYOND: Final = 3.0  # pixels by which lines stand out above and below a bar
_ABOVE_BAR: Final = 8.0  # of the text's line over a bar: what hangs below it keeps clear of those lines


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bar:
    label: str
    text: str
    value: float | None
    low: float | None
    high: float | None
    grade: Grade
    margin: float | None = None


def draw_headroom(chart: HeadroomChart, title: str, width: float, height: float) -> Canvas:
    """Headroom of each constraint, with what is required at 1 and each row's margin."""
    bars = [
        _Bar(
            label=one.label,
            text=one.text,
            value=one.headroom,
            low=one.low,
            high=one.high,
            grade=one.grade,
            margin=one.margin,
        )
        for one in chart.rows
    ]
    margins = [bar.margin for bar in bars if bar.margin is not None]
    most = max([_MOST_HEADROOM, *(1.2 * margin for margin in margins)])
    entries = [Entry(name=chart.required_label, draw=line_sample(REQUIRED))]
    if any(margin != 1 for margin in margins):
        entries.append(Entry(name=chart.margin_label, draw=line_sample(WITH_MARGIN)))
    entries += _grade_entries(chart.grade_words, bars)
    values = [1.0, *margins, *_shown(bars, most)]
    board = _Board(_Content(title=title, axis=chart.axis, bars=bars, values=values, entries=entries), width, height)
    board.draw_bars()
    board.draw_lines([(1.0, REQUIRED)])
    return board.canvas


def draw_costs(chart: CostChart, title: str, width: float, height: float) -> Canvas:
    """Costs of a month, with the budget."""
    bars = [
        _Bar(label=bar.label, text=bar.text, value=bar.amount, low=bar.low, high=bar.high, grade=bar.grade)
        for bar in chart.bars
    ]
    amounts = [bar.value for bar in bars if bar.value is not None]
    most = _MOST_MEDIANS * statistics.median(amounts) if amounts else 0.0
    limits = [limit.value for limit in chart.limits if not amounts or limit.value <= max(most, *amounts)]
    entries = [Entry(name=_limit_name(limit, limits), draw=line_sample(LIMIT)) for limit in chart.limits]
    entries += _grade_entries(chart.grade_words, bars)
    values = [*limits, *_shown(bars, most)]
    board = _Board(_Content(title=title, axis=chart.axis, bars=bars, values=values, entries=entries), width, height)
    board.draw_bars()
    board.draw_lines([(limit, LIMIT) for limit in limits])
    return board.canvas


def _limit_name(limit: Limit, drawn: Sequence[float]) -> str:
    return limit.label if limit.value in drawn else f"{limit.label} →"


def _shown(bars: Iterable[_Bar], most: float) -> list[float]:
    """The values that the axis must hold: bars and ends of intervals, none beyond ``most``."""
    known = [value for bar in bars for value in (bar.value, bar.low, bar.high) if value is not None]
    return [min(value, most) for value in known]


def _grade_entries(words: Sequence[tuple[Grade, str]], bars: Sequence[_Bar]) -> list[Entry]:
    used = {bar.grade for bar in bars}
    return [Entry(name=word, draw=_grade_sample(grade_style(grade))) for grade, word in words if grade in used]


def _grade_sample(style: GradeStyle) -> Callable[[Canvas, float, float], None]:
    def draw(canvas: Canvas, left: float, middle: float) -> None:
        half = _BAR_PIXELS / 2 - 1
        _fill(canvas, left + 2, left + SAMPLE_PIXELS - 2, middle - half, middle + half, style)

    return draw


def _fill(canvas: Canvas, left: float, right: float, top: float, bottom: float, style: GradeStyle) -> None:
    corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
    canvas.polygon(corners, fill=style.ink.colour, opacity=style.fill_opacity, ink=style.ink)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Content:
    """What a board shows; ``values`` are what its axis must hold."""

    title: str
    axis: Axis
    bars: Sequence[_Bar]
    values: Sequence[float]
    entries: Sequence[Entry]


class _Board:
    """Rows of bars over one axis that begins at 0."""

    def __init__(self, content: _Content, width: float, height: float) -> None:
        head = Head.of(content.title, content.entries, width)
        self._has_two_lines = any(_is_long(bar, width) for bar in content.bars)
        self._row_pixels = _ROW_PIXELS + (LINE_PIXELS if self._has_two_lines else 0)
        self._bars = content.bars
        self._top = head.height
        self._bottom = self._top + self._row_pixels * len(content.bars) + 4
        needed = self._bottom + 2 * LINE_PIXELS + EDGE
        self.canvas = Canvas(width, needed if content.bars else max(needed, height))
        head.draw(self.canvas)
        self._scale = _fitting_scale(content.values, content.axis, EDGE + 2, width - EDGE - 2)
        self._draw_axis(content.axis)

    def draw_lines(self, lines: Sequence[tuple[float, Ink]]) -> None:
        """Lines across all rows."""
        for value, ink in lines:
            x = self._scale.at(value)
            for number in range(len(self._bars)):  # between the texts, which it would strike through
                top, bottom = self._bar_span(number)
                self.canvas.line(x, top - _BEYOND, x, bottom + _BEYOND, ink)

    def draw_bars(self) -> None:
        """Each bar with its interval, its margin and its texts."""
        for number, bar in enumerate(self._bars):
            top, bottom = self._bar_span(number)
            if bar.value is not None:
                self._draw_bar(bar, bar.value, top, bottom)
            if bar.margin is not None and bar.margin != 1:
                x = self._scale.at(bar.margin)
                self.canvas.line(x, top - _BEYOND, x, bottom + _BEYOND, WITH_MARGIN)
            self._write(bar, top - _ABOVE_BAR)

    def _bar_span(self, number: int) -> tuple[float, float]:
        top = self._top + self._row_pixels * (number + 1) - _BAR_PIXELS - _BELOW_BAR
        return top, top + _BAR_PIXELS

    def _draw_bar(self, bar: _Bar, value: float, top: float, bottom: float) -> None:
        style, middle, start = grade_style(bar.grade), (top + bottom) / 2, self._scale.at(0)
        end = self._scale.at(value)
        if value > self._scale.high:  # an arrow: it goes on
            corners = [(start, top), (end - _ARROW, top), (end, middle), (end - _ARROW, bottom), (start, bottom)]
            self.canvas.polygon(corners, fill=style.ink.colour, opacity=style.fill_opacity, ink=style.ink)
        else:
            _fill(self.canvas, start, end, top, bottom, style)
        for bound in (bar.low, bar.high):
            if bound is not None:
                self._draw_bound(self._scale.at(min(value, self._scale.high)), bound, middle)

    def _draw_bound(self, x: float, bound: float, middle: float) -> None:
        end = self._scale.at(bound)
        self.canvas.line(x, middle, end, middle, Ink(width=1.5))
        if self._scale.holds(bound):
            self.canvas.line(end, middle - 4, end, middle + 4, Ink(width=1.5))

    def _write(self, bar: _Bar, baseline: float) -> None:
        """The name and the text of a bar: in one line, or in two where one of the rows needs them, lest figures be cut."""
        right, width = self.canvas.width - EDGE, self.canvas.width - 2 * EDGE
        if self._has_two_lines:
            self.canvas.text(bar.label, EDGE, baseline - LINE_PIXELS + 2, most=width, bold=True)
            self.canvas.text(bar.text, EDGE, baseline, most=width)
        else:
            self.canvas.text(bar.label, EDGE, baseline)
            self.canvas.text(bar.text, right, baseline, anchor="end")

    def _draw_axis(self, axis: Axis) -> None:
        for tick, label in zip(self._scale.ticks, self._scale.labels, strict=True):
            x = self._scale.at(tick)
            for number in range(len(self._bars)):  # between the texts, as lines of limits are
                top, bottom = self._bar_span(number)
                self.canvas.line(x, top - _BEYOND, x, bottom + _BEYOND, GRID)
            self.canvas.text(label, x, self._bottom + LINE_PIXELS - 3, anchor="middle")
        left, right = self._scale.start, self._scale.end
        self.canvas.line(left, self._bottom, right, self._bottom, FRAME)
        self.canvas.text(axis_text(axis), (left + right) / 2, self._bottom + 2 * LINE_PIXELS - 2, anchor="middle")


def _is_long(bar: _Bar, width: float) -> bool:
    return text_width(bar.label) + text_width(bar.text) + TEXT_PIXELS > width - 2 * EDGE


def _fitting_scale(values: Sequence[float], axis: Axis, left: float, right: float) -> Scale:
    """As many ticks as their labels leave room for."""
    count = int((right - left) / _TICK_EVERY)
    scale = scale_of([0.0, *values] if values else [], axis, left, right, count)
    widest = max((text_width(label) for label in scale.labels), default=0.0)
    fits = int((right - left) / (widest + TEXT_PIXELS)) if widest else count
    return scale if fits >= len(scale.ticks) else scale_of([0.0, *values], axis, left, right, max(2, fits - 1))

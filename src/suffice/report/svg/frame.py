"""The frame of a chart with two axes: title, legend, ticks and grid, and the room that is left for what is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.report.svg.canvas import TEXT_PIXELS, Box, Canvas, text_width, wrapped
from suffice.report.svg.palette import FRAME, GRID, Ink
from suffice.report.svg.scales import Scale, scale_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from suffice.report.svg.types import Axis

TITLE_PIXELS: Final = 14.0
LINE_PIXELS: Final = 18.0
EDGE: Final = 8.0
SAMPLE_PIXELS: Final = 30.0  # of a line in the legend
_GAP: Final = 6.0
_LEAST_PLOT: Final = 190.0  # pixels of height: where the legend needs more, the picture grows
_TICK_EVERY: Final = 42.0
_BETWEEN_ENTRIES: Final = 16.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A name in the legend, and what draws its sample around a place 30 pixels wide: ``draw(canvas, left, middle)``."""

    name: str
    draw: Callable[[Canvas, float, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A canvas with axes drawn on it."""

    canvas: Canvas
    x: Scale
    y: Scale

    @property
    def inside(self) -> Box:
        """Where data is drawn."""
        return Box(left=self.x.start, top=self.y.end, right=self.x.end, bottom=self.y.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a frame is made for: its texts, its axes, and the values that must fit."""

    title: str
    x: Axis
    y: Axis
    xs: Sequence[float]
    ys: Sequence[float]
    entries: Sequence[Entry]


def framed(plan: Plan, width: float, height: float) -> Frame:
    """Lay out and draw a frame; it is as high as asked for, or higher where its legend needs that.

    Raises:
        ValueError: a log axis, and a value of 0 or below.
    """
    head = Head.of(plan.title, plan.entries, width)
    top = head.height + LINE_PIXELS + _GAP
    below = 2 * LINE_PIXELS + EDGE
    canvas = Canvas(width, max(height, top + _LEAST_PLOT + below))
    bottom = canvas.height - below
    y = scale_of(plan.ys, plan.y, bottom, top, int((bottom - top) / _TICK_EVERY))
    left = EDGE + min(max((text_width(label) for label in y.labels), default=0.0), width / 3) + _GAP
    x = _x_scale(plan, left, width - EDGE - _GAP)
    head.draw(canvas)
    canvas.text(axis_text(plan.y), EDGE, head.height + TEXT_PIXELS + 2)
    frame = Frame(canvas=canvas, x=x, y=y)
    _draw_axes(frame, plan)
    return frame


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    entry: Entry
    lines: tuple[str, ...]
    left: float
    top: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Title and legend, laid out: lines of the title, places of the names, and the height of both in pixels."""

    title: tuple[str, ...]
    names: tuple[_Named, ...]
    height: float

    @classmethod
    def of(cls, title: str, entries: Sequence[Entry], width: float) -> Head:
        """Names in rows that fit the width; one that fills more than a row is broken into lines."""
        lines = wrapped(title, width - 2 * EDGE, TITLE_PIXELS, bold=True) if title else ()
        top = EDGE + LINE_PIXELS * len(lines) + (_GAP if lines else 0)
        names: list[_Named] = []
        left, next_top = EDGE, top
        for entry in (one for one in entries if one.name.strip()):
            told = wrapped(entry.name, width - 2 * EDGE - SAMPLE_PIXELS - _GAP)
            needed = SAMPLE_PIXELS + _GAP + max((text_width(line) for line in told), default=0.0)
            if left > EDGE and left + needed > width - EDGE:
                left, top = EDGE, next_top
            names.append(_Named(entry=entry, lines=told, left=left, top=top))
            left += needed + _BETWEEN_ENTRIES
            next_top = max(next_top, top + LINE_PIXELS * len(told))
        return cls(title=lines, names=tuple(names), height=next_top)

    def draw(self, canvas: Canvas) -> None:
        """At the top of a canvas of the width that it was laid out for."""
        for number, line in enumerate(self.title):
            canvas.text(line, EDGE, EDGE + number * LINE_PIXELS + TITLE_PIXELS, size=TITLE_PIXELS, bold=True)
        for name in self.names:
            name.entry.draw(canvas, name.left, name.top + LINE_PIXELS / 2)
            for number, line in enumerate(name.lines):
                baseline = name.top + LINE_PIXELS * (number + 0.5) + TEXT_PIXELS / 3
                canvas.text(line, name.left + SAMPLE_PIXELS + _GAP, baseline)


def axis_text(axis: Axis) -> str:
    """``load (requests/s)``."""
    return f"{axis.label} ({axis.unit})" if axis.unit else axis.label


def line_sample(ink: Ink) -> Callable[[Canvas, float, float], None]:
    """A sample of a line, for the legend."""

    def draw(canvas: Canvas, left: float, middle: float) -> None:
        canvas.line(left, middle, left + SAMPLE_PIXELS, middle, ink)

    return draw


def _x_scale(plan: Plan, left: float, right: float) -> Scale:
    """As many ticks as their labels leave room for."""
    scale = scale_of(plan.xs, plan.x, left, right, 2)
    for count in range(int((right - left) / _TICK_EVERY), 1, -1):
        one = scale_of(plan.xs, plan.x, left, right, count)
        if _apart(one):
            return one
    return scale


def _apart(scale: Scale) -> bool:
    end = -TEXT_PIXELS
    for tick, label in zip(scale.ticks, scale.labels, strict=True):
        half = text_width(label) / 2
        if scale.at(tick) - half < end + TEXT_PIXELS:
            return False
        end = scale.at(tick) + half
    return True


def _draw_axes(frame: Frame, plan: Plan) -> None:
    canvas, inside = frame.canvas, frame.inside
    for tick, label in zip(frame.y.ticks, frame.y.labels, strict=True):
        y = frame.y.at(tick)
        canvas.line(inside.left, y, inside.right, y, GRID)
        canvas.text(label, inside.left - _GAP, y + TEXT_PIXELS / 3, anchor="end", most=inside.left - _GAP)
    for tick, label in zip(frame.x.ticks, frame.x.labels, strict=True):
        x = frame.x.at(tick)
        canvas.line(x, inside.top, x, inside.bottom, GRID)
        canvas.text(label, x, inside.bottom + LINE_PIXELS - 3, anchor="middle")
    canvas.line(inside.left, inside.bottom, inside.right, inside.bottom, FRAME)
    canvas.line(inside.left, inside.top, inside.left, inside.bottom, FRAME)
    middle = (inside.left + inside.right) / 2
    canvas.text(axis_text(plan.x), middle, inside.bottom + 2 * LINE_PIXELS, anchor="middle")

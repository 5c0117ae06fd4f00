"""Where shapes and texts are collected as SVG. Whatever is put on it stays within the picture, and texts cannot become markup."""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

from suffice.report.svg.palette import Ink
from suffice.report.tables import one_line, shortened

if TYPE_CHECKING:
    from collections.abc import Iterable

TEXT_PIXELS: Final = 12.0
_HAIR: Final = Ink()
_WIDE = ("W", "F")
_LETTER_EM: Final = 0.6  # Latin letters of DejaVu Sans, which is wider than other common fonts, so that texts fit
_BOLD: Final = 1.08
_ASCENT: Final = 0.8
_MARK_PIXELS: Final = 4.0
_MOST_LINES: Final = 3
_LEAST_CHARACTERS: Final = 3  # a shorter remnant says nothing
_PIECES: Final = re.compile(r"[^\s\u2e80-\uffff]+\s*|.")  # words, and what may stand at the end of a line by itself
# Corners of each mark in units of its size; the first is a circle.
_SHAPES: Final = (
    (),
    ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    ((0.0, -1.2), (1.1, 0.9), (-1.1, 0.9)),
    ((0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)),
    ((0.0, 1.2), (1.1, -0.9), (-1.1, -0.9)),
    (
        *((-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4)),
        *((0.4, 1.2), (-0.4, 1.2), (-0.4, 0.4), (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4)),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A rectangle in pixels; ``top`` is the smaller number."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        """Pixels across."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """Pixels down."""
        return self.bottom - self.top

    def overlap(self, other: Box) -> float:
        """Square pixels that both cover."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.bottom, other.bottom) - max(self.top, other.top)
        return width * height if width > 0 and height > 0 else 0.0


def text_width(content: str, size: float = TEXT_PIXELS, *, bold: bool = False) -> float:
    """About how many pixels a text takes; the reader's font is not known."""
    ems = sum(
        1.0 if unicodedata.east_asian_width(c) in _WIDE else _LETTER_EM for c in content if not unicodedata.combining(c)
    )
    return ems * size * (_BOLD if bold else 1.0)


def fitted(content: str, pixels: float, size: float = TEXT_PIXELS, *, bold: bool = False) -> str:
    """A text on one line that takes so many pixels at most; the middle of a longer one is left out."""
    line = one_line(content)[:2000].strip()
    if text_width(line, size, bold=bold) <= pixels:
        return line
    fits, fails = _LEAST_CHARACTERS - 1, len(line)
    while fails - fits > 1:
        middle = (fits + fails) // 2
        if text_width(shortened(line, middle), size, bold=bold) <= pixels:
            fits = middle
        else:
            fails = middle
    return shortened(line, fits) if fits >= _LEAST_CHARACTERS else ""


def wrapped(content: str, pixels: float, size: float = TEXT_PIXELS, *, bold: bool = False) -> tuple[str, ...]:
    """A text in lines of so many pixels, broken at spaces and between Chinese characters; three lines at most, the last one is cut."""
    pieces = _PIECES.findall(one_line(content)[:2000].strip())
    lines: list[str] = []
    line = ""
    for number, piece in enumerate(pieces):
        if line and text_width((line + piece).rstrip(), size, bold=bold) > pixels:
            if len(lines) == _MOST_LINES - 1:
                line += "".join(pieces[number:])
                break
            lines.append(line.rstrip())
            line = ""
        line += piece
    return tuple(fitted(one, pixels, size, bold=bold) for one in (*lines, line.rstrip()) if one)


def pixel(value: float) -> str:
    """A coordinate: ``pixel(12.500001) == "12.5"``."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


class Canvas:
    """A picture of a fixed size that is added to. Coordinates beyond its edges are moved to the edge."""

    def __init__(self, width: float, height: float) -> None:
        self.width = width
        self.height = height
        self._parts: list[str] = []

    @property
    def content(self) -> str:
        """The elements so far, in the order in which they came."""
        return "".join(self._parts)

    def line(self, x1: float, y1: float, x2: float, y2: float, ink: Ink = _HAIR) -> None:
        """A straight line."""
        ends = f'x1="{self._x(x1)}" y1="{self._y(y1)}" x2="{self._x(x2)}" y2="{self._y(y2)}"'
        self._parts.append(f"<line {ends}{_stroke(ink)}/>")

    def polyline(self, places: Iterable[tuple[float, float]], ink: Ink) -> None:
        """A line through places, one at least."""
        path = " ".join(f"{self._x(x)},{self._y(y)}" for x, y in places)
        self._parts.append(f'<polyline points="{path}" fill="none" stroke-linejoin="round"{_stroke(ink)}/>')

    def polygon(
        self, places: Iterable[tuple[float, float]], *, fill: str, opacity: float = 1.0, ink: Ink | None = None
    ) -> None:
        """A filled shape, with a line around it where ``ink`` is given."""
        path = " ".join(f"{self._x(x)},{self._y(y)}" for x, y in places)
        full = "" if opacity == 1 else f' fill-opacity="{pixel(opacity)}"'
        self._parts.append(f'<polygon points="{path}" fill="{fill}"{full}{"" if ink is None else _stroke(ink)}/>')

    def mark(self, number: int, x: float, y: float, colour: str, *, hollow: bool = False, size: float = 1.0) -> None:
        """The mark of a series; a hollow one is what is less sure."""
        reach = _MARK_PIXELS * size
        x, y = _between(x, reach * 1.3, self.width), _between(y, reach * 1.3, self.height)
        outline = Ink(colour=colour, width=1.5)
        corners = _SHAPES[number]
        if corners:
            places = [(x + dx * reach, y + dy * reach) for dx, dy in corners]
            self.polygon(places, fill="none" if hollow else colour, ink=outline)
        else:
            fill = "none" if hollow else colour
            circle = f'cx="{pixel(x)}" cy="{pixel(y)}" r="{pixel(reach)}"'
            self._parts.append(f'<circle {circle} fill="{fill}"{_stroke(outline)}/>')

    def text(
        self,
        content: str,
        x: float,
        y: float,
        *,
        anchor: str = "start",
        most: float = math.inf,
        size: float = TEXT_PIXELS,
        bold: bool = False,
    ) -> Box:
        """A text whose baseline is at ``y``, ``most`` pixels wide at most, shifted where it would leave the picture.

        Returns:
            About what it covers.
        """
        line = fitted(content, min(most, self.width - 2), size, bold=bold)
        width = text_width(line, size, bold=bold)
        before = {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor] * width
        left = min(max(x - before, 1.0), self.width - 1 - width)
        baseline = min(max(y, size), self.height - size * (1 - _ASCENT))
        if line:
            attributes = f'x="{pixel(left + before)}" y="{pixel(baseline)}"'
            attributes += "" if anchor == "start" else f' text-anchor="{anchor}"'
            attributes += "" if size == TEXT_PIXELS else f' font-size="{pixel(size)}"'
            attributes += ' font-weight="bold"' if bold else ""
            self._parts.append(f'<text {attributes} fill="currentColor">{escape(line)}</text>')
        return Box(left=left, top=baseline - size * _ASCENT, right=left + width, bottom=baseline + size * (1 - _ASCENT))

    def _x(self, value: float) -> str:
        return pixel(_between(value, 0, self.width))

    def _y(self, value: float) -> str:
        return pixel(_between(value, 0, self.height))


def _between(value: float, room: float, most: float) -> float:
    return min(max(value, room), most - room)


def _stroke(ink: Ink) -> str:
    text = f' stroke="{ink.colour}" stroke-width="{pixel(ink.width)}"'
    text += f' stroke-dasharray="{ink.dash}"' if ink.dash else ""
    return text if ink.opacity == 1 else f'{text} stroke-opacity="{pixel(ink.opacity)}"'

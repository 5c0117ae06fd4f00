"""Where names stand: beside their points, covering neither each other nor what was drawn, as far as there is room."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from suffice.report.svg.canvas import TEXT_PIXELS, Box, Canvas, fitted, text_width, wrapped
from suffice.report.svg.palette import FRAME

if TYPE_CHECKING:
    from collections.abc import Sequence

SMALL_PIXELS: Final = TEXT_PIXELS - 1
_LINE: Final = 1.2  # height of a line of text, in its size
_ASCENT: Final = 0.95
_AIR: Final = 3.0  # pixels
_BESIDE: Final = 4.0
_ROWS: Final = 4
_OUTSIDE: Final = 10.0  # how much worse it is to leave the plot than to cover something
_FAR: Final = 20.0  # pixels from which on a thin line leads to the point
_REACHES: Final = (8.0, 18.0, 30.0, 46.0, 66.0, 90.0)
_WAYS: Final = ((1.0, -0.3), (-1.0, -0.3), (0.7, -1.0), (-0.7, -1.0), (0.7, 1.0), (-0.7, 1.0), (0.0, -1.2), (0.0, 1.2))


@dataclass(slots=True, kw_only=True)
class Taken:
    """What is covered so far within a plot: by ``hard`` things, which no name may hide, and by ``soft`` ones that it may where it must."""

    inside: Box
    hard: list[Box] = field(default_factory=list)
    soft: list[Box] = field(default_factory=list)

    def cost(self, box: Box) -> float:
        """How bad a place is, in areas of the name; 0: nothing is covered."""
        area = max(box.width * box.height, 1.0)
        covered = sum(box.overlap(other) for other in self.hard) + 0.3 * sum(box.overlap(other) for other in self.soft)
        return (covered + _OUTSIDE * (area - box.overlap(self.inside))) / area

    def best(self, boxes: Sequence[Box]) -> Box:
        """The first of the places that cost the least; it is taken from now on."""
        best, least = boxes[0], float("inf")
        for box in boxes:
            cost = self.cost(box)
            if cost < least:
                best, least = box, cost
            if cost == 0:
                break
        self.hard.append(best)
        return best


def name_point(canvas: Canvas, taken: Taken, content: str, x: float, y: float) -> None:
    """Write a name beside a point."""
    line = fitted(content, taken.inside.width * 0.6, SMALL_PIXELS)
    if not line:
        return
    width, height = text_width(line, SMALL_PIXELS) + _AIR, SMALL_PIXELS * _LINE
    boxes = []
    for reach in _REACHES:
        for across, down in _WAYS:
            left = x + across * reach - (width if across < 0 else width / 2 if across == 0 else 0)
            middle = y + down * reach
            boxes.append(Box(left=left, top=middle - height / 2, right=left + width, bottom=middle + height / 2))
    box = taken.best(boxes)
    end = min(max(x, box.left), box.right), min(max(y, box.top), box.bottom)
    if abs(end[0] - x) + abs(end[1] - y) > _FAR:
        canvas.line(x, y, *end, FRAME)
    _write(canvas, [line], box)


def name_line(canvas: Canvas, taken: Taken, content: str, side: LineSide) -> None:
    """Write a name along a line across the plot: in several lines where it is wider than the room beside it."""
    lines = wrapped(content, side.room, SMALL_PIXELS)
    if lines:
        width = max(text_width(line, SMALL_PIXELS) for line in lines)
        _write(canvas, lines, taken.best(side.boxes(width, SMALL_PIXELS * _LINE * len(lines))))


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSide:
    """Places beside a line across a plot: horizontal at ``y`` or vertical at ``x``; the other is None.

    ``is_drawn`` False: the line lies outside of the plot, and its name has to stand near that edge only.
    """

    inside: Box
    x: float | None = None
    y: float | None = None
    is_drawn: bool = True

    @property
    def room(self) -> float:
        """Pixels that a text beside the line may be wide."""
        if self.x is None:
            return 0.7 * self.inside.width
        return max(self.x - self.inside.left, self.inside.right - self.x) - 2 * _BESIDE

    def boxes(self, width: float, height: float) -> list[Box]:
        """Places for a text of that size: ends first."""
        inside = self.inside
        if self.y is not None:
            span = max(inside.width - width, 0.0)
            tops = (self.y - height - 1, self.y + 1) if self.is_drawn else self._rows(self.y, height)
            return [
                Box(
                    left=inside.left + share * span,
                    top=top,
                    right=inside.left + share * span + width,
                    bottom=top + height,
                )
                for share in (1.0, 0.0, 0.5, 0.75, 0.25)
                for top in tops
            ]
        at = 0.0 if self.x is None else self.x
        span = max(inside.height - height, 0.0)
        return [
            Box(left=left, top=inside.top + share * span, right=left + width, bottom=inside.top + share * span + height)
            for share in (0.0, 0.08, 0.16, 0.3, 0.5, 0.7, 1.0)
            for left in (at + _BESIDE, at - _BESIDE - width)
        ]

    def _rows(self, edge: float, height: float) -> list[float]:
        """Tops of rows from an edge of the plot inwards."""
        is_top = edge < (self.inside.top + self.inside.bottom) / 2
        return [edge + 1 + height * row if is_top else edge - 1 - height * (row + 1) for row in range(_ROWS)]


def _write(canvas: Canvas, lines: Sequence[str], box: Box) -> None:
    for number, line in enumerate(lines):
        canvas.text(line, box.left, box.top + SMALL_PIXELS * (_ASCENT + _LINE * number), size=SMALL_PIXELS)

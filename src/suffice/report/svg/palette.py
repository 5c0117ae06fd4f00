"""Colours, dashes and marks. Nothing is told by colour alone: each series has a dash and a mark of its own as well, each grade a filling.

Colours are CSS variables, so that the page decides; each has a fallback that is seen on white and on black (3:1 and more, WCAG 1.4.11).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from suffice.decide.verdict import Grade

LIGHT: Final = {
    "series-1": "#0b5fa5", "series-2": "#a84300", "series-3": "#17713a", "series-4": "#84359a", "series-5": "#006a73",
    "series-6": "#665544", "grade-enough": "#17713a", "grade-thin": "#8a5a00", "grade-not-enough": "#b3261e",
    "grade-open": "#5a5f66", "chart-limit": "#b3261e",
}  # fmt: skip
DARK: Final = {
    "series-1": "#7ab8f5", "series-2": "#f4a261", "series-3": "#6fcf8e", "series-4": "#d59bea", "series-5": "#5fd0d8",
    "series-6": "#c9b8a6", "grade-enough": "#6fcf8e", "grade-thin": "#e6b450", "grade-not-enough": "#ff8a80",
    "grade-open": "#b0b4b9", "chart-limit": "#ff8a80",
}  # fmt: skip
ANYWHERE: Final = {
    "series-1": "#2f7fc1", "series-2": "#c2611f", "series-3": "#2d8a4e", "series-4": "#a45cb8", "series-5": "#1f878f",
    "series-6": "#857463", "grade-enough": "#2d8a4e", "grade-thin": "#a3741a", "grade-not-enough": "#d0453c",
    "grade-open": "#777c83", "chart-limit": "#d0453c",
}  # fmt: skip
_SERIES: Final = 6
_DASHES: Final = ("", "7 3", "2 3", "9 3 2 3", "14 4", "4 2 1 2 1 2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ink:
    """How a line is drawn: a CSS colour, a width, a dash (empty: none) and an opacity."""

    colour: str = "currentColor"
    width: float = 1.0
    dash: str = ""
    opacity: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesStyle:
    """What a series is told apart by. ``mark`` is the number of a shape of :mod:`suffice.report.svg.canvas`."""

    ink: Ink
    mark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GradeStyle:
    """What a grade is told apart by: its colour, how full a bar is, and the line around it."""

    ink: Ink
    fill_opacity: float


GRID: Final = Ink(opacity=0.15)
FRAME: Final = Ink(opacity=0.6)
ROOF: Final = Ink(width=2.5)
REQUIRED: Final = Ink(width=2.0)
WITH_MARGIN: Final = Ink(width=2.0, dash="4 3")


def colour(name: str) -> str:
    """``colour("series-1") == "var(--series-1, #2f7fc1)"``."""
    return f"var(--{name}, {ANYWHERE[name]})"


LIMIT: Final = Ink(colour=colour("chart-limit"), width=1.5, dash="6 4")
_GRADES: Final = {
    Grade.ENOUGH: GradeStyle(ink=Ink(colour=colour("grade-enough")), fill_opacity=0.9),
    Grade.THIN: GradeStyle(ink=Ink(colour=colour("grade-thin"), width=1.5), fill_opacity=0.45),
    Grade.NOT_ENOUGH: GradeStyle(ink=Ink(colour=colour("grade-not-enough"), width=2.0, dash="6 3"), fill_opacity=0.2),
    Grade.OPEN: GradeStyle(ink=Ink(colour=colour("grade-open"), width=1.5, dash="2 3"), fill_opacity=0.0),
}


def series_style(number: int) -> SeriesStyle:
    """Of the n-th series of a chart, from 0 on. After six the colours come again, with other dashes and marks."""
    again = number // _SERIES
    ink = Ink(colour=colour(f"series-{number % _SERIES + 1}"), width=2.0, dash=_DASHES[(number + again) % _SERIES])
    return SeriesStyle(ink=ink, mark=(number + again) % _SERIES)


def grade_style(grade: Grade) -> GradeStyle:
    """How bars of a grade are drawn."""
    return _GRADES[grade]


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


CHART_STYLE: Final = f""":root{{{_variables(LIGHT)}}}
@media screen and (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}
svg.chart{{max-width:100%;height:auto}}
.chart-narrow{{display:none}}
@media screen and (max-width:44em){{.chart-wide{{display:none}}.chart-narrow{{display:block}}}}
"""
"""For the page's style sheet: colours for light, dark and print, and which of the two pictures of :func:`~suffice.report.svg.responsive` is shown."""

"""What charts are drawn from. Every text comes from the caller, in the reader's language; numbers are finite and already in the axis's unit.

All charts have ``title`` (a few words, drawn above) and ``description`` (one or two sentences that say what is to be seen: the alt text).
A page shows the same numbers in a table beside the chart; nothing can be read from the picture only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from suffice.decide.verdict import Grade

LARGEST: Final = 1e100
"""Further from 0 no figure is drawn: beyond the range of floats, axes could not be computed."""


class Along(StrEnum):
    """The axis that a limit is read on."""

    X = "x"
    Y = "y"


class Course(StrEnum):
    """How the points of a series hang together."""

    LINE = "line"  # straight from point to point
    STEPS = "steps"  # the value of a point holds until the next one
    POINTS = "points"  # each for itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """What is read along one side: ``Axis(label="load", unit="requests/s")`` is drawn as "load (requests/s)".

    Attributes:
        label: what it is.
        unit: as a reader knows it; empty: a plain number.
        log: equal factors take equal lengths. Values must be above 0 then; intervals may reach 0 and are cut off.
        from_zero: the axis begins at 0, so that twice as far is twice as much; not with ``log``.
        percent: values are shares, 0 to 1, and are written as percentages.
    """

    label: str
    unit: str = ""
    log: bool = False
    from_zero: bool = True
    percent: bool = False

    def __post_init__(self) -> None:
        if self.log and self.percent:
            raise ValueError("an axis of shares is linear")


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One point with its intervals; an end that is None is not drawn. ``label``: its name beside it, where that is to be shown."""

    x: float
    y: float
    x_low: float | None = None
    x_high: float | None = None
    y_low: float | None = None
    y_high: float | None = None
    label: str = ""

    def __post_init__(self) -> None:
        _check((self.x, self.y, self.x_low, self.x_high, self.y_low, self.y_high))


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Points that belong together under one name in the legend. A line's ``y_low`` and ``y_high`` are drawn as a band.

    ``hollow``: marks are not filled: what is less sure, or did not count.
    """

    name: str
    points: tuple[Point, ...]
    course: Course = Course.LINE
    hollow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A line across at a value: what is asked for, a floor, the demand's volume. Far outside of the data it is named, with an arrow."""

    label: str
    value: float
    along: Along = Along.Y

    def __post_init__(self) -> None:
        _check((self.value,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A place that is pointed at: where two lines cross."""

    label: str
    x: float
    y: float

    def __post_init__(self) -> None:
        _check((self.x, self.y))


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineChart:
    """What a machine can do at most, and where phases of work lie under it (Williams, Waterman and Patterson, CACM 52(4), 2009).

    Attributes:
        x: operations per byte; drawn with a log axis whatever it says.
        y: operations per second; drawn with a log axis whatever it says.
        slope: what the memory roof adds on ``y`` for each unit of ``x``: bandwidth, in units that fit the axes (GB/s for FLOP/byte and GFLOP/s).
        peak: the compute roof in the unit of ``y``; None: not known.
        roof_label: of the roofs, for the legend.
        points: series of phases: reached, and what is possible; one each or together.
    """

    title: str
    description: str
    x: Axis
    y: Axis
    slope: float
    peak: float | None
    roof_label: str
    points: tuple[Series, ...] = ()

    def __post_init__(self) -> None:
        _check((self.slope, self.peak))
        if self.slope <= 0 or (self.peak is not None and self.peak <= 0):
            raise ValueError("the roofs of a roofline lie above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadroomRow:
    """One constraint. ``headroom`` is available over required (for an upper limit the other way round), so that more is better and 1 is just enough.

    Attributes:
        label: what is constrained.
        text: what is said beside the bar: "31 of 12 tokens/s".
        headroom: None: not known, and only the text is shown.
        low, high: ends of its interval; None: not bounded.
        margin: what the demand asks for, over what it needs; 1: no margin.
        grade: how it stands; chooses colour and pattern.
    """

    label: str
    text: str
    headroom: float | None
    grade: Grade
    low: float | None = None
    high: float | None = None
    margin: float = 1.0

    def __post_init__(self) -> None:
        _check((self.headroom, self.low, self.high, self.margin))
        if any(value is not None and value < 0 for value in (self.headroom, self.low, self.high, self.margin)):
            raise ValueError("headroom and margin are not below 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadroomChart:
    """Bars of headroom over one axis, with lines for what is required and for what is required with margin.

    ``grade_words`` is the legend: a grade that no row has is left out. ``height`` grows with the rows.
    """

    title: str
    description: str
    axis: Axis
    required_label: str
    margin_label: str
    rows: tuple[HeadroomRow, ...]
    grade_words: tuple[tuple[Grade, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyChart:
    """Curves of percentiles over load, with limits as lines."""

    title: str
    description: str
    x: Axis
    y: Axis
    curves: tuple[Series, ...]
    limits: tuple[Limit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ParetoChart:
    """Quality against speed: points with intervals both ways and a name each; a series for those on the front, one for the others."""

    title: str
    description: str
    x: Axis
    y: Axis
    groups: tuple[Series, ...]
    limits: tuple[Limit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CostBar:
    """What one option costs in a month, and how it stands. ``text`` is beside the bar: "312.40 USD". ``amount`` None: no price is known."""

    label: str
    text: str
    amount: float | None
    grade: Grade
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        _check((self.amount, self.low, self.high))
        if any(value is not None and value < 0 for value in (self.amount, self.low, self.high)):
            raise ValueError("costs are not below 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class CostChart:
    """Costs of a month as bars, in the order of the ranking; ``limits``: the budget. ``height`` grows with the bars."""

    title: str
    description: str
    axis: Axis
    bars: tuple[CostBar, ...]
    limits: tuple[Limit, ...] = ()
    grade_words: tuple[tuple[Grade, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossoverChart:
    """Costs over volume or users: a line each, :attr:`Course.STEPS` where machines are added; crossings are marked."""

    title: str
    description: str
    x: Axis
    y: Axis
    lines: tuple[Series, ...]
    crossings: tuple[Mark, ...] = ()
    limits: tuple[Limit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryChart:
    """A metric from run to run with its intervals, its levels as further series, and limits as lines."""

    title: str
    description: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    limits: tuple[Limit, ...] = ()


Chart = RooflineChart | HeadroomChart | LatencyChart | ParetoChart | CostChart | CrossoverChart | HistoryChart


def _check(values: Iterable[float | None]) -> None:
    """Refuse what cannot be drawn.

    Raises:
        ValueError: NaN, infinite, or further from 0 than :data:`LARGEST`.
    """
    for value in values:
        if value is not None and not (math.isfinite(value) and abs(value) <= LARGEST):
            raise ValueError(f"a chart is drawn from finite numbers up to {LARGEST:g}, not from {value}")

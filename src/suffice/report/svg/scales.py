"""From values to pixels, with ticks at numbers that people like: 1, 2 or 5 times a power of ten."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.units import GIGA, KILO, MEGA, TERA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.report.svg.types import Axis

_PREFIXES: Final = ((TERA, "T"), (GIGA, "G"), (MEGA, "M"), (KILO, "k"))
_FROM_PREFIX: Final = 10 * KILO  # up to here thousands are written out
_SMALLEST: Final = 1e-90  # differences below are none
_EQUAL: Final = 1e-8  # the same, relative to the values
_NICE: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
_ROOM: Final = 0.04  # of a linear axis beyond the outermost values
_LOG_ROOM: Final = 1.2  # of a log axis, as a factor
_LEAST_FACTOR: Final = 4.0  # between the ends of a log axis
_DIGITS: Final = ((1, 2, 3, 4, 5, 6, 7, 8, 9), (1, 2, 5), (1,))
_STRIDES: Final = (2, 3, 5, 10, 20, 50, 100)
_MOST_DECIMALS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A range of values laid over a range of pixels; ``start`` may be larger than ``end``: y grows downwards in a picture."""

    low: float
    high: float
    start: float
    end: float
    log: bool
    ticks: tuple[float, ...]
    labels: tuple[str, ...]

    def at(self, value: float) -> float:
        """The pixel of a value; one beyond an end is at the end."""
        if value <= self.low:
            return self.start
        if value >= self.high:
            return self.end
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def holds(self, value: float) -> bool:
        """Whether a value lies in the range."""
        return self.low <= value <= self.high


def scale_of(values: Sequence[float], axis: Axis, start: float, end: float, count: int) -> Scale:
    """A scale that holds all values, with about ``count`` ticks; without values it has no ticks.

    Raises:
        ValueError: a log axis, and a value of 0 or below.
    """
    if axis.log:
        if any(value <= 0 for value in values):
            raise ValueError(f"the log axis {axis.label!r} takes values above 0 only")
        low, high, ticks = _log(values or (1.0, 10.0), max(count, 2))
    else:
        low, high, ticks = _linear(values or (0.0, 1.0), axis, max(count, 2))
    shown = ticks if values else ()
    return Scale(low=low, high=high, start=start, end=end, log=axis.log, ticks=shown, labels=_labels(shown, axis))


def _linear(values: Sequence[float], axis: Axis, count: int) -> tuple[float, float, tuple[float, ...]]:
    low, high = min(values), max(values)
    if axis.from_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    size = max(abs(low), abs(high))
    if high - low <= max(_EQUAL * size, _SMALLEST):
        low, high = (low - size / 2, high + size / 2) if size > _SMALLEST else (-1.0 if low < 0 else 0.0, 1.0)
    room = _ROOM * (high - low)
    low, high = (low if low == 0 else low - room), (high if high == 0 else high + room)
    if axis.percent and min(values) >= 0 and max(values) <= 1:
        low, high = max(low, 0.0), min(high, 1.0)
    step = _nice((high - low) / count)
    first, last = math.floor(low / step + _EQUAL), math.ceil(high / step - _EQUAL)
    ticks = tuple(step * number for number in range(first, last + 1))
    return ticks[0], ticks[-1], ticks


def _nice(step: float) -> float:
    """The next number from ``step`` on that is 1, 2, 2.5 or 5 times a power of ten."""
    power = float(f"1e{math.floor(math.log10(step))}")
    return next(one for one in (*(power * nice for nice in _NICE), power * 20) if one >= step * (1 - _EQUAL))


def _log(values: Sequence[float], count: int) -> tuple[float, float, tuple[float, ...]]:
    low, high = min(values) / _LOG_ROOM, max(values) * _LOG_ROOM
    factor = math.sqrt(max(1.0, _LEAST_FACTOR / (high / low)))
    low, high = low / factor, high * factor
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    tries = [[(digit, decade) for decade in decades for digit in digits] for digits in _DIGITS]
    tries += [[(1, decade) for decade in decades if decade % stride == 0] for stride in _STRIDES]
    ticks: tuple[float, ...] = ()
    for one in tries:
        found = tuple(tick for digit, decade in one if low <= (tick := float(f"{digit}e{decade}")) <= high)
        ticks = found or ticks
        if len(ticks) <= count:
            break
    return low, high, ticks


def _labels(ticks: Sequence[float], axis: Axis) -> tuple[str, ...]:
    largest = max((abs(tick) for tick in ticks), default=0.0)
    if axis.log:
        return tuple(_decade(tick, largest) for tick in ticks)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else largest
    if axis.percent:
        return tuple(f"{_number(100 * tick, 100 * step, 100 * largest)} %" for tick in ticks)
    labels = tuple(_number(tick, step, largest) for tick in ticks)
    return labels if len(set(labels)) == len(ticks) else tuple(f"{tick:.12g}" for tick in ticks)


def _number(value: float, step: float, largest: float) -> str:
    """A tick with as many decimals as its neighbours need; all of an axis with the same prefix."""
    if abs(value) < step / 2:
        return "0"
    factor, prefix = next((one for one in _PREFIXES if largest >= one[0] and largest > _FROM_PREFIX), (1, ""))
    decimals = _decimals(step / factor)
    if largest / factor > _FROM_PREFIX or decimals > _MOST_DECIMALS:
        return f"{value:.4g}"
    return f"{value / factor:.{decimals}f}{prefix}"


def _decade(value: float, largest: float) -> str:
    """A tick of a log axis: 1, 10, 100, 1000, or 1k where the axis goes on to 100k."""
    factor, prefix = next((one for one in _PREFIXES if value >= one[0] and largest > _FROM_PREFIX), (1, ""))
    if not prefix and KILO <= value < MEGA:
        return f"{value:.0f}"
    return f"{value / factor:.4g}{prefix}" if value / factor < KILO or not prefix else f"{value:.4g}"


def _decimals(step: float) -> int:
    """How many a step needs: 0.25 needs two, 0.2 one, 20 none."""
    power = math.floor(math.log10(step) + _EQUAL)
    mantissa = step / float(f"1e{power}")
    return max(0, -power + (1 if abs(mantissa - round(mantissa)) > _EQUAL * KILO else 0))

"""What a deeper cache costs at least: its bytes are read at every step, and not faster than the memory gives them.

A slope of step time over depth is a small difference of two noisy times. It may come out too small, even negative, or far too large. The
bytes of the cache and the bandwidth of the machine bound it from below: ``seconds(d) - seconds(0) >= size * kv(d) / bandwidth`` (the part of the
roofline of Williams et al., CACM 52(4), 2009, that grows with depth). What the last-level cache may hold is not counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from suffice.serving.surface import pooled
from suffice.stats.intervals import median
from suffice.units import LARGEST_FIGURE, format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from suffice.serving.surface import Point

# Attention of small models on few cores takes up to 30 times what reading the cache does; a slope beyond this is no attention.
_MANY_TIMES: Final = 100.0
_WORTH_SAYING: Final = 0.03  # of a step's time: within it repetitions are taken for settled (docs/measuring.md)
_LEAST_KEPT: Final = 0.5  # of a measured time: noise does not halve it, a bandwidth that is not the machine's does
_TINY_S: Final = 1 / LARGEST_FIGURE
_LEAST_REPETITIONS: Final = 3  # that show a scatter


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthBound:
    """What one machine and one model allow.

    Attributes:
        kv_bytes: of the cache of one sequence at a depth, all of which a step reads.
        bandwidth_bytes_per_s: the most that was seen of it.
        cached_bytes: that may lie in the last-level cache, and be read faster.
    """

    kv_bytes: Callable[[float], float]
    bandwidth_bytes_per_s: float
    cached_bytes: float = 0.0

    def seconds(self, size: int, depth: float) -> float:
        """The least that ``size`` sequences with ``depth`` tokens each add to a step with empty caches."""
        return max(0.0, size * self.kv_bytes(depth) - self.cached_bytes) / self.bandwidth_bytes_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedSteps:
    """Decode steps that keep the bound.

    Attributes:
        points: as measured where their growth keeps the bound, else the nearest ones whose growth does.
        fast: the same with the bound instead of a slope that is too steep to be one; what the machine may do at best.
        notes: what was changed and why, a sentence each.
    """

    points: tuple[Point, ...]
    fast: tuple[Point, ...]
    notes: tuple[str, ...] = ()


def bounded_steps(points: Sequence[Point], bound: DepthBound) -> BoundedSteps:
    """Decode steps of each size against what reading their caches takes at least."""
    kept: list[Point] = []
    fast: list[Point] = []
    low: list[int] = []
    steep: list[int] = []
    impossible: list[int] = []
    for size in sorted({point.size for point in points}):
        own = [point for point in points if point.size == size]
        rising = _rising(own, bound)
        ratios = [after.seconds / before.seconds for before, after in zip(own, rising, strict=True)]
        if min(ratios) < _LEAST_KEPT:
            impossible.append(size)
            rising = own
        elif max(ratios) > 1 + _WORTH_SAYING:
            low.append(size)
        if _is_steep(own, bound):
            steep.append(size)
        kept += rising
        fast += _floor(rising, bound) if size in steep else rising
    notes = (*_low_note(low), *_steep_note(steep), *_impossible_note(impossible))
    return BoundedSteps(points=tuple(kept), fast=tuple(fast), notes=notes)


def _rising(own: Sequence[Point], bound: DepthBound) -> list[Point]:
    """The steps of one size, nearest to the measured ones by least squares, whose growth is never below the bound."""
    beside: dict[float, list[float]] = {}  # what is left of each without its cache
    for point in own:
        beside.setdefault(point.depth, []).append(point.seconds - bound.seconds(point.size, point.depth))
    rest = dict(pooled(beside))
    return [
        replace(point, seconds=max(_TINY_S, rest[point.depth] + bound.seconds(point.size, point.depth)))
        for point in own
    ]


def _floor(rising: Sequence[Point], bound: DepthBound) -> list[Point]:
    """The shallowest step, and the bound above it."""
    first = min(rising, key=lambda point: point.depth)
    rest_s = first.seconds - bound.seconds(first.size, first.depth)
    return [replace(point, seconds=rest_s + bound.seconds(point.size, point.depth)) for point in rising]


def _is_steep(own: Sequence[Point], bound: DepthBound) -> bool:
    """Whether the deepest step grew by many times the bound; nothing is said where the bound is nothing."""
    first, last = min(own, key=lambda point: point.depth), max(own, key=lambda point: point.depth)
    least_s = bound.seconds(last.size, last.depth) - bound.seconds(first.size, first.depth)
    return least_s > 0 and last.seconds - first.seconds > _MANY_TIMES * least_s


def _sizes(sizes: Sequence[int]) -> str:
    shown = ", ".join(map(str, sizes))
    return f"{shown} sequence" if shown == "1" else f"{shown} sequences"


def _low_note(sizes: Sequence[int]) -> tuple[str, ...]:
    if not sizes:
        return ()
    note = (
        f"steps of {_sizes(sizes)} grew less with depth than reading the cache takes at the measured bandwidth: noise, or a wrong "
        "bandwidth; they are taken to grow by the reading at least"
    )
    return (note,)


def _steep_note(sizes: Sequence[int]) -> tuple[str, ...]:
    if not sizes:
        return ()
    note = (
        f"steps of {_sizes(sizes)} grew with depth by more than {_MANY_TIMES:.0f} times what reading the cache takes: noise of a slow "
        "moment, or a very slow attention; the fast end grows by the reading alone"
    )
    return (note,)


def _impossible_note(sizes: Sequence[int]) -> tuple[str, ...]:
    if not sizes:
        return ()
    note = (
        f"steps of {_sizes(sizes)} are far faster than reading the cache at the measured bandwidth allows: the bandwidth or the bytes of "
        "the cache are wrong; the steps are taken as they were measured"
    )
    return (note,)


def spans_apart(one: Sequence[float], other: Sequence[float], least_share: float) -> str:
    """Two sets of repetitions of the same step that do not overlap and whose medians differ by a share, in words; empty where they agree.

    Args:
        one: seconds.
        other: the same, of the other.
        least_share: by which the medians differ at least.
    """
    if min(len(one), len(other)) < _LEAST_REPETITIONS or (min(one) <= max(other) and min(other) <= max(one)):
        return ""
    middles = sorted((median(one), median(other)))
    if middles[1] <= middles[0] * (1 + least_share):
        return ""
    return f"{_span(one)} and {_span(other)}"


def _span(values: Sequence[float]) -> str:
    return f"{format_seconds(min(values))} to {format_seconds(max(values))}"

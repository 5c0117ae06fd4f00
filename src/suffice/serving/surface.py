"""Seconds of one pass of an engine against its size (sequences or tokens) and the depth of the cache."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np

from suffice.stats.intervals import median

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


class Surface(Protocol):
    """Seconds of a pass; never decreasing in depth."""

    @property
    def largest_size(self) -> float | None:
        """The largest size that rests on evidence; None where a formula holds for all."""

    @property
    def largest_depth(self) -> float | None:
        """The largest depth that rests on evidence; None where a formula holds for all."""

    def at(self, size: float, depth: float) -> float:
        """Seconds of one pass."""

    def row(self, size: float, depths: Floats) -> Floats:
        """Seconds of passes of one size at many depths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One measured pass: ``size`` sequences (decode) or tokens (prefill), ``depth`` tokens in the cache before it."""

    size: int
    depth: float
    seconds: float

    def __post_init__(self) -> None:
        if not (self.size >= 1 and 0 <= self.depth < float("inf") and 0 < self.seconds < float("inf")):
            raise ValueError(
                f"a point needs a size of at least 1, a depth of at least 0 and positive seconds, not {self}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSurface:
    """Bilinear between the points of a grid whose seconds never fall with size or depth.

    Under the smallest size or depth the surface is flat, which is never too fast. Beyond the largest it goes on along the
    last two rows or columns; a single row goes on in proportion to the size, a single depth flat.

    Attributes:
        sizes: ascending.
        depths: ascending, in tokens.
        seconds: one row a size, one column a depth.
    """

    sizes: tuple[float, ...]
    depths: tuple[float, ...]
    seconds: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        # Grids are small, and thousands of them are made: NumPy would take ten times as long.
        columns = len(self.depths)
        if not self.sizes or not columns or [len(row) for row in self.seconds] != [columns] * len(self.sizes):
            raise ValueError("a surface needs one row of seconds a size and one column a depth")
        if any(after <= before for knots in (self.sizes, self.depths) for before, after in pairwise(knots)):
            raise ValueError("sizes and depths of a surface ascend")
        if any(after < before for row in self.seconds for before, after in pairwise(row)):
            raise ValueError("the seconds of a surface never fall with depth")

    @property
    def largest_size(self) -> float:
        """The largest measured size."""
        return self.sizes[-1]

    @property
    def largest_depth(self) -> float:
        """The largest measured depth."""
        return self.depths[-1]

    def at(self, size: float, depth: float) -> float:
        """Seconds of one pass."""
        seconds, sizes = self.seconds, self.sizes
        column, along = _place(self.depths, depth)
        if size >= sizes[-1]:
            return _between(seconds[-1], column, along) * self._growth(size)
        row, share = _place(sizes, size)
        if along == 0.0:  # most of all: a prompt that is read from its beginning
            lower, upper = seconds[row][column], seconds[row + 1][column] if share else 0.0
        else:
            lower = _between(seconds[row], column, along)
            upper = _between(seconds[row + 1], column, along) if share else 0.0
        return lower + share * (upper - lower) if share else lower

    def _growth(self, size: float) -> float:
        """How many times longer a pass beyond the largest size takes than one of that size, whatever the depth."""
        sizes, shallow = self.sizes, [row[0] for row in self.seconds]
        if len(sizes) == 1:
            return size / sizes[0]
        slopes = [(shallow[-1] - shallow[start]) / (sizes[-1] - sizes[start]) for start in (0, -2)]
        return 1.0 + (size - sizes[-1]) * max(0.0, *slopes) / shallow[-1]

    def row(self, size: float, depths: Floats) -> Floats:
        """Seconds of passes of one size at many depths."""
        knots = np.array([self.at(size, depth) for depth in self.depths])
        inside: Floats = np.interp(depths, self.depths, knots)
        if len(self.depths) == 1:
            return inside
        slope = (knots[-1] - knots[-2]) / (self.depths[-1] - self.depths[-2])
        beyond: Floats = inside + slope * np.maximum(depths - self.depths[-1], 0.0)
        return beyond


def _place(knots: Sequence[float], value: float) -> tuple[int, float]:
    """Index of the knot at or under a value and the share of the way to the next (over 1 beyond the last)."""
    if value <= knots[0] or len(knots) == 1:
        return 0, 0.0
    index = min(bisect_right(knots, value) - 1, len(knots) - 2)
    return index, (value - knots[index]) / (knots[index + 1] - knots[index])


def _between(values: Sequence[float], index: int, share: float) -> float:
    return values[index] if share == 0.0 else values[index] + share * (values[index + 1] - values[index])


def surface_of_points(points: Iterable[Point]) -> MeasuredSurface:
    """A surface through measured points, which need not form a full grid.

    Noise that makes a deeper pass faster is pooled (least squares under monotony, Barlow et al. 1972). A size that was measured
    at one depth only borrows how the nearest other size grows, in proportion to the sizes: each sequence reads a cache of its own.

    Raises:
        ValueError: no points.
    """
    by_size: dict[int, dict[float, list[float]]] = {}
    for point in points:
        by_size.setdefault(point.size, {}).setdefault(point.depth, []).append(point.seconds)
    if not by_size:
        raise ValueError("a service curve needs at least one measured point")
    depths = sorted({depth for row in by_size.values() for depth in row})
    curves = {size: pooled(row) for size, row in sorted(by_size.items())}
    return MeasuredSurface(
        sizes=tuple(float(size) for size in curves),
        depths=tuple(depths),
        # Rising, since borrowed growth may cross.
        seconds=tuple(tuple(accumulate(_filled(size, curves, depths), max)) for size in curves),
    )


def pooled(row: dict[float, list[float]]) -> list[tuple[float, float]]:
    """(depth, seconds) of one size that never fall, by pooling adjacent violators; several points at a depth count by their median."""
    blocks: list[tuple[float, int]] = []  # mean seconds and number of depths
    for depth in sorted(row):
        blocks.append((median(row[depth]), 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (left, n_left), (right, n_right) = blocks[-2:]
            blocks[-2:] = [((left * n_left + right * n_right) / (n_left + n_right), n_left + n_right)]
    values = [seconds for seconds, count in blocks for _ in range(count)]
    return list(zip(sorted(row), values, strict=True))


def _filled(size: int, curves: dict[int, list[tuple[float, float]]], depths: list[float]) -> list[float]:
    """The seconds of a size at all depths of the grid, also where it was not measured."""
    own = curves[size]
    if len(own) == 1:
        others = [other for other, curve in curves.items() if len(curve) > 1]
        if not others:
            return [own[0][1]] * len(depths)
        nearest = min(others, key=lambda other: abs(other - size))
        model = _along(curves[nearest], depths)
        there = _along(curves[nearest], [own[0][0]])[0]
        grown = [own[0][1] + (value - there) * size / nearest for value in model]
        return [max(value, min(seconds for _, seconds in own) * _LEAST_SHARE) for value in grown]
    return _along(own, depths)


_LEAST_SHARE = 0.1  # of its one measured time: a borrowed growth never takes a pass towards nothing


def _along(curve: list[tuple[float, float]], depths: list[float]) -> list[float]:
    knots, values = zip(*curve, strict=True)
    return [_between(values, *_place(knots, depth)) for depth in depths]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassPhysics:
    """What a pass reads and computes, and how fast the machine does both.

    Attributes:
        weight_bytes: read by every pass.
        expert_bytes: of all experts together; a pass of n tokens reads ``1 - (1 - expert_share)^n`` of them when routing is even.
        expert_share: share of the experts that one token chooses.
        kv_bytes_per_token: read per sequence and token of depth.
        flop_per_token: at depth 0.
        attention_flop: more operations per token for each token of depth.
        bandwidth_bytes_per_s: reached, not promised.
        flop_per_s: reached; None: compute is not counted.
        fixed_s: of every pass, whatever its size.
    """

    weight_bytes: float
    bandwidth_bytes_per_s: float
    kv_bytes_per_token: float = 0.0
    flop_per_token: float = 0.0
    attention_flop: float = 0.0
    flop_per_s: float | None = None
    fixed_s: float = 0.0
    expert_bytes: float = 0.0
    expert_share: float = 1.0

    def __post_init__(self) -> None:
        amounts = (self.kv_bytes_per_token, self.flop_per_token, self.attention_flop, self.fixed_s, self.expert_bytes)
        if not (0 < self.weight_bytes < float("inf") and 0 < self.bandwidth_bytes_per_s < float("inf")):
            raise ValueError("weight_bytes and bandwidth_bytes_per_s must be positive numbers")
        if not all(0 <= amount < float("inf") for amount in amounts) or not 0 < self.expert_share <= 1:
            raise ValueError(
                "bytes, operations and fixed seconds are not negative, and a share of experts lies in (0, 1]"
            )
        if self.flop_per_s is not None and not 0 < self.flop_per_s < float("inf"):
            raise ValueError("flop_per_s must be a positive number")

    def touched_bytes(self, tokens: float) -> float:
        """Weight bytes that a pass of so many tokens reads."""
        untouched: float = (1.0 - self.expert_share) ** tokens
        return self.weight_bytes + self.expert_bytes * (1.0 - untouched)

    def compute_s(self, flop: float) -> float:
        """Seconds of some operations; 0 where compute is not counted."""
        return 0.0 if self.flop_per_s is None else flop / self.flop_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodePhysics:
    """``max((W + B kv d) / bandwidth, B flop(d) / rate) + fixed`` (Williams et al., CACM 52(4), 2009)."""

    work: PassPhysics
    largest_size: None = None
    largest_depth: None = None

    def at(self, size: float, depth: float) -> float:
        """Seconds of one step of ``size`` sequences at a mean depth."""
        work = self.work
        moved = (work.touched_bytes(size) + size * work.kv_bytes_per_token * depth) / work.bandwidth_bytes_per_s
        computed = work.compute_s(size * (work.flop_per_token + work.attention_flop * depth))
        return max(moved, computed) + work.fixed_s

    def row(self, size: float, depths: Floats) -> Floats:
        """Seconds of steps of one batch at many depths."""
        work = self.work
        moved = (work.touched_bytes(size) + size * work.kv_bytes_per_token * depths) / work.bandwidth_bytes_per_s
        rate = float("inf") if work.flop_per_s is None else work.flop_per_s
        computed = size * (work.flop_per_token + work.attention_flop * depths) / rate
        return np.asarray(np.maximum(moved, computed) + work.fixed_s, dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillPhysics:
    """``max((W + kv (d + n)) / bandwidth, n flop(d + n/2) / rate) + fixed``: a chunk attends to the cache and to half of itself."""

    work: PassPhysics
    largest_size: None = None
    largest_depth: None = None

    def at(self, size: float, depth: float) -> float:
        """Seconds of a chunk of ``size`` tokens that starts at a depth."""
        work = self.work
        moved = (work.touched_bytes(size) + work.kv_bytes_per_token * (depth + size)) / work.bandwidth_bytes_per_s
        computed = work.compute_s(size * (work.flop_per_token + work.attention_flop * (depth + size / 2)))
        return max(moved, computed) + work.fixed_s

    def row(self, size: float, depths: Floats) -> Floats:
        """Seconds of chunks of one size at many depths."""
        return np.array([self.at(size, float(depth)) for depth in depths])

"""From the times of a few slices to the time of all layers: fixed part + sum over kinds of (time of a layer x number of layers).

The time of a slice is a straight line in the numbers of its layers. Each kind has a slope of its own; where the slices cannot tell
two kinds apart, their slopes are held near the ratio of their work (bytes read in decode, multiplications in prefill; 0: not known,
so the slices alone must tell). What the line leaves over, the residual, tells whether the assumption holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

# Relative error that one slice's time is taken to have: it weighs the slices against each other and against the prior.
_TIME_ERROR: Final = 0.03
# How far the ratio of two kinds' times may lie from the ratio of their work. K-quants of other widths differ by about as much.
_SHARE_ERROR: Final = 0.1
# For the residual the ratios are taken as exact: a line with a slope for each kind would go through almost any three slices.
_NO_SHARE_ERROR: Final = 0.0001
LEAST_SLICES: Final = 3
# A slice that lies further off the line than this share of its time contradicts the assumption.
RESIDUAL_TOLERANCE: Final = 0.05
# Stand-ins of random weights against whole files (benchmarks/slices.py, docs/benchmarks.md) differ by about so much, apart from scatter.
STAND_IN_ERROR: Final = 0.05


def is_bent(residual: float | None) -> bool:
    """Whether slices do not lie on a line, by the largest residual of one; None: they were none, or it is not known."""
    return residual is not None and residual > RESIDUAL_TOLERANCE


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceTime:
    """One slice: how many layers of each kind it has, and its time."""

    counts: tuple[float, ...]
    seconds: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.seconds) or self.seconds <= 0:
            raise ValueError(f"a slice's time is positive, not {self.seconds}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFit:
    """The line: ``fixed_s`` is what every slice takes (head, start of a step; in prefill less what the last layer saves)."""

    fixed_s: float
    layer_s: tuple[float, ...]  # of one layer of each kind
    residuals: tuple[float, ...]  # of each slice, as a share of its time: (measured - line) / measured
    slowest_slice_s: float

    def total_s(self, counts: Sequence[float]) -> float:
        """Time of a model with so many layers of each kind; never below that of a slice, which is a part of it."""
        return max(_at(self.fixed_s, self.layer_s, counts), self.slowest_slice_s)

    @property
    def largest_residual(self) -> float:
        """How far the slice that fits worst lies off the line, as a share of its time."""
        return max(abs(residual) for residual in self.residuals)


def fit_layers(slices: Sequence[SliceTime], work: Sequence[float]) -> LayerFit:
    """Fit the line through the slices; ``work`` is what one layer of each kind has to do, in any unit (0: not known).

    Weighted least squares over (fixed, scale, one slope for each kind): slices weigh by their relative error, and each slope is
    held to scale x work with a tolerance of 10 %. With one kind that is the plain line. Residuals are those of the
    line whose slopes have exactly the ratios of the work, so that three slices leave something over.

    Raises:
        ValueError: fewer than three slices, all of the same length, or numbers that do not match.

    Example:
        >>> times = [SliceTime(counts=(n,), seconds=4.8 + 3.8 * n) for n in (2.0, 4.0, 8.0)]
        >>> round(fit_layers(times, [1.0]).total_s([32.0]), 6)
        126.4
    """
    _check(slices, work)
    fixed, layer_s = _line(slices, work, _SHARE_ERROR)
    stiff_fixed, stiff_s = _line(slices, work, _NO_SHARE_ERROR)
    return LayerFit(
        fixed_s=fixed,
        layer_s=layer_s,
        residuals=tuple(1 - _at(stiff_fixed, stiff_s, one.counts) / one.seconds for one in slices),
        slowest_slice_s=max(one.seconds for one in slices),
    )


def _line(slices: Sequence[SliceTime], work: Sequence[float], share_error: float) -> tuple[float, tuple[float, ...]]:
    """Fixed part and slopes."""
    rough = _rough_scale(slices, work)
    rows: list[list[float]] = []
    targets: list[float] = []
    for one in slices:
        weight = 1 / (_TIME_ERROR * one.seconds)
        rows.append([weight, 0.0, *(weight * count for count in one.counts)])
        targets.append(weight * one.seconds)
    for kind, amount in enumerate(work):
        if amount == 0:
            continue
        weight = 1 / (share_error * rough * amount)
        slopes = [weight if index == kind else 0.0 for index in range(len(work))]
        rows.append([0.0, -weight * amount, *slopes])
        targets.append(0.0)
    fixed, _scale, *layer_s = _least_squares(rows, targets)
    return fixed, tuple(layer_s)


def _at(fixed: float, layer_s: Sequence[float], counts: Sequence[float]) -> float:
    return fixed + math.fsum(t * n for t, n in zip(layer_s, counts, strict=True))


def extrapolate(
    counts: Sequence[Sequence[float]],
    times_s: Sequence[Sequence[float]],
    work: Sequence[float],
    full_counts: Sequence[float],
) -> tuple[float, ...]:
    """The time of the whole model for each repetition; ``times_s`` has a row per slice and a column per repetition.

    The slices of a repetition were measured in turns, so a slow moment of the machine hits all of them: fitting each repetition
    apart keeps such moments out of the slopes, and the repetitions are the sample that an interval comes from.
    """
    repetitions = zip(*times_s, strict=True)
    return tuple(
        fit_layers(
            [SliceTime(counts=tuple(own), seconds=seconds) for own, seconds in zip(counts, column, strict=True)], work
        ).total_s(full_counts)
        for column in repetitions
    )


def _check(slices: Sequence[SliceTime], work: Sequence[float]) -> None:
    if len(slices) < LEAST_SLICES:
        raise ValueError(f"a line through {len(slices)} slices proves nothing; {LEAST_SLICES} are needed")
    if any(len(one.counts) != len(work) for one in slices):
        raise ValueError("each slice needs a number of layers for each kind")
    if not work or min(work) < 0 or max(work) == 0:
        raise ValueError("layers have work to do")
    if len({_load(one, work) for one in slices}) == 1:
        raise ValueError("slices of one length say nothing about the time of a layer")


def _load(one: SliceTime, work: Sequence[float]) -> float:
    return math.fsum(n * amount for n, amount in zip(one.counts, work, strict=True))


def _rough_scale(slices: Sequence[SliceTime], work: Sequence[float]) -> float:
    """Seconds for a unit of work, from the slices' times over their work: only as exact as a weight needs to be."""
    return min(one.seconds / load for one in slices if (load := _load(one, work)) > 0)


def _least_squares(rows: list[list[float]], targets: list[float]) -> list[float]:
    """Solve the normal equations, each unknown scaled to a column of length 1 so that they are well conditioned."""
    n = len(rows[0])
    scale = [math.sqrt(math.fsum(row[j] ** 2 for row in rows)) or 1.0 for j in range(n)]
    scaled = [[row[j] / scale[j] for j in range(n)] for row in rows]
    matrix = [
        [math.fsum(row[i] * row[j] for row in scaled) for j in range(n)]
        + [math.fsum(row[i] * target for row, target in zip(scaled, targets, strict=True))]
        for i in range(n)
    ]
    return [value / scale[j] for j, value in enumerate(_solve(matrix))]


def _solve(matrix: list[list[float]]) -> list[float]:
    """Gauss-Jordan elimination with row pivots on an augmented matrix."""
    n = len(matrix)
    for column in range(n):
        pivot = max(range(column, n), key=lambda row: abs(matrix[row][column]))
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        lead = matrix[column][column]
        if lead == 0:
            raise ValueError("the slices do not determine the line")
        matrix[column] = [value / lead for value in matrix[column]]
        for row in range(n):
            if row != column:
                factor = matrix[row][column]
                matrix[row] = [a - factor * b for a, b in zip(matrix[row], matrix[column], strict=True)]
    return [row[-1] for row in matrix]

"""A number that cannot travel without its uncertainty."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A confidence interval ``[low, high]`` at ``level`` (0.95 = 95 %), made by ``method``."""

    low: float
    high: float
    level: float
    method: str

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"interval is upside down: {self.low} > {self.high}")
        if not 0 < self.level < 1:
            raise ValueError(f"a confidence level lies between 0 and 1, not {self.level}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A point value with its interval and its raw samples.

    ``interval`` is None when the samples cannot support one (fewer than two); it is never a zero-width guess.
    ``samples`` are in the unit of ``point``, one per independent repetition, in the order in which they were taken.
    """

    point: float
    interval: Interval | None
    samples: tuple[float, ...]

    @property
    def relative_half_width(self) -> float | None:
        """Half of the interval's width over the point, or None without an interval."""
        if self.interval is None or self.point == 0:
            return None
        return (self.interval.high - self.interval.low) / 2 / abs(self.point)

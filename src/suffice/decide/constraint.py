"""One requirement against what a machine has."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suffice.decide.quantity import Quantity


class Sense(StrEnum):
    """Which side of the requirement is good."""

    AT_LEAST = "at least"
    AT_MOST = "at most"


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """One requirement against what a machine has.

    ``required`` or ``available`` None: unknown. ``margin`` is 1 where headroom is no policy (memory either fits or does not).
    ``of_speed`` False: neither a busy machine nor a slow build changes it. ``judged`` False: stated in the demand, but no
    evidence of this kind exists yet; it is shown and does not decide. ``by_test``: a statistical test has judged it, corrected for all
    that was tried, and ``reached`` is what it said (None: neither was shown); the range is beside it.
    """

    name: str
    unit: str
    sense: Sense
    required: float | None
    available: Quantity | None
    margin: float
    of_speed: bool = True
    judged: bool = True
    note: str = ""
    unbounded: str = "one repetition, no interval"  # why a number has no end on either side
    several: bool = False  # the range is that of serving several requests, which one stream does not show
    by_test: bool = False
    reached: bool | None = None

    @property
    def headroom(self) -> float | None:
        """Available over required, or for an upper limit required over available: 1 is just enough."""
        return None if self.available is None else self._headroom(self.available.point)

    @property
    def headroom_range(self) -> tuple[float | None, float | None]:
        """Low and high end of the headroom; None where it is not bounded."""
        if self.available is None:
            return None, None
        low, high = self.available.low, self.available.high
        if self.sense is Sense.AT_MOST:
            low, high = high, low
        return (None if low is None else self._headroom(low), None if high is None else self._headroom(high))

    def _headroom(self, value: float) -> float | None:
        if self.required is None:
            return None
        if self.sense is Sense.AT_LEAST:
            return value / self.required
        return math.inf if value == 0 else self.required / value

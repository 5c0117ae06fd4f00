"""Time as an argument, so that tests need not wait for it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A monotonic clock. Its zero means nothing; only differences do."""

    def now_s(self) -> float:
        """Seconds since some fixed moment."""


class RealClock:
    """The machine's monotonic clock with the finest resolution."""

    def now_s(self) -> float:
        """Seconds of :func:`time.perf_counter`; never steps back."""
        return time.perf_counter()

"""The client watches itself: how late its event loop is, and how much of its core it uses."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from suffice.units import NANOSECONDS_PER_SECOND

_PERIOD_S: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientReadings:
    """``lags_s``: how much later than asked each of the loop's short sleeps ended. ``cpu_share``: of one core, by this process."""

    lags_s: tuple[float, ...]
    cpu_share: float | None


class Watch:
    """Takes readings until it is stopped. The clock's own granularity (1 ms in epoll) is part of every lag."""

    def __init__(self) -> None:
        self._lags_s: list[float] = []
        self._task: asyncio.Task[None] | None = None
        self._wall_ns = 0
        self._cpu_ns = 0

    def start(self) -> None:
        """Begin; needs a running event loop."""
        self._wall_ns, self._cpu_ns = time.perf_counter_ns(), time.process_time_ns()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while True:
            before_ns = time.perf_counter_ns()
            await asyncio.sleep(_PERIOD_S)
            slept_s = (time.perf_counter_ns() - before_ns) / NANOSECONDS_PER_SECOND
            self._lags_s.append(max(0.0, slept_s - _PERIOD_S))

    async def stop(self) -> ClientReadings:
        """The readings."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        wall_ns = time.perf_counter_ns() - self._wall_ns
        cpu_ns = time.process_time_ns() - self._cpu_ns
        return ClientReadings(lags_s=tuple(self._lags_s), cpu_share=cpu_ns / wall_ns if wall_ns > 0 else None)

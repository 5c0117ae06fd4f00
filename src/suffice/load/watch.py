"""The client watches itself: how late its event loop is, and how much of its core it uses."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import psutil

from suffice.units import NANOSECONDS_PER_SECOND

_PERIOD_S: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientReadings:
    """``lags_s``: how much later than asked each of the loop's short sleeps ended. ``cpu_share``: of one core, by this process.

    ``host_busy_share``: of all CPUs of this machine, by all of its programs; None where the system does not say.
    """

    lags_s: tuple[float, ...]
    cpu_share: float | None
    host_busy_share: float | None = None


class Watch:
    """Takes readings until it is stopped. The clock's own granularity (1 ms in epoll) is part of every lag."""

    def __init__(self) -> None:
        self._lags_s: list[float] = []
        self._task: asyncio.Task[None] | None = None
        self._wall_ns = 0
        self._cpu_ns = 0
        self._host_s: HostSeconds | None = None

    def start(self) -> None:
        """Begin; needs a running event loop."""
        self._wall_ns, self._cpu_ns = time.perf_counter_ns(), time.process_time_ns()
        self._host_s = host_seconds()
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
        return ClientReadings(
            lags_s=tuple(self._lags_s),
            cpu_share=cpu_ns / wall_ns if wall_ns > 0 else None,
            host_busy_share=busy_share(self._host_s, host_seconds()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSeconds:
    """Seconds of all CPUs of this machine since it started: those in which they worked, and all."""

    busy_s: float
    all_s: float


def host_seconds() -> HostSeconds:
    """The machine's counters now. Time that a hypervisor gave to others counts as busy: it was not there for us."""
    times = psutil.cpu_times()
    guests_s = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # Linux counts them as user, too
    all_s = sum(times) - guests_s
    return HostSeconds(busy_s=all_s - times.idle - getattr(times, "iowait", 0.0), all_s=all_s)


def busy_share(before: HostSeconds | None, after: HostSeconds) -> float | None:
    """The share of its CPUs' time in which a machine worked; None when no time has passed by its counters."""
    if before is None or after.all_s <= before.all_s:
        return None
    return min(1.0, max(0.0, (after.busy_s - before.busy_s) / (after.all_s - before.all_s)))

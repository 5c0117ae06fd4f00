"""Readings of what else the machine did while we measured. The rule that judges them is :mod:`suffice.decide.disturbance`.

::

    monitor = ContentionMonitor(system_counters(limits), limits, threads=8)
    monitor.start()
    ...                      # measure
    reading = monitor.stop()

The readings of single repetitions are :mod:`suffice.measure.repetition_watch`.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from suffice.decide.disturbance import ContentionReading
from suffice.measure.run_queue import ThreadUse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.measure.limits import CpuLimits

_Number = TypeVar("_Number", int, float)

SAMPLING_INTERVAL_S: Final = 0.25
# The sampler may use this share of one CPU at most; where a sample is slow (many CPUs, many interrupts) it samples less often.
MAX_SAMPLING_SHARE: Final = 0.004
# Without CONFIG_VIRT_CPU_ACCOUNTING the kernel finds the CPUs' busy time by looking at each tick, while the times of processes
# come from the scheduler's exact clock: the two disagree by about this share.
SAMPLED_ACCOUNTING_ERROR: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuUse:
    """CPU seconds since some moment in the past, at ``time_s`` of a monotonic clock. None: not told."""

    time_s: float
    busy_cpu_s: float | None = None
    own_cpu_s: float | None = None
    steal_cpu_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """All that can be read at one moment: running totals, and below them values of this moment. None: not told."""

    cpu: CpuUse
    watched_cpus: int
    processes: int = 1  # ours, whose times were added up
    tick_s: float = 0.0  # granularity of the CPU times
    throttled_periods: int | None = None
    throttled_s: float | None = None
    cpu_pressure_s: float | None = None
    thermal_throttles: int | None = None
    pages_swapped: int | None = None
    major_faults: int | None = None
    load_average: float | None = None
    frequency_hz: float | None = None
    temperature_c: float | None = None
    quota_periods: int | None = None
    group_cpu_pressure_s: float | None = None
    group_memory_pressure_s: float | None = None
    memory_limit_hits: int | None = None


class CounterSource(Protocol):
    """Where counters come from: :mod:`suffice.measure.counters`, or a script of them in tests."""

    def read(self) -> Counters:
        """Everything; may take milliseconds."""

    def read_cpu(self) -> CpuUse:
        """Only the CPU times, of the processes that the last :meth:`read` found; cheap."""


class Contention(Protocol):
    """What a measuring session needs: a reading of the time between two calls."""

    def start(self) -> None:
        """Begin a reading."""

    def stop(self) -> ContentionReading:
        """End it."""


def _minus(after: _Number | None, before: _Number | None) -> _Number | None:
    return None if after is None or before is None else after - before


def clock_error_s(counters: Counters, own_cpu_s: float | None) -> float:
    """How far busy minus own may be off: a tick per counter at both ends, and the error of sampled accounting."""
    ticks = 2 * counters.tick_s * (counters.watched_cpus + counters.processes)
    return ticks + SAMPLED_ACCOUNTING_ERROR * abs(own_cpu_s or 0.0)


def difference(
    before: Counters,
    after: Counters,
    limits: CpuLimits,
    *,
    threads: int | None = None,
    peak: float | None = None,
    use: ThreadUse | None = None,
) -> ContentionReading:
    """The reading between two moments; ``use`` is what the engine's threads did meanwhile."""
    use = use or ThreadUse(wall_s=0.0)
    own_cpu_s = _minus(after.cpu.own_cpu_s, before.cpu.own_cpu_s)
    return ContentionReading(
        wall_s=after.cpu.time_s - before.cpu.time_s,
        usable_cpus=limits.usable_cpus,
        watched_cpus=after.watched_cpus,
        clock_error_s=clock_error_s(after, own_cpu_s),
        threads=threads,
        busy_cpu_s=_minus(after.cpu.busy_cpu_s, before.cpu.busy_cpu_s),
        own_cpu_s=own_cpu_s,
        steal_cpu_s=_minus(after.cpu.steal_cpu_s, before.cpu.steal_cpu_s),
        throttled_periods=_minus(after.throttled_periods, before.throttled_periods),
        throttled_s=_minus(after.throttled_s, before.throttled_s),
        cpu_pressure_s=_minus(after.cpu_pressure_s, before.cpu_pressure_s),
        thermal_throttles=_minus(after.thermal_throttles, before.thermal_throttles),
        pages_swapped=_minus(after.pages_swapped, before.pages_swapped),
        major_faults=_minus(after.major_faults, before.major_faults),
        load_average=after.load_average,
        frequency_hz=after.frequency_hz,
        temperature_c=after.temperature_c,
        peak_other_cpus=peak,
        run_wait_s=use.waited_s,
        present_s=use.present_s,
        voluntary_switches=use.voluntary_switches,
        involuntary_switches=use.involuntary_switches,
        stops_seen=use.stopped,
        group_cpu_pressure_s=_minus(after.group_cpu_pressure_s, before.group_cpu_pressure_s),
        group_memory_pressure_s=_minus(after.group_memory_pressure_s, before.group_memory_pressure_s),
        memory_limit_hits=_minus(after.memory_limit_hits, before.memory_limit_hits),
        quota_periods=_minus(after.quota_periods, before.quota_periods),
    )


class _Sampler(threading.Thread):
    """Keeps the largest CPU use of others over windows of about ``interval_s``."""

    def __init__(self, source: CounterSource, start: Counters, interval_s: float) -> None:
        super().__init__(name="suffice-contention", daemon=True)
        self._source, self._start_counters, self._interval_s = source, start, interval_s
        self._stopping = threading.Event()
        self.peak_other_cpus: float | None = None

    def run(self) -> None:
        last = self._start_counters.cpu
        while not self._stopping.wait(self._interval_s):
            now = self._source.read_cpu()
            self._note(last, now)
            last = now

    def _note(self, last: CpuUse, now: CpuUse) -> None:
        busy, own = _minus(now.busy_cpu_s, last.busy_cpu_s), _minus(now.own_cpu_s, last.own_cpu_s)
        wall_s = now.time_s - last.time_s
        if busy is None or own is None or wall_s <= 0:
            return
        # Less the clocks' error: the largest of many noisy windows would otherwise always look busy.
        certain_s = busy - own - clock_error_s(self._start_counters, own)
        self.peak_other_cpus = max(self.peak_other_cpus or 0.0, certain_s / wall_s)

    def finish(self) -> float | None:
        self._stopping.set()
        self.join()
        return self.peak_other_cpus


class ContentionMonitor:
    """Reads counters at :meth:`start` and :meth:`stop`, and samples CPU use in between.

    ``threads`` is how many the measured work wants. ``interval_s`` None samples nothing in between.
    """

    def __init__(
        self,
        source: CounterSource,
        limits: CpuLimits,
        *,
        threads: int | None = None,
        interval_s: float | None = SAMPLING_INTERVAL_S,
    ) -> None:
        self._source, self._limits, self._threads, self._interval_s = source, limits, threads, interval_s
        self._before: Counters | None = None
        self._sampler: _Sampler | None = None

    def start(self) -> None:
        """Begin a reading; a reading that was begun before is forgotten."""
        self._end_sampling()
        self._before = self._source.read()
        if self._interval_s is not None:
            begin_s = self._source.read_cpu().time_s
            cost_s = max(0.0, self._source.read_cpu().time_s - begin_s)
            interval_s = max(self._interval_s, cost_s / MAX_SAMPLING_SHARE)
            self._sampler = _Sampler(self._source, self._before, interval_s)
            self._sampler.start()

    def stop(self) -> ContentionReading:
        """End the reading.

        Raises:
            RuntimeError: :meth:`start` was not called before.
        """
        peak = self._end_sampling()
        if self._before is None:
            raise RuntimeError("ContentionMonitor.stop() without start()")
        before, self._before = self._before, None
        return difference(before, self._source.read(), self._limits, threads=self._threads, peak=peak)

    def _end_sampling(self) -> float | None:
        sampler, self._sampler = self._sampler, None
        return None if sampler is None else sampler.finish()


class FakeContention:
    """Gives prepared readings in turn, then the last one again."""

    def __init__(self, readings: Sequence[ContentionReading]) -> None:
        if not readings:
            raise ValueError("FakeContention needs at least one reading")
        self._readings = list(readings)
        self.started = 0
        self.stopped = 0

    def start(self) -> None:
        """Count the call."""
        self.started += 1

    def stop(self) -> ContentionReading:
        """The next prepared reading."""
        self.stopped += 1
        return self._readings.pop(0) if len(self._readings) > 1 else self._readings[0]

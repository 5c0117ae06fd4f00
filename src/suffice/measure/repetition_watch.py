"""What else happened during one repetition: counters at both ends, and the delays of the engine's threads in short windows in between.

::

    source = system_counters(limits)
    source.read()  # finds the engine's process, which is open by now
    watch = RepetitionWatch(source, system_threads((session_pid,)), limits, threads=8)
    watch.start()
    steps_s = session.decode(16)
    seen = watch.stop(worked_s=sum(steps_s))
    mark = judge_repetition(seen.reading, (reference_before, reference_after), reference_level(all_references))
    steps = marks_of_steps(steps_s, seen.start_s, seen.windows)
    elsewhere = mark.disturbed is True and not mark.in_windows
    Repetition(step_s=steps_s, disturbed=mark.disturbed, step_disturbed=steps, elsewhere=elsewhere)  # for two_speeds()
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from suffice.decide.disturbance import ContentionReading, is_window_disturbed
from suffice.measure.contention import MAX_SAMPLING_SHARE, Counters, difference
from suffice.measure.run_queue import use_between
from suffice.stats.quiet import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.measure.limits import CpuLimits
    from suffice.measure.run_queue import ThreadSnapshot, ThreadSource

# Short against a burst of 0.2 s, long against a time slice of 3 ms. Delays of threads are exact, so that no window is too short for them.
WINDOW_INTERVAL_S: Final = 0.05


class QuickSource(Protocol):
    """Counters that are read between repetitions."""

    def read_quick(self) -> Counters:
        """What can be had in less than a millisecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepetitionReading:
    """What else happened during one repetition, which began at ``start_s`` of :func:`time.monotonic`; windows are on the same clock."""

    start_s: float
    reading: ContentionReading
    windows: tuple[Window, ...] = ()


class Repetitions(Protocol):
    """What a series needs: a reading of each of its repetitions."""

    def start(self, pid: int | None = None) -> None:
        """Begin a reading; ``pid``: of the engine that works, where others rest meanwhile. None: all of them count."""

    def stop(self, *, worked_s: float | None = None) -> RepetitionReading:
        """End it."""


class _WindowSampler(threading.Thread):
    """Cuts the time of a repetition into windows, and marks each by the delays of the engine's threads in it."""

    def __init__(self, source: ThreadSource, start: ThreadSnapshot, interval_s: float) -> None:
        super().__init__(name="suffice-windows", daemon=True)
        self._source, self._last, self._interval_s = source, start, interval_s
        self._stopping = threading.Event()
        self._windows: list[Window] = []
        self.stops_seen = 0

    def run(self) -> None:
        while not self._stopping.wait(self._interval_s):
            self._note(self._source.read(switches=False))

    def _note(self, now: ThreadSnapshot) -> None:
        use = use_between(self._last, now)
        self.stops_seen += use.stopped or 0
        mark = is_window_disturbed(use.wall_s, use.waited_s, use.present_s, use.stopped)
        self._windows.append(Window(begin_s=self._last.time_s, end_s=now.time_s, disturbed=mark))
        self._last = now

    def finish(self, end: ThreadSnapshot) -> tuple[Window, ...]:
        self._note(end)
        return tuple(self._windows)

    def end_sampling(self) -> None:
        self._stopping.set()
        self.join()


class RepetitionWatch:
    """A reading for every repetition: counters at both ends, and windows in between.

    ``source`` has been read in full since the engine's process was started (:meth:`CounterSource.read`), or was told of it. ``engine`` are
    the threads of the engine alone; None: not known, and there are no delays. ``interval_s`` None: no windows.
    """

    def __init__(
        self,
        source: QuickSource,
        engine: ThreadSource | None,
        limits: CpuLimits,
        *,
        threads: int | None = None,
        interval_s: float | None = WINDOW_INTERVAL_S,
    ) -> None:
        self._source, self._engine, self._limits, self._threads = source, engine, limits, threads
        self._interval_s = interval_s
        self._before: Counters | None = None
        self._threads_before: ThreadSnapshot | None = None
        self._worker: ThreadSource | None = None  # whose reading was begun
        self._sampler: _WindowSampler | None = None

    def start(self, pid: int | None = None) -> None:
        """Begin a reading, just before the repetition; one that was begun before is forgotten."""
        self._end_sampling()
        self._before = self._source.read_quick()
        if self._engine is None:
            return
        self._worker = self._engine if pid is None else self._engine.only(pid)
        first_s = self._worker.read(switches=False).time_s
        self._threads_before = self._worker.read(switches=True)
        if self._interval_s is not None:
            # Many threads are slow to read; then windows are longer.
            cost_s = self._threads_before.time_s - first_s
            interval_s = max(self._interval_s, cost_s / MAX_SAMPLING_SHARE)
            self._sampler = _WindowSampler(self._worker, self._threads_before, interval_s)
            self._sampler.start()

    def stop(self, *, worked_s: float | None = None) -> RepetitionReading:
        """End it, just after the repetition.

        Args:
            worked_s: seconds that the engine counted as work on CPUs, the sum of the steps; None where a GPU did it.

        Raises:
            RuntimeError: :meth:`start` was not called before.
        """
        sampler = self._end_sampling()
        if self._before is None:
            raise RuntimeError("RepetitionWatch.stop() without start()")
        before, self._before = self._before, None
        threads_before, self._threads_before = self._threads_before, None
        use, start_s = None, before.cpu.time_s
        windows: tuple[Window, ...] = ()
        if self._worker is not None and threads_before is not None:
            end, start_s = self._worker.read(switches=True), threads_before.time_s
            use = use_between(threads_before, end)
            windows = () if sampler is None else sampler.finish(end)
            use = use if sampler is None or use.stopped is None else replace(use, stopped=sampler.stops_seen)
        reading = difference(before, self._source.read_quick(), self._limits, threads=self._threads, use=use)
        return RepetitionReading(start_s=start_s, reading=replace(reading, worked_s=worked_s), windows=windows)

    def _end_sampling(self) -> _WindowSampler | None:
        sampler, self._sampler = self._sampler, None
        if sampler is not None:
            sampler.end_sampling()
        return sampler


class FakeRepetitionWatch:
    """Gives prepared readings in turn, then the last one again."""

    def __init__(self, readings: Sequence[RepetitionReading]) -> None:
        if not readings:
            raise ValueError("FakeRepetitionWatch needs at least one reading")
        self._readings = list(readings)
        self.started = 0
        self.worked_s: list[float | None] = []

    def start(self, pid: int | None = None) -> None:  # noqa: ARG002  # as it is called
        """Count the call."""
        self.started += 1

    def stop(self, *, worked_s: float | None = None) -> RepetitionReading:
        """The next prepared reading, with what the engine worked."""
        self.worked_s.append(worked_s)
        seen = self._readings.pop(0) if len(self._readings) > 1 else self._readings[0]
        return replace(seen, reading=replace(seen.reading, worked_s=worked_s))

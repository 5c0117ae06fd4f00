"""How long the engine's threads ran, and how long they wanted to run and could not: from the scheduler's own clock, in nanoseconds.

``/proc/PID/task/TID/schedstat`` holds the time a thread was on a CPU, the time it waited for one (its *run-queue delay*) and how often it was
put on one (Documentation/scheduler/sched-stats.rst). A thread that waits for a CPU while a step is timed makes the step longer, whoever has
the CPU: another process, a quota, a lower priority. A thread that neither ran nor waited was stopped (SIGSTOP), or waited for a disk.

Where the kernel keeps no such clock, and on macOS and Windows, delays are None; psutil tells switches and CPU times there.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import psutil

from suffice.units import NANOSECONDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LARGEST_FILE_BYTES: Final = 4096  # of what is read here: a schedstat has 60, a status 1500
_STOPPED_STATES: Final = ("T", "t")  # by a signal, by a debugger
# A thread that spins at barriers sleeps a few times a second, when it has nothing to do, or is stopped. One that sleeps at the barriers of
# a model's layers does it ten thousand times a second (OpenMP with more threads than CPUs).
MAX_SLEEPS_PER_S: Final = 100.0
SETTLE_INTERVAL_S: Final = 0.002
# llama.cpp's threads look for more work for about a tenth of a second (poll = 50) before they sleep.
SETTLE_AT_MOST_S: Final = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadTimes:
    """Running totals of one thread. None: not told."""

    ran_s: float
    waited_s: float | None = None
    voluntary_switches: int | None = None
    involuntary_switches: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadSnapshot:
    """All threads of the watched processes at ``time_s`` of a monotonic clock, by thread; and how many processes were stopped then."""

    time_s: float
    threads: Mapping[int, ThreadTimes]
    stopped: int | None = None
    by_process: bool = False  # True: the system tells times of processes only, and each counts as one thread


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadUse:
    """What the threads did between two snapshots. None: not told.

    Attributes:
        wall_s: time between the snapshots.
        ran_s: CPU time of all threads.
        waited_s: time in which a thread could have run and had no CPU, added up over threads.
        present_s: time in which at least one thread ran or waited: that of the thread that was there most. Where threads sleep and wake
            each other hundreds of times a second, none is there all the time; then it is the sum over threads, at most the wall time, which
            may be too much.
        threads: how many did anything.
        voluntary_switches: how often a thread gave its CPU back to wait for something.
        involuntary_switches: how often one was taken off its CPU.
        stopped: processes that were stopped at the second snapshot.
    """

    wall_s: float
    ran_s: float | None = None
    waited_s: float | None = None
    present_s: float | None = None
    threads: int = 0
    voluntary_switches: int | None = None
    involuntary_switches: int | None = None
    stopped: int | None = None


class ThreadSource(Protocol):
    """Where snapshots come from."""

    def read(self, *, switches: bool = True) -> ThreadSnapshot:
        """A snapshot; ``switches`` False leaves them out, which halves the work."""

    def running(self) -> int | None:
        """How many threads have a CPU or wait for one at this moment; None: not told."""

    def only(self, pid: int) -> ThreadSource:
        """The same of one process: of those that rest while it works nothing is told, nor that they are stopped."""


def _read_bytes(path: str) -> bytes | None:
    """A small file of ``/proc``, by the fewest system calls; None when the thread is gone or the file is none of ours."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        return os.read(descriptor, _LARGEST_FILE_BYTES)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _numbers(content: bytes | None) -> list[int]:
    words = (content or b"").split()
    return [int(word) for word in words] if all(word.isdigit() for word in words) else []


def _switches(content: bytes | None) -> tuple[int | None, int | None]:
    found: dict[bytes, int] = {}
    for line in (content or b"").splitlines()[-4:]:  # they are the last lines
        name, _, value = line.partition(b":")
        if value.strip().isdigit():
            found[name] = int(value)
    return found.get(b"voluntary_ctxt_switches"), found.get(b"nonvoluntary_ctxt_switches")


class LinuxThreads:
    """Snapshots from ``/proc`` under ``root`` of all threads of ``pids``."""

    def __init__(
        self, pids: tuple[int, ...], *, root: Path = Path("/"), clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._root, self._clock_s = root, clock_s
        self._folders = tuple((root / f"proc/{pid}").as_posix() for pid in pids)

    def read(self, *, switches: bool = True) -> ThreadSnapshot:
        """Some microseconds for each thread."""
        time_s = self._clock_s()
        threads: dict[int, ThreadTimes] = {}
        states = [self._state(folder) for folder in self._folders]
        for folder in self._folders:
            for task in self._tasks(folder):
                times = self._thread(task, switches=switches)
                if times is not None:
                    threads[int(task.rpartition("/")[2])] = times
        known = [state for state in states if state is not None]
        stopped = sum(state in _STOPPED_STATES for state in known) if known else None
        return ThreadSnapshot(time_s=time_s, threads=threads, stopped=stopped)

    def running(self) -> int | None:
        """Counts the threads whose state is R."""
        states = [self._state(task) for folder in self._folders for task in self._tasks(folder)]
        known = [state for state in states if state is not None]
        return sum(state == "R" for state in known) if known else None

    def only(self, pid: int) -> LinuxThreads:
        """The same of one process."""
        return LinuxThreads((pid,), root=self._root, clock_s=self._clock_s)

    @staticmethod
    def _tasks(folder: str) -> list[str]:
        """The folders of a process's threads; none when it is gone."""
        try:
            names = os.listdir(f"{folder}/task")  # noqa: PTH208  # a Path for each thread takes longer than its file
        except OSError:
            return []
        return [f"{folder}/task/{name}" for name in names if name.isdigit()]

    @staticmethod
    def _state(folder: str) -> str | None:
        content = _read_bytes(f"{folder}/stat")
        words = (content or b"").rpartition(b")")[2].split()
        return words[0].decode(errors="replace") if words else None

    @staticmethod
    def _thread(folder: str, *, switches: bool) -> ThreadTimes | None:
        numbers = _numbers(_read_bytes(f"{folder}/schedstat"))
        if len(numbers) < 3:  # noqa: PLR2004  # ran, waited, times that it was put on a CPU
            return None
        ran, waited, arrivals = numbers[:3]
        voluntary, involuntary = _switches(_read_bytes(f"{folder}/status")) if switches else (None, None)
        return ThreadTimes(
            ran_s=ran / NANOSECONDS_PER_SECOND,
            # A thread that has run was put on a CPU at least once: a kernel that counts none of that keeps no delays.
            waited_s=waited / NANOSECONDS_PER_SECOND if arrivals or not ran else None,
            voluntary_switches=voluntary,
            involuntary_switches=involuntary,
        )


class PortableThreads:
    """What psutil tells on any system: CPU time and switches of each process, which counts as one thread; no delays."""

    def __init__(self, pids: tuple[int, ...], *, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._pids, self._clock_s = pids, clock_s

    def read(self, *, switches: bool = True) -> ThreadSnapshot:
        """Some tens of microseconds for each process."""
        time_s = self._clock_s()
        threads: dict[int, ThreadTimes] = {}
        stopped = None
        for pid in self._pids:
            try:
                process = psutil.Process(pid)
                times = process.cpu_times()
                changes = process.num_ctx_switches() if switches else None
                stopped = (stopped or 0) + (process.status() == psutil.STATUS_STOPPED)
            except psutil.Error:
                continue
            threads[pid] = ThreadTimes(
                ran_s=times.user + times.system,
                voluntary_switches=None if changes is None else changes.voluntary,
                involuntary_switches=None if changes is None else changes.involuntary,
            )
        return ThreadSnapshot(time_s=time_s, threads=threads, stopped=stopped, by_process=True)

    def running(self) -> int | None:
        """Not told."""
        return None

    def only(self, pid: int) -> PortableThreads:
        """The same of one process."""
        return PortableThreads((pid,), clock_s=self._clock_s)


def system_threads(pids: tuple[int, ...]) -> ThreadSource:
    """The snapshots of this machine for the processes ``pids``."""
    if Path("/proc/self/task").is_dir():
        return LinuxThreads(pids)
    return PortableThreads(pids)


def _added(after: ThreadTimes, before: ThreadTimes | None) -> ThreadTimes:
    """What a thread added; one that is new has added all that it has."""
    if before is None:
        return after

    def minus(new: int | None, old: int | None) -> int | None:
        return None if new is None or old is None else new - old

    waited_s = None if after.waited_s is None or before.waited_s is None else after.waited_s - before.waited_s
    return ThreadTimes(
        ran_s=after.ran_s - before.ran_s,
        waited_s=waited_s,
        voluntary_switches=minus(after.voluntary_switches, before.voluntary_switches),
        involuntary_switches=minus(after.involuntary_switches, before.involuntary_switches),
    )


def _total(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if values and len(known) == len(values) else None


def use_between(before: ThreadSnapshot, after: ThreadSnapshot) -> ThreadUse:
    """What the threads did between two snapshots of the same processes. A thread that ended in between takes its last part with it."""
    added = [_added(times, before.threads.get(thread)) for thread, times in after.threads.items()]
    waits = [one.waited_s for one in added if one.waited_s is not None]
    told = bool(added) and len(waits) == len(added)
    present = [one.ran_s + (one.waited_s or 0.0) for one in added]
    wall_s, active = after.time_s - before.time_s, sum(1 for seconds in present if seconds > 0)
    sleeps = _total([one.voluntary_switches for one in added])
    spins = sleeps is not None and sleeps <= MAX_SLEEPS_PER_S * wall_s * active
    return ThreadUse(
        wall_s=wall_s,
        ran_s=sum(one.ran_s for one in added) if added else None,
        waited_s=sum(waits) if told else None,
        # Of a whole process: two busy threads would hide that both were stopped half of the time.
        present_s=(max(present) if spins else min(wall_s, sum(present))) if told and not after.by_process else None,
        threads=active,
        voluntary_switches=sleeps,
        involuntary_switches=_total([one.involuntary_switches for one in added]),
        stopped=after.stopped,
    )


def wait_until_asleep(
    source: ThreadSource,
    *,
    at_most_s: float = SETTLE_AT_MOST_S,
    clock_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> bool | None:
    """Wait until the threads stop looking for work: they would take the CPUs of whoever measures something between two repetitions.

    True when all of them slept, False when ``at_most_s`` was over before, None at once where the system does not tell.
    """
    end_s = clock_s() + at_most_s
    while (running := source.running()) is not None:
        if running == 0:
            return True
        if clock_s() >= end_s:
            return False
        sleep(SETTLE_INTERVAL_S)
    return None

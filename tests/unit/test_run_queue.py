"""Delays of threads from a fake /proc and from this machine, and the watch over one repetition."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from suffice.decide.disturbance import ContentionReading
from suffice.measure.contention import Counters, CpuUse
from suffice.measure.counters import system_counters
from suffice.measure.limits import CpuLimits, read_cpu_limits
from suffice.measure.repetition_watch import FakeRepetitionWatch, RepetitionReading, RepetitionWatch
from suffice.measure.run_queue import (
    LinuxThreads,
    PortableThreads,
    ThreadSnapshot,
    ThreadTimes,
    system_threads,
    use_between,
    wait_until_asleep,
)
from suffice.stats.quiet import Window

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMITS = CpuLimits(usable_cpus=2, cpus=(0, 1), quota_cpus=None, physical_cores=2)
needs_schedstat = pytest.mark.skipif(
    not Path("/proc/self/schedstat").is_file(), reason="this kernel keeps no delays of threads"
)


def thread(root: Path, number: int, *, schedstat: str, state: str = "S", switches: tuple[int, int] = (1, 2)) -> None:
    """One thread of process 50 in a fake /proc."""
    folder = root / f"proc/50/task/{number}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "schedstat").write_text(schedstat)
    (folder / "stat").write_text(f"{number} (a) b) {state} 1 1")
    status = f"Name:\ta\nState:\t{state}\nvoluntary_ctxt_switches:\t{switches[0]}\nnonvoluntary_ctxt_switches:\t{switches[1]}\n"
    (folder / "status").write_text(status)


def process(root: Path, state: str = "S") -> LinuxThreads:
    """Process 50, read at 1 s, 2 s, 3 s ..."""
    (root / "proc/50").mkdir(parents=True, exist_ok=True)
    (root / "proc/50/stat").write_text(f"50 (a) b) {state} 1 1")
    seconds = iter(float(second) for second in range(1, 100))
    return LinuxThreads((50,), root=root, clock_s=lambda: next(seconds))


def test_what_threads_did_between_two_snapshots(tmp_path: Path) -> None:
    """Times are in seconds, a new thread has added all that it has, and presence is that of the busiest thread."""
    source = process(tmp_path)
    thread(tmp_path, 50, schedstat="1000000000 500000000 7\n")
    thread(tmp_path, 51, schedstat="0 0 0\n", switches=(0, 0))
    before = source.read()
    thread(tmp_path, 50, schedstat="1600000000 700000000 9\n", switches=(4, 8))
    thread(tmp_path, 52, schedstat="300000000 100000000 2\n", switches=(5, 6))
    use = use_between(before, source.read())
    assert use.wall_s == pytest.approx(1.0)
    assert use.ran_s == pytest.approx(0.9)
    assert use.waited_s == pytest.approx(0.3)
    assert use.present_s == pytest.approx(0.8)
    assert (use.threads, use.stopped) == (2, 0)
    assert (use.voluntary_switches, use.involuntary_switches) == (3 + 0 + 5, 6 + 0 + 6)


def test_threads_that_wake_each_other_are_there_together(tmp_path: Path) -> None:
    """Two threads that take turns, 400 sleeps in a second: neither was there all the time, both together were; never more than the time."""
    source = process(tmp_path)
    for number in (50, 51):
        thread(tmp_path, number, schedstat="0 0 0\n", switches=(0, 0))
    before = source.read()
    for number, ran in ((50, "500000000 0 1"), (51, "450000000 0 1")):
        thread(tmp_path, number, schedstat=ran, switches=(200, 0))
    turns = source.read()
    assert use_between(before, turns).present_s == pytest.approx(0.95)
    thread(tmp_path, 51, schedstat="900000000 0 1\n", switches=(200, 0))
    assert use_between(before, replace(source.read(), time_s=turns.time_s)).present_s == pytest.approx(1.0)


def test_switches_are_left_out_when_nobody_asks(tmp_path: Path) -> None:
    """Half of the files are then not read, and unknown is not zero."""
    source = process(tmp_path)
    thread(tmp_path, 50, schedstat="1 0 1\n")
    use = use_between(source.read(switches=False), source.read(switches=False))
    assert (use.voluntary_switches, use.involuntary_switches) == (None, None)
    assert use.waited_s == 0.0


def test_a_kernel_without_delays_tells_none(tmp_path: Path) -> None:
    """A thread that has run but was never put on a CPU: nobody counts, so that its delay of zero is not known to be one."""
    source = process(tmp_path)
    thread(tmp_path, 50, schedstat="5000000000 0 0\n")
    use = use_between(source.read(), source.read())
    assert use.ran_s == 0.0
    assert (use.waited_s, use.present_s) == (None, None)


def test_a_process_that_is_gone_or_garbled_tells_nothing(tmp_path: Path) -> None:
    """No folder, no state; cut-off files are as good as none."""
    gone = LinuxThreads((99,), root=tmp_path)
    use = use_between(gone.read(), gone.read())
    assert (use.ran_s, use.waited_s, use.stopped, use.threads) == (None, None, None, 0)
    assert gone.running() is None
    source = process(tmp_path)
    thread(tmp_path, 50, schedstat="12 x 3")
    assert source.read().threads == {}


def test_stopped_and_running_are_read_from_the_states(tmp_path: Path) -> None:
    """A process in state T was stopped; threads in state R have a CPU or wait for one."""
    source = process(tmp_path, state="T")
    thread(tmp_path, 50, schedstat="1 0 1\n", state="T")
    thread(tmp_path, 51, schedstat="1 0 1\n", state="R")
    assert source.read().stopped == 1
    assert source.running() == 1


def test_one_of_several_processes_is_read_alone(tmp_path: Path) -> None:
    """One that rests while another works is stopped, and nobody's business."""
    process(tmp_path, state="T")
    thread(tmp_path, 50, schedstat="1 0 1\n", state="T")
    other = tmp_path / "proc/60/task/60"
    other.mkdir(parents=True)
    (tmp_path / "proc/60/stat").write_text("60 (x) R 1")
    (other / "schedstat").write_text("2000000000 0 1\n")
    source = LinuxThreads((50, 60), root=tmp_path)

    assert source.read().stopped == 1
    alone = source.only(60).read(switches=False)
    assert (alone.stopped, list(alone.threads)) == (0, [60])
    assert alone.threads[60].ran_s == 2


class Sleepers:
    """Threads that run for some looks, then sleep."""

    def __init__(self, running: list[int | None]) -> None:
        self._running = running

    def read(self, *, switches: bool = True) -> ThreadSnapshot:  # noqa: ARG002 - of the protocol
        """Nothing."""
        return ThreadSnapshot(time_s=0.0, threads={})

    def running(self) -> int | None:
        """The next number; the last one again."""
        return self._running.pop(0) if len(self._running) > 1 else self._running[0]

    def only(self, pid: int) -> Sleepers:  # noqa: ARG002 - of the protocol
        """There is one process."""
        return self


@pytest.mark.parametrize(("running", "expected"), [([2, 1, 0], True), ([2], False), ([None], None)])
def test_waiting_until_threads_sleep(running: list[int | None], *, expected: bool | None) -> None:
    """They slept, they went on until the time was over, or the system does not tell."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    slept = wait_until_asleep(Sleepers(running), at_most_s=0.1, clock_s=lambda: now[0], sleep=sleep)
    assert slept is expected
    assert now[0] <= 0.11


def test_portable_threads_tell_no_delays() -> None:
    """CPU time of this process only grows; what it waited for psutil does not know."""
    source = PortableThreads((os.getpid(),))
    use = use_between(source.read(), source.read())
    assert use.ran_s is not None
    assert use.ran_s >= 0
    assert (use.waited_s, use.present_s, source.running()) == (None, None, None)
    assert PortableThreads((2**22 + 5,)).read().threads == {}


@pytest.fixture
def spinner() -> Iterator[subprocess.Popen[bytes]]:
    """A process that computes until it is killed."""
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.read(1)  # it has started
        try:
            yield child
        finally:
            child.send_signal(signal.SIGKILL)


@needs_schedstat
def test_a_real_stop_is_seen_as_absence(spinner: subprocess.Popen[bytes]) -> None:
    """A process that spins is there, however busy the machine; from when it is stopped it neither runs nor waits."""
    source = system_threads((spinner.pid,))
    before = source.read()
    for _ in range(500):
        time.sleep(0.02)
        if (use_between(before, source.read()).present_s or 0.0) > 0.01:
            break
    else:
        pytest.fail("a process that spins was never seen to run or to wait")
    spinner.send_signal(signal.SIGSTOP)
    while not (before := source.read()).stopped:
        time.sleep(0.01)
    time.sleep(0.05)
    assert use_between(before, source.read()).present_s == 0.0
    spinner.send_signal(signal.SIGCONT)


class Script:
    """Counters and threads of a repetition: a thread that ran all of it but for a delay of 20 ms in the third window."""

    def __init__(self) -> None:
        self.snapshots = 0
        self.enough = threading.Event()

    def read_quick(self) -> Counters:
        """Nothing but the time."""
        return Counters(cpu=CpuUse(time_s=self._time_s()), watched_cpus=2)

    def read(self, *, switches: bool = True) -> ThreadSnapshot:
        """50 ms after the last one, but for the first two, those of the start: reading takes no time."""
        at = self._time_s()
        self.snapshots += 1
        waited_s = 0.02 if self.snapshots > 4 else 0.0
        if self.snapshots > 6:
            self.enough.set()
        times = ThreadTimes(
            ran_s=at - waited_s,
            waited_s=waited_s,
            voluntary_switches=1 if switches else None,
            involuntary_switches=self.snapshots,
        )
        return ThreadSnapshot(time_s=at, threads={7: times}, stopped=0)

    def _time_s(self) -> float:
        return 0.05 * max(0, self.snapshots - 1)

    def running(self) -> int | None:
        """Not told."""
        return None

    def only(self, pid: int) -> Script:  # noqa: ARG002 - of the protocol
        """There is one process."""
        return self


def test_a_repetition_is_cut_into_windows() -> None:
    """The delay makes its window a disturbed one, those around it are quiet, and the whole has its seconds."""
    script = Script()
    watch = RepetitionWatch(script, script, LIMITS, threads=1, interval_s=0.001)
    watch.start()
    assert script.enough.wait(10)
    seen = watch.stop(worked_s=0.25)
    assert seen.start_s == 0.0
    assert [window.disturbed for window in seen.windows[:5]] == [False, False, True, False, False]
    assert seen.windows[2].begin_s == pytest.approx(0.1)
    assert seen.reading.run_wait_s == pytest.approx(0.02)
    assert (seen.reading.worked_s, seen.reading.stops_seen, seen.reading.voluntary_switches) == (0.25, 0, 0)
    assert not any(one.name == "suffice-windows" for one in threading.enumerate())


def test_a_watch_without_threads_has_counters_only() -> None:
    """Where the engine's threads are not known, delays are None and there are no windows."""
    watch = RepetitionWatch(Script(), None, LIMITS, threads=1)
    watch.start()
    seen = watch.stop()
    assert seen.windows == ()
    assert (seen.reading.run_wait_s, seen.reading.stops_seen, seen.reading.worked_s) == (None, None, None)
    with pytest.raises(RuntimeError, match="without start"):
        watch.stop()


def test_a_watch_on_this_machine(spinner: subprocess.Popen[bytes]) -> None:
    """Counters and threads of a real process; the windows follow each other from the start to the end."""
    limits = read_cpu_limits()
    source = system_counters(limits)
    source.read()
    watch = RepetitionWatch(source, system_threads((spinner.pid,)), limits, threads=1, interval_s=0.01)
    watch.start()
    watch.start()  # a second start begins anew
    time.sleep(0.05)
    seen = watch.stop()
    assert seen.reading.wall_s > 0
    assert seen.reading.own_cpu_s is None or seen.reading.own_cpu_s >= 0
    edges = [(window.begin_s, window.end_s) for window in seen.windows]
    assert all(end == begin for (_, end), (begin, _) in pairwise(edges))
    assert seen.windows == () or edges[0][0] == seen.start_s


def test_the_fake_watch_gives_its_readings_in_turn() -> None:
    """The shipped fake keeps what the engine worked in the reading that it gives."""
    reading = ContentionReading(wall_s=1.0, usable_cpus=1, watched_cpus=1)
    first = RepetitionReading(start_s=1.0, reading=reading, windows=(Window(begin_s=1.0, end_s=2.0, disturbed=True),))
    fake = FakeRepetitionWatch([first, replace(first, start_s=2.0)])
    fake.start()
    assert fake.stop(worked_s=0.9) == replace(first, reading=replace(reading, worked_s=0.9))
    assert [fake.stop().start_s, fake.stop().start_s] == [2.0, 2.0]
    assert (fake.started, fake.worked_s) == (1, [0.9, None, None])
    with pytest.raises(ValueError, match="at least one"):
        FakeRepetitionWatch([])

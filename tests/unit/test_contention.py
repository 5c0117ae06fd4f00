"""Counters of a fake /proc, the monitor, and its fake."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from suffice.decide.disturbance import ContentionReading
from suffice.measure.contention import ContentionMonitor, Counters, CpuUse, FakeContention, _Sampler, difference
from suffice.measure.counters import LinuxCounters, PortableCounters, system_counters
from suffice.measure.limits import CpuLimits, read_cpu_limits

if TYPE_CHECKING:
    from pathlib import Path

LIMITS = CpuLimits(usable_cpus=2, cpus=(0, 1), quota_cpus=None, physical_cores=2)
TICK_S = 0.01


def write(path: Path, text: str) -> None:
    """Write one file of a fake tree."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def process_line(pid: int, parent: int, *, ticks: int, faults: int = 0) -> str:
    """A /proc/<pid>/stat with a nasty name; half of the ticks are those of children that ended."""
    own, ended = ticks - ticks // 2, ticks // 2
    return f"{pid} (a) b) R {parent} 1 1 0 -1 0 7 8 {faults} 0 {own} 0 {ended} 0 20 0 1 0 99 0 0\n"


def stat(*, user: int, steal: int, other_cpu: int = 0) -> str:
    """Two CPUs of ours with the same numbers, and a third that is not ours. user nice system idle iowait irq softirq steal."""
    ours = f"{user} 1 2 500 3 4 5 {steal} 77 0"
    return f"cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 {ours}\ncpu1 {ours}\ncpu2 {other_cpu} 0 0 0 0 0 0 0 0 0\nintr 5 cpu0\n"


def tree(root: Path) -> LinuxCounters:
    """A process 10 of ours with child 11 and grandchild 12, and a stranger 20."""
    write(root / "proc/stat", stat(user=100, steal=6))
    for pid, parent, ticks in ((10, 1, 40), (11, 10, 20), (12, 11, 10), (20, 1, 1000)):
        write(root / f"proc/{pid}/stat", process_line(pid, parent, ticks=ticks, faults=2))
    return LinuxCounters(LIMITS, root=root, own_pid=10, tick_s=TICK_S)


def test_busy_steal_and_own_of_a_fake_proc(tmp_path: Path) -> None:
    """Busy is user, nice, system and interrupts of our two CPUs; own is us, child and grandchild, and no stranger."""
    counters = tree(tmp_path).read()
    assert counters.cpu.busy_cpu_s == pytest.approx(2 * (100 + 1 + 2 + 4 + 5) * TICK_S)
    assert counters.cpu.steal_cpu_s == pytest.approx(2 * 6 * TICK_S)
    assert counters.cpu.own_cpu_s == pytest.approx((40 + 20 + 10) * TICK_S)
    assert (counters.watched_cpus, counters.processes, counters.major_faults) == (2, 3, 6)


def test_a_worker_that_is_no_child_can_be_named(tmp_path: Path) -> None:
    """Its time is then ours."""
    tree(tmp_path)
    source = LinuxCounters(LIMITS, root=tmp_path, own_pid=10, worker_pids=(20,), tick_s=TICK_S)
    assert source.read().cpu.own_cpu_s == pytest.approx((70 + 1000) * TICK_S)


def test_other_readings(tmp_path: Path) -> None:
    """Pressure, load, swapping, throttling, heat, frequency and temperature are read in SI units."""
    source = tree(tmp_path)
    write(tmp_path / "proc/pressure/cpu", "some avg10=1.0 avg60=0.0 avg300=0.0 total=2500000\nfull avg10=0 total=1\n")
    write(tmp_path / "proc/loadavg", "1.25 0.5 0.1 1/100 4242\n")
    write(tmp_path / "proc/vmstat", "pswpin 3\npswpout 4\nnr_free_pages 9\n")
    write(tmp_path / "proc/self/cgroup", "0::/\n")
    write(tmp_path / "sys/fs/cgroup/cpu.stat", "usage_usec 5\nnr_periods 8\nnr_throttled 2\nthrottled_usec 1500000\n")
    for cpu in (0, 1):
        folder = tmp_path / f"sys/devices/system/cpu/cpu{cpu}"
        write(folder / "thermal_throttle/core_throttle_count", f"{cpu + 1}\n")
        write(folder / "cpufreq/scaling_cur_freq", f"{2000000 + cpu * 1000000}\n")
    write(tmp_path / "sys/class/hwmon/hwmon0/name", "nvme\n")
    write(tmp_path / "sys/class/hwmon/hwmon0/temp1_input", "99000\n")
    write(tmp_path / "sys/class/hwmon/hwmon1/name", "k10temp\n")
    write(tmp_path / "sys/class/hwmon/hwmon1/temp1_input", "61500\n")
    counters = source.read()
    assert (counters.cpu_pressure_s, counters.load_average, counters.pages_swapped) == (2.5, 1.25, 7)
    assert (counters.throttled_periods, counters.throttled_s, counters.quota_periods) == (2, 1.5, 8)
    assert (counters.thermal_throttles, counters.frequency_hz, counters.temperature_c) == (3, 2.5e9, 61.5)


def test_a_quick_reading_is_of_the_processes_that_were_found(tmp_path: Path) -> None:
    """It has CPU times, faults, throttling and heat, and leaves out what is slow to read; a new child waits for the next full one."""
    source = tree(tmp_path)
    write(tmp_path / "sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "5\n")
    write(tmp_path / "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "2000000\n")
    full = source.read()
    assert (full.thermal_throttles, full.frequency_hz) == (5, 2e9)
    write(tmp_path / "proc/13/stat", process_line(13, 12, ticks=30))
    quick = source.read_quick()
    assert quick.cpu.own_cpu_s == full.cpu.own_cpu_s
    assert (quick.major_faults, quick.processes, quick.thermal_throttles) == (6, 3, 5)
    assert (quick.frequency_hz, quick.load_average) == (None, None)
    assert list(source.pids) == [10, 11, 12]
    source.read()
    assert list(source.pids) == [10, 11, 12, 13]


def test_an_empty_tree_tells_nothing(tmp_path: Path) -> None:
    """All None, no zero and no error."""
    counters = LinuxCounters(LIMITS, root=tmp_path, own_pid=10, tick_s=TICK_S).read()
    assert (counters.cpu.busy_cpu_s, counters.cpu.own_cpu_s, counters.cpu.steal_cpu_s) == (None, None, None)
    assert (counters.throttled_s, counters.cpu_pressure_s, counters.load_average, counters.major_faults) == (None,) * 4


def test_garbled_files_tell_nothing(tmp_path: Path) -> None:
    """Cut-off and garbled files are as good as none."""
    write(tmp_path / "proc/stat", "cpu0 1 2\ncpu1 x\n")
    write(tmp_path / "proc/10/stat", "10 (python) R 1")
    write(tmp_path / "proc/loadavg", "high")
    write(tmp_path / "proc/pressure/cpu", "some total=x")
    counters = LinuxCounters(LIMITS, root=tmp_path, own_pid=10, tick_s=TICK_S).read()
    assert (counters.cpu.busy_cpu_s, counters.cpu.own_cpu_s) == (None, None)
    assert (counters.load_average, counters.cpu_pressure_s) == (None, None)


def test_monitor_gives_differences(tmp_path: Path) -> None:
    """A reading holds what was added between start and stop; a new child's time counts as ours."""
    monitor = ContentionMonitor(tree(tmp_path), LIMITS, threads=2, interval_s=None)
    monitor.start()
    write(tmp_path / "proc/stat", stat(user=200, steal=16, other_cpu=900))
    write(tmp_path / "proc/10/stat", process_line(10, 1, ticks=140, faults=5))
    write(tmp_path / "proc/13/stat", process_line(13, 12, ticks=30))
    reading = monitor.stop()
    assert reading.busy_cpu_s == pytest.approx(2.0)
    assert reading.own_cpu_s == pytest.approx(1.3)
    assert reading.steal_cpu_s == pytest.approx(0.2)
    assert (reading.major_faults, reading.threads, reading.usable_cpus) == (3, 2, 2)
    # two ticks for each of 2 CPUs and 4 processes, and 1 % of 1.3 s
    assert reading.clock_error_s == pytest.approx(2 * TICK_S * 6 + 0.013)


def test_what_is_told_at_one_end_only_has_no_difference() -> None:
    """A counter that appears in between gives None."""
    before = Counters(cpu=CpuUse(time_s=0.0), watched_cpus=2)
    after = Counters(cpu=CpuUse(time_s=1.0, busy_cpu_s=5.0), watched_cpus=2, throttled_s=3.0)
    reading = difference(before, after, LIMITS)
    assert (reading.busy_cpu_s, reading.throttled_s, reading.other_cpus) == (None, None, None)


class ScriptedSource:
    """Each CPU reading is half a second after the last; others use one CPU, and one and a half before the fifth."""

    def __init__(self) -> None:
        self.readings = 0
        self.enough = threading.Event()

    def read(self) -> Counters:
        """Counters with a CPU reading and no granularity."""
        return Counters(cpu=self.read_cpu(), watched_cpus=2, tick_s=0.0)

    def read_cpu(self) -> CpuUse:
        """The next reading; own use is nothing."""
        self.readings += 1
        if self.readings > 8:
            self.enough.set()
        extra_s = 0.25 if self.readings > 4 else 0.0
        return CpuUse(time_s=0.5 * self.readings, busy_cpu_s=0.5 * self.readings + extra_s, own_cpu_s=0.0)


def test_sampling_keeps_the_busiest_window() -> None:
    """The peak is that of the busiest window, not the mean of all."""
    source = ScriptedSource()
    sampler = _Sampler(source, source.read(), 0.001)
    sampler.start()
    assert source.enough.wait(10)
    assert sampler.finish() == pytest.approx(1.5)


def test_the_sampling_thread_ends_with_the_reading() -> None:
    """A thread runs between start and stop and none after; a source that is slow to read is sampled rarely, here never."""
    monitor = ContentionMonitor(ScriptedSource(), LIMITS, interval_s=0.001)
    monitor.start()
    assert any(thread.name == "suffice-contention" for thread in threading.enumerate())
    assert monitor.stop().peak_other_cpus is None
    assert not any(thread.name == "suffice-contention" for thread in threading.enumerate())


def test_start_again_forgets_and_stop_needs_a_start(tmp_path: Path) -> None:
    """A second start begins anew; stop without start is a mistake in the program."""
    monitor = ContentionMonitor(tree(tmp_path), LIMITS)
    with pytest.raises(RuntimeError, match="without start"):
        monitor.stop()
    monitor.start()
    write(tmp_path / "proc/stat", stat(user=200, steal=6))
    monitor.start()
    assert monitor.stop().busy_cpu_s == 0.0
    with pytest.raises(RuntimeError, match="without start"):
        monitor.stop()


def test_portable_counters_of_this_machine() -> None:
    """Times from psutil only grow, and what it does not tell is None."""
    source = PortableCounters(read_cpu_limits())
    first, second = source.read(), source.read()
    assert first.cpu.busy_cpu_s is not None
    assert second.cpu.busy_cpu_s is not None
    assert second.cpu.busy_cpu_s >= first.cpu.busy_cpu_s
    assert first.cpu.own_cpu_s is not None
    assert first.cpu.steal_cpu_s is None


def test_real_machine_reads_its_own_work() -> None:
    """On this machine a monitor sees the CPU time of a small loop as ours, never a negative rate."""
    monitor = ContentionMonitor(system_counters(read_cpu_limits()), read_cpu_limits())
    monitor.start()
    assert sum(range(3_000_000)) > 0
    reading = monitor.stop()
    assert reading.wall_s > 0
    assert reading.own_cpu_s is None or reading.own_cpu_s >= 0
    assert reading.other_cpus is None or reading.other_cpus >= 0


def test_fake_gives_its_readings_in_turn_then_the_last_again() -> None:
    """The shipped fake counts calls; it needs something to give."""
    first, last = (ContentionReading(wall_s=wall_s, usable_cpus=1, watched_cpus=1) for wall_s in (1.0, 2.0))
    fake = FakeContention([first, last])
    fake.start()
    assert [fake.stop(), fake.stop(), fake.stop()] == [first, last, last]
    assert (fake.started, fake.stopped) == (1, 3)
    with pytest.raises(ValueError, match="at least one"):
        FakeContention([])

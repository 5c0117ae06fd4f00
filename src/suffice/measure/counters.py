"""Counters of CPU time, throttling, pressure, heat and paging: from ``/proc`` and ``/sys`` on Linux, from psutil elsewhere.

Sources: proc(5) for ``/proc/stat`` and ``/proc/<pid>/stat``, Documentation/accounting/psi.rst, Documentation/ABI/testing/sysfs-devices-system-cpu.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from suffice.measure.cgroup import OwnGroups, some_pressure_s
from suffice.measure.contention import Counters, CpuUse
from suffice.measure.system_files import read_counters, read_int, read_text, to_int
from suffice.units import KILO

if TYPE_CHECKING:
    from suffice.measure.limits import CpuLimits

_CPU_SENSORS: Final = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
_MILLIDEGREES_PER_DEGREE: Final = KILO
# Positions in a CPU line of /proc/stat, after its name. guest time is part of user time.
_BUSY_FIELDS: Final = (0, 1, 2, 5, 6)  # user, nice, system, irq, softirq
_STEAL_FIELD: Final = 7
# Positions in /proc/<pid>/stat after the name in brackets (which may hold blanks).
_PARENT, _MAJOR_FAULTS, _CHILDREN_MAJOR_FAULTS, _FIRST_TIME, _AFTER_TIMES = 1, 9, 10, 11, 15
# Of so many CPUs a quick reading asks for heat: the cores of a package slow down together.
_QUICK_CPUS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Process:
    parent: int
    ticks: int  # user and system, of itself and of children that ended
    major_faults: int


def _read_process(root: Path, pid: int) -> _Process | None:
    text = read_text(root / f"proc/{pid}/stat")
    if text is None:
        return None
    values = [to_int(word) for word in text.rpartition(")")[2].split()[1:_AFTER_TIMES]]
    if len(values) != _AFTER_TIMES - 1:
        return None
    numbers = [0, *(0 if value is None else value for value in values)]  # the state, a letter, is at position 0
    return _Process(
        parent=numbers[_PARENT],
        ticks=sum(numbers[_FIRST_TIME:_AFTER_TIMES]),
        major_faults=numbers[_MAJOR_FAULTS] + numbers[_CHILDREN_MAJOR_FAULTS],
    )


def _family(root: Path, pids: tuple[int, ...]) -> tuple[int, ...]:
    """``pids`` and all of their living descendants."""
    children: dict[int, list[int]] = {}
    for folder in (root / "proc").glob("[0-9]*"):
        process = _read_process(root, int(folder.name)) if folder.name.isdigit() else None
        if process is not None:
            children.setdefault(process.parent, []).append(int(folder.name))
    found, waiting = dict.fromkeys(pids), list(pids)
    while waiting:
        new = [child for child in children.get(waiting.pop(), ()) if child not in found]
        found.update(dict.fromkeys(new))
        waiting.extend(new)
    return tuple(found)


class LinuxCounters:
    """Counters from ``/proc`` and ``/sys`` under ``root``, of the CPUs in ``limits`` and of us, our children and ``worker_pids``."""

    def __init__(
        self,
        limits: CpuLimits,
        *,
        root: Path = Path("/"),
        own_pid: int | None = None,
        worker_pids: tuple[int, ...] = (),
        tick_s: float | None = None,
    ) -> None:
        self._limits, self._root = limits, root
        self._roots = (os.getpid() if own_pid is None else own_pid, *worker_pids)
        self._pids = self._roots
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK") if tick_s is None else tick_s
        self._groups = OwnGroups(root)

    @property
    def pids(self) -> tuple[int, ...]:
        """Our processes, as the last :meth:`read` found them."""
        return self._pids

    def read(self) -> Counters:
        """Everything, after looking for children that are new."""
        self._pids = _family(self._root, self._roots)
        self._groups = OwnGroups(self._root)
        return replace(
            self.read_quick(),
            thermal_throttles=self._sum_over_cpus("thermal_throttle/core_throttle_count", self._limits.cpus),
            load_average=self._load_average(),
            frequency_hz=self._frequency_hz(),
            temperature_c=self._temperature_c(),
        )

    def read_quick(self) -> Counters:
        """What takes well under a millisecond, of the processes that the last :meth:`read` found: for every repetition.

        Frequency is left out (older kernels wait 10 ms for it), and heat is asked of some CPUs only.
        """
        time_s = time.monotonic()
        lines, processes = self._cpu_lines(), self._processes()
        groups = self._groups.read()
        throttled = groups.throttling
        cpus = self._limits.cpus
        return Counters(
            cpu=self._cpu_use(time_s, lines, processes),
            watched_cpus=len(lines) or len(cpus),
            processes=len(processes),
            tick_s=self._tick_s,
            throttled_periods=throttled.periods if throttled else None,
            throttled_s=throttled.throttled_s if throttled else None,
            quota_periods=throttled.quota_periods if throttled else None,
            cpu_pressure_s=some_pressure_s(self._root / "proc/pressure/cpu"),
            group_cpu_pressure_s=groups.cpu_pressure_s,
            group_memory_pressure_s=groups.memory_pressure_s,
            memory_limit_hits=groups.memory_limit_hits,
            thermal_throttles=self._sum_over_cpus(
                "thermal_throttle/core_throttle_count", cpus[:: -(-len(cpus) // _QUICK_CPUS)]
            ),
            pages_swapped=self._pages_swapped(),
            major_faults=sum(process.major_faults for process in processes) if processes else None,
        )

    def read_cpu(self) -> CpuUse:
        """CPU times of our CPUs, and of the processes that the last :meth:`read` found."""
        time_s = time.monotonic()
        return self._cpu_use(time_s, self._cpu_lines(), self._processes())

    def _processes(self) -> list[_Process]:
        return [process for pid in self._pids if (process := _read_process(self._root, pid))]

    def _cpu_use(self, time_s: float, lines: list[list[int]], known: list[_Process]) -> CpuUse:
        return CpuUse(
            time_s=time_s,
            busy_cpu_s=self._tick_s * sum(line[i] for line in lines for i in _BUSY_FIELDS) if lines else None,
            steal_cpu_s=self._tick_s * sum(line[_STEAL_FIELD] for line in lines) if lines else None,
            own_cpu_s=self._tick_s * sum(process.ticks for process in known) if known else None,
        )

    def _cpu_lines(self) -> list[list[int]]:
        """The numbers of our CPUs' lines in ``/proc/stat``."""
        names = {f"cpu{cpu}" for cpu in self._limits.cpus}
        lines = []
        for line in (read_text(self._root / "proc/stat") or "").splitlines():
            name, *words = line.split() or [""]
            if not name.startswith("cpu"):
                break  # the CPUs come first; the line of interrupts can be long
            values = [to_int(word) for word in words]
            if name in names and len(values) > _STEAL_FIELD:
                lines.append([0 if value is None else value for value in values])
        return lines

    def _per_cpu(self, name: str, cpus: tuple[int, ...]) -> list[int]:
        folder = self._root / "sys/devices/system/cpu"
        values = (read_int(folder / f"cpu{cpu}" / name) for cpu in cpus)
        return [value for value in values if value is not None]

    def _sum_over_cpus(self, name: str, cpus: tuple[int, ...]) -> int | None:
        values = self._per_cpu(name, cpus)
        return sum(values) if values else None

    def _frequency_hz(self) -> float | None:
        values = self._per_cpu("cpufreq/scaling_cur_freq", self._limits.cpus)  # in kHz
        return KILO * sum(values) / len(values) if values else None

    def _pages_swapped(self) -> int | None:
        pages = read_counters(self._root / "proc/vmstat")
        return pages["pswpin"] + pages["pswpout"] if "pswpin" in pages and "pswpout" in pages else None

    def _load_average(self) -> float | None:
        words = (read_text(self._root / "proc/loadavg") or "").split()
        try:
            return float(words[0]) if words else None
        except ValueError:
            return None

    def _temperature_c(self) -> float | None:
        folders = (self._root / "sys/class/hwmon").glob("hwmon*")
        cpu_folders = [folder for folder in folders if read_text(folder / "name") in _CPU_SENSORS]
        readings = [read_int(file) for folder in cpu_folders for file in folder.glob("temp*_input")]
        known = [reading for reading in readings if reading is not None]
        return max(known) / _MILLIDEGREES_PER_DEGREE if known else None


def _psutil_own_s(pids: tuple[int, ...]) -> float | None:
    total_s, found = 0.0, False
    for pid in pids:
        try:
            process = psutil.Process(pid)
            family = [process, *process.children(recursive=True)]
        except psutil.Error:
            continue
        for member in family:
            try:
                times = member.cpu_times()
            except psutil.Error:
                continue
            found = True
            total_s += times.user + times.system
    return total_s if found else None


class PortableCounters:
    """What psutil reads on macOS and Windows: CPU times of the whole machine and of our processes."""

    def __init__(self, limits: CpuLimits, *, worker_pids: tuple[int, ...] = ()) -> None:
        self._limits = limits
        self._pids = (os.getpid(), *worker_pids)

    def read(self) -> Counters:
        """CPU times and load; the rest is not told by these systems."""
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        watched = os.cpu_count() or len(self._limits.cpus)
        # 1/64 s: the coarsest tick in use, that of Windows.
        return Counters(cpu=self.read_cpu(), watched_cpus=watched, tick_s=1 / 64, load_average=load)

    @property
    def pids(self) -> tuple[int, ...]:
        """We, and the workers that were named."""
        return self._pids

    def read_quick(self) -> Counters:
        """The same: it is quick as it is."""
        return self.read()

    def read_cpu(self) -> CpuUse:
        """CPU times of all CPUs, and of ours and our children."""
        times = psutil.cpu_times()
        busy_s = sum(getattr(times, name, 0.0) for name in ("user", "nice", "system", "interrupt", "dpc"))
        return CpuUse(time_s=time.monotonic(), busy_cpu_s=busy_s, own_cpu_s=_psutil_own_s(self._pids))


def system_counters(limits: CpuLimits, *, worker_pids: tuple[int, ...] = ()) -> LinuxCounters | PortableCounters:
    """The counters of this machine. ``worker_pids`` are processes of ours that are not our children."""
    if Path("/proc/stat").is_file():
        return LinuxCounters(limits, worker_pids=worker_pids)
    return PortableCounters(limits, worker_pids=worker_pids)

"""What this process may use: CPUs by affinity and cgroup quota, memory by the machine and by cgroup limits.

A container with 2 of 64 CPUs and 4 GB is asked for 2 threads and what is left of 4 GB, whatever the host has.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import psutil

from suffice.measure.cgroup import cpu_quota, memory_groups
from suffice.measure.system_files import read_counters, read_int
from suffice.units import KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuLimits:
    """CPUs that this process may use.

    ``cpus`` are the logical CPUs of its affinity, ``quota_cpus`` the tightest cgroup quota in CPUs (None: no quota), and
    ``physical_cores`` the distinct cores behind ``cpus`` (None: not known). ``usable_cpus`` is the number of threads that can
    run at once: the quota is rounded down, since threads that meet at a barrier all wait for the one that is throttled.
    """

    usable_cpus: int
    cpus: tuple[int, ...]
    quota_cpus: float | None
    physical_cores: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimits:
    """Memory of the machine and what this process may take of it.

    ``available_bytes`` is the kernel's estimate of what can be had without swapping. ``cgroup_limit_bytes`` is the tightest
    limit (None: no limit) and ``cgroup_room_bytes`` what is left under the limit that leaves least.
    """

    total_bytes: int
    available_bytes: int
    cgroup_limit_bytes: int | None = None
    cgroup_room_bytes: int | None = None

    @property
    def usable_bytes(self) -> int:
        """What can be allocated now: the lesser of what the machine and what the cgroup has left."""
        if self.cgroup_room_bytes is None:
            return self.available_bytes
        return max(0, min(self.available_bytes, self.cgroup_room_bytes))

    @property
    def ceiling_bytes(self) -> int:
        """What this process could have at most were nothing else running: memory of the machine or the cgroup limit."""
        return self.total_bytes if self.cgroup_limit_bytes is None else min(self.total_bytes, self.cgroup_limit_bytes)


def _affinity() -> tuple[int, ...]:
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def _physical_cores(root: Path, cpus: tuple[int, ...]) -> int | None:
    """Distinct (package, core) pairs behind ``cpus``; from psutil where there is no sysfs, and then only for all CPUs."""
    cores = set()
    for cpu in cpus:
        topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        core, package = read_int(topology / "core_id"), read_int(topology / "physical_package_id")
        if core is None or package is None:
            whole_machine = len(cpus) == os.cpu_count() and root == Path(root.anchor)
            return psutil.cpu_count(logical=False) if whole_machine else None
        cores.add((package, core))
    return len(cores) or None


def read_cpu_limits(root: Path = Path("/"), *, affinity: tuple[int, ...] | None = None) -> CpuLimits:
    """CPUs that this process may use now. ``root`` and ``affinity`` replace the real ones in tests."""
    cpus = _affinity() if affinity is None else affinity
    quota = cpu_quota(root)
    usable = len(cpus) if quota is None else min(len(cpus), int(quota))
    return CpuLimits(
        usable_cpus=max(1, usable),
        cpus=cpus,
        quota_cpus=quota,
        physical_cores=_physical_cores(root, cpus),
    )


def read_memory_limits(root: Path = Path("/")) -> MemoryLimits:
    """Memory that this process may use now, from ``/proc/meminfo`` under ``root``, or from psutil where there is none."""
    meminfo = read_counters(root / "proc/meminfo")  # "kB" there means KiB
    if "MemTotal" in meminfo and "MemAvailable" in meminfo:
        total, available = meminfo["MemTotal"] * KIB, meminfo["MemAvailable"] * KIB
    else:
        memory = psutil.virtual_memory()
        total, available = memory.total, memory.available
    groups = memory_groups(root)
    return MemoryLimits(
        total_bytes=total,
        available_bytes=available,
        cgroup_limit_bytes=min((group.limit_bytes for group in groups), default=None),
        cgroup_room_bytes=min((group.limit_bytes - group.used_bytes for group in groups), default=None),
    )

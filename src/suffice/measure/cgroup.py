"""Where this process sits in the cgroup trees (v1, v2, or both at once), from its own group up to the visible root.

In a container without a cgroup namespace ``/proc/self/cgroup`` names a path of the host that is not visible inside; the
container's own group is then mounted as the root. Walking up from the named path and skipping what is not there covers both.
Sources: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/ of the Linux kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from suffice.measure.system_files import read_counters, read_int, read_text, to_int
from suffice.units import MEGA, NANOSECONDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Iterator

_V2_MOUNTS: Final = ("sys/fs/cgroup", "sys/fs/cgroup/unified")
_V1_MOUNTS: Final = {
    "cpu": ("sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct"),
    "memory": ("sys/fs/cgroup/memory",),
}
# v1 writes "no limit" as the largest multiple of the page size that fits a signed 64-bit number (2^63 - 4096 with 4 KiB pages).
# No machine has 2^62 bytes; with 64 KiB pages the value is still above that.
_NO_LIMIT_BYTES: Final = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryGroup:
    """A group's memory limit and the use that the kernel could not drop (page cache of files taken off)."""

    limit_bytes: int
    used_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttling:
    """How often, and for how long summed over CPUs, the CPU quota stopped our group since it was made."""

    periods: int
    throttled_s: float
    quota_periods: int | None = None  # in which the group wanted to run, throttled or not; None: not told


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCounters:
    """Running totals of our groups. None: the kernel does not tell, or not of us alone.

    ``cpu_pressure_s`` and ``memory_pressure_s`` are the time in which at least one task of our own group waited for a CPU, and for memory to
    be freed (PSI "some", Documentation/accounting/psi.rst). Of the root group they would be those of the whole machine, and are None.
    ``memory_limit_hits`` is how often a memory limit was reached (``max`` and ``high`` of ``memory.events``; v1: ``memory.failcnt``).
    """

    throttling: Throttling | None = None
    cpu_pressure_s: float | None = None
    memory_pressure_s: float | None = None
    memory_limit_hits: int | None = None


def some_pressure_s(path: Path) -> float | None:
    """Seconds of the "some" line of a PSI file since boot; None where there is none."""
    for line in (read_text(path) or "").splitlines():
        if line.startswith("some "):
            total = to_int(line.rpartition("total=")[2])  # in microseconds
            return None if total is None else total / MEGA
    return None


def _own_paths(root: Path) -> dict[str, PurePosixPath]:
    """Own path per v1 controller, and under the key ``""`` in the v2 tree; the root of each where nothing is said."""
    paths: dict[str, PurePosixPath] = {}
    for line in (read_text(root / "proc/self/cgroup") or "").splitlines():
        _, found, rest = line.partition(":")
        controllers, found_path, path = rest.partition(":")
        if found and found_path and path.startswith("/"):
            for controller in controllers.split(","):
                paths[controller] = PurePosixPath(path)
    return paths


def _upwards(mount: Path, path: PurePosixPath) -> Iterator[Path]:
    """Existing folders from ``mount/path`` up to ``mount``. ``..`` parts (seen from inside a namespace) lead nowhere visible."""
    parts = [part for part in path.parts if part not in ("/", "..")]
    for depth in range(len(parts), -1, -1):
        folder = mount.joinpath(*parts[:depth])
        if folder.is_dir():
            yield folder


def _groups(root: Path, controller: str, *, v2: bool) -> Iterator[Path]:
    own = _own_paths(root).get("" if v2 else controller, PurePosixPath("/"))
    names = _V2_MOUNTS if v2 else _V1_MOUNTS[controller]
    mounts = [root / name for name in names if (root / name).is_dir()]
    # v1's "cpu" is mostly a link to "cpu,cpuacct": the same groups must not be counted twice.
    for mount in mounts if v2 else mounts[:1]:
        yield from _upwards(mount, own)


def _quota_v2(group: Path) -> float | None:
    words = (read_text(group / "cpu.max") or "").split()
    quota = to_int(words[0]) if words else None  # "max" means no quota
    period = to_int(words[1]) if len(words) > 1 else None
    return quota / period if quota and period and quota > 0 and period > 0 else None


def _quota_v1(group: Path) -> float | None:
    quota, period = read_int(group / "cpu.cfs_quota_us"), read_int(group / "cpu.cfs_period_us")
    return quota / period if quota and period and quota > 0 and period > 0 else None  # -1 means no quota


def cpu_quota(root: Path = Path("/")) -> float | None:
    """The tightest CPU quota on the way up, in CPUs (1.5 = one and a half); None without one."""
    quotas = [_quota_v2(group) for group in _groups(root, "cpu", v2=True)]
    quotas += [_quota_v1(group) for group in _groups(root, "cpu", v2=False)]
    return min((quota for quota in quotas if quota is not None), default=None)


def _memory_group(group: Path, limit_name: str, used_name: str, stat_prefix: str) -> MemoryGroup | None:
    limit = read_int(group / limit_name)
    if limit is None or not 0 < limit < _NO_LIMIT_BYTES:
        return None
    stat = read_counters(group / "memory.stat")
    # Pages of files are dropped on demand, as the kernel's own MemAvailable assumes (si_mem_available in mm/show_mem.c).
    droppable = sum(stat.get(f"{stat_prefix}{name}", 0) for name in ("active_file", "inactive_file"))
    used = read_int(group / used_name) or 0
    return MemoryGroup(limit_bytes=limit, used_bytes=max(0, used - droppable))


def memory_groups(root: Path = Path("/")) -> tuple[MemoryGroup, ...]:
    """All memory limits that bind this process, innermost first; empty without any."""
    v2 = (_memory_group(g, "memory.max", "memory.current", "") for g in _groups(root, "memory", v2=True))
    v1 = (
        _memory_group(g, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
        for g in _groups(root, "memory", v2=False)
    )
    return tuple(group for group in (*v2, *v1) if group is not None)


def throttling(root: Path = Path("/")) -> Throttling | None:
    """Quota throttling, added up over our groups on the way up; None where the kernel keeps no such counters."""
    return OwnGroups(root).throttling()


class OwnGroups:
    """Our groups, found once: reading their counters then opens a handful of files."""

    def __init__(self, root: Path = Path("/")) -> None:
        cpu, memory = tuple(_groups(root, "cpu", v2=True)), tuple(_groups(root, "memory", v2=False))
        self._cpu_stats = tuple(group / "cpu.stat" for group in (*cpu, *_groups(root, "cpu", v2=False)))
        # Every group of v2 but the root has this file: the root's pressure is that of all on the machine.
        own = next((group for group in cpu if (group / "cgroup.events").is_file()), None)
        self._own = own
        self._memory_events = tuple(file for group in cpu if (file := group / "memory.events").is_file())
        self._memory_fails = tuple(file for group in memory if (file := group / "memory.failcnt").is_file())

    def read(self) -> GroupCounters:
        """All of it, now."""
        return GroupCounters(
            throttling=self.throttling(),
            cpu_pressure_s=None if self._own is None else some_pressure_s(self._own / "cpu.pressure"),
            memory_pressure_s=None if self._own is None else some_pressure_s(self._own / "memory.pressure"),
            memory_limit_hits=self._memory_limit_hits(),
        )

    def throttling(self) -> Throttling | None:
        """Quota throttling, added up over the groups; None where the kernel keeps no such counters."""
        stats = [stat for file in self._cpu_stats if "nr_throttled" in (stat := read_counters(file))]
        if not stats:
            return None
        return Throttling(
            periods=sum(stat["nr_throttled"] for stat in stats),
            throttled_s=sum(
                stat.get("throttled_usec", 0) / MEGA + stat.get("throttled_time", 0) / NANOSECONDS_PER_SECOND
                for stat in stats
            ),
            quota_periods=sum(stat["nr_periods"] for stat in stats) if all("nr_periods" in s for s in stats) else None,
        )

    def _memory_limit_hits(self) -> int | None:
        """Of the group that was hit most: one that lies in another counts its own and those of the groups within."""
        counts = [sum(read_counters(file).get(name, 0) for name in ("max", "high")) for file in self._memory_events]
        counts += [fails for file in self._memory_fails if (fails := read_int(file)) is not None]
        return max(counts, default=None)

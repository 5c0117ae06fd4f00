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
    periods, throttled_s, seen = 0, 0.0, False
    groups = (*_groups(root, "cpu", v2=True), *_groups(root, "cpu", v2=False))
    for group in groups:
        stat = read_counters(group / "cpu.stat")
        if "nr_throttled" in stat:
            seen = True
            periods += stat["nr_throttled"]
            throttled_s += stat.get("throttled_usec", 0) / MEGA + stat.get("throttled_time", 0) / NANOSECONDS_PER_SECOND
    return Throttling(periods=periods, throttled_s=throttled_s) if seen else None

"""CPUs and memory that a process may use, read from trees written by the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from suffice.measure.cgroup import OwnGroups, cpu_quota, memory_groups, some_pressure_s, throttling
from suffice.measure.limits import MemoryLimits, read_cpu_limits, read_memory_limits
from suffice.measure.system_files import parse_cpu_list, read_counters
from suffice.units import GIB, KIB, MIB

if TYPE_CHECKING:
    from pathlib import Path

V1_NO_LIMIT = "9223372036854771712"


def write(root: Path, files: dict[str, str]) -> Path:
    """Write files of a fake tree."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def meminfo(total_bytes: int, available_bytes: int) -> str:
    """A /proc/meminfo with these two values."""
    return f"MemTotal: {total_bytes // KIB} kB\nMemFree: 1 kB\nMemAvailable: {available_bytes // KIB} kB\n"


def test_container_with_2_of_64_cpus_and_4_gib_v2(tmp_path: Path) -> None:
    """A container of a big host, its group mounted as root, is given 2 CPUs and the rest of its 4 GiB."""
    write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/\n",
            "proc/meminfo": meminfo(512 * GIB, 400 * GIB),
            "sys/fs/cgroup/cpu.max": "200000 100000\n",
            "sys/fs/cgroup/memory.max": f"{4 * GIB}\n",
            "sys/fs/cgroup/memory.current": f"{3 * GIB}\n",
            "sys/fs/cgroup/memory.stat": f"anon 5\nactive_file {GIB}\ninactive_file {GIB}\n",
        },
    )
    cpus = read_cpu_limits(tmp_path, affinity=tuple(range(64)))
    assert (cpus.usable_cpus, cpus.quota_cpus, len(cpus.cpus)) == (2, 2.0, 64)
    memory = read_memory_limits(tmp_path)
    assert memory.total_bytes == 512 * GIB
    assert memory.cgroup_limit_bytes == memory.ceiling_bytes == 4 * GIB
    assert memory.usable_bytes == 3 * GIB  # 3 of 4 used, but 2 of those are droppable page cache


def test_container_v1_whose_host_path_is_not_visible(tmp_path: Path) -> None:
    """/proc/self/cgroup names a path of the host; only the mounted root is there, and it counts."""
    write(
        tmp_path,
        {
            "proc/self/cgroup": "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/\n",
            "proc/meminfo": meminfo(64 * GIB, 60 * GIB),
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "250000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{8 * GIB}\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{GIB}\n",
        },
    )
    cpus = read_cpu_limits(tmp_path, affinity=(0, 1, 2, 3))
    assert (cpus.quota_cpus, cpus.usable_cpus) == (2.5, 2)
    assert read_memory_limits(tmp_path).usable_bytes == 7 * GIB


def test_nested_v2_takes_the_tightest_on_the_way_up(tmp_path: Path) -> None:
    """The CPU quota of a parent and the memory of the own group bind, whichever is tighter."""
    write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/slice/job\n",
            "proc/meminfo": meminfo(64 * GIB, 60 * GIB),
            "sys/fs/cgroup/slice/cpu.max": "150000 100000",
            "sys/fs/cgroup/slice/job/cpu.max": "400000 100000",
            "sys/fs/cgroup/slice/memory.max": f"{16 * GIB}",
            "sys/fs/cgroup/slice/memory.current": f"{15 * GIB}",
            "sys/fs/cgroup/slice/job/memory.max": f"{10 * GIB}",
            "sys/fs/cgroup/slice/job/memory.current": f"{2 * GIB}",
        },
    )
    assert cpu_quota(tmp_path) == 1.5
    memory = read_memory_limits(tmp_path)
    assert (memory.cgroup_limit_bytes, memory.cgroup_room_bytes) == (10 * GIB, GIB)


def test_no_limits(tmp_path: Path) -> None:
    """All of max, -1 and v1's huge number mean: no limit."""
    write(
        tmp_path,
        {
            "proc/self/cgroup": "3:memory:/\n2:cpu:/\n0::/x\n",
            "proc/meminfo": meminfo(8 * GIB, 6 * GIB),
            "sys/fs/cgroup/unified/x/cpu.max": "max 100000\n",
            "sys/fs/cgroup/unified/x/memory.max": "max\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": V1_NO_LIMIT,
        },
    )
    assert cpu_quota(tmp_path) is None
    assert memory_groups(tmp_path) == ()
    memory = read_memory_limits(tmp_path)
    assert memory.cgroup_limit_bytes is None
    assert memory.usable_bytes == 6 * GIB


@pytest.mark.parametrize("text", ["", "garbage", "0 0", "-5 100000", "100000", "100000 0", "\x00\xff", "1e9 1e5"])
def test_garbage_is_no_limit(tmp_path: Path, text: str) -> None:
    """What is not a quota or a limit is not taken for one, and raises nothing."""
    names = ("cpu.max", "memory.max", "memory.current", "memory.stat", "cpu.stat")
    write(tmp_path, {"proc/self/cgroup": text, "proc/meminfo": meminfo(GIB, GIB // 2)})
    write(
        tmp_path, {f"sys/fs/cgroup/{name}": text for name in names if not (name == "memory.max" and text == "100000")}
    )
    assert cpu_quota(tmp_path) is None
    assert read_memory_limits(tmp_path).usable_bytes == GIB // 2
    assert throttling(tmp_path) is None


def test_empty_tree_falls_back_to_this_machine(tmp_path: Path) -> None:
    """Without /proc and /sys (macOS, Windows) psutil tells the memory, and cores are not guessed."""
    assert read_memory_limits(tmp_path).total_bytes > MIB
    assert read_cpu_limits(tmp_path, affinity=(0,)).physical_cores is None


def test_quota_below_one_cpu_still_has_a_thread(tmp_path: Path) -> None:
    """Half a CPU is one thread."""
    write(tmp_path, {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "50000 100000"})
    assert read_cpu_limits(tmp_path, affinity=(0, 1)).usable_cpus == 1


def test_parts_seen_from_inside_a_namespace_are_skipped(tmp_path: Path) -> None:
    """A path with .. must not lead out of the mount."""
    write(tmp_path, {"proc/self/cgroup": "0::/../../etc", "sys/fs/cpu.max": "1 100000", "sys/fs/cgroup/x": ""})
    assert cpu_quota(tmp_path) is None


def test_cores_behind_the_affinity(tmp_path: Path) -> None:
    """Two hyperthreads of one core are one core; the same core number in another socket is another core."""
    for cpu, (package, core) in enumerate([(0, 0), (0, 0), (1, 0), (1, 1)]):
        folder = f"sys/devices/system/cpu/cpu{cpu}/topology"
        write(tmp_path, {f"{folder}/core_id": f"{core}\n", f"{folder}/physical_package_id": f"{package}\n"})
    assert read_cpu_limits(tmp_path, affinity=(0, 1)).physical_cores == 1
    assert read_cpu_limits(tmp_path, affinity=(0, 1, 2, 3)).physical_cores == 3


def test_linked_v1_mounts_are_counted_once(tmp_path: Path) -> None:
    """Mounts cpu and cpu,cpuacct are one controller: its throttling is not doubled."""
    stat = "nr_periods 10\nnr_throttled 4\nthrottled_time 3000000000\n"
    write(tmp_path, {"proc/self/cgroup": "2:cpu,cpuacct:/", "sys/fs/cgroup/cpu,cpuacct/cpu.stat": stat})
    (tmp_path / "sys/fs/cgroup/cpu").symlink_to("cpu,cpuacct")
    found = throttling(tmp_path)
    assert found is not None
    assert (found.periods, found.throttled_s) == (4, 3.0)


def test_real_machine_is_consistent() -> None:
    """Bounds that hold on any machine."""
    cpus, memory = read_cpu_limits(), read_memory_limits()
    assert 1 <= cpus.usable_cpus <= len(cpus.cpus)
    assert 0 < memory.usable_bytes <= memory.available_bytes <= memory.total_bytes


def test_a_full_group_has_no_room() -> None:
    """Use above the limit (it was lowered) leaves nothing, not less than nothing."""
    memory = MemoryLimits(total_bytes=100, available_bytes=50, cgroup_limit_bytes=10, cgroup_room_bytes=-5)
    assert memory.usable_bytes == 0


@pytest.mark.parametrize(
    ("text", "expected"), [("0-2,5", (0, 1, 2, 5)), ("3", (3,)), ("", ()), (None, ()), ("a-b", ()), ("0-", ())]
)
def test_cpu_lists(text: str | None, expected: tuple[int, ...]) -> None:
    """The kernel's list format, and nothing of garbage."""
    assert parse_cpu_list(text) == expected


def test_counters_skip_lines_of_another_form(tmp_path: Path) -> None:
    """Only names with whole numbers are kept."""
    write(tmp_path, {"f": "a 1\nb x\n\nlonely\nc: 2 kB\n"})
    assert read_counters(tmp_path / "f") == {"a": 1, "c": 2}


def test_counters_of_our_own_group(tmp_path: Path) -> None:
    """Pressure is that of our group in seconds, hits of the limit those of the group that was hit most, periods are added up."""
    group = "sys/fs/cgroup/a/b"
    write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/a/b\n",
            "sys/fs/cgroup/cpu.pressure": "some avg10=0 total=99000000\n",
            f"{group}/cgroup.events": "populated 1\n",
            f"{group}/cpu.pressure": "some avg10=0.0 total=1500000\nfull avg10=0.0 total=7\n",
            f"{group}/memory.pressure": "some avg10=0.0 total=250000\n",
            f"{group}/memory.events": "low 0\nhigh 2\nmax 3\noom 0\n",
            "sys/fs/cgroup/a/memory.events": "high 2\nmax 9\n",
            f"{group}/cpu.stat": "nr_periods 20\nnr_throttled 4\nthrottled_usec 1000000\n",
            "sys/fs/cgroup/a/cpu.stat": "nr_periods 10\nnr_throttled 1\nthrottled_usec 500000\n",
        },
    )
    found = OwnGroups(tmp_path).read()
    assert (found.cpu_pressure_s, found.memory_pressure_s, found.memory_limit_hits) == (1.5, 0.25, 11)
    assert found.throttling is not None
    assert (found.throttling.periods, found.throttling.throttled_s, found.throttling.quota_periods) == (5, 1.5, 30)


def test_pressure_of_the_root_group_is_not_ours(tmp_path: Path) -> None:
    """The root has no events of its own, and its pressure is that of the whole machine; v1 counts hits of its limit elsewhere."""
    write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/\n4:memory:/\n",
            "sys/fs/cgroup/cpu.pressure": "some avg10=0 total=99000000\n",
            "sys/fs/cgroup/memory/memory.failcnt": "12\n",
        },
    )
    found = OwnGroups(tmp_path).read()
    assert (found.cpu_pressure_s, found.memory_pressure_s, found.throttling) == (None, None, None)
    assert found.memory_limit_hits == 12
    nothing = OwnGroups(tmp_path / "nowhere").read()
    assert (nothing.throttling, nothing.memory_limit_hits) == (None, None)
    assert some_pressure_s(tmp_path / "none") is None

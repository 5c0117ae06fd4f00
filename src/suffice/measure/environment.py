"""The fingerprint of a machine that goes into a run record: what a reader needs to compare two runs, and nothing private.

No host name, no user name, no paths, no environment variables.
"""

from __future__ import annotations

import platform
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from suffice.measure.cpu import CpuFacts, read_cpu_facts
from suffice.measure.limits import CpuLimits, MemoryLimits, read_cpu_limits, read_memory_limits
from suffice.measure.system_files import read_int, read_text
from suffice.units import KILO

if TYPE_CHECKING:
    from collections.abc import Mapping

# These differ between two runs on one and the same machine; a comparison of fingerprints leaves them out.
VOLATILE_FIELDS: Final = ("current_frequency_hz", "memory_available_bytes", "cgroup_memory_room_bytes")
_CONTAINER_FILES: Final = (".dockerenv", "run/.containerenv", "run/systemd/container")
_SILICON: Final = ("cpu family", "model", "stepping")
_CONTAINER_WORDS: Final = ("docker", "kubepods", "containerd", "libpod", "lxc", "garden")


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The machine and its system, in plain values. None: not told."""

    os: str
    os_version: str | None
    kernel: str | None
    python: str
    architecture: str
    cpu_vendor: str | None
    cpu_model: str | None
    cpu_family: str | None  # with model number and stepping: which silicon a name is sold for; x86 on Linux only
    cpu_model_number: str | None
    cpu_stepping: str | None
    machine_type: str | None  # product name of the firmware, such as that of a rented instance; no serial number
    sockets: int | None
    physical_cores: int | None
    logical_cpus: int | None
    smt: bool | None
    numa_nodes: int | None
    llc_bytes: int | None
    max_frequency_hz: float | None
    current_frequency_hz: float | None
    governor: str | None
    microcode: str | None
    hypervisor: bool | None
    in_container: bool | None
    isa: tuple[str, ...] | None
    usable_cpus: int
    affinity_cpus: int
    cpu_quota: float | None
    usable_physical_cores: int | None
    memory_total_bytes: int
    memory_available_bytes: int
    cgroup_memory_limit_bytes: int | None
    cgroup_memory_room_bytes: int | None
    transparent_huge_pages: str | None

    def to_record(self) -> dict[str, object]:
        """A JSON-able mapping of all fields."""
        record = asdict(self)
        record["isa"] = None if self.isa is None else list(self.isa)
        return record


def fingerprint_differences(first: Mapping[str, object], second: Mapping[str, object]) -> tuple[str, ...]:
    """Names of fields that differ between two records of environments, without those that vary on one machine."""
    names = sorted({*first, *second} - set(VOLATILE_FIELDS))
    return tuple(name for name in names if first.get(name) != second.get(name))


def _os_version(root: Path) -> str | None:
    for line in (read_text(root / "etc/os-release") or "").splitlines():
        name, _, value = line.partition("=")
        if name == "PRETTY_NAME":
            return value.strip("\"'") or None
    if sys.platform == "darwin":
        return platform.mac_ver()[0] or None
    return platform.version() if sys.platform == "win32" else None


def read_in_container(root: Path = Path("/")) -> bool | None:
    """Is this a container? Marker files, the first process's cgroup, or an overlay as root say so. None: no way to tell."""
    if any((root / name).exists() for name in _CONTAINER_FILES):
        return True
    groups, mounts = read_text(root / "proc/1/cgroup"), read_text(root / "proc/self/mountinfo")
    if groups is None and mounts is None:
        return None
    if any(word in (groups or "") for word in _CONTAINER_WORDS):
        return True
    # Fields of mountinfo: ..., 4: mount point, ..., "-", file system type (proc_pid_mountinfo(5)).
    roots = [line for line in (mounts or "").splitlines() if line.split()[4:5] == ["/"]]
    return any(" - overlay " in line for line in roots)


def _huge_pages(root: Path) -> str | None:
    """The chosen word of ``always [madvise] never``."""
    text = read_text(root / "sys/kernel/mm/transparent_hugepage/enabled") or ""
    chosen = text.partition("[")[2].partition("]")[0]
    return chosen or None


def _silicon(root: Path) -> dict[str, str]:
    """Family, model number and stepping of the first CPU in ``/proc/cpuinfo``; empty elsewhere than on x86 Linux."""
    found: dict[str, str] = {}
    for line in (read_text(root / "proc/cpuinfo") or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in _SILICON and value.strip():
            found.setdefault(name.strip(), value.strip())
    return found


def _machine_type(root: Path) -> str | None:
    """Maker and product as the firmware tells them: ``Amazon EC2 c7i.4xlarge``."""
    dmi = root / "sys/class/dmi/id"
    words = [text.strip() for name in ("sys_vendor", "product_name") if (text := read_text(dmi / name))]
    return " ".join(word for word in words if word) or None


def describe_environment(
    root: Path = Path("/"),
    *,
    cpu: CpuFacts | None = None,
    limits: CpuLimits | None = None,
    memory: MemoryLimits | None = None,
) -> Environment:
    """The environment of this process; facts that were read before can be passed in."""
    limits = limits or read_cpu_limits(root)
    memory = memory or read_memory_limits(root)
    cpu = cpu or read_cpu_facts(root, cpus=limits.cpus)
    frequencies = root / f"sys/devices/system/cpu/cpu{limits.cpus[0]}/cpufreq"
    current_khz = read_int(frequencies / "scaling_cur_freq")
    silicon = _silicon(root)
    return Environment(
        os=platform.system(),
        os_version=_os_version(root),
        kernel=platform.release() or None,
        python=f"{platform.python_implementation()} {platform.python_version()}",
        architecture=cpu.architecture,
        cpu_vendor=cpu.vendor,
        cpu_model=cpu.model_name,
        cpu_family=silicon.get("cpu family"),
        cpu_model_number=silicon.get("model"),
        cpu_stepping=silicon.get("stepping"),
        machine_type=_machine_type(root),
        sockets=cpu.sockets,
        physical_cores=cpu.physical_cores,
        logical_cpus=cpu.logical_cpus,
        smt=cpu.smt,
        numa_nodes=cpu.numa_nodes,
        llc_bytes=cpu.llc_bytes,
        max_frequency_hz=cpu.max_frequency_hz,
        current_frequency_hz=None if current_khz is None else float(current_khz * KILO),
        governor=read_text(frequencies / "scaling_governor"),
        microcode=cpu.microcode,
        hypervisor=cpu.hypervisor,
        in_container=read_in_container(root),
        isa=cpu.isa,
        usable_cpus=limits.usable_cpus,
        affinity_cpus=len(limits.cpus),
        cpu_quota=limits.quota_cpus,
        usable_physical_cores=limits.physical_cores,
        memory_total_bytes=memory.total_bytes,
        memory_available_bytes=memory.available_bytes,
        cgroup_memory_limit_bytes=memory.cgroup_limit_bytes,
        cgroup_memory_room_bytes=memory.cgroup_room_bytes,
        transparent_huge_pages=_huge_pages(root),
    )

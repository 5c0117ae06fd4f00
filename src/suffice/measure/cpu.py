"""What CPU this is: from ``/proc/cpuinfo`` and ``/sys`` on Linux, from sysctl on macOS, from psutil elsewhere."""

from __future__ import annotations

import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from suffice.measure.system_files import parse_cpu_list, read_int, read_text, to_int
from suffice.model.isa import isa_from_arm_features, isa_from_mac_switches, isa_from_x86_flags
from suffice.units import KIB, KILO, MEGA, MIB

if TYPE_CHECKING:
    from collections.abc import Iterator

_CPUS: Final = "sys/devices/system/cpu"
_SIZE_SUFFIXES: Final = {"K": KIB, "M": MIB}
# arm writes numbers, not names; these are the server and edge parts an LLM is likely to run on (util-linux sys-utils/lscpu-arm.c).
_ARM_VENDORS: Final = {0x41: "ARM", 0x48: "HiSilicon", 0x51: "Qualcomm", 0x61: "Apple", 0xC0: "Ampere"}
_ARM_PARTS: Final = {
    (0x41, 0xD08): "Cortex-A72",
    (0x41, 0xD0B): "Cortex-A76",
    (0x41, 0xD0C): "Neoverse-N1",
    (0x41, 0xD40): "Neoverse-V1",
    (0x41, 0xD49): "Neoverse-N2",
    (0x41, 0xD4F): "Neoverse-V2",
    (0x41, 0xD83): "Neoverse-V3AE",
    (0x41, 0xD84): "Neoverse-V3",
    (0x41, 0xD8E): "Neoverse-N3",
    (0xC0, 0xAC3): "Ampere-1",
    (0xC0, 0xAC4): "Ampere-1a",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """One kind of data cache: its level, the size of one instance, and how many instances our CPUs have."""

    level: int
    size_bytes: int
    instances: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuFacts:
    """The processor. None means: the system does not tell. Counts are of the whole machine, caches of the CPUs we may use.

    A virtual machine shows what its host chose to show: caches may be the whole socket's, and a core may be a hyperthread.
    """

    architecture: str
    vendor: str | None
    model_name: str | None
    sockets: int | None
    physical_cores: int | None
    logical_cpus: int | None
    smt: bool | None  # do two logical CPUs share a core
    numa_nodes: int | None
    caches: tuple[Cache, ...]
    max_frequency_hz: float | None
    microcode: str | None
    hypervisor: bool | None
    isa: tuple[str, ...] | None

    @property
    def llc_bytes(self) -> int | None:
        """Last-level cache that our CPUs can reach, all instances together; None when unknown."""
        last = max(self.caches, key=lambda cache: cache.level, default=None)
        return None if last is None else last.size_bytes * last.instances


def _cpuinfo(root: Path) -> dict[str, str]:
    """First value of each field of ``/proc/cpuinfo``: fields of the first CPU, and those of the machine on arm."""
    fields: dict[str, str] = {}
    for line in (read_text(root / "proc/cpuinfo") or "").splitlines():
        name, found, value = line.partition(":")
        if found:
            fields.setdefault(name.strip(), value.strip())
    return fields


def _cpu_folders(root: Path) -> Iterator[Path]:
    folders = (root / _CPUS).glob("cpu[0-9]*")
    yield from sorted((f for f in folders if f.name[3:].isdigit()), key=lambda f: int(f.name[3:]))


def _parse_size(text: str | None) -> int | None:
    """Sysfs writes cache sizes as ``32K`` or ``300M``."""
    factor = _SIZE_SUFFIXES.get((text or "")[-1:])
    number = to_int(text[:-1] if text and factor else text)
    return number * (factor or 1) if number is not None and number > 0 else None


def read_caches(root: Path, cpus: tuple[int, ...] | None = None) -> tuple[Cache, ...]:
    """Data and unified caches of ``cpus`` (None: of all), by level. An instance is told from another by the CPUs it serves."""
    instances: dict[int, dict[str, int]] = {}
    for folder in _cpu_folders(root):
        if cpus is not None and int(folder.name[3:]) not in cpus:
            continue
        for index in folder.glob("cache/index[0-9]*"):
            level, size = read_int(index / "level"), _parse_size(read_text(index / "size"))
            shared = read_text(index / "shared_cpu_list") or folder.name
            if level is not None and size is not None and read_text(index / "type") != "Instruction":
                instances.setdefault(level, {})[shared] = size
    return tuple(
        Cache(level=level, size_bytes=max(sizes.values()), instances=len(sizes))
        for level, sizes in sorted(instances.items())
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Topology:
    sockets: int | None
    cores: int | None
    smt: bool | None


def _topology(root: Path) -> _Topology:
    packages, cores, logical = set(), set(), 0
    for folder in _cpu_folders(root):
        package, core = read_int(folder / "topology/physical_package_id"), read_int(folder / "topology/core_id")
        if package is not None and core is not None:  # an offline CPU has no topology
            logical += 1
            packages.add(package)
            cores.add((package, core))
    if not cores:
        return _Topology(sockets=None, cores=None, smt=None)
    return _Topology(sockets=len(packages), cores=len(cores), smt=logical > len(cores))


def _max_frequency_hz(root: Path) -> float | None:
    values = (read_int(folder / "cpufreq/cpuinfo_max_freq") for folder in _cpu_folders(root))  # in kHz
    known = [value for value in values if value]
    return float(max(known) * KILO) if known else None


def _numa_nodes(root: Path) -> int | None:
    nodes = parse_cpu_list(read_text(root / "sys/devices/system/node/online"))
    return len(nodes) or None


def _arm_name(fields: dict[str, str]) -> tuple[str | None, str | None]:
    """Vendor and part name of an arm CPU, from its implementer and part numbers."""
    try:
        implementer, part = int(fields["CPU implementer"], 16), int(fields["CPU part"], 16)
    except (KeyError, ValueError):
        return None, None
    vendor = _ARM_VENDORS.get(implementer, f"implementer {implementer:#x}")
    return vendor, _ARM_PARTS.get((implementer, part), f"{vendor} part {part:#x}")


def _linux_facts(root: Path, cpus: tuple[int, ...] | None, architecture: str) -> CpuFacts:
    fields, topology = _cpuinfo(root), _topology(root)
    arm_vendor, arm_model = _arm_name(fields)
    flags = fields["flags"].split() if "flags" in fields else None
    features = fields["Features"].split() if "Features" in fields else None
    isa = None
    if flags is not None:
        isa = isa_from_x86_flags(flags)
    elif features is not None:
        isa = isa_from_arm_features(features)
    logical = len(parse_cpu_list(read_text(root / _CPUS / "online"))) or None
    return CpuFacts(
        architecture=architecture,
        vendor=fields.get("vendor_id") or arm_vendor,
        model_name=fields.get("model name") or arm_model,
        sockets=topology.sockets,
        physical_cores=topology.cores,
        logical_cpus=logical,
        smt=topology.smt,
        numa_nodes=_numa_nodes(root),
        caches=read_caches(root, cpus),
        max_frequency_hz=_max_frequency_hz(root),
        microcode=fields.get("microcode"),
        hypervisor=None if flags is None else "hypervisor" in flags,
        isa=isa,
    )


def parse_sysctl(text: str) -> dict[str, str]:
    """``name: value`` lines of macOS's ``sysctl``."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, found, value in pairs if found}


def _mac_caches(values: dict[str, str]) -> tuple[Cache, ...]:
    """Shared L2 of the performance cores, or the L3 of an Intel Mac. Apple's system-level cache is not told and not counted."""
    for name, level in (("hw.l3cachesize", 3), ("hw.perflevel0.l2cachesize", 2), ("hw.l2cachesize", 2)):
        size = to_int(values.get(name))
        if size:
            cores, per_cache = (
                to_int(values.get("hw.perflevel0.physicalcpu")),
                to_int(values.get("hw.perflevel0.cpusperl2")),
            )
            # sysctl tells how many cores share a second-level cache; Apple has no third level.
            instances = -(-cores // per_cache) if level == 2 and cores and per_cache else 1  # noqa: PLR2004  # the level
            return (Cache(level=level, size_bytes=size, instances=instances),)
    return ()


def mac_facts(values: dict[str, str], architecture: str) -> CpuFacts:
    """Facts from macOS's sysctl values (see :func:`parse_sysctl`)."""
    flag_names = ("machdep.cpu.features", "machdep.cpu.leaf7_features")
    flags = [word.lower().replace("avx1.0", "avx") for name in flag_names for word in values.get(name, "").split()]
    switched_on = [name for name, value in values.items() if value == "1"]
    isa = tuple(sorted({*isa_from_mac_switches(switched_on), *isa_from_x86_flags(flags)}))
    cores, logical = to_int(values.get("hw.physicalcpu")), to_int(values.get("hw.logicalcpu"))
    frequency = to_int(values.get("hw.cpufrequency_max"))
    in_vm = values.get("kern.hv_vmm_present")
    return CpuFacts(
        architecture=architecture,
        vendor=values.get("machdep.cpu.vendor") or ("Apple" if architecture == "arm64" else None),
        model_name=values.get("machdep.cpu.brand_string"),
        sockets=to_int(values.get("hw.packages")),
        physical_cores=cores,
        logical_cpus=logical,
        smt=None if cores is None or logical is None else logical > cores,
        numa_nodes=None,
        caches=_mac_caches(values),
        max_frequency_hz=float(frequency) if frequency else None,
        microcode=values.get("machdep.cpu.microcode_version"),
        hypervisor=None if in_vm is None else in_vm == "1",
        isa=isa or None,
    )


def _read_sysctl() -> dict[str, str]:
    """All of sysctl; it prints in some 10 ms. Empty when it does not run."""
    try:
        done = subprocess.run(["/usr/sbin/sysctl", "-a"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return parse_sysctl(done.stdout)


def _other_facts(architecture: str) -> CpuFacts:
    cores, logical = psutil.cpu_count(logical=False), psutil.cpu_count()
    frequency = psutil.cpu_freq() if hasattr(psutil, "cpu_freq") else None
    return CpuFacts(
        architecture=architecture,
        vendor=None,
        model_name=platform.processor() or None,
        sockets=None,
        physical_cores=cores,
        logical_cpus=logical,
        smt=None if cores is None or logical is None else logical > cores,
        numa_nodes=None,
        caches=(),
        max_frequency_hz=frequency.max * MEGA if frequency and frequency.max else None,
        microcode=None,
        hypervisor=None,
        isa=None,
    )


def read_cpu_facts(
    root: Path = Path("/"), *, cpus: tuple[int, ...] | None = None, architecture: str | None = None
) -> CpuFacts:
    """The processor of this machine, or of the tree under ``root``; ``cpus`` are those we may use (None: all)."""
    machine = platform.machine() if architecture is None else architecture
    if (root / "proc/cpuinfo").is_file() or root != Path("/"):
        return _linux_facts(root, cpus, machine)
    return mac_facts(_read_sysctl(), machine) if sys.platform == "darwin" else _other_facts(machine)

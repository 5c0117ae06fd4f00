"""A machine and a workload as rows of numbers: what the physics needs, and what the learned residual looks at."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from suffice.predict.cpu_names import MICROARCHITECTURES, clock_ghz, cpu_identity, microarchitecture_of
from suffice.predict.instance_names import (
    instance_family,
    instance_series,
    is_bare_metal,
    parent_vcpus,
    vcpus_of_instance,
)
from suffice.units import GIGA, MEGA

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from suffice.predict.machine import MachineSpec

    Floats = npt.NDArray[np.float64]

UNKNOWN_CORE: Final = "unknown"
CORES: Final = (UNKNOWN_CORE, *MICROARCHITECTURES)
CLOUDS: Final = ("alicloud", "aws", "azure", "gcp", "hcloud", "ovh", "upcloud", "vultr")

ISA_CLASSES: Final = (
    "amx",
    "avx512-bf16",
    "avx512-vnni",
    "avx512",
    "avx2",
    "avx",
    "arm-sve2",
    "arm-sve",
    "arm-dotprod",
    "arm",
    "unknown",
)
_ISA_TESTS: Final = (
    ("amx_int8", "amx"),
    ("avx512_bf16", "avx512-bf16"),
    ("avx512_vnni", "avx512-vnni"),
    ("avx512f", "avx512"),
    ("avx512", "avx512"),
    ("avx2", "avx2"),
    ("avx", "avx"),
    ("sve2", "arm-sve2"),
    ("sve", "arm-sve"),
    ("asimddp", "arm-dotprod"),
    ("dotprod", "arm-dotprod"),
    ("asimd", "arm"),
    ("neon", "arm"),
)
_KNOWN_MACHINES: Final = 4096  # of a catalogue, which is asked for every model
MACHINE_FEATURES: Final = (
    "log_vcpus",
    "threads_per_core",
    "log_cores_per_socket",
    "log_sockets",
    "numa_nodes",
    "log_llc_bytes",
    "llc_instances",
    "isa_class",
    "avx_vnni",
    "log_read",
    "log_second_read",
    "clock",
    "year",
    "log_socket_read",
    "vector_bits",
    "dot_product",
    "intel_amd_arm",
    "log_parent_vcpus",
    "bare_metal",
    "log_llc_per_core",
    "other_cpu",
    "cloud",
    "accelerator",
)
_VENDOR_CODE: Final = {"intel": 0.0, "amd": 1.0, "arm": 2.0}


def isa_class_of(isa: frozenset[str] | None) -> str:
    """The strongest instruction set that integer dot products can use, as a class of machines."""
    if not isa:
        return "unknown"
    return next((name for flag, name in _ISA_TESTS if flag in isa), "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineTable:
    """Machines as arrays, one entry each.

    Attributes:
        core: index into ``CORES``.
        threads: that the engine would use by default: one per core; NaN where no count is known.
        read_bytes_per_s: measured; NaN where it was not.
        numa_nodes: at least 1.
        features: columns ``MACHINE_FEATURES``.
        identity: CPU model, empty where not known.
        family: family of instances, empty where not known.
        series: families that share hosts.
        isa_class: of ``ISA_CLASSES``.
    """

    core: npt.NDArray[np.intp]
    threads: Floats
    read_bytes_per_s: Floats
    numa_nodes: Floats
    features: Floats
    identity: list[str]
    family: list[str]
    series: list[str]
    isa_class: list[str]


def machine_table(machines: Sequence[MachineSpec]) -> MachineTable:
    """The table of some machines, in their order."""
    return table_of_rows([row_of(machine) for machine in machines])


def table_of_rows(rows: Sequence[MachineRow]) -> MachineTable:
    """The same of machines whose rows are known."""
    return MachineTable(
        core=np.array([row.core for row in rows], dtype=np.intp),
        threads=np.array([row.threads for row in rows], dtype=np.float64),
        read_bytes_per_s=np.array([row.read_bytes_per_s for row in rows], dtype=np.float64),
        numa_nodes=np.array([row.numa_nodes for row in rows], dtype=np.float64),
        features=np.array([row.features for row in rows], dtype=np.float64).reshape(len(rows), len(MACHINE_FEATURES)),
        identity=[row.identity for row in rows],
        family=[row.family for row in rows],
        series=[row.series for row in rows],
        isa_class=[row.isa_class for row in rows],
    )


class MachineRow(NamedTuple):
    """A machine in the table."""

    core: int
    threads: float
    read_bytes_per_s: float
    numa_nodes: float
    features: tuple[float, ...]
    identity: str
    family: str
    series: str
    isa_class: str


@lru_cache(maxsize=_KNOWN_MACHINES)
def row_of(machine: MachineSpec) -> MachineRow:
    """What the table says of a machine."""
    text, vendor, instance = machine.cpu_model or "", machine.vendor or "", machine.instance or ""
    core = microarchitecture_of(text, machine.isa)
    isa_class = isa_class_of(machine.isa)
    vcpus = machine.vcpus or vcpus_of_instance(vendor, instance)
    cores = _cores(machine, vcpus, arm=core is not None and core.vendor == "arm")
    read_bytes_per_s, llc = _read(machine), machine.llc_bytes
    features = (
        _log(vcpus),
        _or_nan(machine.threads_per_core),
        _log(machine.cores_per_socket),
        _log(machine.sockets),
        _or_nan(machine.numa_nodes),
        _log(llc),
        _or_nan(machine.llc_instances),
        float(ISA_CLASSES.index(isa_class)) if machine.isa else math.nan,
        float("avx_vnni" in machine.isa) if machine.isa else math.nan,
        _log(read_bytes_per_s / GIGA),
        _log(_scaled(machine.second_read_bytes_per_s, 1 / GIGA)),
        _or_nan(clock_ghz(text)),
        *(
            (
                float(core.year),
                _log(core.socket_mega_bytes_per_s * MEGA / GIGA),
                float(core.vector_bits),
                float(core.dot_product),
                _VENDOR_CODE[core.vendor],
            )
            if core
            else (math.nan,) * 5
        ),
        _log(parent_vcpus(instance) or vcpus),
        float(is_bare_metal(instance)),
        _log(_scaled(llc, 1 / cores) if cores else None),
        _other_cpu(machine),
        float(CLOUDS.index(vendor.lower())) if vendor.lower() in CLOUDS else math.nan,
        float(bool(machine.gpu)),
    )
    return MachineRow(
        core=CORES.index(core.name) if core else 0,
        threads=_or_nan(cores),
        read_bytes_per_s=read_bytes_per_s,
        numa_nodes=machine.numa_nodes or 1,
        features=features,
        identity=cpu_identity(text, isa_class),
        family=instance_family(vendor, instance),
        series=instance_series(vendor, instance),
        isa_class=isa_class,
    )


def _cores(machine: MachineSpec, vcpus: int | None, *, arm: bool) -> float | None:
    """Physical cores of the guest: without a count of threads per core, two on x86 and one on ARM."""
    if vcpus is None:
        return None
    per_core = machine.threads_per_core or (1 if arm else 2)
    return max(1.0, vcpus // per_core)


def _read(machine: MachineSpec) -> float:
    if machine.read_basis != "measured":
        return math.nan
    return _or_nan(machine.read_bytes_per_s or machine.second_read_bytes_per_s)


def _other_cpu(machine: MachineSpec) -> float:
    described = machine.described_cpu_model
    if not described or not machine.cpu_model:
        return 0.0
    return float(cpu_identity(described, "") != cpu_identity(machine.cpu_model, ""))


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _log(value: float | None) -> float:
    return math.log(value) if value is not None and value > 0 else math.nan

"""What a CPU's name tells: its plain name, its clock and its microarchitecture with the facts that are public about it.

Virtual machines print names such as ``AMD EPYC 9R14 96-Core Processor`` or ``INTEL(R) XEON(R) PLATINUM 8581C CPU @ 2.30GHz``.
The naming rules are the vendors' own: the last digit of an EPYC's four is its generation, the second digit of a Xeon
Scalable's four likewise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

UNKNOWN: Final = "unknown"
_NOT_A_NAME: Final = frozenset({"", "CPU", "UNKNOWN", "NONE", "N/A", "-", "GENUINE INTEL 0000"})
_GENERIC: Final = frozenset({"INTEL XEON", "INTEL XEON PLATINUM", "AMD EPYC"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Microarchitecture:
    """A generation of cores with the memory it came with.

    Attributes:
        name: as the vendor calls it.
        vendor: ``intel``, ``amd`` or ``arm``.
        year: of the first server part.
        socket_mega_bytes_per_s: memory channels x transfers per second x 8 bytes of the usual server socket, in MB/s.
        vector_bits: width of the widest vector unit that integer dot products run on.
        dot_product: 0 none, 1 an 8-bit dot-product instruction, 2 a matrix instruction (I8MM), 3 a matrix unit (AMX).
    """

    name: str
    vendor: str
    year: int
    socket_mega_bytes_per_s: int
    vector_bits: int
    dot_product: int


def _core(name: str, vendor: str, year: int, memory: tuple[int, int], vector: tuple[int, int]) -> Microarchitecture:
    channels, mega_transfers = memory
    return Microarchitecture(
        name=name,
        vendor=vendor,
        year=year,
        socket_mega_bytes_per_s=channels * mega_transfers * 8,
        vector_bits=vector[0],
        dot_product=vector[1],
    )


MICROARCHITECTURES: Final = {
    core.name: core
    for core in (
        _core("ivy-bridge", "intel", 2013, (4, 1866), (128, 0)),
        _core("haswell", "intel", 2014, (4, 2133), (256, 0)),
        _core("broadwell", "intel", 2016, (4, 2400), (256, 0)),
        _core("skylake", "intel", 2017, (6, 2666), (512, 0)),
        _core("cascade-lake", "intel", 2019, (6, 2933), (512, 1)),
        _core("cooper-lake", "intel", 2020, (6, 3200), (512, 1)),
        _core("coffee-lake", "intel", 2019, (2, 2666), (256, 0)),
        _core("rocket-lake", "intel", 2021, (2, 3200), (512, 1)),
        _core("ice-lake", "intel", 2021, (8, 3200), (512, 1)),
        _core("sapphire-rapids", "intel", 2023, (8, 4800), (512, 3)),
        _core("emerald-rapids", "intel", 2023, (8, 5600), (512, 3)),
        _core("granite-rapids", "intel", 2024, (12, 6400), (512, 3)),
        _core("sierra-forest", "intel", 2024, (8, 6400), (256, 1)),
        _core("zen1", "amd", 2017, (8, 2666), (128, 0)),
        _core("zen2", "amd", 2019, (8, 3200), (256, 0)),
        _core("zen3", "amd", 2021, (8, 3200), (256, 0)),
        _core("zen4", "amd", 2022, (12, 4800), (256, 1)),
        _core("zen5", "amd", 2024, (12, 6000), (512, 1)),
        _core("cortex-a72", "arm", 2018, (2, 2400), (128, 0)),
        _core("neoverse-n1", "arm", 2020, (8, 3200), (128, 1)),
        _core("kunpeng", "arm", 2019, (8, 2933), (128, 1)),
        _core("neoverse-v1", "arm", 2022, (8, 4800), (256, 2)),
        _core("neoverse-n2", "arm", 2021, (8, 4800), (128, 2)),
        _core("ampere-one", "arm", 2023, (8, 4800), (128, 2)),
        _core("neoverse-v2", "arm", 2024, (12, 5600), (128, 2)),
        _core("neoverse-n3", "arm", 2025, (8, 5600), (128, 2)),
        _core("neoverse-v3", "arm", 2025, (12, 8800), (128, 2)),
    )
}

_RULES: Final = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (r"\bV2\b.*\bE5\b|\bE5-\S+ V2\b|IVY ?BRIDGE", "ivy-bridge"),
        (r"\bE[57]-\S+ V3\b|HASWELL", "haswell"),
        (r"\bE[57]-\S+ V4\b|BROADWELL", "broadwell"),
        (r"CASCADE ?LAKE|\b[3-9]2\d\d[A-Z]*\b", "cascade-lake"),
        (r"COOPER ?LAKE|\b83\d\dHB?\b|\b8369HB\b|\b[5-8]3\d\dH\b", "cooper-lake"),
        (r"ICE ?LAKE|\b[3-9]3\d\d[A-Z+]*\b", "ice-lake"),
        (r"SAPPHIRE|\b[3-9]4\d\d[A-Z]*\b", "sapphire-rapids"),
        (r"EMERALD|\b[3-9]5\d\d[A-Z]*\b", "emerald-rapids"),
        (r"GRANITE|\b6[57]\d\dP\b|\b69\d\dP\b", "granite-rapids"),
        (r"SIERRA|\b67\d\dE\b", "sierra-forest"),
        (r"SKYLAKE|\b[3-9]1\d\d[A-Z]*\b|\bW-3\d\d\d\b", "skylake"),
        (r"\bE-21\d\d|\bE-22\d\d", "coffee-lake"),
        (r"\bE-23\d\d", "rocket-lake"),
    )
)
_AMD_GENERATION: Final = {"1": "zen1", "2": "zen2", "3": "zen3", "4": "zen4", "5": "zen5"}
_AMD_CODE_NAMES: Final = {
    "NAPLES": "zen1",
    "ROME": "zen2",
    "MILAN": "zen3",
    "GENOA": "zen4",
    "BERGAMO": "zen4",
    "TURIN": "zen5",
}
_ARM_CORES: Final = (
    "cortex-a72",
    "neoverse-n1",
    "neoverse-n2",
    "neoverse-n3",
    "neoverse-v1",
    "neoverse-v2",
    "neoverse-v3",
)
_ARM_ALIASES: Final = {
    "ALTRA": "neoverse-n1",
    "AMPERE-1": "ampere-one",
    "AMPEREONE": "ampere-one",
    "KUNPENG": "kunpeng",
    "TAISHAN": "kunpeng",
    "GRAVITON2": "neoverse-n1",
    "GRAVITON3": "neoverse-v1",
    "GRAVITON4": "neoverse-v2",
    "AXION": "neoverse-v2",
    "YITIAN": "neoverse-n2",
    "COBALT": "neoverse-n2",
}


@lru_cache(maxsize=4096)
def plain_cpu_name(text: str) -> str:
    """The model's name without marks, clocks and core counts, in capitals; empty where the text names no CPU.

    Example:
        >>> plain_cpu_name("AMD EPYC 9R14 96-Core Processor")
        'AMD EPYC 9R14'
    """
    name = text.upper().replace("(R)", " ").replace("(TM)", " ")
    name = re.sub(r"@.*", " ", name)
    name = re.sub(r"\b\d+-CORE\b|\bPROCESSOR\b|\bCPU\b", " ", name)
    name = re.sub(r"\s+", " ", name).strip()
    return "" if name in _NOT_A_NAME else name


@lru_cache(maxsize=4096)
def clock_ghz(text: str) -> float | None:
    """The clock that the name states, in GHz; None where it states none."""
    found = re.search(r"(\d+(?:\.\d+)?)\s*GHZ", text.upper())
    return float(found.group(1)) if found else None


def cpu_identity(text: str, isa_class: str) -> str:
    """What makes two readings the same CPU model: the plain name; a generic one with its clock and ISA class besides."""
    name = plain_cpu_name(text)
    if name in _GENERIC:
        clock = clock_ghz(text)
        return f"{name} {'?' if clock is None else f'{clock:g}'} {isa_class}"
    return name


def microarchitecture_of(text: str, isa: Collection[str] | None) -> Microarchitecture | None:
    """The generation of cores that a name belongs to, or else the one that a set of instructions points to.

    A hypervisor's name may hide what is below ("Intel Core Processor (Skylake, IBRS)"); None where nothing is known.
    """
    name = plain_cpu_name(text)
    found = _by_name(name)
    if found is None and isa:
        found = _by_isa(name, frozenset(isa))
    return None if found is None else MICROARCHITECTURES[found]


@lru_cache(maxsize=4096)
def _by_name(name: str) -> str | None:
    if "EPYC" in name or "AMD" in name:
        return _amd(name)
    for core in _ARM_CORES:
        if core.upper() in name:
            return core
    for alias, core in _ARM_ALIASES.items():
        if alias in name:
            return core
    return next((core for pattern, core in _RULES if pattern.search(name)), None)


def _amd(name: str) -> str | None:
    for code_name, core in _AMD_CODE_NAMES.items():
        if code_name in name:
            return core
    found = re.search(r"\b[79][0-9A-Z]\d(\d)[A-Z]?\b", name)
    return _AMD_GENERATION.get(found.group(1)) if found else None


def _by_isa(name: str, isa: frozenset[str]) -> str | None:
    amd = "AMD" in name or "EPYC" in name
    for flags, intel_core, amd_core in (
        ({"amx_int8"}, "sapphire-rapids", None),
        ({"avx512_bf16", "avx_vnni"}, "sapphire-rapids", "zen5"),
        ({"avx512_bf16"}, "cooper-lake", "zen4"),
        ({"avx512_vnni"}, "cascade-lake", "zen4"),
        ({"avx512f"}, "skylake", "zen4"),
        ({"avx2"}, "broadwell", "zen3"),
        ({"avx"}, "ivy-bridge", "zen1"),
        ({"sve2"}, "neoverse-n2", None),
        ({"sve"}, "neoverse-v1", None),
        ({"asimddp"}, "neoverse-n1", None),
        ({"asimd"}, "cortex-a72", None),
    ):
        if flags <= isa:
            return amd_core if amd and amd_core else intel_core
    return None

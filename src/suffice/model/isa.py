"""Names of instruction sets: from what an operating system says to what llama.cpp prints, in lower case.

llama.cpp's ``llama_print_system_info()`` prints AVX, AVX2, F16C, FMA, BMI2, AVX_VNNI, AVX512, AVX512_VBMI, AVX512_VNNI,
AVX512_BF16 and AMX_INT8 on x86, NEON, ARM_FMA, FP16_VA, MATMUL_INT8, DOTPROD, SVE and SME on arm (ggml/src/ggml-cpu/ggml-cpu.cpp).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

# Linux flag -> common name. x86: "flags" of /proc/cpuinfo (arch/x86/include/asm/cpufeatures.h).
_X86_FLAGS: Final = {
    "sse3": "sse3",
    "pni": "sse3",  # Linux still uses the code name "Prescott New Instructions"
    "ssse3": "ssse3",
    "avx": "avx",
    "avx2": "avx2",
    "fma": "fma",
    "f16c": "f16c",
    "bmi2": "bmi2",
    "avx_vnni": "avx_vnni",
    "avx512f": "avx512",
    "avx512vbmi": "avx512_vbmi",
    "avx512_vnni": "avx512_vnni",
    "avx512_bf16": "avx512_bf16",
    "avx512_fp16": "avx512_fp16",
    "amx_int8": "amx_int8",
    "amx_bf16": "amx_bf16",
}
# arm: "Features" of /proc/cpuinfo (Documentation/arch/arm64/elf_hwcaps.rst). "fma" comes with every NEON of 64-bit arm.
_ARM_FEATURES: Final = {
    "asimd": ("neon", "arm_fma"),
    "neon": ("neon",),
    "vfpv4": ("arm_fma",),
    "asimdhp": ("fp16_va",),
    "asimddp": ("dotprod",),
    "i8mm": ("matmul_int8",),
    "bf16": ("bf16",),
    "sve": ("sve",),
    "sve2": ("sve2",),
    "sme": ("sme",),
}
# macOS: sysctl names, each 0 or 1. On Apple silicon hw.optional.*, on Intel words of machdep.cpu.features and leaf7_features.
_MAC_SWITCHES: Final = {
    "hw.optional.neon": ("neon", "arm_fma"),
    "hw.optional.AdvSIMD": ("neon", "arm_fma"),
    "hw.optional.arm.FEAT_FP16": ("fp16_va",),
    "hw.optional.arm.FEAT_DotProd": ("dotprod",),
    "hw.optional.arm.FEAT_I8MM": ("matmul_int8",),
    "hw.optional.arm.FEAT_BF16": ("bf16",),
    "hw.optional.arm.FEAT_SME": ("sme",),
    "hw.optional.avx1_0": ("avx",),
    "hw.optional.avx2_0": ("avx2",),
    "hw.optional.fma": ("fma",),
    "hw.optional.f16c": ("f16c",),
    "hw.optional.bmi2": ("bmi2",),
    "hw.optional.avx512f": ("avx512",),
}
_ALIASES: Final = {"avx512f": "avx512", "avx512vbmi": "avx512_vbmi", "avxvnni": "avx_vnni", "i8mm": "matmul_int8"}

# What makes an engine faster when it is used, and what llama.cpp can say that it uses. amx_bf16, avx512_fp16 and the bf16 of
# arm are not here: no build reports them, so that their absence from a report tells nothing.
SPEED_ISA: Final = (
    "avx2",
    "fma",
    "f16c",
    "avx_vnni",
    "avx512",
    "avx512_vbmi",
    "avx512_vnni",
    "avx512_bf16",
    "amx_int8",
    "dotprod",
    "matmul_int8",
    "sve",
)
# Each key does nothing that its value does not do at least as well.
_SUPERSEDED_BY: Final = {"avx_vnni": "avx512_vnni"}


def isa_from_x86_flags(flags: Iterable[str]) -> tuple[str, ...]:
    """Common names, sorted, from the words of ``flags`` in ``/proc/cpuinfo``: ``avx512f`` -> ``avx512``."""
    return tuple(sorted({_X86_FLAGS[flag] for flag in flags if flag in _X86_FLAGS}))


def isa_from_arm_features(features: Iterable[str]) -> tuple[str, ...]:
    """Common names, sorted, from the words of ``Features`` in ``/proc/cpuinfo``: ``asimddp`` -> ``dotprod``."""
    return tuple(sorted({name for word in features for name in _ARM_FEATURES.get(word, ())}))


def isa_from_mac_switches(switches: Iterable[str]) -> tuple[str, ...]:
    """Common names, sorted, from the sysctl names whose value is 1."""
    return tuple(sorted({name for switch in switches for name in _MAC_SWITCHES.get(switch, ())}))


def normalise_isa(names: Iterable[str]) -> tuple[str, ...]:
    """Lower-cased common names, sorted and each once: ``("AVX512F", "i8mm")`` -> ``("avx512", "matmul_int8")``."""
    lowered = (name.strip().lower() for name in names)
    return tuple(sorted({_ALIASES.get(name, name) for name in lowered if name}))


def unused_isa(cpu_isa: Iterable[str], engine_isa: Iterable[str]) -> tuple[str, ...]:
    """Instruction sets that the CPU has, that matter for speed and that the engine does not use, in ``SPEED_ISA``'s order.

    An engine with any of these unused was built for a more general CPU: its speed is a lower bound for this one.
    """
    has, uses = set(normalise_isa(cpu_isa)), set(normalise_isa(engine_isa))
    return tuple(
        name for name in SPEED_ISA if name in has and name not in uses and _SUPERSEDED_BY.get(name) not in uses
    )

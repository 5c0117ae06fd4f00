"""Names of instruction sets and what an engine leaves unused."""

from __future__ import annotations

import pytest

from suffice.model.isa import (
    SPEED_ISA,
    isa_from_arm_features,
    isa_from_mac_switches,
    isa_from_x86_flags,
    normalise_isa,
    unused_isa,
)


def test_x86_flags_get_the_names_that_llama_cpp_prints() -> None:
    """Linux's spelling becomes llama.cpp's, and flags that do not matter are left out."""
    line = "fpu vme pni ssse3 avx avx2 fma f16c bmi2 avx512f avx512vbmi avx512_vnni avx512_bf16 amx_int8 avx_vnni"
    assert set(isa_from_x86_flags(line.split())) == {
        *("sse3", "ssse3", "avx", "avx2", "fma", "f16c", "bmi2", "avx512", "avx512_vbmi", "avx512_vnni"),
        *("avx512_bf16", "amx_int8", "avx_vnni"),
    }


def test_arm_features_get_the_names_that_llama_cpp_prints() -> None:
    """A Neoverse-V1's Features line has NEON, dot product, 8-bit matrix products, half floats and SVE."""
    line = "fp asimd evtstrm aes asimdhp asimddp sve i8mm bf16"
    expected = ("arm_fma", "bf16", "dotprod", "fp16_va", "matmul_int8", "neon", "sve")
    assert isa_from_arm_features(line.split()) == expected


def test_mac_switches() -> None:
    """An M2's sysctl names become the common ones."""
    assert isa_from_mac_switches(["hw.optional.AdvSIMD", "hw.optional.arm.FEAT_I8MM", "hw.tbfrequency"]) == (
        "arm_fma",
        "matmul_int8",
        "neon",
    )


def test_normalise_knows_other_spellings() -> None:
    """Case, blanks and the kernel's spellings do not make two names of one set."""
    assert normalise_isa([" AVX512F ", "avx512", "i8mm", ""]) == ("avx512", "matmul_int8")


def test_generic_avx2_build_leaves_avx512_unused() -> None:
    """A wheel built for AVX2 on a Zen 4 leaves all of AVX-512 unused, in a fixed order."""
    cpu = ("avx", "avx2", "fma", "f16c", "bmi2", "avx512", "avx512_vbmi", "avx512_vnni", "avx512_bf16")
    engine = ("SSE3", "AVX", "AVX2", "F16C", "FMA", "BMI2")
    assert unused_isa(cpu, engine) == ("avx512", "avx512_vbmi", "avx512_vnni", "avx512_bf16")


@pytest.mark.parametrize(
    ("engine", "expected"),
    [(("avx2", "avx512_vnni"), ()), (("avx2",), ("avx_vnni", "avx512_vnni")), (("avx2", "avx_vnni"), ("avx512_vnni",))],
)
def test_avx_vnni_is_superseded_by_avx512_vnni(engine: tuple[str, ...], expected: tuple[str, ...]) -> None:
    """Who uses the 512-bit VNNI gains nothing from the 256-bit one; not the other way round."""
    assert unused_isa(("avx2", "avx_vnni", "avx512_vnni"), engine) == expected


def test_native_build_and_trivial_sets() -> None:
    """Sets without effect on speed, and those that no engine reports, never count as unused."""
    assert unused_isa(("sse3", "avx", "bmi2", "amx_bf16", "avx512_fp16", "bf16"), ()) == ()
    assert unused_isa(SPEED_ISA, SPEED_ISA) == ()

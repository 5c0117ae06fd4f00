"""What names of CPUs, instances and model files tell."""

from __future__ import annotations

import pytest

from suffice.predict.cpu_features import isa_class_of
from suffice.predict.cpu_names import clock_ghz, cpu_identity, microarchitecture_of, plain_cpu_name
from suffice.predict.instance_names import instance_family, is_bare_metal, parent_vcpus, vcpus_of_instance
from suffice.predict.model_files import KNOWN_FILES, model_file


@pytest.mark.parametrize(
    ("text", "plain", "core"),
    [
        ("AMD EPYC 9R14 96-Core Processor", "AMD EPYC 9R14", "zen4"),
        ("AMD EPYC 7763 64-Core Processor", "AMD EPYC 7763", "zen3"),
        ("AMD EPYC 9V74 80-Core Processor", "AMD EPYC 9V74", "zen4"),
        ("AMD EPYC 7571", "AMD EPYC 7571", "zen1"),
        ("AMD EPYC-Rome-v4 Processor (no XSAVES)", "AMD EPYC-ROME-V4 (NO XSAVES)", "zen2"),
        ("AMD EPYC 9575F 64-Core Processor", "AMD EPYC 9575F", "zen5"),
        ("INTEL(R) XEON(R) PLATINUM 8581C CPU @ 2.30GHz", "INTEL XEON PLATINUM 8581C", "emerald-rapids"),
        ("Intel(R) Xeon(R) Platinum 8370C CPU @ 2.80GHz", "INTEL XEON PLATINUM 8370C", "ice-lake"),
        ("Intel(R) Xeon(R) Platinum 8369HB CPU @ 3.30GHz", "INTEL XEON PLATINUM 8369HB", "cooper-lake"),
        ("Intel(R) Xeon(R) 6975P-C", "INTEL XEON 6975P-C", "granite-rapids"),
        ("Intel(R) Xeon(R) CPU E5-2686 v4 @ 2.30GHz", "INTEL XEON E5-2686 V4", "broadwell"),
        ("Intel(R) Xeon(R) Gold 6136 CPU @ 3.00GHz", "INTEL XEON GOLD 6136", "skylake"),
        ("Intel Xeon Processor (Cascadelake)", "INTEL XEON (CASCADELAKE)", "cascade-lake"),
        ("Neoverse-V2", "NEOVERSE-V2", "neoverse-v2"),
    ],
)
def test_a_cpu_is_known_by_its_plain_name(text: str, plain: str, core: str) -> None:
    """Marks, clocks and core counts go, and the vendors' numbering tells the generation, of models never measured as well."""
    found = microarchitecture_of(text, None)

    assert plain_cpu_name(text) == plain
    assert found is not None
    assert found.name == core


@pytest.mark.parametrize("text", ["CPU", "", "unknown", "None"])
def test_what_is_no_name_is_empty(text: str) -> None:
    """llama.cpp prints just "CPU" on ARM: that names nothing."""
    assert plain_cpu_name(text) == ""
    assert microarchitecture_of(text, None) is None


def test_instructions_tell_what_a_generic_name_hides() -> None:
    """A plain Xeon at 2.20 GHz with AMX is Sapphire Rapids at least; its clock and class make it one model."""
    text = "Intel(R) Xeon(R) CPU @ 2.20GHz"
    found = microarchitecture_of(text, frozenset({"avx2", "avx512f", "avx512_vnni", "amx_int8"}))

    assert found is not None
    assert found.name == "sapphire-rapids"
    assert clock_ghz(text) == 2.2
    assert cpu_identity(text, "amx") != cpu_identity(text, "avx2")


def test_isa_classes_take_the_strongest() -> None:
    """AMX before AVX-512, SVE2 before SVE; nothing known is a class of its own."""
    assert isa_class_of(frozenset({"avx2", "avx512f", "avx512_vnni", "amx_int8"})) == "amx"
    assert isa_class_of(frozenset({"asimd", "asimddp", "sve", "sve2"})) == "arm-sve2"
    assert isa_class_of(None) == "unknown"


@pytest.mark.parametrize(
    ("vendor", "instance", "family", "vcpus"),
    [
        ("aws", "c7i.4xlarge", "aws c7i", 16),
        ("aws", "m6g.large", "aws m6g", 2),
        ("azure", "Standard_E16-4s_v5", "azure es_v5", 4),
        ("azure", "Standard_D96as_v5", "azure das_v5", 96),
        ("gcp", "n4-highmem-8", "gcp n4-highmem", 8),
        ("alicloud", "ecs.g7.2xlarge", "alicloud ecs.g7", 8),
        ("upcloud", "STARTER-2xCPU-4GB", "upcloud STARTER-#xCPU-#GB", 2),
        ("ovh", "b3-8", "ovh b#-#", None),
    ],
)
def test_an_instance_has_a_family_and_often_a_size(vendor: str, instance: str, family: str, vcpus: int | None) -> None:
    """Names of sizes are the clouds' own; what a name does not say stays unknown."""
    assert instance_family(vendor, instance) == family
    assert vcpus_of_instance(vendor, instance) == vcpus


def test_constrained_cores_and_bare_metal_are_seen() -> None:
    """An Azure size with constrained cores has the memory of its parent."""
    assert parent_vcpus("Standard_E16-4s_v5") == 16
    assert parent_vcpus("Standard_E16s_v5") is None
    assert is_bare_metal("r6i.metal")
    assert not is_bare_metal("r6i.large")


def test_an_untied_embedding_is_not_streamed() -> None:
    """Llama-7B: 32,000 x 4,096 parameters at 4.5 bits are looked up, the rest is read for each token."""
    found = model_file("llama-7b.Q4_K_M.gguf", None, None)

    assert found == KNOWN_FILES["llama-7b"]
    assert found.streamed_bytes == 4080263168 - 32000 * 4096 * 4.5 / 8
    assert KNOWN_FILES["gemma-2b"].streamed_bytes == KNOWN_FILES["gemma-2b"].file_bytes  # tied: it is the head as well


def test_another_quantization_is_another_file() -> None:
    """A known name with a size that contradicts it is taken by its size."""
    found = model_file("llama-7b.Q8_0.gguf", 7.16e9, 6.74e9)

    assert found is not None
    assert found.streamed_bytes == 7.16e9
    assert not found.exact


@pytest.mark.parametrize(
    ("name", "size", "count", "parameters"),
    [
        ("mistral-7b-instruct.Q4_K_M.gguf", None, None, 7e9),
        ("Qwen2.5-0.5B-Q8_0.gguf", None, None, 0.5e9),
        ("some.gguf", None, 3e9, 3e9),
        ("some-q8_0.gguf", 8.5e9, None, 8e9),
    ],
)
def test_a_model_is_known_by_what_little_is_said(
    name: str, size: float | None, count: float | None, parameters: float
) -> None:
    """Parameters from the name, the count or the size, whichever is there."""
    found = model_file(name, size, count)

    assert found is not None
    assert found.parameters == pytest.approx(parameters)


def test_a_model_of_which_nothing_is_said_is_unknown() -> None:
    """No size, no count, no number in the name: no guess."""
    assert model_file("my-finetune.gguf", None, None) is None

from __future__ import annotations

import pytest

from suffice.measure.engine import enginelog
from suffice.measure.engine.enginelog import EngineLog
from suffice.units import MIB

INFO, WARN, ERROR, CONTINUED = 2, 3, 4, 5

NATIVE = "CPU : SSE3 = 1 | AVX2 = 1 | AVX512 = 1 | AVX512_VNNI = 1 | AMX_INT8 = 1 | LLAMAFILE = 1 | OPENMP = 1 | REPACK = 1 | "
CUDA = "CUDA : ARCHS = 500,610 | USE_GRAPHS = 1 | PEER_MAX_BATCH_SIZE = 128 | CPU : NEON = 1 | ARM_FMA = 1 | SVE_CNT = 16 | "


def test_instruction_sets_are_lower_case_and_nothing_else() -> None:
    """Libraries and techniques (OpenMP, llamafile, repacking) are not instruction sets."""
    assert enginelog.parse_isa(NATIVE) == ("sse3", "avx2", "avx512", "avx512_vnni", "amx_int8")


def test_only_the_section_of_the_cpu_counts() -> None:
    """Flags of a CUDA backend and counts are not instruction sets of the CPU."""
    assert enginelog.parse_isa(CUDA) == ("neon", "arm_fma")


@pytest.mark.parametrize("text", ["", "|||", "nonsense", "AVX2 = 0 | "])
def test_no_instruction_set_is_invented(text: str) -> None:
    """What does not say "= 1" yields nothing."""
    assert enginelog.parse_isa(text) == ()


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("llama_context: Flash Attention was auto, set to enabled",), True),
        (("llama_context: flash_attn = auto", "resolve_fused_ops: Flash Attention enabled"), True),
        (("resolve_fused_ops: Flash Attention not supported, set to disabled",), False),
        (("llama_context: flash_attn            = disabled",), False),
        (("llama_context: flash_attn            = enabled",), True),
        (("llama_context: flash_attn            = auto",), None),
        ((), None),
    ],
)
def test_resolved_flash_attention(lines: tuple[str, ...], expected: bool | None) -> None:  # noqa: FBT001
    """What the engine resolved counts, not what was asked; "auto" alone is unknown."""
    assert enginelog.flash_attention(lines) is expected


def test_kv_buffers_of_all_devices_add_up() -> None:
    """The cache may be spread over devices and kinds of layer; recurrent state belongs to it."""
    lines = (
        "llama_kv_cache:        CPU KV buffer size =    22.50 MiB",
        "llama_kv_cache:      CUDA0 KV buffer size =    10.00 MiB",
        "llama_memory_recurrent: CPU RS buffer size =     0.50 MiB",
    )
    assert enginelog.kv_cache_bytes(lines) == 33 * MIB


def test_a_compute_buffer_that_is_reserved_again_counts_once() -> None:
    """Of each device the last reservation stands."""
    lines = (
        "sched_reserve:        CPU compute buffer size =    50.00 MiB",
        "sched_reserve:        CPU compute buffer size =    98.25 MiB",
    )
    assert enginelog.compute_buffer_bytes(lines) == round(98.25 * MIB)


def test_sizes_that_are_not_told_are_unknown() -> None:
    """No line, no number; least of all 0."""
    assert enginelog.kv_cache_bytes(()) is None
    assert enginelog.compute_buffer_bytes(("something else",)) is None
    assert enginelog.weight_buffer_bytes(()) is None


def test_cache_types_are_read_back() -> None:
    """Both types come from the engine's summary line."""
    line = "llama_kv_cache: size = 22.50 MiB (1024 cells, 30 layers, 1/1 seqs), K (f16): 11.25 MiB, V (q8_0): 11.25 MiB"
    assert enginelog.cache_types((line,)) == ("f16", "q8_0")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("load_tensors: loading model tensors, this can take a while... (load_mode = mmap)", True),
        ("load_tensors: loading model tensors, this can take a while... (load_mode = none)", False),
        ("load_tensors: loading model tensors, this can take a while... (mmap = true)", True),
        ("load_tensors: loading model tensors, this can take a while... (mmap = false, direct_io = false)", False),
        ("load_tensors: something", None),
    ],
)
def test_mapping_of_the_file_is_read_back(line: str, expected: bool | None) -> None:  # noqa: FBT001
    """Old and new wordings of the loader are understood."""
    assert enginelog.used_mmap((line,)) is expected


def test_offloaded_layers_and_devices() -> None:
    """The number of layers on a GPU and the GPU's name come from the log."""
    lines = ("using device CUDA0 (NVIDIA H200) (0000:00:1e.0) - 139000 MiB free", "offloaded 31/31 layers to GPU")
    assert enginelog.offloaded_layers(lines) == 31
    assert enginelog.used_devices(lines) == ("CUDA0 (NVIDIA H200) (0000:00:1e.0)",)


def test_pieces_become_lines() -> None:
    """Progress dots and other continued pieces are joined to one line."""
    log = EngineLog()
    log.feed(INFO, "loading ")
    log.feed(CONTINUED, "...")
    assert log.lines() == ()
    log.feed(CONTINUED, "done\nnext\n")
    assert log.lines() == ("loading ...done", "next")


def test_last_errors_are_preferred_to_the_last_line() -> None:
    """An error's reason is not hidden by a chatty line behind it."""
    log = EngineLog()
    log.feed(ERROR, "tensor data is corrupt\n")
    log.feed(INFO, "freeing\n")
    assert log.last_errors() == "tensor data is corrupt"


def test_the_log_is_bounded() -> None:
    """An engine that talks without end fills neither the lines nor one line."""
    log = EngineLog()
    for number in range(enginelog.KEPT_LINES + 10):
        log.feed(WARN, f"line {number}\n")
    log.feed(WARN, "x" * 100_000)
    log.feed(CONTINUED, "\n")
    assert len(log.lines()) == enginelog.KEPT_LINES
    assert max(map(len, log.lines())) <= 1000

"""llama.cpp itself, on a real model. Each installed engine package is tested; without one, or without the model, all is skipped."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import signal
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers.sample import require_sample_model
from suffice.errors import EngineCrashError, EngineError
from suffice.measure.engine.client import LlamaCppEngine, Timeouts
from suffice.measure.engine.library import available_engines, choose_library
from suffice.measure.engine.seam import Engine, EngineSettings, Session
from suffice.units import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.engine

SETTINGS = EngineSettings(n_ctx=256, n_threads=2, n_threads_batch=1, n_batch=32, n_ubatch=32)
TIMEOUTS = Timeouts(load_s=60, open_s=120, request_s=120)
GGUF_UINT32, GGUF_FLOAT32 = 4, 6


@pytest.fixture(scope="module")
def model() -> Path:
    """The sample model's file."""
    return require_sample_model()


@pytest.fixture(scope="module", params=["llama-cpp-python", "xllamacpp", "SUFFICE_TEST_LIBRARY"])
def engine(request: pytest.FixtureRequest) -> LlamaCppEngine:
    """Each engine that is installed, and the libllama that the environment names."""
    if request.param == "SUFFICE_TEST_LIBRARY":
        if not os.environ.get(request.param):
            pytest.skip(f"{request.param} does not name a libllama")
        return LlamaCppEngine(choose_library(Path(os.environ[request.param])), TIMEOUTS)
    if request.param not in {choice.name for choice in available_engines()}:
        pytest.skip(f"{request.param} is not installed")
    return LlamaCppEngine(choose_library(prefer=request.param), TIMEOUTS)


@pytest.fixture
def session(engine: LlamaCppEngine, model: Path) -> Iterator[Session]:
    """An open session that evaluates at least one token; skipped where the build's instructions do not work here."""
    with engine.open(model, SETTINGS) as opened:
        try:
            opened.prefill(32)
        except EngineCrashError as error:
            if "SIGILL" not in str(error):
                raise
            pytest.skip(f"this build does not run on this machine: {error}")
        yield opened


def test_the_engine_implements_the_seam_and_knows_itself(engine: Engine) -> None:
    """Identity names the ggml version and at least one instruction set that the build uses."""
    identity = engine.identity
    assert identity.llama_cpp_version is not None
    assert identity.llama_cpp_version.startswith("ggml ")
    assert identity.isa_used
    assert identity.prebuilt == (identity.name == "xllamacpp")


def test_settings_are_read_back(session: Session) -> None:
    """What was asked is what the engine says it uses, and the sizes of its buffers are known."""
    resolved = session.facts.resolved
    assert (resolved.n_ctx, resolved.n_batch, resolved.n_ubatch) == (256, 32, 32)
    assert (resolved.n_threads, resolved.n_threads_batch) == (2, 1)
    assert (resolved.type_k, resolved.type_v, resolved.n_gpu_layers) == ("f16", "f16", 0)
    assert resolved.flash_attention is not None
    assert resolved.use_mmap is True
    # SmolLM2-135M: 30 layers x 2 x 3 KV heads x 64 x 2 bytes x 256 cells; the log tells MiB with two digits
    assert resolved.kv_cache_bytes == pytest.approx(30 * 2 * 3 * 64 * 2 * 256, abs=MIB / 100)
    assert resolved.compute_buffer_bytes is not None


def test_chunks_and_depth(session: Session) -> None:
    """80 tokens make chunks of 32, 32 and 16; decode goes on from there; rewind and a full context behave."""
    assert session.prefill(80).tokens == (32, 32, 16)
    assert len(session.decode(5)) == 5
    assert session.rewind(80)
    assert len(session.decode(176)) == 176
    with pytest.raises(EngineError, match=r"depth 256 .* n_ctx 256"):
        session.decode(1)


def test_times_are_positive_and_memory_and_cpu_time_are_known(session: Session, model: Path) -> None:
    """Every step takes time, and the process has used some memory and CPU time."""
    assert min(session.prefill(64).seconds) > 0
    assert min(session.decode(3)) > 0
    assert (session.peak_rss_bytes() or 0) > model.stat().st_size / 2
    assert (session.cpu_time_s() or 0) > 0


def test_prompts_are_repeated_and_counted(session: Session) -> None:
    """A short prompt fills any number of tokens; an empty one has none to offer."""
    assert session.count_tokens("Hello world") == 2
    assert session.count_tokens("") == 0
    assert sum(session.prefill(50, prompt="Hello world").tokens) == 50
    with pytest.raises(EngineError, match="no tokens"):
        session.prefill(5, prompt="")


def test_other_thread_counts_without_loading_again(session: Session) -> None:
    """Threads may change back and forth between evaluations."""
    for n_threads in (1, 2, 1):
        session.set_threads(n_threads, n_threads)
        session.prefill(8)
        assert len(session.decode(2)) == 2
    with pytest.raises(EngineError, match="positive"):
        session.set_threads(0, 1)


def test_a_cache_type_that_does_not_exist_is_refused(engine: LlamaCppEngine, model: Path) -> None:
    """The message lists the types that exist."""
    settings = EngineSettings(n_ctx=64, n_threads=1, n_threads_batch=1, type_k="q7_9")
    with pytest.raises(EngineError, match="q8_0"):
        engine.open(model, settings)


def test_flash_attention_and_cache_types_are_taken(engine: LlamaCppEngine, model: Path) -> None:
    """Off means off, and a quantized K cache is smaller than f16."""
    off = EngineSettings(n_ctx=256, n_threads=1, n_threads_batch=1, flash_attention="off", type_k="q8_0")
    with engine.open(model, off) as opened:
        assert opened.facts.resolved.flash_attention is False
        assert opened.facts.resolved.type_k == "q8_0"
        assert (opened.facts.resolved.kv_cache_bytes or 0) < 30 * 2 * 3 * 64 * 2 * 256


@pytest.mark.skipif(sys.platform != "linux", reason="eviction is told by mincore(2)")
def test_a_cold_load_is_claimed_only_after_eviction(engine: LlamaCppEngine, model: Path, tmp_path: Path) -> None:
    """A file of our own is dropped from the page cache; a plain load claims nothing."""
    copy = tmp_path / model.name
    shutil.copyfile(model, copy)
    with engine.open(copy, SETTINGS, evict_first=True) as opened:
        assert opened.facts.weights_evicted_before_load is True
    with engine.open(copy, SETTINGS) as opened:
        assert opened.facts.weights_evicted_before_load is None


@pytest.mark.parametrize(
    ("key", "kind", "value"),
    [
        (b"llama.attention.head_count", GGUF_UINT32, struct.pack("<I", 0)),
        (b"llama.attention.head_count", GGUF_UINT32, struct.pack("<I", 2**32 - 1)),
        (b"llama.attention.head_count_kv", GGUF_UINT32, struct.pack("<I", 0)),
        (b"llama.block_count", GGUF_UINT32, struct.pack("<I", 2**31)),
        (b"llama.embedding_length", GGUF_UINT32, struct.pack("<I", 0)),
        (b"llama.attention.layer_norm_rms_epsilon", GGUF_FLOAT32, struct.pack("<f", math.nan)),
    ],
    ids=["no heads", "2^32-1 heads", "no KV heads", "2^31 layers", "no width", "NaN epsilon"],
)
def test_absurd_hyper_parameters_end_in_an_error(
    engine: LlamaCppEngine, model: Path, tmp_path: Path, key: bytes, kind: int, value: bytes
) -> None:
    """A valid header with absurd values is refused or crashes the worker, never this process, or it runs as before."""
    hostile = tmp_path / "hostile.gguf"
    content = bytearray(model.read_bytes())
    at = content.index(struct.pack("<Q", len(key)) + key + struct.pack("<I", kind)) + 8 + len(key) + 4
    content[at : at + 4] = value
    hostile.write_bytes(content)
    if key.endswith(b"epsilon"):  # only this one leaves a model that can be computed, whatever comes out
        with contextlib.suppress(EngineError):
            load_and_run(engine, hostile)
    else:
        with pytest.raises(EngineError, match=r"hostile|died"):
            load_and_run(engine, hostile)
    assert engine.identity


def test_a_truncated_file_is_refused_with_the_engines_words(
    engine: LlamaCppEngine, model: Path, tmp_path: Path
) -> None:
    """Half a model is not a model, and the engine's reason is passed on."""
    half = tmp_path / "half.gguf"
    half.write_bytes(model.read_bytes()[: model.stat().st_size // 2])
    with pytest.raises(EngineError, match=r"half\.gguf: .+"):
        engine.open(half, SETTINGS)


def test_a_missing_file_is_named(engine: LlamaCppEngine, tmp_path: Path) -> None:
    """The path is in the message."""
    with pytest.raises(EngineError, match=r"gone\.gguf"):
        engine.open(tmp_path / "gone.gguf", SETTINGS)


def load_and_run(engine: LlamaCppEngine, model: Path) -> None:
    """Open a model and evaluate a little."""
    with engine.open(model, SETTINGS) as opened:
        opened.prefill(32)
        opened.decode(1)


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be deleted there")
def test_a_model_deleted_while_open_does_not_hurt(engine: LlamaCppEngine, model: Path, tmp_path: Path) -> None:
    """The session goes on with the mapped file, and a second one is an error."""
    copy = tmp_path / "copy.gguf"
    shutil.copyfile(model, copy)
    with engine.open(copy, SETTINGS) as opened:
        copy.unlink()
        assert opened.count_tokens("a") == 1
        with pytest.raises(EngineError, match="is not there any more"):
            engine.open(copy, SETTINGS)


@pytest.mark.skipif(sys.platform == "win32", reason="uses POSIX signals")
def test_a_kill_while_the_model_is_open_is_a_crash(engine: LlamaCppEngine, model: Path) -> None:
    """The signal is named, and the next call does not hang."""
    opened = engine.open(model, SETTINGS)
    os.kill(opened.pid, signal.SIGKILL)
    with pytest.raises(EngineCrashError, match="SIGKILL"):
        opened.decode(1)
    with pytest.raises(EngineError):
        opened.prefill(1)
    opened.close()

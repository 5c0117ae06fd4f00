"""Several sequences, experts and quantized blocks with llama.cpp itself; all on toy models that the tests write."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from helpers import toy_models
from helpers.gguf_writer import ToyLlama, ToyTensor, Typed, encode_header
from helpers.sample import require_sample_model
from suffice.errors import EngineCrashError, EngineError
from suffice.measure.engine.blocks import PLAIN_TYPES, QUANTIZED_TYPES, EngineBlocks, normal_numbers
from suffice.measure.engine.client import LlamaCppEngine, Timeouts
from suffice.measure.engine.library import LibraryChoice, available_engines, choose_library
from suffice.measure.engine.seam import EngineSettings, ExpertUse
from suffice.model.ggml_types import type_by_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

pytestmark = pytest.mark.engine

SETTINGS = EngineSettings(n_ctx=256, n_threads=1, n_threads_batch=1, n_batch=64, n_ubatch=64, n_sequences=4)
TIMEOUTS = Timeouts(load_s=60, open_s=120, request_s=120)
SLOW_TYPES = ("iq1_s", "iq1_m", "iq2_xs", "iq2_s")
N_VOCAB, N_EXPERT, N_USED = 256, 16, 2


@pytest.fixture(scope="module", params=["llama-cpp-python", "xllamacpp", "SUFFICE_TEST_LIBRARY"])
def choice(request: pytest.FixtureRequest) -> LibraryChoice:
    """Each engine that is installed, and the libllama that the environment names."""
    if request.param == "SUFFICE_TEST_LIBRARY":
        if not os.environ.get(request.param):
            pytest.skip(f"{request.param} does not name a libllama")
        return choose_library(Path(os.environ[request.param]))
    if request.param not in {found.name for found in available_engines()}:
        pytest.skip(f"{request.param} is not installed")
    return choose_library(prefer=request.param)


@pytest.fixture(scope="module")
def engine(choice: LibraryChoice, toy: Path) -> LlamaCppEngine:
    """The engine; skipped where the build's instructions do not work here."""
    found = LlamaCppEngine(choice, TIMEOUTS)
    try:
        with found.open(toy, SETTINGS) as opened:
            opened.prefill(64)
    except EngineCrashError as error:
        if "SIGILL" not in str(error):
            raise
        pytest.skip(f"this build does not run on this machine: {error}")
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the toy models lie."""
    return tmp_path_factory.mktemp("toys")


@pytest.fixture(scope="module")
def toy(folder: Path) -> Path:
    """A dense model."""
    return write_toy(folder / "toy.gguf", *toy_models.dense(N_VOCAB))


@pytest.fixture(scope="module")
def windowed(folder: Path) -> Path:
    """A model of which every second layer sees the last 32 tokens only."""
    return write_toy(folder / "windowed.gguf", *toy_models.windowed(N_VOCAB))


@pytest.fixture(scope="module")
def recurrent(folder: Path) -> Path:
    """A model that keeps one state for all tokens before."""
    return write_toy(folder / "recurrent.gguf", *toy_models.recurrent(N_VOCAB))


@pytest.fixture(scope="module")
def experts(folder: Path) -> Path:
    """A mixture of experts: 2 of 16 for each token, in each of 2 layers."""
    shape = ToyLlama(architecture="qwen3moe", n_vocab=N_VOCAB, type_name="f32")
    metadata = {
        **shape.metadata(),
        "qwen3moe.expert_count": N_EXPERT,
        "qwen3moe.expert_used_count": N_USED,
        "qwen3moe.expert_feed_forward_length": 32,
        "qwen3moe.attention.layer_norm_rms_epsilon": 1e-5,
    }
    kept = [
        tensor
        for tensor in shape.tensors()
        if not tensor.name.endswith(("ffn_gate.weight", "ffn_up.weight", "ffn_down.weight"))
    ]
    sizes = {
        "attn_q_norm": (16,),
        "attn_k_norm": (16,),
        "ffn_gate_inp": (64, N_EXPERT),
        "ffn_gate_exps": (64, 32, N_EXPERT),
        "ffn_up_exps": (64, 32, N_EXPERT),
        "ffn_down_exps": (32, 64, N_EXPERT),
    }
    added = [ToyTensor(f"blk.{i}.{name}.weight", dims, "f32") for i in range(2) for name, dims in sizes.items()]
    return write_toy(folder / "experts.gguf", metadata, [*kept, *added])


@pytest.fixture(scope="module")
def blocks(choice: LibraryChoice) -> Iterator[EngineBlocks]:
    """The quantizer of each engine."""
    with EngineBlocks(choice, TIMEOUTS) as source:
        yield source


def write_toy(path: Path, metadata: Mapping[str, object], tensors: Sequence[ToyTensor]) -> Path:
    """A model of random 32-bit weights without a tokenizer, which the engine can compute."""
    vocabulary = {
        "tokenizer.ggml.model": "no_vocab",
        f"{metadata['general.architecture']}.vocab_size": Typed("uint32", N_VOCAB),
    }
    header, size = encode_header({**metadata, **vocabulary}, tensors)
    path.write_bytes(header + normal_numbers((size - len(header)) // 4, sigma=0.2, seed=3).tobytes())
    return path


@pytest.mark.parametrize("kind", ["toy", "windowed", "recurrent", "experts"])
def test_sequences_are_copied_and_decoded_together(
    engine: LlamaCppEngine, kind: str, request: pytest.FixtureRequest
) -> None:
    """Every kind of memory can be spread over four sequences, which then go on together: a cache, a window, a state."""
    with engine.open(request.getfixturevalue(kind), SETTINGS) as opened:
        assert opened.facts.resolved.n_sequences == 4
        assert len(opened.decode(2, batch=4)) == 2
        opened.prefill(100)
        with pytest.raises(EngineError, match="spread"):
            opened.decode(1, batch=4)
        opened.spread(4)
        assert len(opened.decode(3, batch=4)) == 3
        assert len(opened.decode(2)) == 2
        with pytest.raises(EngineError, match=r"\[105, 103\]"):
            opened.decode(1, batch=2)


@pytest.mark.parametrize("kind", ["toy", "windowed", "recurrent", "experts"])
def test_a_prompt_goes_on_behind_a_filled_cache(
    engine: LlamaCppEngine, kind: str, request: pytest.FixtureRequest
) -> None:
    """Chunks of the first sequence, one evaluation each; the others wait, and a copy makes them equal again."""
    with engine.open(request.getfixturevalue(kind), SETTINGS) as opened:
        assert len(opened.extend(64)) == 1
        opened.spread(4)
        assert min(opened.extend(8, n_chunks=3)) > 0
        with pytest.raises(EngineError, match=r"\[88, 64, 64, 64\]"):
            opened.decode(1, batch=4)
        opened.spread(4)
        assert len(opened.decode(1, batch=4)) == 1
        with pytest.raises(EngineError, match="from 1 to 64"):
            opened.extend(65)
        with pytest.raises(EngineError, match="do not fit"):
            opened.extend(64, n_chunks=3)


def test_rewind_cuts_all_sequences(engine: LlamaCppEngine, toy: Path) -> None:
    """After steps of different batches everything is at the same depth again, and each sequence has all of its room."""
    with engine.open(toy, SETTINGS) as opened:
        opened.prefill(100)
        opened.spread(4)
        for batch in (1, 4, 2):
            opened.decode(156, batch=batch)
            assert opened.rewind(100)
        opened.decode(156, batch=4)
        with pytest.raises(EngineError, match=r"depth 256 .* n_ctx 256"):
            opened.decode(1, batch=4)
        assert opened.rewind(0)
        assert len(opened.decode(1, batch=4)) == 1


def test_a_state_cannot_be_rewound_and_says_so(engine: LlamaCppEngine, recurrent: Path) -> None:
    """One state for all tokens cannot be cut; the session goes on at its depth."""
    with engine.open(recurrent, SETTINGS) as opened:
        opened.prefill(20)
        opened.spread(4)
        opened.decode(5, batch=4)
        assert not opened.rewind(20)
        assert len(opened.decode(1, batch=4)) == 1


@pytest.mark.parametrize("batch", [0, 5])
def test_a_batch_that_the_session_has_no_room_for_is_refused(engine: LlamaCppEngine, toy: Path, batch: int) -> None:
    """The message says how many it was opened for."""
    with engine.open(toy, SETTINGS) as opened, pytest.raises(EngineError, match="1 to 4"):
        opened.decode(1, batch=batch)


@pytest.mark.parametrize("n_sequences", [0, 10_000])
def test_an_absurd_number_of_sequences_is_refused(engine: LlamaCppEngine, toy: Path, n_sequences: int) -> None:
    """None at all, and more than the engine's own limit, are errors and no crash."""
    with pytest.raises(EngineError, match=r"at least one|cannot open a context"):
        engine.open(toy, replace(SETTINGS, n_ctx=32, n_sequences=n_sequences))


def test_distinct_experts_are_counted(engine: LlamaCppEngine, experts: Path) -> None:
    """One token touches exactly 2 experts, four tokens 2 to 8 and more than one token alone, in both layers."""
    with engine.open(experts, replace(SETTINGS, watch_experts=True)) as opened:
        alone = opened.experts_touched(8)
        opened.prefill(4)
        opened.spread(4)
        together = opened.experts_touched(8, batch=4)
        assert opened.rewind(4)
    assert alone == tuple(ExpertUse(layer=i, distinct_per_step=(2,) * 8, n_used=2, n_expert=N_EXPERT) for i in (0, 1))
    assert together is not None
    for use in together:
        assert all(2 <= count <= 8 for count in use.distinct_per_step)
        assert sum(use.distinct_per_step) > 8 * 2  # tokens and weights are random: how many more is a matter of chance


def test_a_dense_model_has_no_experts(engine: LlamaCppEngine, toy: Path) -> None:
    """None, not an empty count."""
    with engine.open(toy, replace(SETTINGS, watch_experts=True)) as opened:
        assert opened.experts_touched(1) is None


def test_experts_are_counted_only_where_it_was_asked_for(engine: LlamaCppEngine, experts: Path) -> None:
    """A session that is timed has no callback, and says what to do."""
    with engine.open(experts, SETTINGS) as opened, pytest.raises(EngineError, match="watch_experts"):
        opened.experts_touched(1)


def test_sessions_take_turns(engine: LlamaCppEngine, toy: Path, experts: Path) -> None:
    """Three sessions stay open, keep their own depth, and none minds that another one ended."""
    with engine.open(toy, SETTINGS) as first, engine.open(experts, SETTINGS) as second:
        with engine.open(toy, SETTINGS) as third:
            for session, depth in ((first, 10), (second, 20), (third, 30)) * 2:
                session.prefill(depth)
            third.decode(1)
        first.decode(1)
        assert second.rewind(20)
        with pytest.raises(EngineError, match="holds 20"):
            second.rewind(21)


@pytest.mark.parametrize("type_name", [*PLAIN_TYPES, *QUANTIZED_TYPES])
def test_every_type_is_quantized_to_its_length(blocks: EngineBlocks, type_name: str) -> None:
    """2048 numbers take the bytes of their blocks, more numbers go on from them, and another seed gives others."""
    if type_name in SLOW_TYPES and not os.environ.get("SUFFICE_TEST_ALL_TYPES"):
        pytest.skip("ggml's tables for this type take seconds; set SUFFICE_TEST_ALL_TYPES to test it")
    made = blocks.blocks(type_name, 2048, sigma=0.5, seed=1)
    assert len(made) == type_by_name(type_name).row_bytes(2048)
    assert len(set(made)) > 16
    assert blocks.blocks(type_name, 4096, sigma=0.5, seed=1)[: len(made)] == made
    assert blocks.blocks(type_name, 2048, sigma=0.5, seed=2) != made


def test_q8_0_and_q4_0_decode_to_what_was_quantized(blocks: EngineBlocks) -> None:
    """Decoded by hand from the format's definition, the errors are within half a step of each block's scale."""
    numbers = normal_numbers(2048, sigma=0.5, seed=1).reshape(-1, 32)
    for type_name, half_steps in (("q8_0", 0.51), ("q4_0", 1.01)):  # q4_0 clips at one end: a whole step there
        raw = np.frombuffer(blocks.blocks(type_name, 2048, sigma=0.5, seed=1), np.uint8).reshape(64, -1)
        scale = raw[:, :2].copy().view("<f2").astype(np.float32)
        packed = raw[:, 2:]
        whole = (
            packed.view(np.int8) if type_name == "q8_0" else np.hstack([packed & 15, packed >> 4]).astype(np.int8) - 8
        )
        decoded = whole.astype(np.float32) * scale
        assert np.abs(decoded - numbers).max() <= (np.abs(scale) * half_steps).max()
        assert np.all(np.abs(decoded - numbers) <= np.abs(scale) * half_steps + 1e-3)


def test_half_precision_needs_no_engine_and_rounds_to_nearest(blocks: EngineBlocks) -> None:
    """f16 and bf16 have 11 and 8 significant bits, so they lie within 2^-11 and 2^-8 of the numbers."""
    numbers = normal_numbers(512, sigma=0.5, seed=1)
    half = np.frombuffer(blocks.blocks("f16", 512, sigma=0.5, seed=1), "<f2").astype(np.float32)
    brain = np.frombuffer(blocks.blocks("bf16", 512, sigma=0.5, seed=1), "<u2").astype(np.uint32) << 16
    assert np.all(np.abs(half - numbers) <= np.abs(numbers) * 2**-11 + 1e-7)
    assert np.all(np.abs(brain.view(np.float32) - numbers) <= np.abs(numbers) * 2**-8 + 1e-30)


def test_a_type_that_cannot_be_quantized_is_refused(blocks: EngineBlocks) -> None:
    """Without asking ggml, which would end its process."""
    with pytest.raises(EngineError, match="q8_K"):
        blocks.blocks("q8_K", 256, sigma=1.0, seed=1)


def test_a_real_model_decodes_sequences_together(choice: LibraryChoice) -> None:
    """A model with a tokenizer and repacked weights makes batched steps at a depth, and can be rewound to it."""
    settings = EngineSettings(n_ctx=64, n_threads=2, n_threads_batch=2, n_batch=32, n_ubatch=32, n_sequences=4)
    with LlamaCppEngine(choice, TIMEOUTS).open(require_sample_model(), settings) as opened:
        opened.prefill(32)
        opened.spread(4)
        assert min(opened.decode(2, batch=4)) > 0
        assert opened.rewind(32)

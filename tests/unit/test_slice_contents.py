"""What random weights are made of, and the vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from helpers.slices import Q8Blocks, tensor
from suffice.errors import ModelFileError
from suffice.slices.contents import Contents, content_of
from suffice.slices.fake_blocks import FakeBlocks
from suffice.slices.gguf_write import Typed
from suffice.slices.vocabulary import SMALLEST_VOCABULARY, synthetic_vocabulary

if TYPE_CHECKING:
    from suffice.model.gguf_header import TensorInfo


def raw_bytes(item: TensorInfo) -> bytes:
    """All bytes of a tensor."""
    return b"".join(Contents(Q8Blocks()).fill(item))


@pytest.mark.parametrize(
    ("name", "dims", "constant"),
    [
        ("blk.3.attn_norm.weight", (64,), 1),
        ("output_norm.weight", (64,), 1),
        ("blk.3.attn_q_norm.weight", (64, 8), 1),
        ("blk.3.post_attention_norm.weight", (64,), 1),
        ("blk.3.attn_q.bias", (64,), 0),
        ("blk.3.ffn_gate_inp.bias", (64,), 0),
        ("blk.3.ffn_gate_exps.bias", (64, 8), 0),
        ("blk.3.exp_probs_b.bias", (8,), 0),
        ("blk.3.attn_sinks.weight", (8,), 0),
        ("blk.3.attn_norm.bias", (64,), 0),
        ("rope_freqs.weight", (64,), 1),
        ("blk.0.rope_factors_long.weight", (64,), 1),
        ("blk.3.ssm_a", (64,), -0.5),
        ("blk.3.ssm_d", (64,), 1),
        ("blk.3.ssm_dt.bias", (64,), 0),
        ("blk.3.layer_output_scale.weight", (1,), 1),
    ],
)
def test_constants(name: str, dims: tuple[int, ...], constant: float) -> None:
    """Norms and frequencies are 1, what only adds is 0, a recurrent state decays."""
    values = np.frombuffer(raw_bytes(tensor(name, dims)), dtype="<f4")

    assert np.array_equal(values, np.full(values.shape, constant))


@pytest.mark.parametrize(
    ("name", "sigma"),
    [
        ("token_embd.weight", 1.0),
        ("blk.1.attn_q.weight", 0.01),
        ("output.weight", 0.01),
        ("blk.1.ssm_conv1d.weight", 0.5),
    ],
)
@pytest.mark.parametrize(("type_name", "code"), [("f32", "<f4"), ("f16", "<f2")])
def test_matrices_have_their_spread(name: str, sigma: float, type_name: str, code: str) -> None:
    """Embeddings have deviation 1, filters 0.5, all other matrices 0.01, around 0."""
    values = np.frombuffer(raw_bytes(tensor(name, (256, 400), type_name)), dtype=code).astype(float)

    assert values.std() == pytest.approx(sigma, rel=0.02)
    assert abs(values.mean()) < 0.02 * sigma


def test_rows_of_a_tiled_matrix_differ() -> None:
    """A matrix larger than the pool repeats itself, but no two rows near each other are equal, and tensors start elsewhere."""
    first = raw_bytes(tensor("blk.0.ffn_up.weight", (4096, 400), "q8_0"))
    second = raw_bytes(tensor("blk.1.ffn_up.weight", (4096, 400), "q8_0"))
    row = 4096 // 32 * 34

    rows = {first[start : start + row] for start in range(0, len(first), row)}

    assert len(rows) == 400
    assert first != second


@pytest.mark.parametrize("type_name", ["f32", "bf16", "f16"])
def test_the_router_never_repeats_itself(type_name: str) -> None:
    """Its numbers are drawn afresh to the last one, with scores whose spread is about 1."""
    raw = raw_bytes(tensor("blk.0.ffn_gate_inp.weight", (4096, 512), type_name))
    size = {"f32": 4, "bf16": 2, "f16": 2}[type_name]
    window = 64 * size
    pieces = {raw[start : start + window] for start in range(0, len(raw), window)}
    assert len(pieces) == 4096 * 512 // 64
    if type_name == "f32":
        matrix = np.frombuffer(raw, dtype="<f4").reshape(512, 4096)
        tokens = np.random.default_rng(1).standard_normal((4096, 500)).astype("f4")
        scores = matrix @ tokens
        assert scores.std() == pytest.approx(1, rel=0.05)
        chosen = np.bincount(scores.argmax(axis=0), minlength=512)
        assert chosen.max() < 10  # 500 tokens over 512 experts: about one each


def test_bfloat16_is_the_upper_half_of_a_rounded_float() -> None:
    """Each number differs from its float32 by at most half a unit in the last place."""
    item = "blk.0.ffn_gate_inp.weight"
    exact = np.frombuffer(raw_bytes(tensor(item, (64, 64))), dtype="<f4")
    halves = np.frombuffer(raw_bytes(tensor(item, (64, 64), "bf16")), dtype="<u2").astype("<u4") << 16

    assert np.allclose(halves.view("<f4"), exact, rtol=2**-8, atol=0)


def test_pools_are_made_once() -> None:
    """Ten matrices of a type ask the engine for one pool; an embedding of that type for another."""
    source = FakeBlocks()
    contents = Contents(source)

    for item in [tensor(f"blk.{n}.ffn_up.weight", (256, 8), "q4_K") for n in range(10)] + [
        tensor("token_embd.weight", (256, 8), "q4_K")
    ]:
        list(contents.fill(item))

    assert source.asked == [("q4_K", 0.01), ("q4_K", 1.0)]


@pytest.mark.parametrize("type_name", ["i8", "i32", "f64"])
def test_tensors_of_whole_numbers_are_refused(type_name: str) -> None:
    """They are tables that a model follows; random ones would lead anywhere."""
    with pytest.raises(ModelFileError, match="tid2eid"):
        list(Contents(FakeBlocks()).fill(tensor("blk.0.ffn_gate_tid2eid.weight", (8, 64), type_name)))


def test_a_router_bias_is_a_bias() -> None:
    """The first rule that fits decides: a bias in the router's name is 0, not random."""
    assert content_of(tensor("blk.0.ffn_gate_inp.bias", (8,))).constant == 0


@pytest.mark.parametrize("n_vocab", [SMALLEST_VOCABULARY, 300, 354, 355, 32_000])
def test_a_vocabulary_has_the_size_that_is_asked_for(n_vocab: int) -> None:
    """Tokens are all different, with a score and a kind each, and all 256 bytes are among them."""
    metadata = synthetic_vocabulary(n_vocab, "llama")
    tokens, scores, kinds = (metadata[f"tokenizer.ggml.{key}"] for key in ("tokens", "scores", "token_type"))

    assert isinstance(tokens, list)
    assert isinstance(scores, Typed)
    assert isinstance(kinds, Typed)
    assert len(set(tokens)) == len(tokens) == n_vocab
    assert len(scores.value) == len(kinds.value) == n_vocab  # type: ignore[arg-type]  # lists, both
    assert {f"<0x{byte:02X}>" for byte in range(256)} <= set(tokens)
    assert tokens[:3] == ["<unk>", "<s>", "</s>"]


def test_a_vocabulary_without_room_for_bytes_is_none() -> None:
    """Below 259 tokens the model takes ids only; without a single one it is refused."""
    assert synthetic_vocabulary(258, "qwen2") == {"tokenizer.ggml.model": "no_vocab", "qwen2.vocab_size": 258}
    with pytest.raises(ModelFileError, match="no rows"):
        synthetic_vocabulary(0, "llama")

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from helpers.gguf_writer import ToyLlama, ToyTensor, write_gguf
from suffice.errors import ModelFileError, UsageError
from suffice.loaders.gguf import read_gguf_header
from suffice.model.shape import ModelShape, shape_from_header
from suffice.model.weights import WeightGroup, WeightUse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    Build = Callable[[dict[str, object], Sequence[ToyTensor]], ModelShape]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """A shape from metadata and tensors, by way of a file."""

    def _build(metadata: dict[str, object], tensors: Sequence[ToyTensor]) -> ModelShape:
        return shape_from_header(read_gguf_header(write_gguf(tmp_path / "m.gguf", metadata, tensors)))

    return _build


def keys(architecture: str, n_layer: int, **values: object) -> dict[str, object]:
    """Metadata of an architecture; ``attention__head_count=4`` stands for ``attention.head_count``."""
    base: dict[str, object] = {"general.architecture": architecture, f"{architecture}.block_count": n_layer}
    return base | {f"{architecture}.{key.replace('__', '.')}": value for key, value in values.items()}


ONE_TENSOR = [ToyTensor("output.weight", (32, 10))]


def test_llama_like_by_hand(build: Build) -> None:
    """Weights, cache and FLOPs of an untied dense model are those of pencil and paper."""
    # width 64, 4 heads of 16, 2 KV heads, ff 128, vocabulary 256, 2 layers, F16 matrices, F32 norms.
    # layer matrices: q 64·64 + k 64·32 + v 64·32 + o 64·64 + 3·64·128 = 4096+2048+2048+4096+24576 = 36,864
    # layer: 36,864·2 B + 2·64·4 B = 73,728 + 512 = 74,240 B; two layers 148,480 B; final norm 256 B
    # head 64·256·2 B = 32,768 B; one embedding row 64·2 B = 128 B
    # KV per token: 2 layers · (32 + 32) · 2 B = 256 B; q8_0: 2 · 2 · 34 B = 136 B
    # FLOPs at context 100: 2·(2·36,864 + 16,384) + 2 layers · 4·4·16·100 = 180,224 + 51,200
    model = ToyLlama()

    shape = build(model.metadata(), model.tensors())

    assert shape.streamed_bytes() == 148_480 + 256 + 32_768 + 128
    assert shape.streamed_bytes(batch=8) == 148_480 + 256 + 32_768 + 8 * 128
    assert shape.tensor_bytes == 148_480 + 256 + 2 * 32_768
    assert shape.parameters == 2 * (36_864 + 128) + 64 + 2 * 16_384
    assert shape.active_parameters == 2 * (36_864 + 128) + 64 + 16_384
    assert shape.active_bytes == 148_480 + 256 + 32_768
    assert shape.bytes_by_type == {"f16": 2 * 73_728 + 2 * 32_768, "f32": 2 * 512 + 256}
    assert shape.kv_bytes_per_token() == 256
    assert shape.kv_bytes_per_token("q8_0", "q8_0") == 136
    assert shape.kv_bytes_per_token("f16", "q8_0") == 128 + 68
    assert shape.kv_cache_bytes(1000) == 256_000
    assert shape.kv_cache_bytes(1000, sequences=3) == 768_000
    assert shape.kv_read_bytes(10) == 2560
    assert shape.flops_per_token(100) == 180_224 + 51_200
    assert (shape.n_layer, shape.n_vocab, shape.n_embd, shape.context_length) == (2, 256, 64, 4096)
    assert (shape.name, shape.architecture, shape.is_moe) == ("Toy llama", "llama", False)


def test_prefill_is_the_causal_triangle(build: Build) -> None:
    """Prefill adds up what each token sees, and runs the head once."""
    # matrices of the layers 2·73,728 FLOPs per token; head 2·16,384 once; attention 2 layers · 256 FLOPs per visible token
    # 3 tokens after 10: they see 11, 12, 13 = 36
    model = ToyLlama()

    shape = build(model.metadata(), model.tensors())

    assert shape.prefill_flops(3, 10) == 3 * 147_456 + 32_768 + 512 * 36
    assert shape.prefill_flops(1, 99) == shape.flops_per_token(100)


def test_tied_embedding_is_read_as_the_head(build: Build) -> None:
    """Without an output matrix the embedding is streamed, and no row is counted beside it."""
    tied = ToyLlama(tied=True)

    shape = build(tied.metadata(), tied.tensors())

    assert shape.streamed_bytes() == 148_480 + 256 + 32_768
    assert shape.active_parameters == shape.parameters


def test_experts_by_hand(build: Build) -> None:
    """Of experts those touched are read; shared experts and the router always."""
    # one layer, 8 experts of 3·32·64·2 B = 12,288 B, 2 used; shared expert 12,288 B; router 32·8·4 B = 1,024 B; norm 128 B
    # head 32·10·2 B = 640 B, tied
    # batch 1: 2·12,288; batch 4: 8·(1-(6/8)^4)·12,288 = 8·0.68359375·12,288 = 67,200
    experts = [("gate", (32, 64, 8)), ("up", (32, 64, 8)), ("down", (64, 32, 8))]
    tensors = [ToyTensor(f"blk.0.ffn_{name}_exps.weight", dims) for name, dims in experts]
    tensors += [ToyTensor(f"blk.0.ffn_{name}_shexp.weight", dims[:2]) for name, dims in experts]
    tensors += [
        ToyTensor("blk.0.ffn_gate_inp.weight", (32, 8), "f32"),
        ToyTensor("blk.0.ffn_norm.weight", (32,), "f32"),
    ]
    tensors += ONE_TENSOR
    metadata = keys("qwen2moe", 1, embedding_length=32, attention__head_count=2, expert_count=8, expert_used_count=2)
    always = 12_288 + 1_024 + 128 + 640

    shape = build(metadata, tensors)

    assert shape.is_moe
    assert shape.streamed_bytes() == 2 * 12_288 + always
    assert shape.streamed_bytes(batch=4) == 67_200 + always
    assert shape.streamed_bytes(batch=1000) == pytest.approx(8 * 12_288 + always)
    assert shape.active_parameters == 2 * 6_144 + 6_144 + 256 + 32 + 320
    # attention: 2 heads of 16, so 4·2·16 FLOPs per visible token
    assert shape.flops_per_token(5) == 2 * (2 * 6_144 + 6_144 + 256 + 320) + 5 * 128


def test_experts_need_their_number(build: Build) -> None:
    """A file with experts that does not say how many are used is refused, with the key's name."""
    metadata = keys("qwen2moe", 1, embedding_length=32, attention__head_count=2)

    with pytest.raises(ModelFileError, match=r"qwen2moe\.expert_used_count"):
        build(metadata, [ToyTensor("blk.0.ffn_up_exps.weight", (32, 64, 8))])


def test_old_mixtral_files_have_one_tensor_per_expert(build: Build) -> None:
    """Experts in separate tensors count like experts in one."""
    tensors = [ToyTensor(f"blk.0.ffn_up.{n}.weight", (32, 64)) for n in range(8)]
    metadata = keys("llama", 1, embedding_length=32, attention__head_count=2, expert_count=8, expert_used_count=2)

    assert build(metadata, tensors).streamed_bytes() == 2 * 32 * 64 * 2


def test_what_plain_decoding_does_not_read(build: Build) -> None:
    """Multi-token prediction, vision and table look-ups are in memory but not in the stream."""
    # two blocks, the second for multi-token prediction; one row of the per-layer table: 64·2 B; one of positions: 32·2 B
    tensors = [
        ToyTensor("token_embd.weight", (32, 10)),
        ToyTensor("output.weight", (32, 10)),
        ToyTensor("per_layer_token_embd.weight", (64, 10)),
        ToyTensor("position_embd.weight", (32, 100)),
        ToyTensor("blk.0.ffn_up.weight", (32, 32)),
        ToyTensor("blk.1.ffn_up.weight", (32, 32)),
        ToyTensor("blk.1.nextn.eh_proj.weight", (64, 32)),
        ToyTensor("blk.0.nextn.shared_head_norm.weight", (32, 1)),
        ToyTensor("v.blk.0.ffn_up.weight", (32, 32)),
        ToyTensor("mm.0.weight", (32, 32)),
    ]
    metadata = keys("glm4moe", 2, embedding_length=32, attention__head_count=2, nextn_predict_layers=1)

    shape = build(metadata, tensors)

    assert shape.streamed_bytes() == (32 * 10 + 32 * 32) * 2 + 64 + 128 + 64
    assert shape.n_layer == 1
    assert shape.kv_bytes_per_token() == 2 * 32 * 2
    assert shape.parameters == 320 * 2 + 640 + 3200 + 4 * 1024 + 2048 + 32


KNOWN = {
    # 2·32·8·128·2
    "llama-3.1-8b": (
        keys("llama", 32, embedding_length=4096, attention__head_count=32, attention__head_count_kv=8),
        131_072,
    ),
    # 2·48·4·128·2; heads are 128 long, not 2048/32
    "qwen3-30b-a3b": (
        keys(
            "qwen3moe",
            48,
            embedding_length=2048,
            attention__head_count=32,
            attention__head_count_kv=4,
            attention__key_length=128,
            attention__value_length=128,
        ),
        98_304,
    ),
    # 61·(512+64)·2, keys only
    "deepseek-v3": (
        keys(
            "deepseek2",
            61,
            embedding_length=7168,
            attention__head_count=128,
            attention__head_count_kv=1,
            attention__key_length=576,
            attention__value_length=512,
            attention__key_length_mla=192,
            attention__value_length_mla=128,
            attention__kv_lora_rank=512,
            rope__dimension_count=64,
        ),
        70_272,
    ),
    # files made before the latent cache: 61·128·(192+128)·2
    "deepseek-v3, old": (
        keys(
            "deepseek2",
            61,
            embedding_length=7168,
            attention__head_count=128,
            attention__head_count_kv=128,
            attention__key_length=192,
            attention__value_length=128,
            attention__kv_lora_rank=512,
            rope__dimension_count=64,
        ),
        4_997_120,
    ),
    # MiniCPM3 always expands: 62·40·(96+64)·2 = 396,800 numbers
    "minicpm3": (
        keys(
            "minicpm3",
            62,
            embedding_length=2560,
            attention__head_count=40,
            attention__head_count_kv=40,
            attention__key_length=96,
            attention__value_length=64,
            attention__kv_lora_rank=256,
        ),
        793_600,
    ),
    # layers without attention: 2 of 4 with 2 KV heads of 16
    "deci-like": (
        keys("deci", 4, embedding_length=64, attention__head_count=[4, 0, 4, 0], attention__head_count_kv=[2, 0, 2, 0]),
        2 * 2 * 2 * 16 * 2,
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_published_kv_bytes_per_token(build: Build, name: str) -> None:
    """The cache of well-known models grows by the published number of bytes per token."""
    metadata, expected = KNOWN[name]

    shape = build(metadata, ONE_TENSOR)

    assert shape.kv_bytes_per_token() == expected
    assert shape.kv_bytes_per_token_beyond_windows() == expected
    assert shape.kv_cache_bytes(4096) == 4096 * expected
    assert shape.kv_read_bytes(100) == 100 * expected


def test_mla_attention_flops(build: Build) -> None:
    """MLA scores 576 numbers and adds up 512 per head, as llama.cpp computes it on the latent."""
    shape = build(KNOWN["deepseek-v3"][0], ONE_TENSOR)

    head = 2 * 32 * 10
    assert shape.flops_per_token(1000) == head + 61 * 2 * 128 * (576 + 512) * 1000


def gemma3_27b() -> dict[str, object]:
    """Metadata of Gemma 3 27B."""
    return keys(
        "gemma3",
        62,
        embedding_length=5376,
        attention__head_count=32,
        attention__head_count_kv=16,
        attention__key_length=128,
        attention__value_length=128,
        attention__sliding_window=1024,
    )


def test_gemma3_windows_by_hand(build: Build) -> None:
    """Local layers stop growing at their window; every sixth layer is full, and the remainder at the end is local."""
    # 10 full layers · 2·16·128·2 B = 81,920; 52 local layers · 8,192 B = 425,984
    # cells of local layers at 32,768: 1,024 + 512, a multiple of 256
    shape = build(gemma3_27b(), ONE_TENSOR)

    assert shape.kv_bytes_per_token() == 81_920 + 425_984
    assert shape.kv_bytes_per_token_beyond_windows() == 81_920
    assert shape.kv_cache_bytes(1000) == 1000 * (81_920 + 425_984)
    assert shape.kv_cache_bytes(32_768) == 32_768 * 81_920 + 1536 * 425_984
    assert shape.kv_read_bytes(10_000) == 10_000 * 81_920 + 1024 * 425_984
    head = 2 * 320
    assert shape.flops_per_token(10_000) == head + 4 * 32 * 128 * (10 * 10_000 + 52 * 1024)


def test_window_limits_the_prefill_triangle(build: Build) -> None:
    """The closed form for prefill equals adding up token by token, across the edge of the window."""
    shape = build(gemma3_27b(), ONE_TENSOR)

    head = 2 * 320
    one_by_one = sum((shape.flops_per_token(p) or 0) - head for p in range(1001, 1101))
    assert shape.prefill_flops(100, 1000) == head + one_by_one


@pytest.mark.parametrize(
    ("metadata", "n_full", "window"),
    [
        (keys("gemma2", 26), 13, 4096),
        (keys("gemma2", 26, attention__sliding_window=512), 13, 512),
        (keys("gemma3", 26), 26, None),
        (keys("gemma3", 26, attention__sliding_window=512, attention__sliding_window_pattern=2), 13, 512),
        (keys("gpt-oss", 24, attention__sliding_window=128), 12, 128),
        (keys("llama4", 48), 12, 8192),
        (keys("llama4", 48, attention__sliding_window=0), 48, None),
        (keys("cohere2", 32, attention__sliding_window=4096), 8, 4096),
        (keys("cohere2moe", 5, attention__sliding_window=4096), 2, 4096),
        (keys("mimo2", 4, attention__sliding_window=128, attention__sliding_window_pattern=[0, 1, 1, 1]), 1, 128),
        (
            keys("gemma4", 3, attention__sliding_window=128, attention__sliding_window_pattern=[True, True, False]),
            1,
            128,
        ),
        (keys("exaone4", 64, attention__sliding_window=4096), 16, 4096),
        (keys("exaone4", 30, attention__sliding_window=4096), 30, None),
        (keys("llama", 32, attention__sliding_window=4096), 32, None),
        (keys("phi3", 32, attention__sliding_window=2047), 32, None),
    ],
)
def test_sliding_windows_are_those_of_llama_cpp(
    build: Build, metadata: dict[str, object], n_full: int, window: int | None
) -> None:
    """Each architecture has the full and windowed layers that llama.cpp gives it."""
    architecture = metadata["general.architecture"]
    sizes = {f"{architecture}.embedding_length": 64, f"{architecture}.attention.head_count": 4}

    layers = build(metadata | sizes, ONE_TENSOR).kv.layers

    assert sum(layer.window is None for layer in layers) == n_full
    assert {layer.window for layer in layers if layer.window is not None} == ({window} if window else set())


def test_missing_window_pattern_is_named(build: Build) -> None:
    """An architecture whose file must say which layers are windowed is refused without it."""
    metadata = keys("gemma4", 2, embedding_length=64, attention__head_count=4, attention__sliding_window=128)

    with pytest.raises(ModelFileError, match=r"gemma4\.attention\.sliding_window_pattern is missing"):
        build(metadata, ONE_TENSOR)


def test_layers_that_share_a_cache(build: Build) -> None:
    """Shared layers store nothing and still read; windowed layers have their own head length; their K and V matrices are idle."""
    # layers: local, full, local, full; the last two share. Local rows 2·1·16·2 B = 64, full rows 2·1·32·2 B = 128
    metadata = keys(
        "gemma4",
        4,
        embedding_length=64,
        attention__head_count=2,
        attention__head_count_kv=1,
        attention__key_length=32,
        attention__value_length=32,
        attention__key_length_swa=16,
        attention__value_length_swa=16,
        attention__sliding_window=100,
        attention__sliding_window_pattern=[True, False, True, False],
        attention__shared_kv_layers=2,
    )
    tensors = [ToyTensor(f"blk.{n}.attn_k.weight", (64, 32 if n % 2 else 16)) for n in range(4)]

    shape = build(metadata, tensors)

    assert shape.kv_bytes_per_token() == 64 + 128
    assert shape.kv_read_bytes(1000) == 2 * (100 * 64 + 1000 * 128)
    assert shape.streamed_bytes() == 64 * (16 + 32) * 2


def test_hybrid_of_attention_and_linear_layers(build: Build) -> None:
    """Qwen3.5-35B-A3B: 10 of 40 layers hold a cache, 30 hold 63 MiB of state."""
    # KV 10·2·2·256·2 B = 20,480. State per layer, F32: 3·(4096 + 2·16·128) + 128·4096 = 548,864 numbers; 30 layers 16,465,920
    metadata = keys(
        "qwen35moe",
        40,
        embedding_length=2048,
        attention__head_count=16,
        attention__head_count_kv=2,
        attention__key_length=256,
        attention__value_length=256,
        full_attention_interval=4,
        ssm__conv_kernel=4,
        ssm__inner_size=4096,
        ssm__state_size=128,
        ssm__group_count=16,
    )
    tensors = [
        ToyTensor(f"blk.{n}.{name}.weight", (32,))
        for n in range(40)
        for name in (("attn_q", "attn_k") if n % 4 == 3 else ("attn_qkv", "ssm_conv1d"))
    ]

    shape = build(metadata, tensors)

    state = 16_465_920 * 4
    assert shape.kv_bytes_per_token() == 20_480
    assert shape.kv_cache_bytes(1000) == 20_480_000 + state
    assert shape.kv_cache_bytes(1000, sequences=2) == 2 * (20_480_000 + state)
    assert shape.kv_read_bytes(0) == state


@pytest.mark.parametrize(
    ("metadata", "tensor", "numbers"),
    [
        (keys("mamba", 1, ssm__conv_kernel=4, ssm__inner_size=128, ssm__state_size=16), "ssm_in", 3 * 128 + 16 * 128),
        (keys("rwkv7", 1, wkv__head_size=16), "time_mix_key", 64 * (2 + 16)),
        (keys("lfm2", 1, shortconv__l_cache=3), "shortconv.conv", 64 * 2),
    ],
)
def test_recurrent_models_have_state_only(build: Build, metadata: dict[str, object], tensor: str, numbers: int) -> None:
    """A recurrent layer has its state in F32 and nothing that grows."""
    architecture = metadata["general.architecture"]
    sizes = {f"{architecture}.embedding_length": 64, f"{architecture}.attention.head_count": 0}

    shape = build(metadata | sizes, [ToyTensor(f"blk.0.{tensor}.weight", (32,))])

    assert shape.kv_bytes_per_token() == 0
    assert shape.kv_cache_bytes(5000) == numbers * 4


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        (keys("brandnew", 2), "'brandnew' is not known"),
        (keys("bert", 2), "does not write text"),
        (keys("deepseek2", 2, attention__indexer__key_length=128), "indexer"),
        (keys("nanbeige", 2, num_loops=2), "several times"),
        (keys("mamba", 2), "not described"),
    ],
)
def test_unknown_cache_stays_unknown(build: Build, metadata: dict[str, object], words: str) -> None:
    """Where the layout is not known there is a reason and no number, while weights are still counted."""
    architecture = metadata["general.architecture"]
    sizes = {f"{architecture}.embedding_length": 64, f"{architecture}.attention.head_count": 4}

    shape = build(
        metadata | sizes,
        [*ONE_TENSOR, ToyTensor("blk.0.ssm_in.weight", (32,)), ToyTensor("blk.1.attn_norm.weight", (32,))],
    )

    assert not shape.kv_known
    assert words in (shape.kv.unknown_reason or "")
    answers = [
        shape.kv_bytes_per_token(),
        shape.kv_bytes_per_token_beyond_windows(),
        shape.kv_cache_bytes(10),
        shape.kv_read_bytes(10),
        shape.flops_per_token(10),
        shape.prefill_flops(10),
    ]
    assert answers == [None] * 6
    assert shape.streamed_bytes() == 640 + 2 * 64


@pytest.mark.parametrize(
    "key", ["general.architecture", "llama.block_count", "llama.embedding_length", "llama.attention.head_count"]
)
def test_missing_keys_are_named(build: Build, key: str) -> None:
    """A key that the shape needs and the file lacks stands in the message."""
    metadata = ToyLlama().metadata()
    del metadata[key]

    with pytest.raises(ModelFileError, match=key):
        build(metadata, ONE_TENSOR)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("llama.block_count", 0),
        ("llama.block_count", 2**31),
        ("llama.block_count", "two"),
        ("llama.nextn_predict_layers", 9),
        ("llama.attention.head_count", 2.5),
        ("llama.attention.head_count_kv", [1]),
        ("llama.attention.head_count_kv", ["a", "b"]),
    ],
)
def test_senseless_values_are_refused(build: Build, key: str, value: object) -> None:
    """A value that cannot be is an error about the file, not a crash and not a number."""
    with pytest.raises(ModelFileError, match="damaged"):
        build(ToyLlama().metadata() | {key: value}, ONE_TENSOR)


def test_unknown_context_length_is_none(build: Build) -> None:
    """A file that does not state its training context has none."""
    metadata = ToyLlama().metadata()
    del metadata["llama.context_length"]

    assert build(metadata, ONE_TENSOR).context_length is None


def test_cache_type_must_fit(build: Build) -> None:
    """A cache format whose blocks do not fit into a row is a wrong setting, said in words."""
    shape = build(ToyLlama().metadata(), ONE_TENSOR)

    with pytest.raises(UsageError, match="q4_K"):
        shape.kv_bytes_per_token("q4_K", "f16")
    with pytest.raises(UsageError, match="not a ggml type"):
        shape.kv_cache_bytes(10, "f16", "nonsense")


def test_impossible_questions_are_refused(build: Build) -> None:
    """Batches, contexts and token counts below one, and negative depths, raise."""
    shape = build(ToyLlama().metadata(), ONE_TENSOR)

    questions: tuple[Callable[[], object], ...] = (
        lambda: shape.streamed_bytes(0),
        lambda: shape.kv_cache_bytes(0),
        lambda: shape.kv_cache_bytes(1, sequences=0),
        lambda: shape.kv_read_bytes(-1),
        lambda: shape.flops_per_token(0),
        lambda: shape.prefill_flops(0),
        lambda: shape.prefill_flops(1, -1),
    )

    for question in questions:
        with pytest.raises(ValueError, match=r"must (be at least 1|not be negative)"):
            question()


def test_more_experts_used_than_there_are() -> None:
    """A weight group cannot use more parts than it has."""
    group = WeightGroup(
        use=WeightUse.EXPERT, type_name="f16", elements=8, n_bytes=16, matmul_elements=8, parts=4, parts_used=2
    )

    assert group.share_read(1) == 0.5
    with pytest.raises(ValueError, match="5 of 4"):
        replace(group, parts_used=5)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"llama.block_count": 1}, "block_count"),
        ({"llama.block_count": 5}, "block_count"),
        ({"llama.block_count": True}, "block_count"),
        ({"llama.embedding_length": 0}, "embedding length"),
        ({"llama.embedding_length": 7}, "embedding_length"),
        ({"llama.embedding_length": 2**32 - 1}, "embedding_length"),
        ({"llama.attention.head_count": 0}, "head_count"),
        ({"llama.attention.head_count": 7}, "head_count"),
        ({"llama.attention.head_count_kv": 0}, "head_count_kv"),
        ({"llama.attention.head_count_kv": 2**31}, "head_count_kv"),
        ({"llama.attention.key_length": 0}, "head_count_kv"),
    ],
)
def test_metadata_that_contradict_the_tensors_are_refused(build: Build, changes: dict[str, object], named: str) -> None:
    """A wrong count gives a wrong ceiling; where the tensors know better, the file is refused with the key's name."""
    toy = ToyLlama()

    with pytest.raises(ModelFileError, match=named):
        build({**toy.metadata(), **changes}, toy.tensors())

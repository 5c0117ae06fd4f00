"""Headers made from shapes: the right tensors in the right places, and a refusal for all that cannot be expressed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from helpers.tiny_models import shrunk
from suffice.catalogue.models import all_models, model_named
from suffice.errors import UsageError
from suffice.model.blueprint import blueprint_header, blueprint_refusal, supported_architectures
from suffice.model.blueprint.windowed import window_flags
from suffice.model.ggml_types import row_bytes
from suffice.model.shape import shape_from_header
from suffice.model.spec import Experts, FeedForward, ModelSpec

if TYPE_CHECKING:
    from suffice.model.gguf_header import GgufHeader

ROUNDING = 501  # the catalogue rounds to 10^-6 of a billion
# Numbers that llama.cpp demands and the published total does not count.
UNCOUNTED = {"nemotron-3-nano-30b-a3b": 23 * 128}  # the routers' correction biases
# One scale per expert: the catalogue counts them as read, the shape by the experts that a token uses.
IDLE_SCALES = {"gemma-4-26b-a4b": 30 * (128 - 8)}
REFUSED = {
    "baichuan2-7b", "baichuan2-13b", "deepseek-v3.2", "glm-5", "glm-5.2", "gemma-4-e2b", "gemma-4-e4b",
}  # fmt: skip
BUILT = [entry for entry in all_models() if entry.id not in REFUSED]


@pytest.fixture(scope="module")
def headers() -> dict[str, GgufHeader]:
    """The header of every model of the catalogue that can be built."""
    return {entry.id: blueprint_header(entry.spec) for entry in BUILT}


def _counted(header: GgufHeader) -> int:
    """All numbers but the factors of rotary frequencies, which no parameter count includes."""
    return sum(tensor.elements for tensor in header.tensors if not tensor.name.startswith("rope_"))


def test_the_refused_models_are_these() -> None:
    """Everything else of the catalogue can be built."""
    assert {entry.id for entry in all_models() if blueprint_refusal(entry.spec)} == REFUSED


def test_tensors_add_up_to_the_parameters(headers: dict[str, GgufHeader]) -> None:
    """The numbers in all tensors are exactly the catalogue's parameter count, to its last digit."""
    wrong = {
        entry.id: difference
        for entry in BUILT
        if abs(difference := _counted(headers[entry.id]) - entry.computed_parameters - UNCOUNTED.get(entry.id, 0))
        > ROUNDING
    }
    assert not wrong


def test_a_forgotten_tensor_would_be_noticed(headers: dict[str, GgufHeader]) -> None:
    """The smallest matrix or norm of a layer, over all layers, is more than the rounding."""
    for entry in BUILT:
        one = min(tensor.elements for tensor in headers[entry.id].tensors if tensor.name.endswith("_norm.weight"))
        assert one * entry.spec.n_layer > ROUNDING, entry.id


def _memory(header: GgufHeader) -> tuple[float | None, ...]:
    shape = shape_from_header(header)
    beyond, within = shape.kv_bytes_per_token_beyond_windows(), shape.kv_bytes_per_token()
    assert beyond is not None
    assert within is not None
    return beyond / 2, (within - beyond) / 2, shape.kv.state_bytes_per_sequence / 4


def test_cache_and_state_are_those_of_the_catalogue(headers: dict[str, GgufHeader]) -> None:
    """Full layers, windowed layers and recurrent state of each header are the catalogue's columns, to the last number."""
    for entry in BUILT:
        expected = (entry.kv_elements_per_token, entry.kv_elements_per_token_windowed, entry.state_elements)
        assert _memory(headers[entry.id]) == expected, entry.id


def test_active_parameters_are_those_of_the_catalogue(headers: dict[str, GgufHeader]) -> None:
    """What one decode step reads is the catalogue's figure; rotary factors and routers' biases are the difference."""
    for entry in BUILT:
        shape = shape_from_header(headers[entry.id])
        uncounted = shape.parameters - _counted(headers[entry.id]) + UNCOUNTED.get(entry.id, 0)
        active = shape.active_parameters - uncounted + IDLE_SCALES.get(entry.id, 0)
        assert abs(active - entry.active_parameters) <= ROUNDING, entry.id


def test_tensors_lie_one_after_the_other(headers: dict[str, GgufHeader]) -> None:
    """Offsets are aligned, sizes follow from the types, nothing overlaps, and no name appears twice."""
    for header in headers.values():
        end = 0
        for tensor in header.tensors:
            assert tensor.offset == -(-end // 32) * 32
            assert tensor.n_bytes == row_bytes(tensor.type_name, tensor.dims[0]) * tensor.elements // tensor.dims[0]
            end = tensor.offset + tensor.n_bytes
        assert header.file_bytes == -(-end // 32) * 32
        assert len({tensor.name for tensor in header.tensors}) == len(header.tensors)


def test_types_are_the_converters(headers: dict[str, GgufHeader]) -> None:
    """Matrices are F16; norms, biases, routers and convolutions stay F32."""
    types = {tensor.name: tensor.type_name for name in headers for tensor in headers[name].tensors}
    assert types["blk.0.attn_q.weight"] == types["blk.1.ffn_down_exps.weight"] == types["output.weight"] == "f16"
    for name in (
        "attn_norm.weight",
        "attn_q.bias",
        "ffn_gate_inp.weight",
        "ssm_conv1d.weight",
        "ssm_a",
        "ffn_gate_exps.bias",
    ):
        assert types[f"blk.0.{name}"] == "f32"


def test_llama_has_the_names_and_dims_of_its_files() -> None:
    """One layer of Llama 3.1 8B, its outer tensors, and its metadata, as they stand in real files."""
    header = blueprint_header(model_named("llama-3.1-8b").spec)
    dims = {tensor.name: tensor.dims for tensor in header.tensors}
    assert {
        name: value for name, value in dims.items() if not name.startswith("blk.") or name.startswith("blk.31.")
    } == {
        "token_embd.weight": (4096, 128256),
        "blk.31.attn_norm.weight": (4096,),
        "blk.31.attn_q.weight": (4096, 4096),
        "blk.31.attn_k.weight": (4096, 1024),
        "blk.31.attn_v.weight": (4096, 1024),
        "blk.31.attn_output.weight": (4096, 4096),
        "blk.31.ffn_norm.weight": (4096,),
        "blk.31.ffn_gate.weight": (4096, 14336),
        "blk.31.ffn_up.weight": (4096, 14336),
        "blk.31.ffn_down.weight": (14336, 4096),
        "output_norm.weight": (4096,),
        "output.weight": (4096, 128256),
        "rope_freqs.weight": (64,),
    }
    assert header.metadata["llama.block_count"] == 32
    assert header.metadata["llama.attention.head_count_kv"] == 8
    assert header.metadata["llama.rope.dimension_count"] == 128


def test_metadata_have_types_that_gguf_can_hold(headers: dict[str, GgufHeader]) -> None:
    """Whole numbers, decimals, flags, texts, and arrays of one of these."""
    for header in headers.values():
        for key, value in header.metadata.items():
            items = value if isinstance(value, tuple) else (value,)
            assert {type(item) for item in items} in ({int}, {float}, {bool}, {str}), key


@pytest.mark.parametrize(
    ("pattern", "flags"),
    [
        ("1L:1G", "LGLGLGLG"),
        ("5L:1G", "LLLLLGLL"),
        ("1G:3L", "GLLLGLLL"),
        ("3C:1G", "LLLGLLLG"),
        ("all", "LLLLLLLL"),
        (None, "GGGGGGGG"),
        ("0=G then 2L:1G,1L:1G", "GLLGLGLG"),
    ],
)
def test_window_patterns_are_read(pattern: str | None, flags: str) -> None:
    """Each form of a pattern says which layers are local."""
    spec = replace(model_named("gemma-3-1b").spec, n_layer=8, sliding_pattern=pattern)
    assert "".join("L" if flag else "G" for flag in window_flags(spec)) == flags


@pytest.mark.parametrize("pattern", ["5X:1G", "nonsense", "L", "1=G then 5L:1G", ""])
def test_another_window_pattern_is_refused(pattern: str) -> None:
    """What is not understood is an error, never a guess."""
    with pytest.raises(ValueError, match="not understood"):
        window_flags(replace(model_named("mimo-v2-flash").spec, sliding_pattern=pattern))


def _changed(name: str, **changes: object) -> ModelSpec:
    return replace(model_named(name).spec, **changes)  # type: ignore[arg-type]  # any field


MIXTURE = Experts(n_expert=8, n_used=2, n_ff=64)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (_changed("llama-3.1-8b", architecture="rwkv9"), "does not know how its layers are laid out"),
        (_changed("deepseek-v3.2"), "indexer"),
        (_changed("baichuan2-7b"), "number of layers"),
        (_changed("gemma-4-e2b"), "per-layer embeddings"),
        (_changed("llama-3.1-8b", extra={"sinks": "1"}), "how this architecture stores sinks"),
        (_changed("qwen3-8b", extra={}), "demands qk_norm=head"),
        (_changed("qwen3-8b", experts=MIXTURE), "it has experts"),
        (_changed("qwen3-30b-a3b", experts=None), "it has no experts"),
        (_changed("qwen3-30b-a3b", experts=replace(MIXTURE, n_shared=1)), "shared experts"),
        (_changed("qwen3-30b-a3b", experts=replace(MIXTURE, n_dense_first=1)), "first layers have no experts"),
        (_changed("llama-3.1-8b", latent=model_named("deepseek-v3").spec.latent), "latent attention"),
        (_changed("deepseek-v3", qkv_bias=True), "biases"),
        (_changed("llama-3.1-8b", feed_forward=FeedForward.RELU2), "relu2, not swiglu"),
        (_changed("olmo2-7b", tied=True), "demands output matrix"),
        (_changed("gemma-2-2b", tied=False), "knows no output matrix"),
        (_changed("gemma-3-1b", sliding_pattern="3L:1G"), "window pattern 5L:1G"),
        (_changed("gemma-2-2b", sliding_window=None), "demands a sliding window"),
        (_changed("llama-3.1-8b", n_ff=None), "how wide the dense"),
        (_changed("llama-4-maverick", n_layer=47), "steady step"),
        (_changed("llama-2-70b", architecture="command-r", tied=True), "from 64 layers on"),
        (_changed("nemotron-3-nano-30b-a3b", n_layer=51), "what it is"),
    ],
)
def test_what_cannot_be_expressed_is_refused(spec: ModelSpec, reason: str) -> None:
    """One sentence with the model's name, its architecture and the reason."""
    with pytest.raises(UsageError, match=rf"^{spec.name}: architecture '.*' cannot be built as a slice: .*({reason})"):
        blueprint_header(spec)


def test_experts_as_wide_as_the_feed_forward_part_of_llama() -> None:
    """Mixtral's loader reads an expert's width from feed_forward_length."""
    header = blueprint_header(model_named("mixtral-8x7b").spec)
    assert header.metadata["llama.feed_forward_length"] == 14336
    assert header.metadata["llama.expert_used_count"] == 2


def test_every_architecture_of_the_catalogue_shrinks() -> None:
    """A small model of each can be built, so that the engine can be asked about it."""
    for entry in BUILT:
        assert blueprint_header(shrunk(entry.spec, 6 if "blocks" not in entry.spec.extra else 4)).tensors


def test_supported_architectures_are_named() -> None:
    """The list is sorted and holds those of the catalogue."""
    names = supported_architectures()
    assert list(names) == sorted(names)
    assert {entry.spec.architecture for entry in BUILT} <= set(names)

"""Laws of quantization recipes, for models of any size."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.recipe_shapes import Dims, RecipeShape
from suffice.model.ggml_types import type_by_name
from suffice.model.recipe import RECIPE_NAMES, quantized_header
from suffice.model.recipe_rules import use_more_bits

if TYPE_CHECKING:
    from random import Random

    from suffice.model.gguf_header import GgufHeader

QUICK = settings(max_examples=25, deadline=None, derandomize=True)
RECIPES = st.sampled_from(RECIPE_NAMES)
WIDTHS = st.sampled_from([32, 64, 96, 100, 256, 288, 512, 576])


@st.composite
def headers(draw: st.DrawFn) -> GgufHeader:
    """F16 headers of models with and without experts, heads of their own, and odd widths."""
    width, n_ff, n_expert = draw(WIDTHS), draw(WIDTHS), draw(st.sampled_from([0, 2, 8, 16]))
    stacked: Dims = (n_expert,) if n_expert else ()
    kind = "_exps" if n_expert else ""
    layer: dict[str, Dims] = {
        "attn_norm": (width,),
        "attn_q": (width, width),
        "attn_k": (width, 32),
        "attn_v": (width, 32),
        "attn_output": (width, width),
        f"ffn_gate{kind}": (width, n_ff, *stacked),
        f"ffn_up{kind}": (width, n_ff, *stacked),
        f"ffn_down{kind}": (n_ff, width, *stacked),
    }
    shape = RecipeShape(
        architecture=draw(st.sampled_from(["llama", "qwen2", "falcon", "gemma3"])),
        n_layer=draw(st.integers(1, 20)),
        layer=lambda _number: layer,
        n_embd=width,
        n_head=4,
        n_head_kv=draw(st.sampled_from([1, 2, 4])),
        tied=draw(st.booleans()),
        facts={"expert_count": n_expert, "expert_used_count": min(n_expert, 2)},
    )
    return shape.header()


@QUICK
@given(header=headers(), recipe=RECIPES, matrix=st.booleans())
def test_every_row_is_a_whole_number_of_blocks(header: GgufHeader, recipe: str, *, matrix: bool) -> None:
    """Whatever the widths, each tensor's bytes are whole blocks of its type, and it keeps its name and its elements."""
    made = quantized_header(header, recipe, has_imatrix=matrix)

    assert {tensor.name: tensor.elements for tensor in made.tensors} == {
        tensor.name: tensor.elements for tensor in header.tensors
    }
    for tensor in made.tensors:
        kind = type_by_name(tensor.type_name)
        assert tensor.dims[0] % kind.block_elements == 0
        assert tensor.n_bytes == tensor.elements // kind.block_elements * kind.block_bytes


@QUICK
@given(headers(), RECIPES)
def test_tensors_fill_the_file_without_overlap(header: GgufHeader, recipe: str) -> None:
    """Offsets rise in steps of 32 bytes without gap or overlap, and the file ends behind the last tensor's padding."""
    made = quantized_header(header, recipe)
    end = 0
    for tensor in made.tensors:
        assert tensor.offset == end
        end = -(-(tensor.offset + tensor.n_bytes) // 32) * 32
    kept = sum(-(-tensor.n_bytes // 32) * 32 for tensor in header.tensors)
    assert made.file_bytes - end == header.file_bytes - kept


@QUICK
@given(headers(), RECIPES)
def test_quantizing_never_grows_an_f16_model(header: GgufHeader, recipe: str) -> None:
    """Every recipe but F32 makes a file of at most the size of F16, F32 one of at least that."""
    made = quantized_header(header, recipe)
    if recipe == "f32":
        assert made.tensor_bytes >= header.tensor_bytes
    else:
        assert made.tensor_bytes <= header.tensor_bytes


@QUICK
@given(headers())
def test_larger_mixes_of_a_kind_are_never_smaller(header: GgufHeader) -> None:
    """Small, medium and large of three, four and five bits come in that order, below six bits and eight."""
    for ordered in (("q3_k_s", "q3_k_m"), ("q4_k_s", "q5_k_s", "q5_k_m", "q6_k", "q8_0"), ("q4_0", "q4_1", "q5_1")):
        sizes = [quantized_header(header, recipe).tensor_bytes for recipe in ordered]
        assert sizes == sorted(sizes), ordered


@QUICK
@given(headers(), RECIPES, st.randoms(use_true_random=False))
def test_the_order_of_the_tensors_in_the_source_does_not_matter(
    header: GgufHeader, recipe: str, random: Random
) -> None:
    """The quantizer sorts tensors, so two files with the same tensors in any order give the same header."""
    shuffled = list(header.tensors)
    random.shuffle(shuffled)
    mixed = replace(header, tensors=tuple(shuffled))

    assert quantized_header(mixed, recipe) == quantized_header(header, recipe)


@QUICK
@given(st.integers(1, 500))
def test_more_bits_go_to_the_last_layer_and_to_half_of_them_at_most(count: int) -> None:
    """Whatever the depth, the last layer is among those that get more bits, and never more than half and two are."""
    chosen = [layer for layer in range(count) if use_more_bits(layer, count)]
    assert chosen[-1] == count - 1
    assert len(chosen) <= count / 2 + 2

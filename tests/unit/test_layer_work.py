"""What a layer of each kind has to do: the ratios that hold an extrapolation where the slices cannot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from helpers.slice_runs import toy_header
from helpers.slices import tensor
from suffice.catalogue.models import model_named
from suffice.model.blueprint import blueprint_header
from suffice.model.layer_work import decode_work, prefill_work
from suffice.model.recipe import quantized_header
from suffice.model.shape import ModelShape, shape_from_header
from suffice.model.slice_plan import plan_slices
from suffice.model.slices import SliceDesign, whole_model
from suffice.model.weights import WeightUse
from suffice.units import GIB


def designed(name: str, recipe: str = "q4_k_m", limit_bytes: int = 2 * GIB) -> tuple[SliceDesign, ModelShape]:
    """The slices of a model of the catalogue, and its shape."""
    header = quantized_header(blueprint_header(model_named(name).spec), recipe)
    return plan_slices(header, limit_bytes), shape_from_header(header)


def total(design: SliceDesign, work: tuple[float, ...]) -> float:
    """Of all layers of the model, without the head."""
    return sum(len(kind.layers) * amount for kind, amount in zip(design.kinds, work, strict=False))


@pytest.mark.parametrize(
    "name",
    [
        "llama-2-7b",
        "gemma-3-1b",
        "qwen3-30b-a3b",
        "deepseek-v2-lite",
        "gpt-oss-20b",
        "nemotron-3-nano-30b-a3b",
        "lfm2-1.2b",
    ],
)
@pytest.mark.parametrize(("depth", "batch"), [(0, 1), (3000, 1), (3000, 8)])
def test_the_layers_together_read_what_the_model_reads(name: str, depth: int, batch: int) -> None:
    """Bytes of all layers, with the outer tensors, are the shape's own figure for a step: weights, touched experts and cache."""
    design, shape = designed(name)
    outer = [item for item in design.header.tensors if not item.name.startswith("blk.")]
    tied = all(item.name != "output.weight" for item in outer)
    outer_bytes = sum(item.n_bytes for item in outer if item.name != "token_embd.weight" or tied)
    state_bytes = shape.kv.state_bytes_per_sequence  # small, and left out
    rows_bytes = (
        0.0 if tied else batch * next(item.n_bytes / item.dims[1] for item in outer if item.name == "token_embd.weight")
    )

    read = total(design, decode_work(design, shape, depth, batch=batch)) + outer_bytes + rows_bytes

    cache_bytes = (shape.kv_read_bytes(depth) or 0.0) - state_bytes
    assert read == pytest.approx(shape.streamed_bytes(batch) + batch * cache_bytes, rel=1e-9)


@pytest.mark.parametrize("name", ["llama-2-7b", "gemma-3-1b", "qwen3-30b-a3b"])
def test_the_layers_together_multiply_what_the_model_multiplies(name: str) -> None:
    """Multiplications of all layers for a prompt are half of the shape's FLOPs, without the head."""
    design, shape = designed(name)
    n_tokens = 700
    head_flops = 2 * next(group.matmul_elements for group in shape.weights if group.use is WeightUse.HEAD)

    work = n_tokens * total(design, prefill_work(design, shape, n_tokens))

    assert 2 * work + head_flops == pytest.approx(shape.prefill_flops(n_tokens), rel=1e-6)


def test_windows_stop_growing() -> None:
    """Gemma 3's windowed layers read 512 tokens at any depth beyond, its full layers all of them."""
    design, shape = designed("gemma-3-1b")
    windowed = [index for index, kind in enumerate(design.kinds) if "window" in kind.label]
    full = [index for index, kind in enumerate(design.kinds) if "window" not in kind.label]
    shallow, deep = decode_work(design, shape, 512), decode_work(design, shape, 4096)

    assert all(shallow[index] == deep[index] for index in windowed)
    assert all(shallow[index] < deep[index] for index in full)
    assert windowed
    assert full


def test_cache_types_count() -> None:
    """A cache of q8_0 reads 34 bytes where f16 reads 64."""
    design, shape = designed("llama-2-7b")
    none, f16 = decode_work(design, shape, 0), decode_work(design, shape, 1000)
    q8_0 = decode_work(design, shape, 1000, type_k="q8_0", type_v="q8_0")

    assert (q8_0[0] - none[0]) / (f16[0] - none[0]) == pytest.approx(34 / 64)


def test_the_head_is_a_term_where_slices_cut_it() -> None:
    """Its work is 0, "not known": slices with other parts of the vocabulary tell its time."""
    design, shape = designed("llama-3.1-8b")

    assert design.cuts_vocabulary
    assert decode_work(design, shape, 0)[-1] == 0
    assert prefill_work(design, shape, 512)[-1] == 0
    assert len(decode_work(design, shape, 0)) == len(design.full_counts)


def test_a_whole_vocabulary_is_no_term() -> None:
    """Where all slices keep the head, it is part of what is fixed."""
    design, shape = designed("llama-2-7b")

    assert len(decode_work(design, shape, 0)) == len(design.kinds) == len(prefill_work(design, shape, 512))


def test_experts_are_read_as_they_are_touched() -> None:
    """2 of 8 experts: a quarter for one sequence, 1 - (3/4)^4 for four."""
    plain = toy_header(4)
    experts = [tensor(f"blk.{layer}.ffn_up_exps.weight", (64, 128, 8), "q8_0") for layer in range(4)]
    header = replace(
        plain,
        metadata={**plain.metadata, "llama.expert_count": 8, "llama.expert_used_count": 2},
        tensors=(*plain.tensors, *experts),
    )
    design, shape = whole_model(header), shape_from_header(header)
    dense = design.kinds[0].n_bytes - experts[0].n_bytes

    assert decode_work(design, shape, 0)[0] == pytest.approx(dense + experts[0].n_bytes / 4)
    assert decode_work(design, shape, 0, batch=4)[0] == pytest.approx(dense + experts[0].n_bytes * (1 - 0.75**4))

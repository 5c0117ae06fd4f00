"""Which slices are made of a model, and what their headers say."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import pytest

from helpers.slice_runs import toy_header
from helpers.slices import tensor
from suffice.catalogue.models import all_models, model_named
from suffice.errors import ModelFileError, UsageError
from suffice.model.attention import layer_windows
from suffice.model.blueprint import blueprint_header
from suffice.model.extrapolation import LEAST_SLICES
from suffice.model.metadata import metadata_of, plain_layers
from suffice.model.recipe import quantized_header
from suffice.model.shape import shape_from_header
from suffice.model.slice_plan import plan_slices
from suffice.model.slice_rules import refusal
from suffice.model.slices import SliceDesign, SlicePlan, design_bytes, layer_kinds, whole_model
from suffice.units import GIB

if TYPE_CHECKING:
    from suffice.model.gguf_header import GgufHeader, MetadataValue

LIMIT = 2 * GIB
REFUSED = {"baichuan", "deepseek32", "glm-dsa"}


@cache
def header_of(name: str, recipe: str = "q4_k_m") -> GgufHeader:
    """A model of the catalogue."""
    return quantized_header(blueprint_header(model_named(name).spec), recipe)


@cache
def designs() -> dict[str, SliceDesign]:
    """The slices of every model of the catalogue that can be sliced."""
    found = {}
    for entry in all_models():
        try:
            found[entry.id] = plan_slices(header_of(entry.id), LIMIT)
        except UsageError:  # the blueprint's own refusals, which test_blueprint.py looks at
            continue
    return found


def with_facts(header: GgufHeader, **facts: MetadataValue) -> GgufHeader:
    """Other metadata of the architecture; dots in names are written as double underscores."""
    name = header.metadata["general.architecture"]
    return replace(
        header, metadata={**header.metadata, **{f"{name}.{k.replace('__', '.')}": v for k, v in facts.items()}}
    )


def renamed(header: GgufHeader, architecture: str) -> GgufHeader:
    """The same model under another architecture's name."""
    facts = {key.replace("llama.", f"{architecture}.", 1): value for key, value in header.metadata.items()}
    return replace(header, metadata={**facts, "general.architecture": architecture})


def test_most_of_the_catalogue_can_be_sliced() -> None:
    """A plan exists for all models but those that are refused by name."""
    assert len(designs()) >= len(all_models()) - 8
    assert not REFUSED & {model_named(name).spec.architecture for name in designs()}


def test_a_mixed_recipe_has_two_kinds() -> None:
    """Llama-2-7B Q4_K_M: half of the layers have Q6_K in two matrices, half have not; every slice alternates between them."""
    kinds = layer_kinds(header_of("llama-2-7b"))

    assert [len(kind.layers) for kind in kinds] == [16, 16]
    assert {kind.structure for kind in kinds} == {0}
    assert [kind.label for kind in kinds] == ["q4_K, q6_K", "q4_K"]
    assert sorted(layer for kind in kinds for layer in kind.layers) == list(range(32))
    for plan in designs()["llama-2-7b"].plans:
        first, second = designs()["llama-2-7b"].counts(plan)
        assert abs(first - second) <= 1


def test_a_plain_recipe_has_one_kind() -> None:
    """Llama-2-7B Q4_0: all layers are alike."""
    assert [len(kind.layers) for kind in layer_kinds(header_of("llama-2-7b", "q4_0"))] == [32]


def test_windows_stay_where_llama_cpp_expects_them() -> None:
    """Gemma 3: five windowed layers, then a full one; slices are long enough to have one, in its place."""
    design = designs()["gemma-3-1b"]

    for plan in design.plans:
        windows = layer_windows(metadata_of(design.slice_header(plan)), len(plan.layers))
        assert windows[:6] == (512, 512, 512, 512, 512, None)
        assert len(plan.layers) >= 6


def test_of_leading_dense_layers_one_is_kept() -> None:
    """DeepSeek-R1 has three dense layers before its experts: a slice has one, and says so."""
    design = designs()["deepseek-r1"]

    assert len(design.kinds[0].layers) == 3
    for plan in design.plans:
        metadata = metadata_of(design.slice_header(plan))
        assert metadata.count("leading_dense_block_count") == 1
        assert [layer < 3 for layer in plan.layers] == [True] + [False] * (len(plan.layers) - 1)


def test_dense_layers_stay_when_windows_go_by_position() -> None:
    """Dropping one of two dense layers would move every full layer to a place where llama.cpp expects a window: both are kept."""
    plain = renamed(toy_header(12), "afmoe")
    header = with_facts(
        plain, attention__sliding_window=128, leading_dense_block_count=2, expert_count=4, expert_used_count=2
    )
    experts = [tensor(f"blk.{layer}.ffn_up_exps.weight", (64, 128, 4), "q8_0") for layer in range(2, 12)]
    header = replace(header, tensors=(*header.tensors, *experts))
    windows = layer_windows(metadata_of(header), 12)

    design = plan_slices(header, 10 * header.tensor_bytes)

    for plan in design.plans:
        metadata = metadata_of(design.slice_header(plan))
        assert layer_windows(metadata, len(plan.layers)) == tuple(windows[layer] for layer in plan.layers)
        assert metadata.count("leading_dense_block_count") == 2


def test_every_slice_is_a_model_that_agrees_with_the_whole() -> None:
    """All models, all slices: the shape is accepted, windows and cache rows stand where they stood, each row of weights is the same."""
    for name, design in designs().items():
        metadata = metadata_of(design.header)
        windows = layer_windows(metadata, plain_layers(metadata))
        for plan in design.plans:
            header = design.slice_header(plan)
            shape = shape_from_header(header)
            own = layer_windows(metadata_of(header), len(plan.layers))
            assert own == tuple(windows[layer] for layer in plan.layers), name
            assert shape.n_layer == len(plan.layers), name
            assert shape.n_vocab == plan.n_vocab, name


def _streamed(header: GgufHeader) -> tuple[float, float]:
    shape = shape_from_header(header)
    return shape.streamed_bytes(), shape.kv_read_bytes(1000) or 0.0


def test_weights_and_cache_of_the_whole_follow_from_its_slices() -> None:
    """Bytes that a step streams, and those of the cache, are linear in the layers: slices that add one layer tell its bytes."""
    for name in ("llama-2-7b", "gemma-3-1b", "deepseek-v2-lite", "gpt-oss-20b", "qwen3-next-80b-a3b"):
        design = designs()[name]
        n_vocab = design.n_vocab
        base = next(plan.layers for plan in design.plans)
        outer = _streamed(design.slice_header(SlicePlan(layers=base, n_vocab=n_vocab)))
        totals = [outer[0], outer[1]]
        counts = design.counts(SlicePlan(layers=base, n_vocab=n_vocab))
        for index, kind in enumerate(design.kinds):
            one = _one_more(design, base, kind.layers[0])
            for which in range(2):
                totals[which] += (len(kind.layers) - counts[index]) * (one[which] - outer[which])
        assert totals == pytest.approx(_streamed(design.header), rel=1e-9), name


def _one_more(design: SliceDesign, base: tuple[int, ...], layer: int) -> tuple[float, float]:
    """Bytes of a slice with one more layer of a kind, by exchanging nothing: whole periods in front, then the layer's own period."""
    full = shape_from_header(design.header)
    weights = sum(
        item.n_bytes * _read(design.header, item.name, item.dims)
        for item in design.header.tensors
        if item.name.startswith(f"blk.{layer}.")
    )
    whole = whole_model(design.header)
    from suffice.model.layer_work import _cache_layers  # noqa: PLC0415  # which layer has which cache

    cache = _cache_layers(whole, full).get(layer)
    read = 0 if cache is None else cache.visible(1000) * cache.row_bytes("f16", "f16")
    outer = _streamed(design.slice_header(SlicePlan(layers=base, n_vocab=design.n_vocab)))
    state = full.kv.state_bytes_per_sequence / max(1, _recurrent(design.header)) if cache is None else 0
    return outer[0] + weights, outer[1] + read + state


def _recurrent(header: GgufHeader) -> int:
    return len({item.name.split(".")[1] for item in header.tensors if ".ssm_" in item.name})


def _read(header: GgufHeader, name: str, dims: tuple[int, ...]) -> float:
    used = metadata_of(header).count("expert_used_count") or 0
    return used / dims[-1] if "_exps." in name else 1.0


def test_slices_keep_within_the_limit_or_are_the_least() -> None:
    """Every design fits together into the limit, or has the three shortest lengths that show every structure."""
    for name, design in designs().items():
        lengths = sorted({len(plan.layers) for plan in design.plans})
        if design_bytes(design) > LIMIT:
            structures = {kind.structure for kind in design.kinds}
            shorter = {
                next(k.structure for k in design.kinds if layer in k.layers) for layer in design.plans[0].layers[:-1]
            }
            assert lengths[:3] == list(range(lengths[0], lengths[0] + 3)), name
            assert shorter != structures, name


@pytest.mark.parametrize(
    "name", ["llama-2-7b", "llama-3.1-8b", "llama-3.1-70b", "qwen2.5-7b", "gemma-3-1b", "smollm2-135m"]
)
def test_common_models_fit(name: str) -> None:
    """What the front page names fits into the limit (of 4.6 GiB for 70B), with three lengths at least."""
    limit = max(LIMIT, header_of(name).tensor_bytes // 9)
    design = plan_slices(header_of(name), limit)

    assert design_bytes(design) <= limit
    assert len({len(plan.layers) for plan in design.plans}) >= LEAST_SLICES


def test_more_room_makes_longer_slices() -> None:
    """The longest slice grows with the limit, up to the whole model."""
    header = toy_header(20)
    longest = [
        max(len(plan.layers) for plan in plan_slices(header, round(share * header.tensor_bytes)).plans)
        for share in (1, 1.5, 2, 3)
    ]

    assert longest == sorted(longest)
    assert longest[0] < longest[-1] == 20


def test_a_large_vocabulary_is_cut_and_one_slice_keeps_more() -> None:
    """Llama-3.1-8B: three slices have a 16th of 128256 rows, the fourth more, and all tensors of rows are cut alike."""
    design = designs()["llama-3.1-8b"]
    rows = [plan.n_vocab for plan in design.plans]

    assert design.cuts_vocabulary
    assert rows[:3] == [7936] * 3
    assert rows[3] > 3 * rows[0]
    assert design.full_counts[-1] == 1.0
    for plan in design.plans:
        header = design.slice_header(plan)
        tables = {item.name: item for item in header.tensors if item.name in ("token_embd.weight", "output.weight")}
        assert {item.dims for item in tables.values()} == {(4096, plan.n_vocab)}
        assert metadata_of(header).count("vocab_size") == plan.n_vocab
        assert design.counts(plan)[-1] == plan.n_vocab / 128256
        assert all(tensor(i.name, i.dims, i.type_name).n_bytes == i.n_bytes for i in tables.values())


def test_a_vocabulary_that_others_depend_on_is_kept() -> None:
    """A bias of the head has a number for each row: nothing is cut."""
    header = toy_header(12, n_vocab=65536)
    biased = replace(header, tensors=(*header.tensors, tensor("output.bias", (65536,))))

    assert plan_slices(header, header.tensor_bytes).cuts_vocabulary
    assert not plan_slices(biased, header.tensor_bytes).cuts_vocabulary


def test_tensors_follow_each_other() -> None:
    """Offsets rise in steps of the alignment, without a gap larger than it, and the file is as long as its last tensor says."""
    design = designs()["llama-2-7b"]
    header = design.slice_header(design.plans[0])
    end = 0
    for item in header.tensors:
        assert item.offset % header.alignment == 0
        assert 0 <= item.offset - end < header.alignment
        end = item.offset + item.n_bytes
    assert header.file_bytes == end


def test_arrays_of_layers_are_cut() -> None:
    """Values for each layer follow their layers; an array of another length is left as it is."""
    heads = tuple(4 if layer % 2 else 2 for layer in range(12))
    header = with_facts(toy_header(12), rope__something=heads, other=(1, 2, 3))

    design = plan_slices(header, header.tensor_bytes)

    for plan in design.plans:
        facts = design.slice_header(plan).metadata
        assert facts["llama.rope.something"] == tuple(heads[layer] for layer in plan.layers)
        assert facts["llama.other"] == (1, 2, 3)
        assert facts["llama.block_count"] == len(plan.layers)


def test_what_a_slice_must_not_have_is_dropped() -> None:
    """The tokenizer (its vocabulary is another), the parts of a split file, and layers for several tokens at once."""
    header = with_facts(toy_header(12), nextn_predict_layers=1)
    facts: dict[str, MetadataValue] = {"tokenizer.ggml.model": "gpt2", "split.count": 3, "general.parameter_count": 5}
    header = replace(header, metadata={**header.metadata, **facts})

    design = plan_slices(header, 10 * header.tensor_bytes)

    assert sum(len(kind.layers) for kind in design.kinds) == 11
    for plan in design.plans:
        own = design.slice_header(plan).metadata
        assert not set(facts) & set(own)
        assert "llama.nextn_predict_layers" not in own
        assert 11 not in plan.layers


def test_equal_models_give_equal_slices() -> None:
    """Plans and headers are the same each time, so that a cache finds them again."""
    first, second = (plan_slices(header_of("gemma-3-4b"), LIMIT) for _ in range(2))

    assert first.plans == second.plans
    assert [first.slice_header(plan) for plan in first.plans] == [second.slice_header(plan) for plan in second.plans]


@pytest.mark.parametrize(
    ("architecture", "reason"),
    [
        ("baichuan", "number of layers"),
        ("exaone4", "64 layers"),
        ("gemma3n", "cache of earlier ones"),
        ("smallthinker", "number of layers"),
        ("hrm-text", "several times"),
        ("never-heard-of", "is not known"),
    ],
)
def test_what_cannot_be_sliced_is_refused_by_name(architecture: str, reason: str) -> None:
    """The message names the architecture and says why."""
    header = renamed(toy_header(12), architecture)

    with pytest.raises(ModelFileError, match=reason) as caught:
        plan_slices(header, LIMIT)
    assert architecture in str(caught.value)


@pytest.mark.parametrize("key", ["attention.shared_kv_layers", "attention.indexer.head_count"])
def test_keys_that_cannot_be_sliced_are_refused(key: str) -> None:
    """Layers that read others' caches, and sparse attention with an indexer."""
    header = toy_header(12)
    facts = replace(header, metadata={**header.metadata, f"llama.{key}": 4})

    assert refusal(metadata_of(facts), 12) is not None
    assert refusal(metadata_of(header), 12) is None


@pytest.mark.parametrize("n_layer", [1, 2])
def test_too_few_layers_are_refused(n_layer: int) -> None:
    """Of two layers no three lengths can be made; the model can be run whole."""
    with pytest.raises(ModelFileError, match=f"{n_layer} different lengths"):
        plan_slices(toy_header(n_layer), LIMIT)
    assert whole_model(toy_header(n_layer)).plans[0].layers == tuple(range(n_layer))


def test_layers_without_tensors_are_refused() -> None:
    """A header that promises more layers than it has is damaged."""
    with pytest.raises(ModelFileError, match="layer 12 of 13"):
        layer_kinds(with_facts(toy_header(12), block_count=13))


def test_the_whole_model_is_itself() -> None:
    """The stand-in of a small model has all of its tensors and bytes."""
    header = toy_header(12)
    design = whole_model(header)

    own = design.slice_header(design.plans[0])

    assert {(i.name, i.dims, i.type_name) for i in own.tensors} == {
        (i.name, i.dims, i.type_name) for i in header.tensors
    }
    assert design_bytes(design) == header.tensor_bytes
    assert shape_from_header(own).streamed_bytes() == shape_from_header(header).streamed_bytes()

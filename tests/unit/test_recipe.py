from __future__ import annotations

import csv
from dataclasses import replace

import pytest

from helpers.recipe_shapes import ANSWERS, SHAPES, RecipeShape, fingerprint
from suffice.errors import ModelFileError, UsageError
from suffice.model.gguf_header import GgufHeader, TensorInfo
from suffice.model.recipe import RECIPE_NAMES, canonical_recipe, needs_imatrix, quantized_header
from suffice.model.recipe_rules import visiting_key
from suffice.model.recipe_types import fitting_type


def _llama(n_layer: int, *, n_head_kv: int = 8, architecture: str = "llama", tied: bool = False) -> GgufHeader:
    layer = {
        "attn_norm": (256,),
        "attn_q": (256, 256),
        "attn_k": (256, 256),
        "attn_v": (256, 256),
        "attn_output": (256, 256),
        "ffn_gate": (256, 512),
        "ffn_up": (256, 512),
        "ffn_down": (512, 256),
    }
    shape = RecipeShape(
        architecture=architecture, n_layer=n_layer, n_head_kv=n_head_kv, tied=tied, layer=lambda _number: layer
    )
    return shape.header()


def _types(header: GgufHeader, part: str) -> list[str]:
    """Types of the tensors of a name, layer by layer."""
    return [tensor.type_name for tensor in header.tensors if part in tensor.name]


def _layers(types: list[str], type_name: str) -> list[int]:
    return [layer for layer, found in enumerate(types) if found == type_name]


def test_the_layers_of_q4_k_m_that_get_more_bits() -> None:
    """Of 32 layers, V and the down-projection of the first four, the last four and every third between have six bits, the rest four."""
    made = quantized_header(_llama(32), "q4_k_m")
    more = [0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31]

    for part in ("attn_v.", "ffn_down."):
        assert _layers(_types(made, part), "q6_K") == more
        assert set(_types(made, part)) == {"q4_K", "q6_K"}
    for part in ("attn_q.", "attn_k.", "attn_output.", "ffn_gate.", "ffn_up."):
        assert _types(made, part) == ["q4_K"] * 32
    assert _types(made, "token_embd") == ["q4_K"]
    assert _types(made, "output.weight")[-1] == "q4_K"
    assert {tensor.name: tensor.type_name for tensor in made.tensors}["output.weight"] == "q6_K"
    assert set(_types(made, "norm")) == {"f32"}


@pytest.mark.parametrize(
    ("recipe", "part", "expected"),
    [
        ("q4_k_s", "attn_v.", ["q5_K"] * 4 + ["q4_K"] * 12),
        ("q4_k_s", "ffn_down.", ["q5_K"] * 2 + ["q4_K"] * 14),
        ("q3_k_m", "attn_v.", ["q5_K"] * 2 + ["q4_K"] * 14),
        ("q3_k_m", "ffn_down.", ["q5_K"] + ["q4_K"] * 15),
        ("q3_k_l", "attn_output.", ["q5_K"] * 16),
        ("q2_k", "attn_v.", ["q3_K"] * 16),
        ("q2_k", "ffn_up.", ["q2_K"] * 16),
        ("q5_k_m", "ffn_down.", ["q6_K" if layer in {0, 1, 4, 7, 10, 13, 14, 15} else "q5_K" for layer in range(16)]),
        ("q4_0", "ffn_down.", ["q4_0"] * 16),
        ("iq4_xs", "ffn_down.", ["q5_K"] * 2 + ["iq4_xs"] * 14),
        ("iq3_xs", "ffn_gate.", ["iq3_s"] * 2 + ["iq3_xxs"] * 12 + ["iq3_s"] * 2),
        ("iq2_m", "ffn_down.", ["iq3_s"] * 2 + ["iq2_s"] * 14),
        ("iq1_s", "attn_output.", ["iq2_xxs"] * 16),
        ("mxfp4", "ffn_down.", ["q8_0"] * 16),
        ("tq2_0", "ffn_down.", ["tq2_0"] * 16),
        ("bf16", "ffn_down.", ["bf16"] * 16),
    ],
)
def test_types_by_layer(recipe: str, part: str, expected: list[str]) -> None:
    """Sixteen layers, worked out by hand from the rules."""
    assert _types(quantized_header(_llama(16), recipe), part) == expected


@pytest.mark.parametrize(
    ("architecture", "n_layer", "n_head_kv", "expected"),
    [
        ("llama", 80, 1, "q5_K"),
        ("llama", 80, 8, "q4_K"),  # 65B: heads not shared
        ("llama", 79, 1, "q4_K"),
        ("qwen2", 80, 8, "q5_K"),
        ("qwen3", 80, 1, "q4_K"),
    ],
)
def test_seventy_billion_get_a_wider_v(architecture: str, n_layer: int, n_head_kv: int, expected: str) -> None:
    """Models of the class 70B get five bits for V where others get four."""
    made = quantized_header(_llama(n_layer, architecture=architecture, n_head_kv=n_head_kv), "q4_k_m")
    assert set(_types(made, "attn_v.")) == {expected, "q6_K"}


def test_an_importance_matrix_changes_types_in_five_recipes() -> None:
    """Only the recipes that the documentation names depend on it."""
    header = _llama(16)
    changed = [
        recipe
        for recipe in RECIPE_NAMES
        if quantized_header(header, recipe, has_imatrix=True) != quantized_header(header, recipe, has_imatrix=False)
    ]

    assert sorted(changed) == ["iq3_xxs", "iq4_nl", "iq4_xs", "q4_0", "q5_0"]
    assert _types(quantized_header(header, "q4_0", has_imatrix=True), "ffn_down.") == ["q4_1"] * 2 + ["q4_0"] * 14


def test_recipes_that_need_a_matrix_have_one_by_default() -> None:
    """What llama.cpp refuses to make without a matrix has the types that it has with one; all others those without."""
    header = _llama(16)
    for recipe in RECIPE_NAMES:
        explicit = quantized_header(header, recipe, has_imatrix=needs_imatrix(recipe))
        assert quantized_header(header, recipe) == explicit
    needing = {recipe for recipe in RECIPE_NAMES if needs_imatrix(recipe)}
    assert needing == set("iq1_s iq1_m iq2_xxs iq2_xs iq2_s iq2_m iq3_xxs iq3_xs q2_k_s".split())


def test_a_tied_embedding_is_quantized_like_a_head() -> None:
    """Without a separate head, the embedding gets the bits of one."""
    assert _types(quantized_header(_llama(2, tied=True), "q4_k_m"), "token_embd") == ["q6_K"]
    assert _types(quantized_header(_llama(2, tied=True), "iq2_xs"), "token_embd") == ["q5_K"]
    assert _types(quantized_header(_llama(2), "iq2_xs"), "token_embd") == ["q2_K"]


@pytest.mark.parametrize(
    ("wanted", "row", "given"),
    [
        ("q4_K", 256, "q4_K"),
        ("q4_K", 576, "q5_0"),
        ("q5_K", 896, "q5_1"),
        ("q6_K", 2880, "q8_0"),
        ("q3_K", 576, "q4_0"),
        ("iq4_xs", 576, "iq4_nl"),
        ("q4_K", 100, "f16"),
        ("q8_0", 100, "f16"),
        ("mxfp4", 48, "f16"),
    ],
)
def test_rows_that_blocks_do_not_divide(wanted: str, row: int, given: str) -> None:
    """A shorter block of more bits stands in; where even 32 does not divide the row, two bytes a number."""
    assert fitting_type(wanted, row) == given


def test_sizes_and_offsets_follow_from_the_types() -> None:
    """A row of 256 in Q4_K takes 144 bytes, in Q6_K 210; tensors stand one behind the other, aligned to 32 bytes."""
    made = quantized_header(_llama(1), "q4_k_m")
    by_name = {tensor.name: tensor for tensor in made.tensors}

    assert by_name["blk.0.attn_q.weight"].n_bytes == 256 * 144
    assert by_name["blk.0.ffn_down.weight"].n_bytes == 256 * 2 * 210
    assert by_name["output.weight"].n_bytes == 512 * 210
    for before, after in zip(made.tensors, made.tensors[1:], strict=False):
        assert after.offset == -(-(before.offset + before.n_bytes) // 32) * 32


def test_tensors_stand_in_the_order_of_the_quantizer() -> None:
    """What belongs to no layer comes first, then the layers by number, not by letter; names decide within."""
    names = ["token_embd.weight", "blk.10.a.weight", "blk.2.b.weight", "blk.2.a.weight", "output.weight"]
    ordered = ["output.weight", "token_embd.weight", "blk.2.a.weight", "blk.2.b.weight", "blk.10.a.weight"]
    assert sorted(names, key=visiting_key) == ordered


def test_metadata_say_what_was_done() -> None:
    """The file type is the recipe's, the quantization version 2, and nothing is left of a split file."""
    header = _llama(2)
    split = replace(header, metadata={**header.metadata, "split.count": 2, "split.no": 0}, n_files=2)
    made = quantized_header(split, "Q4_K_M")

    assert made.metadata["general.file_type"] == 15
    assert made.metadata["general.quantization_version"] == 2
    assert made.metadata["llama.block_count"] == 2
    assert not any(key.startswith("split.") for key in made.metadata)
    assert made.n_files == 1
    assert made == quantized_header(header, "q4_k_m")


def test_what_is_f16_already_stays_as_large() -> None:
    """F16 of an F16 model is the model, in the quantizer's order."""
    header = _llama(3)
    made = quantized_header(header, "f16")

    assert made.file_bytes == header.file_bytes
    assert {(tensor.name, tensor.type_name, tensor.n_bytes) for tensor in made.tensors} == {
        (tensor.name, tensor.type_name, tensor.n_bytes) for tensor in header.tensors
    }


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Q4_K_M", "q4_k_m"),
        ("q4_k", "q4_k_m"),
        ("Q3_K", "q3_k_m"),
        ("q5k", "q5_k_m"),
        ("q4-k-m", "q4_k_m"),
        ("Q4KM", "q4_k_m"),
        ("Q4_K - Medium", "q4_k_m"),
        ("Q3_K - Large", "q3_k_l"),
        ("MXFP4_MOE", "mxfp4"),
        ("fp16", "f16"),
        (" BF16 ", "bf16"),
        ("IQ2_XXS", "iq2_xxs"),
    ],
)
def test_names_in_every_spelling(text: str, name: str) -> None:
    """Case, separators and the names of other tools do not matter."""
    assert canonical_recipe(text) == name


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("q4_k_xl", "; did you mean q4_k_m or q4_k_s? known"),
        ("UD-Q5_K_XL", "; did you mean q5_k_m or q5_k_s? known"),
        ("iq4", "; did you mean iq4_nl or iq4_xs? known"),
        ("q9_0", "; known"),
        ("", "; known"),
        ("4bit", "; known"),
    ],
)
def test_unknown_names_are_refused_with_those_that_exist(text: str, hint: str) -> None:
    """The message has the nearest recipes, if any is near, and lists all."""
    with pytest.raises(UsageError, match="known are f32, f16, bf16, q8_0") as caught:
        canonical_recipe(text)
    assert hint in str(caught.value)


def test_every_name_is_its_own_canonical_name() -> None:
    """No alias hides a recipe."""
    assert [canonical_recipe(name.upper()) for name in RECIPE_NAMES] == list(RECIPE_NAMES)


def test_a_quantized_model_is_not_quantized_again() -> None:
    """Weights that are quantized already stay when the recipe wants just that type, and are refused otherwise."""
    once = quantized_header(_llama(4), "q8_0")

    assert quantized_header(once, "q8_0") == once
    with pytest.raises(UsageError, match="is q8_0 already and would have to become"):
        quantized_header(once, "q4_0")


def test_experts_outside_the_layers_are_damage() -> None:
    """An expert tensor of a layer that the model does not have is an error that names it."""
    header = SHAPES["8 experts"].header()
    stray = TensorInfo(name="blk.99.ffn_up_exps.weight", dims=(256, 256, 8), type_name="f16", offset=0, n_bytes=2**20)

    with pytest.raises(ModelFileError, match=r"blk\.99\.ffn_up_exps\.weight belongs to none of the model's 16 layers"):
        quantized_header(replace(header, tensors=(*header.tensors, stray)), "q4_k_m")


def test_layers_that_llama_cpp_recounts_are_refused() -> None:
    """Where loading changes the number of layers, the recipe is unknown and not guessed."""
    with pytest.raises(UsageError, match="changes the number of layers of nanbeige"):
        quantized_header(_llama(2, architecture="nanbeige"), "q4_k_m")


@pytest.mark.parametrize(
    "row", list(csv.DictReader(ANSWERS.read_text(encoding="utf-8").splitlines())), ids=lambda row: row["shape"]
)
def test_types_are_those_that_the_dry_run_once_gave(row: dict[str, str]) -> None:
    """Recorded answers of llama.cpp's quantizer, for machines whose engine has none: every tensor of every shape under every recipe."""
    header = SHAPES[row["shape"]].header()
    differing = [
        recipe
        for recipe in RECIPE_NAMES
        if row[recipe]
        != fingerprint(_named_types(quantized_header(header, recipe, has_imatrix=matrix)) for matrix in (False, True))
    ]
    assert differing == []


def test_every_shape_has_recorded_answers() -> None:
    """A shape or a recipe that is new must be recorded (benchmarks/recipes.py --record)."""
    rows = list(csv.DictReader(ANSWERS.read_text(encoding="utf-8").splitlines()))
    assert [row["shape"] for row in rows] == list(SHAPES)
    assert set(rows[0]) == {"shape", *RECIPE_NAMES}


def _named_types(header: GgufHeader) -> list[tuple[str, str]]:
    return [(tensor.name, tensor.type_name) for tensor in header.tensors]

"""The header that a model has after llama.cpp quantized it, from the header that it has in F16, BF16 or F32.

Types are those of ``llama-quantize MODEL OUT RECIPE`` without an importance matrix ("imatrix") where it works without one, and
with one where llama.cpp insists on it (:func:`needs_imatrix`). A matrix changes types, not only values, in five recipes: in Q4_0 and Q5_0 the
first eighth of ``ffn_down`` becomes Q4_1 and Q5_1; in IQ4_XS and IQ4_NL it stays as it is instead of Q5_K; IQ3_XXS keeps its type in
``ffn_down`` and ``attn_v``. Say ``has_imatrix=True`` for a file made with one.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from suffice.errors import UsageError
from suffice.model.ggml_types import row_bytes
from suffice.model.gguf_header import TensorInfo
from suffice.model.metadata import metadata_of
from suffice.model.recipe_rules import Recipe, Role, Traits, role_of, visiting_key
from suffice.model.recipe_types import TypeChooser, n_dims

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from suffice.model.gguf_header import GgufHeader, MetadataValue

# name, llama_ftype, type of a tensor that no rule singles out, needs an importance matrix
_TABLE: Final = (
    ("f32", 0, "f32", False),
    ("f16", 1, "f16", False),
    ("bf16", 32, "bf16", False),
    ("q8_0", 7, "q8_0", False),
    ("q6_k", 18, "q6_K", False),
    ("q5_k_m", 17, "q5_K", False),
    ("q5_k_s", 16, "q5_K", False),
    ("q5_1", 9, "q5_1", False),
    ("q5_0", 8, "q5_0", False),
    ("q4_k_m", 15, "q4_K", False),
    ("q4_k_s", 14, "q4_K", False),
    ("q4_1", 3, "q4_1", False),
    ("q4_0", 2, "q4_0", False),
    ("iq4_nl", 25, "iq4_nl", False),
    ("iq4_xs", 30, "iq4_xs", False),
    ("mxfp4", 38, "mxfp4", False),
    ("q3_k_l", 13, "q3_K", False),
    ("q3_k_m", 12, "q3_K", False),
    ("q3_k_s", 11, "q3_K", False),
    ("iq3_m", 27, "iq3_s", False),
    ("iq3_s", 26, "iq3_s", False),
    ("iq3_xs", 22, "iq3_s", True),
    ("iq3_xxs", 23, "iq3_xxs", True),
    ("q2_k", 10, "q2_K", False),
    ("q2_k_s", 21, "q2_K", True),
    ("iq2_m", 29, "iq2_s", True),
    ("iq2_s", 28, "iq2_xs", True),
    ("iq2_xs", 20, "iq2_xs", True),
    ("iq2_xxs", 19, "iq2_xxs", True),
    ("tq2_0", 37, "tq2_0", False),
    ("tq1_0", 36, "tq1_0", False),
    ("iq1_m", 31, "iq1_m", True),
    ("iq1_s", 24, "iq1_s", True),
)
_RECIPES: Final[Mapping[str, Recipe]] = MappingProxyType(
    {
        name: Recipe(name=name, file_type=file_type, base_type=base_type, needs_imatrix=needs_imatrix)
        for name, file_type, base_type, needs_imatrix in _TABLE
    }
)
RECIPE_NAMES: Final = tuple(_RECIPES)
"""The recipes that are known, more bits first."""

_ALIASES: Final = MappingProxyType(
    {
        **{name.replace("_", ""): name for name in RECIPE_NAMES},
        "q3k": "q3_k_m",
        "q4k": "q4_k_m",
        "q5k": "q5_k_m",
        "mxfp4moe": "mxfp4",
        "fp16": "f16",
        "float16": "f16",
        "fp32": "f32",
        "float32": "f32",
        "bfloat16": "bf16",
        **{
            f"q{bits}k{word}": f"q{bits}_k_{word[0]}"
            for bits, words in ((3, ("small", "medium", "large")), (4, ("small", "medium")), (5, ("small", "medium")))
            for word in words
        },
    }
)
_SEPARATORS: Final = re.compile(r"[\s_.-]+")

_ALIGNMENT: Final = 32  # GGUF's default, in bytes
_QUANTIZATION_VERSION: Final = 2  # GGML_QNT_VERSION
_FILE_TYPE_KEY: Final = "general.file_type"
_VERSION_KEY: Final = "general.quantization_version"
_DIM_BYTES: Final = 8
_NUMBER_ENTRY_BYTES: Final = 8 + 4 + 4  # length of the key, type and value of a uint32
_LAYERS_OF_70B: Final = MappingProxyType(
    {"llama": 80, "llama-embed": 80, "qwen2": 80, "deci": 80, "olmo": 80, "jais2": 68}
)
_LLAMA: Final = frozenset({"llama", "llama-embed"})
_LAYERS_CHANGE_ON_LOADING: Final = frozenset({"nanbeige", "graniteswitch"})


def canonical_recipe(text: str) -> str:
    """The name of a recipe as suffice writes it: ``canonical_recipe("Q4_K") == "q4_k_m"``; case and separators do not matter.

    Raises:
        UsageError: there is none; the message names the nearest ones and all that exist.
    """
    wanted = _SEPARATORS.sub("", text.lower())
    if wanted in _ALIASES:
        return _ALIASES[wanted]
    near = _nearest(wanted)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise UsageError(f"{text!r} is not a quantization; {hint}known are {', '.join(RECIPE_NAMES)}")


def _nearest(wanted: str) -> list[str]:
    """The recipes of whose names the text holds the longest beginning, of two letters at least: of ``udq4kxl`` those with ``q4k``."""
    shared = {name: _shared_letters(name.replace("_", ""), wanted) for name in RECIPE_NAMES}
    longest = max(shared.values())
    return [name for name, letters in shared.items() if letters == longest > 1]


def _shared_letters(name: str, text: str) -> int:
    return max(length for length in range(len(name) + 1) if name[:length] in text)


def recipe_of(file_type: int) -> str | None:
    """The recipe that ``general.file_type`` names; None: not known."""
    return next((recipe.name for recipe in _RECIPES.values() if recipe.file_type == file_type), None)


def needs_imatrix(recipe: str) -> bool:
    """Whether llama.cpp makes such a file only with an importance matrix.

    Raises:
        UsageError: no such recipe.
    """
    return _RECIPES[canonical_recipe(recipe)].needs_imatrix


def quantized_header(header: GgufHeader, recipe: str, *, has_imatrix: bool | None = None) -> GgufHeader:
    """The header of the single file that ``llama-quantize`` makes of an F16, BF16 or F32 model.

    The tensors are in the order in which it writes them. The size of the file is exact for a model whose metadata have the two keys that
    every converter writes (``general.file_type``, ``general.quantization_version``); else it may be off by one step of alignment.

    Args:
        header: the model's header.
        recipe: any name that :func:`canonical_recipe` knows.
        has_imatrix: made with an importance matrix; None: only when the recipe needs one.

    Raises:
        UsageError: no such recipe, or the model is quantized already.
        ModelFileError: the metadata lack what the rules need, or are damaged.
    """
    chosen = _RECIPES[canonical_recipe(recipe)]
    traits = _traits(header, has_imatrix=chosen.needs_imatrix if has_imatrix is None else has_imatrix)
    ordered = sorted(header.tensors, key=lambda tensor: visiting_key(tensor.name))
    roles = [role_of(tensor.name) for tensor in ordered]
    chooser = TypeChooser(
        recipe=chosen,
        traits=traits,
        tied=Role.OUTPUT not in roles,
        n_attention_v=roles.count(Role.ATTENTION_V),
    )
    tensors = _laid_out((tensor, chooser.choose(tensor)) for tensor in ordered)
    metadata = _metadata(header, chosen.file_type)
    added = sum(_NUMBER_ENTRY_BYTES + len(key) for key in metadata.keys() - header.metadata.keys())
    dropped = sum(_DIM_BYTES * (len(tensor.dims) - n_dims(tensor.dims)) for tensor in ordered)
    header_bytes = _aligned(header.file_bytes - _data_bytes(header) + added - dropped, _ALIGNMENT)
    return replace(
        header,
        alignment=_ALIGNMENT,
        metadata=metadata,
        tensors=tensors,
        file_bytes=header_bytes + sum(_aligned(tensor.n_bytes, _ALIGNMENT) for tensor in tensors),
        n_files=1,
    )


def _traits(header: GgufHeader, *, has_imatrix: bool) -> Traits:
    metadata = metadata_of(header)
    architecture = metadata.architecture
    if architecture in _LAYERS_CHANGE_ON_LOADING:
        raise UsageError(
            f"{header.source}: llama.cpp changes the number of layers of {architecture} models while it loads them, so which tensor it "
            "quantizes how is not known; give a GGUF file that is quantized already"
        )
    n_layer = metadata.required_count("block_count")
    heads = metadata.per_layer("attention.head_count", n_layer, (0,))[0]
    heads_kv = metadata.per_layer("attention.head_count_kv", n_layer, (heads,))[0]
    n_expert = metadata.count("expert_count") or 0
    is_70b = _LAYERS_OF_70B.get(architecture) == n_layer - (metadata.count("nextn_predict_layers") or 0)
    if architecture in _LLAMA:
        is_70b = is_70b and heads != heads_kv and n_expert != 8  # noqa: PLR2004 - the class of Mixtral
    return Traits(
        architecture=architecture,
        n_layer=n_layer,
        n_gqa=heads // heads_kv if heads_kv else 0,
        n_expert=n_expert,
        is_70b=is_70b,
        has_imatrix=has_imatrix,
    )


def _laid_out(chosen: Iterable[tuple[TensorInfo, str]]) -> tuple[TensorInfo, ...]:
    """The tensors in their new types, one behind the other."""
    tensors = []
    offset = 0
    for tensor, type_name in chosen:
        row, rows = tensor.dims[0], tensor.elements // max(1, tensor.dims[0])
        n_bytes = row_bytes(type_name, row) * rows
        dims = tensor.dims[: n_dims(tensor.dims)]
        tensors.append(TensorInfo(name=tensor.name, dims=dims, type_name=type_name, offset=offset, n_bytes=n_bytes))
        offset += _aligned(n_bytes, _ALIGNMENT)
    return tuple(tensors)


def _metadata(header: GgufHeader, file_type: int) -> Mapping[str, MetadataValue]:
    kept = {key: value for key, value in header.metadata.items() if not key.startswith("split.")}
    kept.pop("general.alignment", None)
    return MappingProxyType({**kept, _VERSION_KEY: _QUANTIZATION_VERSION, _FILE_TYPE_KEY: file_type})


def _data_bytes(header: GgufHeader) -> int:
    """Bytes of the data sections of all files, padding included."""
    by_file = groupby(
        sorted(header.tensors, key=lambda tensor: tensor.file_index), key=lambda tensor: tensor.file_index
    )
    return sum(
        max(_aligned(tensor.offset + tensor.n_bytes, header.alignment) for tensor in tensors) for _, tensors in by_file
    )


def _aligned(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment

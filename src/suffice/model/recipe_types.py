"""The type of each tensor of a model under a quantization recipe.

Source: ``llama_tensor_get_type``, ``tensor_allows_quantization`` and ``tensor_type_fallback`` in ``src/llama-quant.cpp`` of llama.cpp,
late 2026. The tests compare the result tensor by tensor with the dry run of that quantizer.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from suffice.errors import ModelFileError, UsageError
from suffice.model.ggml_types import type_by_name
from suffice.model.recipe_rules import LOWEST, RULES, Case, Recipe, Role, Traits, role_of, visiting_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.model.gguf_header import TensorInfo

_NAMES: Final = 8192  # of tensors that are remembered: each recipe asks for the same
FLOAT_TYPES: Final = frozenset({"f32", "f16", "bf16"})
_HEAD_IN_Q5: Final = frozenset("iq1_s iq1_m iq2_xxs iq2_xs iq2_s iq2_m iq3_xxs".split())
_FFN_ROLES: Final = frozenset({Role.FFN_UP, Role.FFN_GATE, Role.FFN_DOWN})

# What replaces a type whose block is longer than a row is divisible by.
_SHORTER_BLOCKS: Final = MappingProxyType(
    {
        **dict.fromkeys(("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_xs"), "iq4_nl"),
        **dict.fromkeys(("q2_K", "q3_K", "tq1_0", "tq2_0"), "q4_0"),
        "q4_K": "q5_0",
        "q5_K": "q5_1",
        "q6_K": "q8_0",
    }
)

# Parts of the names of matrices that are never quantized: small ones, routers, convolutions, positions, parts for pictures and sound.
_NEVER: Final = tuple(
    """
    _norm.weight ffn_gate_inp.weight ffn_gate_tid2eid.weight altup laurel per_layer_model_proj ssm_conv1d shortconv.conv.weight
    indexer.k_proj.weight indexer.q_proj.weight
    time_mix_first.weight time_mix_w0.weight time_mix_w1.weight time_mix_w2.weight time_mix_v0.weight time_mix_v1.weight
    time_mix_v2.weight time_mix_a0.weight time_mix_a1.weight time_mix_a2.weight time_mix_g1.weight time_mix_g2.weight
    time_mix_decay_w1.weight time_mix_decay_w2.weight time_mix_lerp_fused.weight
    attn_rel_b.weight .position_embd sam.pos_embd sam.neck. sam.net_ .rel_pos .patch_embd .patch_merger a.rvq.codebook
    mm.a.code_embd
    """.split()
)
_NEVER_EXACTLY: Final = frozenset({"position_embd.weight", "token_types.weight"})
_GLM5: Final = "glm5-next"
_NEVER_IN_GLM5: Final = tuple(
    """
    hc_ indexer.attn_q_b indexer.attn_k indexer.proj indexer_compressor_gate indexer_compressor_ape ssm_f_a.weight ssm_f_b.weight
    ssm_g_a.weight ssm_g_b.weight ssm_beta.weight attn_kv_a_mqa.weight attn_k_b.weight attn_v_b.weight
    """.split()
)
_Q8_IN_GLM5: Final = ("attn_q_a", "attn_q_b", "nextn.eh_proj")


def may_quantize(tensor: TensorInfo, architecture: str) -> bool:
    """Whether the quantizer touches a tensor at all: matrices of weights, less those that are too small or too sensitive."""
    return n_dims(tensor.dims) > 1 and _may_quantize(tensor.name, architecture)


@lru_cache(maxsize=_NAMES)
def _may_quantize(name: str, architecture: str) -> bool:
    if not name.endswith("weight") or name in _NEVER_EXACTLY:
        return False
    parts = _NEVER + (_NEVER_IN_GLM5 if architecture == _GLM5 else ())
    return not any(part in name for part in parts)


@dataclass(slots=True, kw_only=True)
class TypeChooser:
    """Chooses types for the tensors of one model, which must come in the order of :func:`visiting_key`, as some are counted."""

    recipe: Recipe
    traits: Traits
    tied: bool  # no separate output head
    n_attention_v: int
    _seen: Counter[Role] = field(default_factory=Counter)

    def choose(self, tensor: TensorInfo) -> str:
        """The type that the next tensor gets.

        Raises:
            UsageError: the tensor is quantized already, in another type.
            ModelFileError: a feed-forward tensor of a mixture of experts stands outside the model's layers.
        """
        if not may_quantize(tensor, self.traits.architecture):
            return tensor.type_name
        wanted = self.recipe.base_type
        if wanted not in FLOAT_TYPES:
            wanted = fitting_type(self._wanted(tensor), tensor.dims[0])
        if tensor.type_name not in FLOAT_TYPES | {wanted}:
            raise UsageError(
                f"tensor {tensor.name} is {tensor.type_name} already and would have to become {wanted} for {self.recipe.name}; "
                "start from the model in F16, BF16 or F32"
            )
        return wanted

    def _wanted(self, tensor: TensorInfo) -> str:
        """The type by recipe, whether or not its blocks fit into a row."""
        role = role_of(tensor.name)
        if self.traits.architecture == _GLM5 and any(part in tensor.name for part in _Q8_IN_GLM5):
            return "q8_0"
        if role is Role.OUTPUT or (role is Role.EMBEDDING and self.tied):
            return self._head_type(tensor.dims[0])
        if self.recipe.name == "mxfp4":
            return self._mxfp4_type(tensor, role)
        case = Case(traits=self.traits, index=self._index(tensor.name, role), count=self._count(role))
        self._seen[role] += 1
        fitting = (rule for rule in RULES[role] if self.recipe.name in rule.recipes and rule.when(case))
        rule = next(fitting, None)
        chosen = self.recipe.base_type if rule is None else rule.type_name
        return self._wider_v(chosen) if role is Role.ATTENTION_V else chosen

    def _head_type(self, row_length: int) -> str:
        if self.recipe.name == "mxfp4" or self.traits.architecture == "falcon":
            return "q8_0"
        if row_length % type_by_name(self.recipe.base_type).block_elements:
            return "q8_0"
        if self.recipe.name in _HEAD_IN_Q5:
            return "q5_K"
        return "q8_0" if self.recipe.base_type == "q8_0" else "q6_K"

    def _mxfp4_type(self, tensor: TensorInfo, role: Role) -> str:
        """MXFP4 for experts, which are stacked in a third dimension; bailingmoe3 also stacks matrices that are none."""
        stacked = len(tensor.dims) > 2 and tensor.dims[2] > 1  # noqa: PLR2004 - the third dimension
        expert = role in _FFN_ROLES or self.traits.architecture != "bailingmoe3"
        return "mxfp4" if stacked and expert else "q8_0"

    def _wider_v(self, chosen: str) -> str:
        """V matrices are small where many query heads share one, or beside eight experts; they get more bits for little."""
        if self.recipe.name in LOWEST:
            return chosen
        if self.traits.n_expert == 8:  # noqa: PLR2004 - Mixtral
            return "q8_0"
        return "q5_K" if self.traits.is_70b and chosen in {"q3_K", "q4_K"} else chosen

    def _count(self, role: Role) -> int:
        return self.n_attention_v if role is Role.ATTENTION_V else self.traits.n_layer

    def _index(self, name: str, role: Role) -> int:
        """The layer by name in a mixture of experts, where a layer may have several of a kind; else how many came before."""
        by_name = role in _FFN_ROLES and self.traits.n_expert > 1 and self.recipe.name not in LOWEST
        if not by_name:
            return self._seen[role]
        layer = visiting_key(name)[0]
        if not 0 <= layer < self.traits.n_layer:
            raise ModelFileError(
                f"tensor {name} belongs to none of the model's {self.traits.n_layer} layers; get a complete GGUF file of the model"
            )
        return layer


def fitting_type(type_name: str, row_length: int) -> str:
    """The type itself if its blocks divide a row, else the one of shorter blocks that stands in for it, else f16."""
    if row_length % type_by_name(type_name).block_elements == 0:
        return type_name
    shorter = _SHORTER_BLOCKS.get(type_name, type_name)
    return shorter if row_length % type_by_name(shorter).block_elements == 0 else "f16"


def n_dims(dims: Sequence[int]) -> int:
    """Dimensions as ggml counts them: trailing ones do not count."""
    for number in range(len(dims), 1, -1):
        if dims[number - 1] > 1:
            return number
    return 1

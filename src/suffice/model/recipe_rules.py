"""Which tensors a quantization recipe singles out, and for which type: the rules of llama.cpp's quantizer, as tables.

Source: ``llama_tensor_get_type_impl`` and ``tensor_get_category`` in ``src/llama-quant.cpp`` of llama.cpp, late 2026. What the tables do
not hold (output head, MXFP4, rows that blocks do not fit into) is in :mod:`suffice.model.recipe_types`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_LAYER: Final = re.compile(r"blk\.(\d{1,9})")
_NAMES: Final = 8192  # of tensors that are remembered: each recipe asks for the same


class Role(StrEnum):
    """What a tensor does, as far as the quantizer tells tensors apart."""

    OUTPUT = "output"
    EMBEDDING = "embedding"
    ATTENTION_V = "attention v"  # also what holds V among others: fused QKV, and KV up-projections of MLA
    ATTENTION_K = "attention k"
    ATTENTION_Q = "attention q"
    ATTENTION_OUTPUT = "attention output"
    FFN_UP = "ffn up"
    FFN_GATE = "ffn gate"
    FFN_DOWN = "ffn down"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One quantization name of llama.cpp."""

    name: str
    file_type: int  # llama_ftype, the value of general.file_type
    base_type: str  # what a tensor gets that no rule singles out
    needs_imatrix: bool  # llama.cpp refuses to quantize without an importance matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """The facts of a model that rules ask for."""

    architecture: str
    n_layer: int
    n_gqa: int  # query heads per key head in the first layer; 0 when that layer has no attention
    n_expert: int  # 0: dense
    is_70b: bool  # llama.cpp's size class "70B"
    has_imatrix: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A tensor's place: number ``index`` among ``count`` of its kind."""

    traits: Traits
    index: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Tensors of a role get ``type_name`` under these recipes when the condition holds; the first rule that fits wins."""

    recipes: frozenset[str]
    type_name: str
    when: Callable[[Case], bool]


def use_more_bits(index: int, count: int) -> bool:
    """Whether a layer is one of those that mixed recipes spend more bits on: the first and last eighth, and every third between."""
    first = count // 8
    return index < first or index >= 7 * count // 8 or (index - first) % 3 == 2  # noqa: PLR2004 - the last of three


def _always(_case: Case) -> bool:
    return True


def _more_bits(case: Case) -> bool:
    return use_more_bits(case.index, case.count)


def _first_eighth(case: Case) -> bool:
    return case.index < case.count // 8


def _first_sixteenth(case: Case) -> bool:
    return case.index < case.count // 16


def _middle(case: Case) -> bool:
    return case.count // 8 <= case.index < 7 * case.count // 8


def _shared_heads(case: Case) -> bool:
    return case.traits.n_gqa >= 4  # noqa: PLR2004 - llama.cpp's threshold


def _shared_heads_or_experts(case: Case) -> bool:
    return _shared_heads(case) or case.traits.n_expert >= 4  # noqa: PLR2004 - llama.cpp's threshold


def _eight_experts(case: Case) -> bool:
    return case.traits.n_expert == 8  # noqa: PLR2004 - Mixtral is singled out by this number


def _falcon(case: Case) -> bool:
    return case.traits.architecture == "falcon"


def _imatrix(case: Case) -> bool:
    return case.traits.has_imatrix


def _not(condition: Callable[[Case], bool]) -> Callable[[Case], bool]:
    return lambda case: not condition(case)


def _both(one: Callable[[Case], bool], other: Callable[[Case], bool]) -> Callable[[Case], bool]:
    return lambda case: one(case) and other(case)


def _either(one: Callable[[Case], bool], other: Callable[[Case], bool]) -> Callable[[Case], bool]:
    return lambda case: one(case) or other(case)


def _rule(recipes: str, type_name: str, when: Callable[[Case], bool] = _always) -> Rule:
    return Rule(recipes=frozenset(recipes.split()), type_name=type_name, when=when)


LOWEST: Final = frozenset("iq1_s iq1_m iq2_xxs iq2_xs iq2_s iq2_m".split())
"""The recipes of the fewest bits, which have rules of their own."""

_OTHERS: Final = (
    "q2_k q2_k_s q3_k_s q3_k_m q3_k_l q4_0 q4_1 q4_k_s q4_k_m q5_0 q5_1 q5_k_s q5_k_m q6_k q8_0 "
    "iq3_xxs iq3_xs iq3_s iq3_m iq4_xs iq4_nl tq1_0 tq2_0"
)
_WIDER_MIXTRAL_OUTPUT: Final = "q2_k q3_k_s q3_k_m q4_k_s q4_k_m iq3_xxs iq3_xs iq3_s iq3_m iq4_nl iq4_xs"

RULES: Final = MappingProxyType(
    {
        Role.EMBEDDING: (
            _rule("iq1_s iq1_m iq2_xxs iq2_xs", "q2_K"),
            _rule("iq2_s iq2_m iq3_xxs", "iq3_s"),
            _rule("tq1_0 tq2_0", "q4_K"),
        ),
        Role.ATTENTION_V: (
            _rule("iq1_s iq1_m iq2_xxs iq2_xs iq2_s iq2_m", "q4_K", _shared_heads_or_experts),
            _rule("iq1_s iq1_m iq2_xxs iq2_xs", "q2_K"),
            _rule("iq2_s iq2_m", "iq3_s"),
            _rule("q2_k q2_k_s iq3_xxs iq3_xs iq3_s", "q4_K", _shared_heads),
            _rule("q2_k", "q3_K"),
            _rule("iq3_xxs", "iq3_s", _not(_imatrix)),
            _rule("iq3_m", "q4_K"),
            _rule("q3_k_m", "q5_K", lambda case: case.index < 2),  # noqa: PLR2004 - the first two
            _rule("q3_k_m", "q4_K"),
            _rule("q3_k_l", "q5_K"),
            _rule("iq4_nl iq4_xs", "q5_K", _shared_heads),
            _rule("q4_k_m q5_k_m", "q6_K", _more_bits),
            _rule("q4_k_s", "q5_K", lambda case: case.index < 4),  # noqa: PLR2004 - the first four
        ),
        Role.ATTENTION_K: (
            _rule("iq1_s iq1_m iq2_xxs iq2_xs iq2_s iq2_m", "q4_K", _eight_experts),
            _rule(_OTHERS, "q8_0", _eight_experts),
            _rule("iq3_xs", "iq3_xxs"),
            _rule("iq3_xxs", "iq2_s"),
        ),
        Role.ATTENTION_Q: (
            _rule("iq3_xs", "iq3_xxs"),
            _rule("iq3_xxs", "iq2_s"),
        ),
        Role.ATTENTION_OUTPUT: (
            _rule("iq1_s iq1_m iq2_xxs iq2_xs iq2_s iq2_m", "q5_K", _eight_experts),
            _rule("iq1_s iq1_m", "iq2_xxs"),
            _rule("iq2_s iq2_m", "iq3_s"),
            _rule("q3_k_l", "q4_K", _falcon),
            _rule(_WIDER_MIXTRAL_OUTPUT, "q5_K", _both(_eight_experts, _not(_falcon))),
            _rule("q2_k", "q3_K", _not(_either(_eight_experts, _falcon))),
            _rule("iq3_xxs", "iq3_s", _not(_either(_eight_experts, _falcon))),
            _rule("q3_k_m iq3_m", "q4_K", _not(_either(_eight_experts, _falcon))),
            _rule("q3_k_l", "q5_K", _not(_eight_experts)),
        ),
        Role.FFN_DOWN: (
            _rule("iq1_s iq1_m iq2_xxs iq2_xs", "q2_K", _first_eighth),
            _rule("iq2_s iq2_m", "iq3_s", _first_eighth),
            _rule("q2_k", "q3_K"),
            _rule("q2_k_s", "q4_K", _first_eighth),
            _rule("iq3_xxs", "q4_K", _both(_not(_imatrix), _first_eighth)),
            _rule("iq3_xxs", "q3_K", _not(_imatrix)),
            _rule("q3_k_m", "q5_K", _first_sixteenth),
            _rule("q3_k_m", "q4_K", _either(_not(_falcon), _more_bits)),
            _rule("iq3_m", "q4_K", _either(_first_eighth, _both(_eight_experts, _more_bits))),
            _rule("q3_k_l", "q4_K", _falcon),
            _rule("q3_k_l", "q5_K"),
            _rule("q4_k_m", "q6_K", _both(_falcon, _first_sixteenth)),
            _rule("q4_k_m", "q5_K", _both(_falcon, _more_bits)),
            _rule("q4_k_m", "q6_K", _both(_not(_falcon), _more_bits)),
            _rule("q5_k_m", "q6_K", _more_bits),
            _rule("q4_k_s", "q5_K", _both(_not(_falcon), _first_eighth)),
            _rule("iq4_nl iq4_xs", "q5_K", _both(_not(_imatrix), _first_eighth)),
            _rule("q4_0", "q4_1", _both(_imatrix, _first_eighth)),
            _rule("q5_0", "q5_1", _both(_imatrix, _first_eighth)),
        ),
        Role.FFN_GATE: (_rule("iq3_xs", "iq3_xxs", _middle),),
        Role.FFN_UP: (_rule("iq3_xs", "iq3_xxs", _middle),),
        Role.OTHER: (),
    }
)

# The first part that a name contains decides.
_ROLES_BY_PART: Final = (
    ("attn_qkv.weight", Role.ATTENTION_V),
    ("attn_kv_b.weight", Role.ATTENTION_V),
    ("attn_v.weight", Role.ATTENTION_V),
    ("attn_k.weight", Role.ATTENTION_K),
    ("attn_q.weight", Role.ATTENTION_Q),
    ("attn_output.weight", Role.ATTENTION_OUTPUT),
    ("ffn_up", Role.FFN_UP),
    ("ffn_gate", Role.FFN_GATE),
    ("ffn_down", Role.FFN_DOWN),
)


@lru_cache(maxsize=_NAMES)
def role_of(name: str) -> Role:
    """The role of a tensor, by its name."""
    if name == "output.weight":
        return Role.OUTPUT
    if name in {"token_embd.weight", "per_layer_token_embd.weight"}:
        return Role.EMBEDDING
    return next((role for part, role in _ROLES_BY_PART if part in name), Role.OTHER)


@lru_cache(maxsize=_NAMES)
def visiting_key(name: str) -> tuple[int, str]:
    """Sorts tensors as the quantizer visits and writes them: those outside layers, then layer by layer, each by name."""
    match = _LAYER.match(name)
    return (int(match[1]) if match else -1, name)

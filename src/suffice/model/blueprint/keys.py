"""The metadata of a GGUF file, in parts; keys are those of the architecture, without its name in front.

Values that change no amount of work (the rotary base, the epsilon of the norms) are typical ones: a synthetic model has random
weights, and its speed does not depend on them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

from suffice.model.blueprint.parts import experts_of, has, rope_length, shared_width, whole

if TYPE_CHECKING:
    from suffice.model.gguf_header import MetadataValue
    from suffice.model.spec import ModelSpec

    Keys = dict[str, MetadataValue]

_ROPE_BASE: Final = 10000.0  # Su et al., arXiv:2104.09864
_EPSILON: Final = 1e-5


class Gating(IntEnum):
    """How a router turns scores into weights: llama.cpp's ``llama_expert_gating_func_type``."""

    SOFTMAX = 1
    SIGMOID = 2
    SOFTMAX_WEIGHT = 3


def common_keys(spec: ModelSpec) -> Keys:
    """What every model has."""
    keys: Keys = {
        "block_count": spec.n_layer,
        "context_length": spec.context_length or 0,  # 0: not known, which llama.cpp takes
        "embedding_length": spec.n_embd,
        "vocab_size": spec.n_vocab,
        "attention.head_count": spec.n_head,
        "rope.dimension_count": rope_length(spec),
        "rope.freq_base": _ROPE_BASE,
    }
    if spec.n_ff is not None:
        keys["feed_forward_length"] = spec.n_ff
    return keys | expert_keys(spec) | rope_factor_keys(spec)


def head_keys(spec: ModelSpec) -> Keys:
    """Heads of keys and values, and their lengths."""
    return {
        "attention.head_count_kv": spec.n_head_kv,
        "attention.key_length": spec.head_length,
        "attention.value_length": whole(spec, "v_dim") or spec.head_length,
    }


def rms_keys(_spec: ModelSpec) -> Keys:
    """Epsilon of root-mean-square norms."""
    return {"attention.layer_norm_rms_epsilon": _EPSILON}


def layer_norm_keys(_spec: ModelSpec) -> Keys:
    """Epsilon of norms with a mean."""
    return {"attention.layer_norm_epsilon": _EPSILON}


def expert_keys(spec: ModelSpec) -> Keys:
    """Numbers of experts; the widths are added by those architectures that read them."""
    if spec.experts is None:
        return {}
    return {"expert_count": spec.experts.n_expert, "expert_used_count": spec.experts.n_used}


def expert_width_keys(spec: ModelSpec) -> Keys:
    """Width of an expert, and of the shared ones."""
    experts = experts_of(spec)
    keys: Keys = {"expert_feed_forward_length": experts.n_ff}
    if shared_width(experts):
        keys |= {"expert_shared_count": experts.n_shared, "expert_shared_feed_forward_length": shared_width(experts)}
    return keys


def router_keys(spec: ModelSpec) -> Keys:
    """Leading dense layers and how the router weighs: with a correction bias it is a sigmoid (DeepSeek-V3, arXiv:2412.19437)."""
    gating = Gating.SIGMOID if has(spec, "router_bias") else Gating.SOFTMAX
    return {
        "leading_dense_block_count": experts_of(spec).n_dense_first,
        "expert_gating_func": int(gating),
        "expert_weights_norm": gating is Gating.SIGMOID,
        "expert_weights_scale": 1.0,
    }


def rope_factor_keys(spec: ModelSpec) -> Keys:
    """LongRoPE chooses between its two sets of factors by the context."""
    if spec.extra.get("rope_factors") != "longrope":
        return {}
    return {
        "rope.scaling.type": "longrope",
        "rope.scaling.original_context_length": whole(spec, "rope_context") or spec.context_length or 0,
        "rope.scaling.attn_factor": 1.0,
    }


def window_keys(spec: ModelSpec) -> Keys:
    """Length of the sliding window, where there is one."""
    return {} if spec.sliding_window is None else {"attention.sliding_window": spec.sliding_window}

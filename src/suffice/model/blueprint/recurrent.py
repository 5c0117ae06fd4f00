"""Layers without a cache of keys: gated delta nets, short convolutions and Mamba 2, mixed with attention layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from suffice.model.blueprint.parts import (
    Heads,
    attention,
    attention_output,
    dense,
    embeddings,
    experts_of,
    moe,
    needed,
    norms,
    projections,
    qk_norm,
    rope_length,
    shared_width,
)

if TYPE_CHECKING:
    from suffice.model.blueprint.keys import Keys
    from suffice.model.blueprint.parts import Shapes
    from suffice.model.spec import ModelSpec

_INTERVAL: Final = 4  # three gated delta nets, then one attention layer
_SECTIONS: Final = 3  # of the rotated part: time, height, width
_EPSILON: Final = 1e-5

# Gated delta nets (Yang et al., arXiv:2412.06464): Qwen3-Next, Qwen3.5


def qwen3next_layer(spec: ModelSpec, index: int) -> Shapes:
    """Qwen3-Next: the two small projections of the delta net in one matrix."""
    small: Shapes = {"ssm_ba.weight": (spec.n_embd, 2 * needed(spec, "gdn_v_heads"))}
    return _mixer(spec, index, small) | moe(spec)


def qwen35_layer(spec: ModelSpec, index: int) -> Shapes:
    """Qwen3.5, dense or with experts: the two small projections on their own."""
    heads = needed(spec, "gdn_v_heads")
    small: Shapes = {"ssm_alpha.weight": (spec.n_embd, heads), "ssm_beta.weight": (spec.n_embd, heads)}
    return _mixer(spec, index, small) | (dense(spec) if spec.experts is None else moe(spec))


def _mixer(spec: ModelSpec, index: int, small: Shapes) -> Shapes:
    shapes = norms(spec, "attn_norm", "post_attention_norm")
    if (index + 1) % _INTERVAL == 0:
        return shapes | _gated_attention(spec)
    return shapes | _delta_net(spec) | small


def _gated_attention(spec: ModelSpec) -> Shapes:
    """The query matrix holds a gate for each number of the output as well."""
    heads = Heads.of(spec)
    shapes = projections(spec, attn_q=2 * heads.q_rows, attn_k=heads.k_rows, attn_v=heads.v_rows)
    return shapes | attention_output(spec, heads) | qk_norm(spec, heads)


def _delta_net(spec: ModelSpec) -> Shapes:
    length, v_heads = needed(spec, "gdn_v_dim"), needed(spec, "gdn_v_heads")
    values = length * v_heads
    rows = 2 * needed(spec, "gdn_k_dim") * needed(spec, "gdn_k_heads") + values
    return {
        "attn_qkv.weight": (spec.n_embd, rows),
        "attn_gate.weight": (spec.n_embd, values),
        "ssm_conv1d.weight": (needed(spec, "gdn_conv"), rows),
        "ssm_dt.bias": (v_heads,),
        "ssm_a": (v_heads,),
        "ssm_norm.weight": (length,),
        "ssm_out.weight": (values, spec.n_embd),
    }


def delta_net_keys(spec: ModelSpec) -> Keys:
    """The delta net in the words of state-space models."""
    return {
        "ssm.conv_kernel": needed(spec, "gdn_conv"),
        "ssm.inner_size": needed(spec, "gdn_v_dim") * needed(spec, "gdn_v_heads"),
        "ssm.state_size": needed(spec, "gdn_k_dim"),
        "ssm.time_step_rank": needed(spec, "gdn_v_heads"),
        "ssm.group_count": needed(spec, "gdn_k_heads"),
        "full_attention_interval": _INTERVAL,
    }


def rope_section_keys(spec: ModelSpec) -> Keys:
    """Qwen3.5 rotates by time, height and width; for text they are all the same."""
    half = rope_length(spec) // 2
    first = -(-half // _SECTIONS)
    return {"rope.dimension_sections": (first, first, half - 2 * first, 0)}


def delta_net_objection(spec: ModelSpec) -> str | None:
    """llama.cpp has one length for keys and values."""
    equal = spec.extra.get("gdn_k_dim") == spec.extra.get("gdn_v_dim")
    return None if equal else "llama.cpp expects keys and values of the delta net to be equally long"


# Short convolutions: LFM2


def lfm2_layer(spec: ModelSpec, index: int) -> Shapes:
    """LFM2: a gated short convolution, or attention in the layers that ``attn_layers`` lists."""
    shapes = norms(spec, "attn_norm", "ffn_norm") | dense(spec)
    if index in attention_layers(spec):
        return shapes | attention(spec)
    return shapes | {
        "shortconv.conv.weight": (needed(spec, "sc_k"), spec.n_embd),
        "shortconv.in_proj.weight": (spec.n_embd, 3 * spec.n_embd),
        "shortconv.out_proj.weight": (spec.n_embd, spec.n_embd),
    }


def attention_layers(spec: ModelSpec) -> frozenset[int]:
    """The layers with attention, which the fact ``attn_layers`` lists with dots in between.

    Raises:
        ValueError: the shape does not say.
    """
    text = spec.extra.get("attn_layers")
    if text is None:
        raise ValueError("the shape does not say which layers have attention (attn_layers)")
    return frozenset(int(index) for index in text.split("."))


def lfm2_outer(spec: ModelSpec) -> Shapes:
    """LFM2 calls its final norm that of the embedding."""
    shapes = embeddings(spec)
    shapes["token_embd_norm.weight"] = shapes.pop("output_norm.weight")
    return shapes


def lfm2_keys(spec: ModelSpec) -> Keys:
    """Convolution layers are those without heads of keys."""
    with_attention = attention_layers(spec)
    counts = tuple(spec.n_head_kv if index in with_attention else 0 for index in range(spec.n_layer))
    return {"shortconv.l_cache": needed(spec, "sc_k"), "attention.head_count_kv": counts}


# Mamba 2 (Dao and Gu, arXiv:2405.21060): Nemotron 3


def nemotron_layer(spec: ModelSpec, index: int) -> Shapes:
    """Nemotron 3 (arXiv:2504.03624): each layer is one thing, as ``blocks`` spells: M Mamba 2, E experts, * attention."""
    kind = block_kinds(spec)[index]
    shapes = norms(spec, "attn_norm")
    if kind == "*":
        return shapes | attention(spec)
    return shapes | (moe(spec) if kind == "E" else _mamba2(spec))


def block_kinds(spec: ModelSpec) -> str:
    """One letter for each layer.

    Raises:
        ValueError: the shape does not say, or says it of another number of layers.
    """
    kinds = spec.extra.get("blocks", "")
    if len(kinds) != spec.n_layer or set(kinds) - set("ME*"):
        raise ValueError("the shape does not say for each layer what it is (blocks: M, E or *)")
    return kinds


def _mamba2(spec: ModelSpec) -> Shapes:
    heads, groups, state = needed(spec, "m2_heads"), needed(spec, "m2_groups"), needed(spec, "m2_state")
    inner = heads * needed(spec, "m2_head_dim")
    convolved = inner + 2 * groups * state
    return {
        "ssm_in.weight": (spec.n_embd, inner + convolved + heads),
        "ssm_conv1d.weight": (needed(spec, "m2_conv"), convolved),
        "ssm_conv1d.bias": (convolved,),
        "ssm_dt.bias": (heads,),
        "ssm_a": (1, heads),
        "ssm_d": (1, heads),
        "ssm_norm.weight": (inner // groups, groups),
        "ssm_out.weight": (inner, spec.n_embd),
    }


def nemotron_keys(spec: ModelSpec) -> Keys:
    """A layer is recurrent where it has neither heads of keys nor a feed-forward part."""
    kinds = block_kinds(spec)
    experts = experts_of(spec)
    heads = needed(spec, "m2_heads")
    return {
        "attention.layer_norm_epsilon": _EPSILON,
        "attention.head_count_kv": tuple(spec.n_head_kv if kind == "*" else 0 for kind in kinds),
        "feed_forward_length": tuple(experts.n_ff if kind == "E" else 0 for kind in kinds),
        "expert_shared_count": experts.n_shared,
        "expert_shared_feed_forward_length": shared_width(experts),
        "expert_feed_forward_length": experts.n_ff,
        "ssm.conv_kernel": needed(spec, "m2_conv"),
        "ssm.inner_size": heads * needed(spec, "m2_head_dim"),
        "ssm.state_size": needed(spec, "m2_state"),
        "ssm.time_step_rank": heads,
        "ssm.group_count": needed(spec, "m2_groups"),
    }

"""Multi-head latent attention: keys and values of all heads come from one short vector per token (DeepSeek-V2, arXiv:2405.04434)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.model.blueprint.keys import expert_width_keys
from suffice.model.blueprint.parts import dense, experts_of, feed_forward, norms, shared_width

if TYPE_CHECKING:
    from suffice.model.blueprint.keys import Keys
    from suffice.model.blueprint.parts import Shapes
    from suffice.model.spec import LatentAttention, ModelSpec


def deepseek2_layer(spec: ModelSpec, index: int) -> Shapes:
    """DeepSeek-V2 and V3, Kimi K2, GLM-4.7-Flash: the matrix from the latent to the heads is split into one for keys and one for values."""
    latent = latent_of(spec)
    shapes = norms(spec, "attn_norm") | _queries(spec, latent) | _compressed(spec, latent)
    shapes |= {
        "attn_k_b.weight": (latent.nope_length, latent.kv_rank, spec.n_head),
        "attn_v_b.weight": (latent.kv_rank, latent.value_length, spec.n_head),
    }
    return shapes | _output(spec, latent) | norms(spec, "ffn_norm") | feed_forward(spec, index)


def minicpm3_layer(spec: ModelSpec, _index: int) -> Shapes:
    """MiniCPM3: llama.cpp expands the latent to one key and one value per head."""
    latent = latent_of(spec)
    shapes = norms(spec, "attn_norm") | _queries(spec, latent) | _compressed(spec, latent)
    rows = spec.n_head * (latent.nope_length + latent.value_length)
    shapes["attn_kv_b.weight"] = (latent.kv_rank, rows)
    return shapes | _output(spec, latent) | norms(spec, "ffn_norm") | dense(spec)


def latent_of(spec: ModelSpec) -> LatentAttention:
    """The lengths of latent attention.

    Raises:
        ValueError: the spec has none.
    """
    if spec.latent is None:
        raise ValueError("the shape has no latent attention")
    return spec.latent


def deepseek2_keys(spec: ModelSpec) -> Keys:
    """For the engine there is one head of keys, the latent with the rotated part; ``*_mla`` are the lengths after expansion."""
    latent = latent_of(spec)
    return _rank_keys(latent) | {
        "attention.q_lora_rank": latent.q_rank
        or 0,  # 0: llama.cpp demands the key, except for the layer count of V2-Lite
        "attention.head_count_kv": 1,
        "attention.key_length": latent.kv_rank + latent.rope_length,
        "attention.value_length": latent.kv_rank,
        "attention.key_length_mla": latent.nope_length + latent.rope_length,
        "attention.value_length_mla": latent.value_length,
    }


def minicpm3_keys(spec: ModelSpec) -> Keys:
    """Heads as they are after expansion."""
    latent = latent_of(spec)
    return _rank_keys(latent) | {
        "attention.q_lora_rank": latent.q_rank or 0,
        "attention.head_count_kv": spec.n_head,
        "attention.key_length": latent.nope_length + latent.rope_length,
        "attention.value_length": latent.value_length,
    }


def deepseek2_objection(spec: ModelSpec) -> str | None:
    """llama.cpp reads the width of all shared experts as a multiple of one expert's."""
    experts = experts_of(spec)
    if not experts.n_shared or shared_width(experts) != experts.n_shared * experts.n_ff:
        return "llama.cpp expects shared experts as wide as the others"
    return None


def minicpm3_objection(spec: ModelSpec) -> str | None:
    """There is no variant with uncompressed queries."""
    return None if latent_of(spec).q_rank else "llama.cpp expects compressed queries"


def deepseek2_expert_keys(spec: ModelSpec) -> Keys:
    """Width of an expert; that of the shared ones follows from their number."""
    keys = expert_width_keys(spec)
    keys.pop("expert_shared_feed_forward_length", None)
    return keys


def _queries(spec: ModelSpec, latent: LatentAttention) -> Shapes:
    rows = spec.n_head * (latent.nope_length + latent.rope_length)
    if latent.q_rank is None:
        return {"attn_q.weight": (spec.n_embd, rows)}
    return {
        "attn_q_a.weight": (spec.n_embd, latent.q_rank),
        "attn_q_a_norm.weight": (latent.q_rank,),
        "attn_q_b.weight": (latent.q_rank, rows),
    }


def _compressed(spec: ModelSpec, latent: LatentAttention) -> Shapes:
    return {
        "attn_kv_a_mqa.weight": (spec.n_embd, latent.kv_rank + latent.rope_length),
        "attn_kv_a_norm.weight": (latent.kv_rank,),
    }


def _output(spec: ModelSpec, latent: LatentAttention) -> Shapes:
    return {"attn_output.weight": (spec.n_head * latent.value_length, spec.n_embd)}


def _rank_keys(latent: LatentAttention) -> Keys:
    return {"attention.kv_lora_rank": latent.kv_rank}

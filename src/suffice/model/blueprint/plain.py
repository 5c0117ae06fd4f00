"""Layers of the common kind: attention over the whole context or a window, then a feed-forward part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.model.blueprint.parts import (
    attention,
    dense,
    experts_of,
    feed_forward,
    fused_attention,
    fused_dense,
    moe,
    norms,
    shared_width,
    whole,
)

if TYPE_CHECKING:
    from suffice.model.blueprint.keys import Keys
    from suffice.model.blueprint.parts import Shapes
    from suffice.model.spec import ModelSpec


def pre_norm_layer(spec: ModelSpec, index: int) -> Shapes:
    """Llama's layer (Touvron et al., arXiv:2302.13971), and that of most models after it: a norm before each part."""
    return norms(spec, "attn_norm") | attention(spec) | norms(spec, "ffn_norm") | feed_forward(spec, index)


def post_norm_layer(spec: ModelSpec, _index: int) -> Shapes:
    """OLMo 2 (arXiv:2501.00656): a norm after each part."""
    return attention(spec) | norms(spec, "post_attention_norm") | dense(spec) | norms(spec, "post_ffw_norm")


def four_norm_layer(spec: ModelSpec, _index: int) -> Shapes:
    """Gemma 2 and 3 (arXiv:2408.00118, arXiv:2503.19786): norms before and after each part."""
    before = norms(spec, "attn_norm") | attention(spec) | norms(spec, "post_attention_norm")
    return before | norms(spec, "ffn_norm") | dense(spec) | norms(spec, "post_ffw_norm")


def four_norm_fused_layer(spec: ModelSpec, _index: int) -> Shapes:
    """GLM-4-0414: four norms, the gate in one matrix with up."""
    before = norms(spec, "attn_norm") | attention(spec) | norms(spec, "post_attention_norm")
    return before | norms(spec, "ffn_norm") | fused_dense(spec) | norms(spec, "post_ffw_norm")


def fused_layer(spec: ModelSpec, _index: int) -> Shapes:
    """Phi-3 (arXiv:2404.14219) and ChatGLM (arXiv:2406.12793): q, k, v in one matrix, gate and up in another."""
    return norms(spec, "attn_norm") | fused_attention(spec) | norms(spec, "ffn_norm") | fused_dense(spec)


def parallel_layer(spec: ModelSpec, _index: int) -> Shapes:
    """Phi-2 and Command R: attention and feed-forward part side by side behind one norm."""
    return norms(spec, "attn_norm") | attention(spec) | dense(spec)


def falcon_layer(spec: ModelSpec, _index: int) -> Shapes:
    """Falcon (arXiv:2311.16867): parallel; the 40B model has a second norm, for its feed-forward part."""
    names = ("attn_norm", "attn_norm_2") if whole(spec, "norms") == len(("attn", "ffn")) else ("attn_norm",)
    return norms(spec, *names) | fused_attention(spec) | dense(spec)


def gpt_oss_layer(spec: ModelSpec, _index: int) -> Shapes:
    """gpt-oss (arXiv:2508.10925): attention sinks, and biases on every matrix, those of the experts included."""
    experts = experts_of(spec)
    shapes = norms(spec, "attn_norm") | attention(spec) | {"attn_sinks.weight": (spec.n_head,)}
    shapes |= norms(spec, "post_attention_norm") | moe(spec)
    del shapes["exp_probs_b.bias"]  # here the router's bias is added to its scores
    return shapes | {
        "ffn_gate_inp.bias": (experts.n_expert,),
        "ffn_gate_exps.bias": (experts.n_ff, experts.n_expert),
        "ffn_up_exps.bias": (experts.n_ff, experts.n_expert),
        "ffn_down_exps.bias": (spec.n_embd, experts.n_expert),
    }


def glm4_moe_layer(spec: ModelSpec, index: int) -> Shapes:
    """GLM-4.5 (arXiv:2508.06471): the second norm is called that after attention."""
    return norms(spec, "attn_norm") | attention(spec) | norms(spec, "post_attention_norm") | feed_forward(spec, index)


def llama4_layer(spec: ModelSpec, index: int) -> Shapes:
    """Llama 4: every layer has experts (Scout), or every second one (Maverick)."""
    part = moe(spec) if (index + 1) % llama4_step(spec) == 0 else dense(spec)
    return norms(spec, "attn_norm") | attention(spec) | norms(spec, "ffn_norm") | part


def llama4_step(spec: ModelSpec) -> int:
    """Every how many layers there are experts."""
    return spec.n_layer // (whole(spec, "n_moe_layers") or spec.n_layer)


def llama4_objection(spec: ModelSpec) -> str | None:
    """Experts must come at a steady step, with one shared expert as wide as the others."""
    moe_layers = whole(spec, "n_moe_layers") or spec.n_layer
    if moe_layers * llama4_step(spec) != spec.n_layer:
        return f"{moe_layers} layers with experts among {spec.n_layer} do not come at a steady step"
    experts = experts_of(spec)
    return (
        None if shared_width(experts) == experts.n_ff else "llama.cpp expects one shared expert, as wide as the others"
    )


def llama4_keys(spec: ModelSpec) -> Keys:
    """The step; a window of 8192 makes three of four layers attend to chunks of that size."""
    return {"interleave_moe_layer_step": llama4_step(spec), "attention.sliding_window": spec.sliding_window or 0}


def experts_as_width(spec: ModelSpec) -> Keys:
    """For architectures whose loader reads the width of an expert as that of the feed-forward part."""
    return {} if spec.experts is None else {"feed_forward_length": spec.experts.n_ff}


def soft_cap_keys(_spec: ModelSpec) -> Keys:
    """Gemma 2 squeezes scores and logits (arXiv:2408.00118, section 2)."""
    return {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}


def scale_keys(_spec: ModelSpec) -> Keys:
    """Granite and MiniCPM multiply embeddings, residuals and logits (arXiv:2404.06395, table 7)."""
    return {"embedding_scale": 12.0, "residual_scale": 0.22, "logit_scale": 8.0}


def logit_scale_keys(_spec: ModelSpec) -> Keys:
    """Command R multiplies its logits."""
    return {"logit_scale": 0.0625}


def command_r_objection(spec: ModelSpec) -> str | None:
    """Command R+ differs in more than its length."""
    many = 64
    return "llama.cpp expects other tensors from 64 layers on" if spec.n_layer >= many else None


def phi3_window_keys(_spec: ModelSpec) -> Keys:
    """The converter writes the window, and llama.cpp then ignores it; 0 says so at once."""
    return {"attention.sliding_window": 0}

"""Facts of single architectures in a ``config.json``, under the keys of the catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.loaders.hf_families import Family, Mixture

if TYPE_CHECKING:
    from suffice.loaders.hf_fields import Fields

Facts = dict[str, str]


def attention_facts(fields: Fields, family: Family, n_layer: int, *, qkv_bias: bool) -> Facts:
    """Biases beyond q, k, v; norms that some models of a family have; what a hybrid's linear layers look like.

    Raises:
        ModelFileError: a field is missing or wrong.
    """
    facts: Facts = {}
    if qkv_bias and family.output_bias:
        facts["o_bias"] = "1"
    if family.mlp_bias and fields.flag("mlp_bias", default=False):
        facts["mlp_bias"] = "1"
    if family.architecture == "glm4moe" and fields.flag("use_qk_norm", default=False):
        facts["qk_norm"] = "head"
    if family.architecture == "deepseek2" and fields.text("topk_method") == "noaux_tc":
        facts["router_bias"] = "1"  # DeepSeek-V3 (arXiv:2412.19437): the router's correction
    if family.architecture == "deepseek32":
        facts["idx_heads"] = str(fields.needed("index_n_heads"))
        facts["idx_dim"] = str(fields.needed("index_head_dim"))
    if family.architecture == "falcon":
        facts["norms"] = str(_falcon_norms(fields))
    if family.mixture is Mixture.LLAMA4:
        facts |= _llama4_facts(fields, n_layer)
    return facts | (_linear_facts(fields, n_layer) if family.linear else {})


def rope_facts(fields: Fields) -> Facts:
    """Factors of the rotary frequencies that a GGUF file stores as tensors, and the part of a head that is rotated.

    Raises:
        ModelFileError: a field is wrong.
    """
    rope = fields.table("rope_scaling") or fields.table("rope_parameters")
    facts: Facts = {}
    kind = None if rope is None else rope.text("rope_type") or rope.text("type")
    if kind == "llama3":
        facts["rope_factors"] = "llama3"
    elif kind in {"longrope", "su"} and rope is not None:
        facts["rope_factors"] = "longrope"
        before = fields.count("original_max_position_embeddings") or rope.count("original_max_position_embeddings")
        facts |= {} if before is None else {"rope_context": str(before)}
    share = fields.share("partial_rotary_factor") or fields.share("rope_pct")
    share = share or (None if rope is None else rope.share("partial_rotary_factor"))
    return facts if share in (None, 1.0) else {**facts, "rope_share": f"{share:g}"}


def _falcon_norms(fields: Fields) -> int:
    if not fields.flag("new_decoder_architecture", default=False):
        return 1
    return fields.count("num_ln_in_parallel_attn", largest=2) or 2


def _llama4_facts(fields: Fields, n_layer: int) -> Facts:
    step = fields.count("interleave_moe_layer_step", largest=n_layer) or 1
    if step == 1:
        return {}
    n_moe = n_layer // step
    return {"n_moe_layers": str(n_moe), "n_dense_layers": str(n_layer - n_moe)}


def _linear_facts(fields: Fields, n_layer: int) -> Facts:
    """Gated DeltaNet (arXiv:2412.06464) in three of four layers."""
    every = fields.count("full_attention_interval") or 4
    layers = fields.texts("layer_types")
    expected = ["full_attention" if index % every == every - 1 else "linear_attention" for index in range(n_layer)]
    if every != 4 or (layers and list(layers) != expected):  # noqa: PLR2004  # the ratio that the catalogue's key stands for
        raise fields.error(
            "layer_types", "are not three linear layers and a full one in turn, which cannot be described"
        )
    facts = {
        "gdn_k_heads": fields.needed("linear_num_key_heads"),
        "gdn_v_heads": fields.needed("linear_num_value_heads"),
        "gdn_k_dim": fields.needed("linear_key_head_dim"),
        "gdn_v_dim": fields.needed("linear_value_head_dim"),
        "gdn_conv": fields.needed("linear_conv_kernel_dim"),
    }
    shared = fields.count("shared_expert_intermediate_size")
    return {key: str(value) for key, value in facts.items()} | ({} if shared is None else {"shared_ff": str(shared)})

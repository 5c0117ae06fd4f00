"""Every architecture that suffice can write, and those that it knows and refuses. A new architecture gets its line here.

A line says which layer function builds it and which groups of metadata it reads; the layer functions are put together from
:mod:`suffice.model.blueprint.parts`. Each is verified by the engine test, which loads and runs a small model of it.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from suffice.model.blueprint import latent, plain, recurrent, windowed
from suffice.model.blueprint.architecture import Architecture
from suffice.model.blueprint.keys import (
    expert_width_keys,
    head_keys,
    layer_norm_keys,
    rms_keys,
    router_keys,
    window_keys,
)
from suffice.model.spec import FeedForward

if TYPE_CHECKING:
    from collections.abc import Mapping

_RMS: Final = (head_keys, rms_keys)
_LAYER_NORM: Final = (head_keys, layer_norm_keys)
_QK_HEAD: Final = MappingProxyType({"qk_norm": "head"})
_QK_FULL: Final = MappingProxyType({"qk_norm": "full"})
_DELTA_NET_FACTS: Final = frozenset({"gdn_k_heads", "gdn_v_heads", "gdn_k_dim", "gdn_v_dim", "gdn_conv"})
_DELTA_NET_DEMANDS: Final = MappingProxyType({"qk_norm": "head", "attn_gate": "1"})
_MAMBA2_FACTS: Final = frozenset({"m2_heads", "m2_head_dim", "m2_groups", "m2_state", "m2_conv"})
_GEMMA4_FACTS: Final = frozenset(
    {"g_head_dim", "g_kv", "g_k_eq_v", "n_moe_layers", "n_dense_layers", "misc"}
    # of the small models, which are refused by name
    | {"ple_dim", "ple_vocab", "ff_wide", "ff_wide_layers", "kv_shared_swa", "kv_shared_full"}
)
_INDEXER: Final = "its sparse attention has an indexer with a cache of its own, which suffice does not model"

_PLAIN: Final = MappingProxyType(
    {
        "llama": Architecture(
            layer=plain.pre_norm_layer,
            keys=(*_RMS, plain.experts_as_width),
            experts=None,
            understands=frozenset({"o_bias", "mlp_bias"}),
        ),
        "mistral3": Architecture(layer=plain.pre_norm_layer, keys=_RMS),
        "qwen2": Architecture(layer=plain.pre_norm_layer, keys=_RMS),
        "qwen3": Architecture(layer=plain.pre_norm_layer, keys=_RMS, demands=_QK_HEAD),
        "smollm3": Architecture(layer=plain.pre_norm_layer, keys=_RMS),
        "internlm2": Architecture(layer=plain.pre_norm_layer, keys=_RMS, own_head=True),
        "granite": Architecture(
            layer=plain.pre_norm_layer,
            keys=(*_RMS, plain.scale_keys),
            understands=frozenset({"o_bias", "mlp_bias"}),
        ),
        "minicpm": Architecture(layer=plain.pre_norm_layer, keys=(*_RMS, plain.scale_keys)),
        "stablelm": Architecture(
            layer=plain.pre_norm_layer, keys=_LAYER_NORM, demands=MappingProxyType({"norm_bias": "1"}), own_head=True
        ),
        "olmo2": Architecture(
            layer=plain.post_norm_layer,
            keys=(*_RMS, window_keys),
            demands=_QK_FULL,
            own_head=True,
            window_pattern="3L:1G",
        ),
        "gemma": Architecture(layer=plain.pre_norm_layer, keys=_RMS, own_head=False, feed_forward=FeedForward.GEGLU),
        "gemma2": Architecture(
            layer=plain.four_norm_layer,
            keys=(*_RMS, window_keys, plain.soft_cap_keys),
            own_head=False,
            feed_forward=FeedForward.GEGLU,
            window_pattern="1L:1G",
            objection=windowed.window_demanded,
        ),
        "gemma3": Architecture(
            layer=plain.four_norm_layer,
            keys=(*_RMS, window_keys),
            demands=_QK_HEAD,
            feed_forward=FeedForward.GEGLU,
            window_pattern="5L:1G",
        ),
        "phi2": Architecture(
            layer=plain.parallel_layer,
            keys=_LAYER_NORM,
            demands=MappingProxyType({"norm_bias": "1", "o_bias": "1", "mlp_bias": "1", "head_bias": "1"}),
            feed_forward=FeedForward.GELU,
            own_head=True,
        ),
        "command-r": Architecture(
            layer=plain.parallel_layer,
            keys=(*_LAYER_NORM, plain.logit_scale_keys),
            own_head=False,
            objection=plain.command_r_objection,
        ),
        "phi3": Architecture(layer=plain.fused_layer, keys=(*_RMS, plain.phi3_window_keys)),
        "chatglm": Architecture(layer=plain.fused_layer, keys=_RMS),
        "glm4": Architecture(layer=plain.four_norm_fused_layer, keys=_RMS),
        "falcon": Architecture(
            layer=plain.falcon_layer,
            keys=_LAYER_NORM,
            demands=MappingProxyType({"norm_bias": "1"}),
            feed_forward=FeedForward.GELU,
        ),
    }
)

_EXPERTS: Final = MappingProxyType(
    {
        "qwen2moe": Architecture(
            layer=plain.pre_norm_layer,
            keys=(*_RMS, expert_width_keys),
            experts=True,
            demands=MappingProxyType({"shared_gate": "1"}),
            shared_experts=True,
            own_head=True,
        ),
        "qwen3moe": Architecture(
            layer=plain.pre_norm_layer, keys=(*_RMS, expert_width_keys), experts=True, demands=_QK_HEAD
        ),
        "olmoe": Architecture(
            layer=plain.pre_norm_layer,
            keys=(*_RMS, plain.experts_as_width),
            experts=True,
            demands=_QK_FULL,
            own_head=True,
        ),
        "minimax-m2": Architecture(
            layer=plain.pre_norm_layer,
            keys=(*_RMS, plain.experts_as_width, expert_width_keys, router_keys),
            experts=True,
            demands=MappingProxyType({"qk_norm": "full", "router_bias": "1"}),
            own_head=True,
        ),
        "gpt-oss": Architecture(
            layer=plain.gpt_oss_layer,
            keys=(*_RMS, expert_width_keys, window_keys),
            experts=True,
            demands=MappingProxyType({"o_bias": "1", "sinks": "1", "router_bias": "1", "expert_bias": "1"}),
            own_head=True,
            window_pattern="1L:1G",
            objection=windowed.window_demanded,
        ),
        "glm4moe": Architecture(
            layer=plain.glm4_moe_layer,
            keys=(*_RMS, expert_width_keys, router_keys),
            experts=True,
            understands=frozenset({"qk_norm"}),
            demands=MappingProxyType({"router_bias": "1"}),
            shared_experts=True,
            dense_first=True,
        ),
        "llama4": Architecture(
            layer=plain.llama4_layer,
            keys=(*_RMS, expert_width_keys, plain.llama4_keys),
            experts=True,
            shared_experts=True,
            understands=frozenset({"n_moe_layers", "n_dense_layers"}),
            window_pattern="3C:1G",
            objection=plain.llama4_objection,
        ),
    }
)

_LATENT: Final = MappingProxyType(
    {
        "deepseek2": Architecture(
            layer=latent.deepseek2_layer,
            keys=(rms_keys, latent.deepseek2_keys, latent.deepseek2_expert_keys, router_keys),
            experts=True,
            shared_experts=True,
            dense_first=True,
            latent=True,
            objection=latent.deepseek2_objection,
        ),
        "minicpm3": Architecture(
            layer=latent.minicpm3_layer,
            keys=(rms_keys, latent.minicpm3_keys),
            latent=True,
            understands=frozenset({"mla_expanded"}),
            objection=latent.minicpm3_objection,
        ),
    }
)

_WINDOWED: Final = MappingProxyType(
    {
        "gemma4": Architecture(
            layer=windowed.gemma4_layer,
            keys=(*_RMS, windowed.window_pattern_keys, windowed.gemma4_keys),
            outer=windowed.gemma4_outer,
            experts=None,
            understands=_GEMMA4_FACTS,
            demands=_QK_HEAD,
            feed_forward=FeedForward.GEGLU,
            objection=windowed.gemma4_objection,
        ),
        "mimo2": Architecture(
            layer=windowed.mimo2_layer,
            keys=(*_RMS, expert_width_keys, router_keys, windowed.window_pattern_keys, windowed.mimo2_keys),
            experts=True,
            dense_first=True,
            understands=frozenset({"v_dim", "swa_kv", "sinks_swa"}),
            own_head=True,
            objection=windowed.window_demanded,
        ),
        "step35": Architecture(
            layer=windowed.step35_layer,
            keys=(*_RMS, expert_width_keys, router_keys, windowed.window_pattern_keys, windowed.step35_keys),
            experts=True,
            shared_experts=True,
            dense_first=True,
            understands=frozenset({"qk_norm", "head_gate", "swa_heads"}),
            own_head=True,
            objection=windowed.window_demanded,
        ),
    }
)

_RECURRENT: Final = MappingProxyType(
    {
        "qwen3next": Architecture(
            layer=recurrent.qwen3next_layer,
            keys=(*_RMS, expert_width_keys, recurrent.delta_net_keys),
            experts=True,
            understands=_DELTA_NET_FACTS,
            demands=MappingProxyType({**_DELTA_NET_DEMANDS, "shared_gate": "1"}),
            shared_experts=True,
            objection=recurrent.delta_net_objection,
        ),
        "qwen35": Architecture(
            layer=recurrent.qwen35_layer,
            keys=(*_RMS, recurrent.delta_net_keys, recurrent.rope_section_keys),
            understands=_DELTA_NET_FACTS,
            demands=_DELTA_NET_DEMANDS,
            objection=recurrent.delta_net_objection,
        ),
        "qwen35moe": Architecture(
            layer=recurrent.qwen35_layer,
            keys=(*_RMS, expert_width_keys, recurrent.delta_net_keys, recurrent.rope_section_keys),
            experts=True,
            understands=_DELTA_NET_FACTS,
            demands=MappingProxyType({**_DELTA_NET_DEMANDS, "shared_gate": "1"}),
            shared_experts=True,
            objection=recurrent.delta_net_objection,
        ),
        "lfm2": Architecture(
            layer=recurrent.lfm2_layer,
            keys=(*_RMS, recurrent.lfm2_keys),
            outer=recurrent.lfm2_outer,
            understands=frozenset({"sc_k", "attn_layers"}),
            demands=_QK_HEAD,
        ),
        "nemotron_h_moe": Architecture(
            layer=recurrent.nemotron_layer,
            keys=(*_RMS, router_keys, recurrent.nemotron_keys),
            experts=True,
            understands=_MAMBA2_FACTS | {"blocks", "n_moe_layers", "n_dense_layers"},
            demands=MappingProxyType({"router_bias": "1"}),
            shared_experts=True,
            feed_forward=FeedForward.RELU2,
        ),
    }
)

ARCHITECTURES: Final[Mapping[str, Architecture]] = MappingProxyType(
    {**_PLAIN, **_EXPERTS, **_LATENT, **_WINDOWED, **_RECURRENT}
)

# Known, and not to be built: the reason stands in the refusal.
REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "baichuan": "llama.cpp knows its position encoding by the number of layers (32 or 40) and stops at any other",
        "deepseek32": _INDEXER,
        "glm-dsa": _INDEXER,
    }
)

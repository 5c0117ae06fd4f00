"""What Hugging Face's library has in its code for each ``model_type``, beyond what a ``config.json`` says.

Sources: the configuration classes of ``transformers`` 5.24 and, for models with code of their own (baichuan, chatglm, internlm2,
minicpm), their ``configuration_*.py``; names of architectures as llama.cpp's converter writes them (``conversion/``, late 2026).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from suffice.model.spec import FeedForward

if TYPE_CHECKING:
    from collections.abc import Mapping


class Windows(StrEnum):
    """Where a config says which layers see a sliding window."""

    NONE = "none"
    ALL = "all"  # sliding_window, for all layers
    SWITCHED = "switched"  # sliding_window counts only with use_sliding_window
    MIXED = "mixed"  # layer_types or sliding_window_pattern
    CHUNKED = "chunked"  # attention_chunk_size, in three of four layers


class Mixture(StrEnum):
    """Which fields describe the experts."""

    NONE = "none"
    WIDE = "wide"  # Mixtral: intermediate_size is the width of an expert
    NARROW = "narrow"  # Qwen: moe_intermediate_size
    DEEPSEEK = "deepseek"  # n_routed_experts, n_shared_experts, first_k_dense_replace
    LLAMA4 = "llama4"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """How to read the config of one ``model_type``."""

    architecture: str  # GGUF's word
    tied: bool = False  # when tie_word_embeddings is absent
    feed_forward: FeedForward = FeedForward.SWIGLU
    defaults: Mapping[str, int] = field(
        default_factory=lambda: MappingProxyType({})
    )  # of absent fields; null is no default but none
    bias_field: str | None = None  # says whether q, k, v have biases
    bias: bool = False  # when that field is absent or there is none
    output_bias: bool = False  # with those of q, k, v comes one of the output matrix
    mlp_bias: bool = False  # the field mlp_bias counts
    windows: Windows = Windows.NONE
    window_period: int | None = None  # every so many layers a full one, when the config does not say
    mixture: Mixture = Mixture.NONE
    latent: bool = False
    linear: bool = False  # Gated DeltaNet in most layers
    extra: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))  # facts of the architecture
    refused_flags: tuple[str, ...] = ()  # fields that must not be true
    needed_flags: tuple[str, ...] = ()  # fields that must not be false


def _four_norms(**more: str) -> Mapping[str, str]:
    return MappingProxyType({"norms": "4", **more})


def _facts(**facts: str) -> Mapping[str, str]:
    return MappingProxyType(facts)


def _numbers(**numbers: int) -> Mapping[str, int]:
    return MappingProxyType(numbers)


_QK_HEAD: Final = MappingProxyType({"qk_norm": "head"})
_QK_FULL: Final = MappingProxyType({"qk_norm": "full"})
_LLAMA: Final = Family(architecture="llama", bias_field="attention_bias", output_bias=True, mlp_bias=True)
_MISTRAL: Final = Family(
    architecture="llama",
    windows=Windows.ALL,
    defaults=_numbers(
        num_key_value_heads=8,
        sliding_window=4096,
        vocab_size=32000,
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=32,
        num_attention_heads=32,
    ),
)
_GEMMA3: Final = Family(
    architecture="gemma3",
    tied=True,
    feed_forward=FeedForward.GEGLU,
    bias_field="attention_bias",
    output_bias=True,
    windows=Windows.MIXED,
    window_period=6,
    defaults=_numbers(
        vocab_size=262208,
        hidden_size=2304,
        intermediate_size=9216,
        num_hidden_layers=26,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=256,
        sliding_window=4096,
        max_position_embeddings=131072,
    ),
    extra=_four_norms(qk_norm="head"),
)
_DEEPSEEK: Final = Family(
    architecture="deepseek2",
    latent=True,
    mixture=Mixture.DEEPSEEK,
    refused_flags=("attention_bias", "mlp_bias"),
    defaults=_numbers(kv_lora_rank=512, q_lora_rank=1536, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128),
)
_DEEPSEEK3: Final = Family(
    architecture="deepseek2",
    latent=True,
    mixture=Mixture.DEEPSEEK,
    refused_flags=_DEEPSEEK.refused_flags,
    defaults=MappingProxyType({**_DEEPSEEK.defaults, "first_k_dense_replace": 3, "n_shared_experts": 1}),
    extra=_facts(router_bias="1"),
)
_QWEN35_NUMBERS: Final = _numbers(
    head_dim=256,
    vocab_size=248320,
    linear_conv_kernel_dim=4,
    linear_key_head_dim=128,
    linear_value_head_dim=128,
    linear_num_key_heads=16,
    linear_num_value_heads=32,
)

FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {
        "llama": _LLAMA,
        "mistral": _MISTRAL,
        "ministral3": Family(
            architecture="mistral3", windows=Windows.ALL, defaults=_numbers(num_key_value_heads=8, head_dim=128)
        ),
        "mixtral": Family(
            architecture="llama",
            mixture=Mixture.WIDE,
            windows=Windows.ALL,
            defaults=_numbers(num_key_value_heads=8, num_local_experts=8, num_experts_per_tok=2),
        ),
        "qwen2": Family(architecture="qwen2", bias=True, windows=Windows.SWITCHED),
        "qwen2_moe": Family(
            architecture="qwen2moe",
            bias_field="qkv_bias",
            bias=True,
            windows=Windows.SWITCHED,
            mixture=Mixture.NARROW,
            defaults=_numbers(num_experts=60, num_experts_per_tok=4, shared_expert_intermediate_size=5632),
            extra=_facts(shared_gate="1"),
        ),
        "qwen3": Family(
            architecture="qwen3",
            bias_field="attention_bias",
            output_bias=True,
            windows=Windows.SWITCHED,
            defaults=_numbers(head_dim=128),
            extra=_QK_HEAD,
        ),
        "qwen3_moe": Family(
            architecture="qwen3moe",
            bias_field="attention_bias",
            output_bias=True,
            windows=Windows.SWITCHED,
            mixture=Mixture.NARROW,
            defaults=_numbers(num_key_value_heads=4, num_experts=128, num_experts_per_tok=8, moe_intermediate_size=768),
            extra=_QK_HEAD,
        ),
        "qwen3_next": Family(
            architecture="qwen3next",
            bias_field="attention_bias",
            output_bias=True,
            mixture=Mixture.NARROW,
            linear=True,
            defaults=MappingProxyType({**_QWEN35_NUMBERS, "vocab_size": 151936, "num_key_value_heads": 2}),
            extra=_facts(qk_norm="head", attn_gate="1", shared_gate="1"),
        ),
        "qwen3_5_text": Family(
            architecture="qwen35",
            bias_field="attention_bias",
            output_bias=True,
            linear=True,
            defaults=MappingProxyType({**_QWEN35_NUMBERS, "num_key_value_heads": 4}),
            extra=_facts(qk_norm="head", attn_gate="1"),
        ),
        "qwen3_5_moe_text": Family(
            architecture="qwen35moe",
            bias_field="attention_bias",
            output_bias=True,
            mixture=Mixture.NARROW,
            linear=True,
            defaults=MappingProxyType({**_QWEN35_NUMBERS, "num_key_value_heads": 2}),
            extra=_facts(qk_norm="head", attn_gate="1", shared_gate="1"),
        ),
        "gemma": Family(
            architecture="gemma",
            tied=True,
            feed_forward=FeedForward.GEGLU,
            bias_field="attention_bias",
            output_bias=True,
            defaults=_numbers(num_key_value_heads=16, head_dim=256),
        ),
        "gemma2": Family(
            architecture="gemma2",
            tied=True,
            feed_forward=FeedForward.GEGLU,
            bias_field="attention_bias",
            output_bias=True,
            windows=Windows.MIXED,
            window_period=2,
            defaults=_numbers(num_key_value_heads=4, head_dim=256, sliding_window=4096),
            extra=_four_norms(),
        ),
        "gemma3_text": _GEMMA3,
        "phi": Family(
            architecture="phi2",
            feed_forward=FeedForward.GELU,
            bias=True,
            refused_flags=("qk_layernorm",),
            extra=_facts(norms="1", norm_bias="1", o_bias="1", mlp_bias="1", head_bias="1"),
        ),
        "phi3": Family(architecture="phi3", windows=Windows.ALL),
        "deepseek_v2": _DEEPSEEK,
        "deepseek_v3": _DEEPSEEK3,
        "kimi_k2": _DEEPSEEK3,
        "deepseek_v32": replace(_DEEPSEEK3, architecture="deepseek32"),
        "glm4_moe_lite": Family(
            architecture="deepseek2",
            latent=True,
            mixture=Mixture.DEEPSEEK,
            refused_flags=("attention_bias",),
            defaults=_numbers(
                kv_lora_rank=512,
                q_lora_rank=768,
                qk_nope_head_dim=192,
                qk_rope_head_dim=64,
                v_head_dim=256,
                first_k_dense_replace=1,
                n_shared_experts=1,
            ),
            extra=_facts(router_bias="1"),
        ),
        "minicpm3": Family(
            architecture="minicpm3",
            tied=True,
            latent=True,
            refused_flags=("attention_bias", "mlp_bias"),
            defaults=_numbers(
                kv_lora_rank=256, q_lora_rank=768, qk_nope_head_dim=64, qk_rope_head_dim=32, v_head_dim=64
            ),
            extra=_facts(mla_expanded="1"),
        ),
        "gpt_oss": Family(
            architecture="gpt-oss",
            bias_field="attention_bias",
            bias=True,
            output_bias=True,
            windows=Windows.MIXED,
            window_period=2,
            mixture=Mixture.WIDE,
            defaults=_numbers(
                num_key_value_heads=8, head_dim=64, sliding_window=128, num_local_experts=128, num_experts_per_tok=4
            ),
            extra=_facts(sinks="1", router_bias="1", expert_bias="1"),
        ),
        "olmo2": Family(architecture="olmo2", bias_field="attention_bias", output_bias=True, extra=_QK_FULL),
        "olmo3": Family(
            architecture="olmo2",
            bias_field="attention_bias",
            output_bias=True,
            windows=Windows.MIXED,
            window_period=4,
            defaults=_numbers(sliding_window=4096),
            extra=_QK_FULL,
        ),
        "olmoe": Family(
            architecture="olmoe",
            bias_field="attention_bias",
            output_bias=True,
            mixture=Mixture.WIDE,
            defaults=_numbers(num_experts=64, num_experts_per_tok=8),
            extra=_QK_FULL,
        ),
        "smollm3": Family(
            architecture="smollm3",
            tied=True,
            bias_field="attention_bias",
            output_bias=True,
            mlp_bias=True,
            windows=Windows.SWITCHED,
            defaults=_numbers(num_key_value_heads=4),
        ),
        "glm": Family(
            architecture="chatglm",
            bias_field="attention_bias",
            bias=True,
            defaults=_numbers(num_key_value_heads=2, head_dim=128),
        ),
        "glm4": Family(
            architecture="glm4",
            bias_field="attention_bias",
            bias=True,
            defaults=_numbers(num_key_value_heads=2, head_dim=128),
            extra=_four_norms(),
        ),
        "chatglm": Family(
            architecture="chatglm",
            bias_field="add_qkv_bias",
            refused_flags=("add_bias_linear", "post_layer_norm_before"),
            needed_flags=("rmsnorm",),
        ),
        "glm4_moe": Family(
            architecture="glm4moe",
            bias_field="attention_bias",
            mixture=Mixture.DEEPSEEK,
            defaults=_numbers(num_key_value_heads=8, first_k_dense_replace=1, n_shared_experts=1),
            extra=_facts(router_bias="1"),
        ),
        "granite": Family(architecture="granite", bias_field="attention_bias", output_bias=True, mlp_bias=True),
        # Its class ties by default, yet the published checkpoints store a head of their own, and GGUF files have it.
        "falcon": Family(
            architecture="falcon",
            feed_forward=FeedForward.GELU,
            refused_flags=("bias", "alibi"),
            needed_flags=("parallel_attn",),
            defaults=_numbers(max_position_embeddings=2048),
            extra=_facts(norm_bias="1"),
        ),
        "stablelm": Family(
            architecture="stablelm",
            bias_field="use_qkv_bias",
            refused_flags=("qk_layernorm", "use_parallel_residual"),
            extra=_facts(norm_bias="1"),
        ),
        "internlm2": Family(architecture="internlm2", refused_flags=("bias",)),
        "baichuan": Family(architecture="baichuan"),
        "minicpm": Family(architecture="minicpm", tied=True, refused_flags=("attention_bias",)),
        "minimax_m2": Family(
            architecture="minimax-m2",
            mixture=Mixture.WIDE,
            needed_flags=("use_qk_norm", "use_routing_bias"),
            defaults=_numbers(num_key_value_heads=8, head_dim=128, num_local_experts=256, num_experts_per_tok=8),
            extra=_facts(qk_norm="full", router_bias="1"),
        ),
        "llama4_text": Family(
            architecture="llama4",
            bias_field="attention_bias",
            output_bias=True,
            mixture=Mixture.LLAMA4,
            windows=Windows.CHUNKED,
            defaults=_numbers(
                vocab_size=202048,
                hidden_size=5120,
                intermediate_size=8192,
                intermediate_size_mlp=16384,
                num_hidden_layers=48,
                num_attention_heads=40,
                num_key_value_heads=8,
                head_dim=128,
                num_local_experts=16,
                num_experts_per_tok=1,
                interleave_moe_layer_step=1,
                attention_chunk_size=8192,
            ),
        ),
        "cohere": Family(
            architecture="command-r",
            tied=True,
            bias_field="attention_bias",
            output_bias=True,
            refused_flags=("use_qk_norm",),
            extra=_facts(norms="1"),
        ),
    }
)
# Names that mean one of the above: flat configs of models that usually nest, and types of models with code of their own.
ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "gemma3": "gemma3_text",
        "llama4": "llama4_text",
        "qwen3_5": "qwen3_5_text",
        "qwen3_5_moe": "qwen3_5_moe_text",
        "RefinedWeb": "falcon",
        "RefinedWebModel": "falcon",
        "stablelm_epoch": "stablelm",
        "phi-msft": "phi",
    }
)
# Configs that nest the text model and make another model of it.
WRAPPERS: Final[Mapping[str, str]] = MappingProxyType({"mistral3": "ministral3"})
# For configs whose model_type is not known: what the class of the model says.
CLASSES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "LlamaForCausalLM": "llama",
        "MistralForCausalLM": "mistral",
        "MixtralForCausalLM": "mixtral",
        "Qwen2ForCausalLM": "qwen2",
        "Qwen3ForCausalLM": "qwen3",
        "Qwen3MoeForCausalLM": "qwen3_moe",
        "Phi3ForCausalLM": "phi3",
        "DeepseekV2ForCausalLM": "deepseek_v2",
        "DeepseekV3ForCausalLM": "deepseek_v3",
        "Gemma2ForCausalLM": "gemma2",
        "Gemma3ForCausalLM": "gemma3_text",
        "ChatGLMModel": "chatglm",
        "BaichuanForCausalLM": "baichuan",
        "BaiChuanForCausalLM": "baichuan",
    }
)
# Known, and not to be read: the reason stands in the refusal.
REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "gemma3n_text": "its layers are not alike (AltUp, shared keys and values)",
        "gemma4_text": "its layers differ in ways that a config.json does not fully say",
        "lfm2": "which of its layers attend and which convolve cannot be described yet",
        "cohere2": "it mixes windows and full layers in a way that is not checked yet",
    }
)

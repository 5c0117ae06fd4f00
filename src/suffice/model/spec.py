"""The shape of a model without its file: what a catalogue row or a ``config.json`` says, in one form."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class FeedForward(StrEnum):
    """How a layer's feed-forward part is built: with a gate (three matrices) or without (two)."""

    SWIGLU = "swiglu"
    GEGLU = "geglu"
    GELU = "gelu"
    RELU2 = "relu2"


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Multi-head latent attention (MLA), DeepSeek-V2, arXiv:2405.04434. Lengths are numbers per head or per token."""

    kv_rank: int  # kv_lora_rank
    rope_length: int  # qk_rope_head_dim
    nope_length: int  # qk_nope_head_dim
    value_length: int  # v_head_dim
    q_rank: int | None = None  # q_lora_rank; None: queries are not compressed


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """A mixture of experts."""

    n_expert: int
    n_used: int  # per token
    n_ff: int  # width of one expert
    n_shared: int = 0  # experts that every token uses
    n_ff_shared: int | None = None  # width of all shared experts together; None: n_shared x n_ff
    n_dense_first: int = 0  # leading layers with a dense feed-forward part instead


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A text decoder, as its authors publish it. None: does not apply.

    ``extra`` holds facts of single architectures under the keys of the catalogue (``qk_norm``, ``norms``, ``o_bias``, ...; the
    README beside the catalogue lists them), so that a new architecture needs no new field here.
    """

    name: str
    architecture: str  # GGUF's word: "llama", "qwen3moe", ...
    n_layer: int
    n_embd: int
    n_head: int
    n_head_kv: int
    head_length: int  # of keys; not always n_embd / n_head
    n_vocab: int
    tied: bool  # the embedding doubles as the output head
    n_ff: int | None  # width of the dense feed-forward part; None: no layer has one
    feed_forward: FeedForward = FeedForward.SWIGLU
    context_length: int | None = None
    qkv_bias: bool = False
    latent: LatentAttention | None = None
    experts: Experts | None = None
    sliding_window: int | None = None
    sliding_pattern: str | None = None  # "5L:1G": five local layers, then a global one; "all"
    extra: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

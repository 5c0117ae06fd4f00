"""Derives the cache layout of a model from its metadata and the names of its tensors, as llama.cpp does.

Source of the rules: ``llama-hparams.cpp``, ``llama-kv-cache.cpp`` and ``llama_model::create_memory`` of llama.cpp, late 2026.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.errors import ModelFileError
from suffice.model.architectures import (
    EXAONE4_WINDOWED_LAYERS,
    FULL_ATTENTION,
    GEMMA3N_LAYERS_WITH_KV,
    NO_CACHE,
    WINDOW_RULES,
    WindowRule,
)
from suffice.model.ggml_types import row_bytes
from suffice.model.kv_cache import AttentionLayer, KvLayout

if TYPE_CHECKING:
    from collections.abc import Iterable

    from suffice.model.metadata import Metadata

_BLOCK: Final = re.compile(r"blk\.(\d{1,6})\.(.+)", re.DOTALL)
_RECURRENT: Final = re.compile(r"ssm_|shortconv\.|time_mix_")
_RWKV_TOKEN_SHIFTS: Final = 2  # llama.cpp's default
_OWN_KEYS: Final = re.compile(
    r"attn_k\.|attn_kv_a_mqa\."
)  # recurrent layers may have attn_qkv, attention layers have these


def kv_layout(metadata: Metadata, n_layer: int, tensor_names: Iterable[str]) -> KvLayout:
    """The cache layout of a model with ``n_layer`` layers that run in plain decoding.

    Raises:
        ModelFileError: the metadata lack the number of heads or contradict themselves.
    """
    reason = _why_unknown(metadata)
    if reason is not None:
        return KvLayout(unknown_reason=reason)
    layers = _layers_with(tensor_names)
    heads = _Heads.of(metadata, n_layer)
    windows = layer_windows(metadata, n_layer)
    with_kv = layers_with_own_kv(metadata, n_layer)
    attention = tuple(
        heads.layer(index, windows[index], stores=index < with_kv)
        for index in range(n_layer)
        if heads.n_head_kv[index] > 0 and (index not in layers.recurrent or index in layers.own_keys)
    )
    n_recurrent = sum(index < n_layer for index in layers.recurrent)
    state_elements = _state_elements(metadata, heads.n_head[0]) if n_recurrent else 0
    if state_elements is None:
        return KvLayout(
            unknown_reason=f"the state of the recurrent layers of {metadata.architecture} is not described in the file"
        )
    return KvLayout(layers=attention, state_bytes_per_sequence=n_recurrent * row_bytes("f32", state_elements))


def layers_with_own_kv(metadata: Metadata, n_layer: int) -> int:
    """Layers from this one on read the cache of an earlier layer; ``n_layer`` when none does (llama.cpp: n_layer_kv_from_start)."""
    if metadata.architecture == "gemma3n":
        return min(GEMMA3N_LAYERS_WITH_KV, n_layer)
    if metadata.architecture == "gemma4":
        return max(0, n_layer - (metadata.count("attention.shared_kv_layers") or 0))
    return n_layer


def _why_unknown(metadata: Metadata) -> str | None:
    architecture = metadata.architecture
    if architecture in NO_CACHE:
        return f"{architecture} does not write text token by token, so it has no KV cache"
    if architecture not in FULL_ATTENTION and architecture not in WINDOW_RULES:
        return f"the cache layout of architecture {architecture!r} is not known to suffice"
    if metadata.has_any("attention.indexer."):
        return f"{architecture} here uses sparse attention with an indexer, whose cache suffice does not model"
    if (metadata.count("num_loops") or 1) > 1:
        return f"{architecture} here runs its layers several times per token, which suffice does not model"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _LayerKinds:
    recurrent: frozenset[int]
    own_keys: frozenset[int]


def _layers_with(tensor_names: Iterable[str]) -> _LayerKinds:
    recurrent: set[int] = set()
    own_keys: set[int] = set()
    for name in tensor_names:
        match = _BLOCK.fullmatch(name)
        if match is None:
            continue
        if _RECURRENT.match(match[2]):
            recurrent.add(int(match[1]))
        if _OWN_KEYS.match(match[2]):
            own_keys.add(int(match[1]))
    return _LayerKinds(recurrent=frozenset(recurrent), own_keys=frozenset(own_keys))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Heads:
    """Heads and their lengths; a windowed layer may have other lengths than a full one (Gemma 4)."""

    n_head: tuple[int, ...]
    n_head_kv: tuple[int, ...]
    full: tuple[int, int]  # length of a key head and of a value head
    windowed: tuple[int, int]
    latent: tuple[int, int] | None  # MLA: numbers of the key row, of which so many are also the values

    @classmethod
    def of(cls, metadata: Metadata, n_layer: int) -> _Heads:
        n_head = metadata.per_layer("attention.head_count", n_layer)
        n_embd = metadata.required_count("embedding_length")
        default = next((n_embd // count for count in n_head if count), 0)
        full = _lengths(metadata, "", (default, default))
        return cls(
            n_head=n_head,
            n_head_kv=metadata.per_layer("attention.head_count_kv", n_layer, default=n_head),
            full=full,
            windowed=_lengths(metadata, "_swa", full),
            latent=_latent(metadata, full),
        )

    def layer(self, index: int, window: int | None, *, stores: bool) -> AttentionLayer:
        n_head, n_head_kv = self.n_head[index], self.n_head_kv[index]
        k_length, v_length = self.latent or (self.full if window is None else self.windowed)
        return AttentionLayer(
            k_elements=k_length if self.latent else k_length * n_head_kv,
            v_elements=0 if self.latent else v_length * n_head_kv,
            n_head=n_head,
            k_head_length=k_length,
            v_head_length=v_length,
            window=window,
            stores=stores,
        )


def _lengths(metadata: Metadata, suffix: str, default: tuple[int, int]) -> tuple[int, int]:
    key, value = metadata.count(f"attention.key_length{suffix}"), metadata.count(f"attention.value_length{suffix}")
    return (default[0] if key is None else key, default[1] if value is None else value)


def _latent(metadata: Metadata, full: tuple[int, int]) -> tuple[int, int] | None:
    """MLA as llama.cpp keeps it when both ``*_mla`` keys are there: one row of keys, whose first part is also the values.

    DeepSeek-V2, arXiv:2405.04434, section 2.1: the cache holds kv_lora_rank + rope_dim numbers per token and layer. Older files
    lack the keys and hold one key and one value per head, which the ordinary rule describes.
    """
    if not (metadata.count("attention.key_length_mla") and metadata.count("attention.value_length_mla")):
        return None
    rank, rope = metadata.required_count("attention.kv_lora_rank"), metadata.count("rope.dimension_count")
    return (full[0] if rope is None else rank + rope, rank)


def layer_windows(metadata: Metadata, n_layer: int) -> tuple[int | None, ...]:
    """The sliding window of each layer in tokens, None for a layer that sees everything."""
    rule = WINDOW_RULES.get(metadata.architecture)
    window = None if rule is None else _window_length(metadata, rule, n_layer)
    if rule is None or not window:
        return (None,) * n_layer
    flags = metadata.flags("attention.sliding_window_pattern", n_layer) or _periodic(metadata, rule, n_layer)
    return tuple(window if flag else None for flag in flags)


def _window_length(metadata: Metadata, rule: WindowRule, n_layer: int) -> int | None:
    if metadata.architecture == "exaone4" and n_layer != EXAONE4_WINDOWED_LAYERS:
        return None
    stated = metadata.count("attention.sliding_window")
    window = rule.default_window if stated is None else stated
    return rule.forced_window if window and rule.forced_window else window


def _periodic(metadata: Metadata, rule: WindowRule, n_layer: int) -> tuple[bool, ...]:
    """llama_hparams::set_swa_pattern: 0 means that all layers are windowed."""
    stated = metadata.count("attention.sliding_window_pattern")
    period = rule.period if stated is None else stated
    if period is None:
        raise ModelFileError(
            f"{metadata.source}: metadata key {metadata.architecture}.attention.sliding_window_pattern is missing; "
            "get a complete GGUF file of the model"
        )
    full_at = 0 if rule.full_first else period - 1
    return tuple(period == 0 or index % period != full_at for index in range(n_layer))


def _state_elements(metadata: Metadata, n_head: int) -> int | None:
    """Numbers of one recurrent layer's state (llama_hparams::n_embd_r plus n_embd_s), None when the file does not say."""
    n_embd = metadata.required_count("embedding_length")
    wkv = metadata.count("wkv.head_size")
    if wkv:  # RWKV: shifted tokens, and a matrix per head
        shifts = metadata.count("token_shift_count")
        return n_embd * (wkv + (_RWKV_TOKEN_SHIFTS if shifts is None else shifts))
    short_convolution = metadata.count("shortconv.l_cache")
    if short_convolution:  # LFM2
        return n_embd * (short_convolution - 1)
    kernel = metadata.count("ssm.conv_kernel")
    if not kernel:
        return None
    kda = metadata.count("kda.head_dim")
    if kda:  # Kimi delta attention: convolutions of q, k, v, and a matrix per head
        return 3 * (kernel - 1) * n_head * kda + kda * kda * n_head
    inner, state = metadata.count("ssm.inner_size"), metadata.count("ssm.state_size")
    if inner is None or state is None:
        return None
    groups = metadata.count("ssm.group_count") or 0  # Mamba 1 has none
    return (kernel - 1) * (inner + 2 * groups * state) + state * inner

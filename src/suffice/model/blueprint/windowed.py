"""Layers that differ by whether they see a window or the whole context: other heads, other lengths, other parts."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import chain, cycle, islice
from typing import TYPE_CHECKING, Final

from suffice.model.blueprint.parts import (
    Heads,
    attention,
    dense,
    embeddings,
    experts_of,
    feed_forward,
    has,
    moe,
    needed,
    norms,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from suffice.model.blueprint.keys import Keys
    from suffice.model.blueprint.parts import Shapes
    from suffice.model.spec import ModelSpec

_LOCAL: Final = "LC"  # a sliding window, or chunks
_GROUP: Final = re.compile(r"(\d+)([LCG])")


def window_flags(spec: ModelSpec) -> tuple[bool, ...]:
    """Which layers see a window: ``5L:1G`` is five that do and one that does not, in turn; ``all``, or None: none does.

    ``0=G then 4L:1G,5L:1G``: the first layer does not, then comes one group, then the last group in turn.

    Raises:
        ValueError: the pattern is not one of these.
    """
    pattern = spec.sliding_pattern
    if not spec.sliding_window or pattern is None:
        return (False,) * spec.n_layer
    if pattern == "all":
        return (True,) * spec.n_layer
    head, _, groups = pattern.rpartition(" then ")
    if head not in ("", "0=G"):
        raise ValueError(f"the window pattern {pattern!r} is not understood")
    parts = [_flags(group) for group in groups.split(",")]
    start = [False] if head else []
    return tuple(islice(chain(start, *parts[:-1], cycle(parts[-1])), spec.n_layer))


def _flags(group: str) -> list[bool]:
    matches = [_GROUP.fullmatch(part) for part in group.split(":")]
    if not all(matches):
        raise ValueError(f"the window pattern {group!r} is not understood")
    return list(_expanded(re.findall(_GROUP, group)))


def _expanded(counted: list[tuple[str, str]]) -> Iterator[bool]:
    for count, letter in counted:
        yield from [letter in _LOCAL] * int(count)


def window_pattern_keys(spec: ModelSpec) -> Keys:
    """The window, and for each layer whether it has it."""
    return {
        "attention.sliding_window": spec.sliding_window or 0,
        "attention.sliding_window_pattern": window_flags(spec),
    }


def window_demanded(spec: ModelSpec) -> str | None:
    """Without a length in the file llama.cpp takes one of its own, or does not load the model."""
    return None if spec.sliding_window else "llama.cpp demands a sliding window"


# Gemma 4


def gemma4_layer(spec: ModelSpec, index: int) -> Shapes:
    """Full layers have longer heads, and may use their keys as values; experts run beside a dense part."""
    full = not window_flags(spec)[index]
    shapes = attention(spec, _gemma4_heads(spec, full=full))
    if full and has(spec, "g_k_eq_v"):
        del shapes["attn_v.weight"]
    shapes |= norms(spec, "attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm") | dense(spec)
    shapes["layer_output_scale.weight"] = (1,)
    return shapes if spec.experts is None else shapes | _gemma4_experts(spec)


def _gemma4_experts(spec: ModelSpec) -> Shapes:
    extra = norms(spec, "pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2")
    scales: Shapes = {
        "ffn_gate_inp.scale": (spec.n_embd,),
        "ffn_down_exps.scale": (experts_of(spec).n_expert,),
    }
    return extra | moe(spec) | scales


def _gemma4_heads(spec: ModelSpec, *, full: bool) -> Heads:
    heads = Heads.of(spec)
    if not full:
        return heads
    return replace(heads.with_length(needed(spec, "g_head_dim")), n_kv=whole(spec, "g_kv") or spec.n_head_kv)


def gemma4_outer(spec: ModelSpec) -> Shapes:
    """Full layers rotate a quarter of a head, which is written as factors of the frequencies."""
    return embeddings(spec) | {"rope_freqs.weight": (needed(spec, "g_head_dim") // 2,)}


def gemma4_keys(spec: ModelSpec) -> Keys:
    """Lengths of both kinds of heads; heads of keys by layer."""
    length = needed(spec, "g_head_dim")
    keys: Keys = {
        "attention.key_length": length,
        "attention.value_length": length,
        "attention.key_length_swa": spec.head_length,
        "attention.value_length_swa": spec.head_length,
        "attention.head_count_kv": tuple(
            _gemma4_heads(spec, full=not windowed).n_kv for windowed in window_flags(spec)
        ),
        "attention.shared_kv_layers": 0,
        "embedding_length_per_layer_input": 0,
        "rope.dimension_count": length,
        "rope.dimension_count_swa": spec.head_length,
        "final_logit_softcapping": 30.0,
    }
    return keys if spec.experts is None else keys | {"expert_feed_forward_length": spec.experts.n_ff}


def gemma4_objection(spec: ModelSpec) -> str | None:
    """The small models (E2B, E4B) are not made of layers alone."""
    if has(spec, "ple_dim"):
        return (
            "its tables of per-layer embeddings hold a part for every layer, which a model of fewer layers cannot have"
        )
    return window_demanded(spec)


# MiMo-V2


def mimo2_layer(spec: ModelSpec, index: int) -> Shapes:
    """Windowed layers have other key heads, and attention sinks."""
    windowed = window_flags(spec)[index]
    heads = replace(Heads.of(spec), n_kv=_mimo2_kv(spec, windowed=windowed))
    shapes = norms(spec, "attn_norm") | attention(spec, heads)
    if windowed and has(spec, "sinks_swa"):
        shapes["attn_sinks.weight"] = (spec.n_head,)
    return shapes | norms(spec, "ffn_norm") | feed_forward(spec, index)


def _mimo2_kv(spec: ModelSpec, *, windowed: bool) -> int:
    return (whole(spec, "swa_kv") or spec.n_head_kv) if windowed else spec.n_head_kv


def mimo2_keys(spec: ModelSpec) -> Keys:
    """Heads of keys by layer."""
    counts = tuple(_mimo2_kv(spec, windowed=windowed) for windowed in window_flags(spec))
    return {"attention.head_count_kv": counts}


# Step-3.5 and 3.7


def step35_layer(spec: ModelSpec, index: int) -> Shapes:
    """Windowed layers have more heads; every head has a gate."""
    heads = replace(Heads.of(spec), n_head=_step35_heads(spec, windowed=window_flags(spec)[index]))
    shapes = norms(spec, "attn_norm") | attention(spec, heads)
    if has(spec, "head_gate"):
        shapes["attn_gate.weight"] = (spec.n_embd, heads.n_head)
    return shapes | norms(spec, "ffn_norm") | feed_forward(spec, index)


def _step35_heads(spec: ModelSpec, *, windowed: bool) -> int:
    return (whole(spec, "swa_heads") or spec.n_head) if windowed else spec.n_head


def step35_keys(spec: ModelSpec) -> Keys:
    """Heads by layer; llama.cpp halves the rotated part in full layers itself."""
    flags = window_flags(spec)
    return {
        "attention.head_count": tuple(_step35_heads(spec, windowed=windowed) for windowed in flags),
        "attention.head_count_kv": (spec.n_head_kv,) * len(flags),
    }

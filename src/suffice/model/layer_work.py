"""What one layer of each kind has to do in a step or for a token of a prompt: the ratios that steady an extrapolation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from suffice.model.metadata import metadata_of

if TYPE_CHECKING:
    from suffice.model.gguf_header import TensorInfo
    from suffice.model.kv_cache import AttentionLayer
    from suffice.model.metadata import Metadata
    from suffice.model.shape import ModelShape
    from suffice.model.slices import SliceDesign

_RECURRENT: Final = re.compile(r"blk\.(\d+)\.(ssm_|shortconv\.|time_mix_)")
_ATTENTION: Final = re.compile(r"blk\.(\d+)\.attn_(k|qkv|kv_a_mqa)\.")
_EXPERT: Final = re.compile(r"_(ch)?exps\.")


def decode_work(
    design: SliceDesign, shape: ModelShape, depth: int, *, batch: int = 1, type_k: str = "f16", type_v: str = "f16"
) -> tuple[float, ...]:
    """Bytes that one layer of each kind reads in a decode step (weights, touched experts, KV cache).

    The head's is 0, "not known": slices with other parts of the vocabulary tell its time, whatever a byte of a layer takes.
    """
    caches = _cache_layers(design, shape)
    work = []
    for kind in design.kinds:
        layer = kind.layers[0]
        weights = sum(
            tensor.n_bytes * _share(tensor, metadata_of(design.header), layer, batch)
            for tensor in _tensors(design, layer)
        )
        cache = caches.get(layer)
        read = 0.0 if cache is None else float(cache.visible(depth) * cache.row_bytes(type_k, type_v))
        work.append(weights + batch * read)
    return (*work, 0.0) if design.cuts_vocabulary else tuple(work)


def prefill_work(design: SliceDesign, shape: ModelShape, n_tokens: int) -> tuple[float, ...]:
    """Multiplications per token of a prompt in one layer of each kind.

    That of the head is 0, "not known": it works for the last token only, where reading it takes longer than multiplying.
    """
    caches = _cache_layers(design, shape)
    work = []
    for kind in design.kinds:
        layer = kind.layers[0]
        matrices = sum(
            tensor.elements * _share(tensor, metadata_of(design.header), layer, 1)
            for tensor in _tensors(design, layer)
            if len(tensor.dims) > 1
        )
        cache = caches.get(layer)
        attention = 0.0
        if cache is not None:
            attention = cache.flops_per_visible_token / 2 * cache.visible_sum(n_tokens, 0) / n_tokens
        work.append(matrices + attention)
    return (*work, 0.0) if design.cuts_vocabulary else tuple(work)


def _tensors(design: SliceDesign, layer: int) -> list[TensorInfo]:
    return [tensor for tensor in design.header.tensors if tensor.name.startswith(f"blk.{layer}.")]


def _share(tensor: TensorInfo, metadata: Metadata, layer: int, batch: int) -> float:
    """Share of a tensor that a step reads: of experts the 1 - (1 - k/E)^B that are touched."""
    if not _EXPERT.search(tensor.name):
        return 1.0
    used = metadata.per_layer("expert_used_count", layer + 1)[layer]
    return float(1 - (1 - min(used / tensor.dims[-1], 1.0)) ** batch)


def _cache_layers(design: SliceDesign, shape: ModelShape) -> dict[int, AttentionLayer]:
    """The attention of each layer that has one: recurrent layers have none, unless all have both, nor have layers of an MLP alone."""
    layers = [layer for kind in design.kinds for layer in kind.layers]
    if len(shape.kv.layers) != len(layers):
        attention, recurrent = _layers_with(design, _ATTENTION), _layers_with(design, _RECURRENT)
        layers = [layer for layer in layers if layer in attention and layer not in recurrent]
    if len(shape.kv.layers) != len(layers):
        return {}  # which layers have a cache is not known, and a wrong one would be worse than none
    return dict(zip(sorted(layers), shape.kv.layers, strict=True))


def _layers_with(design: SliceDesign, pattern: re.Pattern[str]) -> set[int]:
    return {int(match[1]) for tensor in design.header.tensors if (match := pattern.match(tensor.name))}

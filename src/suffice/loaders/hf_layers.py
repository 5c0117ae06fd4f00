"""Experts and sliding windows of a ``config.json``: which layers have what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from suffice.loaders.gguf_values import shown
from suffice.loaders.hf_families import Family, Mixture, Windows
from suffice.model.spec import Experts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.loaders.hf_fields import Fields

_MAX_EXPERTS: Final = 65_536
_MAX_WINDOW: Final = 1 << 36
_FULL: Final = "full_attention"
_LOCAL: Final = frozenset({"sliding_attention", "chunked_attention"})
_CHUNK_PATTERN: Final = "3C:1G"

Window = tuple[int | None, str | None]


def experts_of(fields: Fields, family: Family, n_layer: int) -> Experts | None:
    """The mixture of experts, or None.

    Raises:
        ModelFileError: a number is missing or absurd, or layers with and without experts alternate in a way that is not described.
    """
    if family.mixture is Mixture.NONE:
        _refuse_experts(fields)
        return None
    if family.mixture is Mixture.DEEPSEEK:
        return _deepseek_experts(fields, n_layer)
    if family.mixture is Mixture.LLAMA4:
        return _experts(fields, n_ff=fields.needed("intermediate_size"), n_shared=1)
    if family.mixture is Mixture.WIDE:
        return _experts(fields, n_ff=fields.needed("intermediate_size"))
    if fields.values.get("mlp_only_layers") not in (None, []):
        raise fields.error("mlp_only_layers", "is not empty, and single layers without experts cannot be described")
    if (fields.count("decoder_sparse_step") or 1) != 1:
        raise fields.error("decoder_sparse_step", "is not 1, and layers without experts in between cannot be described")
    shared = fields.count("shared_expert_intermediate_size")
    return _experts(
        fields, n_ff=fields.needed("moe_intermediate_size"), n_shared=int(shared is not None), n_ff_shared=shared
    )


def _refuse_experts(fields: Fields) -> None:
    for key in ("num_local_experts", "num_experts", "n_routed_experts"):
        if fields.count(key, least=0):
            raise fields.error(key, "announces experts, which such a model cannot have; check the file")


def _experts(
    fields: Fields, *, n_ff: int, n_shared: int = 0, n_ff_shared: int | None = None, n_dense_first: int = 0
) -> Experts:
    n_expert = fields.needed("num_local_experts", "num_experts", "n_routed_experts", largest=_MAX_EXPERTS)
    return Experts(
        n_expert=n_expert,
        n_used=fields.needed("num_experts_per_tok", "experts_per_token", largest=n_expert),
        n_ff=n_ff,
        n_shared=n_shared,
        n_ff_shared=n_ff_shared,
        n_dense_first=n_dense_first,
    )


def _deepseek_experts(fields: Fields, n_layer: int) -> Experts | None:
    if fields.count("n_routed_experts") is None:
        return None
    if (fields.count("moe_layer_freq") or 1) != 1:
        raise fields.error("moe_layer_freq", "is not 1, and layers without experts in between cannot be described")
    return _experts(
        fields,
        n_ff=fields.needed("moe_intermediate_size"),
        n_shared=fields.count("n_shared_experts", least=0, largest=_MAX_EXPERTS) or 0,
        n_dense_first=fields.count("first_k_dense_replace", least=0, largest=n_layer) or 0,
    )


def window_of(fields: Fields, family: Family, n_layer: int, context_length: int | None) -> Window:
    """Length of the sliding window and which layers see it; (None, None) when no layer does.

    Raises:
        ModelFileError: the layers do not alternate regularly, or a window counts that llama.cpp ignores.
    """
    if family.windows is Windows.NONE:
        return None, None
    if family.windows is Windows.CHUNKED:
        return _chunks(fields, n_layer)
    window = fields.count("sliding_window", largest=_MAX_WINDOW, least=0)
    # A window as long as the context hides nothing.
    if not window or (context_length is not None and window >= context_length):
        return None, None
    if family.windows is Windows.SWITCHED:
        if fields.flag("use_sliding_window", default=False):
            raise fields.error(
                "use_sliding_window", f"is true, and llama.cpp's {family.architecture} has no sliding window"
            )
        return None, None
    if family.windows is Windows.ALL:
        return window, "all"
    pattern = _pattern(fields, family, n_layer)
    return (None, None) if pattern is None else (window, pattern)


def _pattern(fields: Fields, family: Family, n_layer: int) -> str | None:
    layers = fields.texts("layer_types")
    if layers:
        return _pattern_of(fields, layers, n_layer)
    period = fields.count("sliding_window_pattern", "_sliding_window_pattern") or family.window_period
    if period is None:
        raise fields.error(
            "layer_types", "is missing, and says which layers see the sliding window; get the complete config.json"
        )
    return None if period == 1 else f"{period - 1}L:1G"


def _pattern_of(fields: Fields, layers: Sequence[str], n_layer: int) -> str | None:
    """Five local layers, then a full one, and so on, as ``5L:1G``; None when all are full."""
    unknown = next((layer for layer in layers if layer != _FULL and layer not in _LOCAL), None)
    if unknown is not None:
        raise fields.error("layer_types", f"holds {shown(unknown)}, which cannot be described here")
    if len(layers) != n_layer:
        raise fields.error("layer_types", f"has {len(layers)} entries for {n_layer} layers; check the file")
    if _FULL not in layers:
        return "all"
    first = layers.index(_FULL)
    if any((layer == _FULL) != (index % (first + 1) == first) for index, layer in enumerate(layers)):
        raise fields.error("layer_types", "mixes full and local layers irregularly, which cannot be described")
    return f"{first}L:1G" if first else None


def _chunks(fields: Fields, n_layer: int) -> Window:
    chunk = fields.count("attention_chunk_size", largest=_MAX_WINDOW)
    layers = fields.texts("layer_types")
    if chunk is None or (layers and set(layers) == {_FULL}):
        return None, None
    if layers and _pattern_of(fields, layers, n_layer) != "3L:1G":
        raise fields.error(
            "layer_types", "are not three chunked layers and a full one in turn, which llama.cpp has in its code"
        )
    return chunk, _CHUNK_PATTERN

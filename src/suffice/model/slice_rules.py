"""What must be known of an architecture to cut slices of it, from llama.cpp's code: one table, by architecture."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from suffice.model.architectures import FULL_ATTENTION, WINDOW_RULES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from suffice.model.gguf_header import MetadataValue
    from suffice.model.metadata import Metadata

# llama.cpp chooses how to compute by the number of layers, or by a layer's distance from the end: a slice would run other code.
_REFUSED: Final = MappingProxyType(
    {
        "baichuan": "llama.cpp knows its position encoding by the number of layers (32 or 40) and stops at any other",
        "exaone4": "llama.cpp uses its sliding window only in the model of 64 layers",
        "gemma3n": "its last layers read the cache of earlier ones, which a slice does not have",
        "gemma4-assistant": "it is a draft model that reads another model's cache",
        "hrm-text": "its layers run several times per token",
        "neo-bert": "it does not write text",
        "smallthinker": "llama.cpp derives its sliding window from the number of layers",
    }
)
# Keys that llama.cpp does not ask for in the whole model, which it knows by its number of layers, but in a slice.
_ADDED: Final[Mapping[str, Mapping[str, MetadataValue]]] = MappingProxyType(
    {"deepseek2": {"attention.q_lora_rank": 0}}  # DeepSeek-V2-Lite has none
)


def refusal(metadata: Metadata, n_layer: int) -> str | None:
    """Why a model cannot be run in slices, or None when it can."""
    name = metadata.architecture
    if name in _REFUSED:
        return f"of architecture {name}, {_REFUSED[name]}"
    if name not in FULL_ATTENTION and name not in WINDOW_RULES:
        return f"architecture {name!r} is not known to suffice, nor how its layers depend on each other"
    if metadata.count("attention.shared_kv_layers"):
        return f"the last layers of this {name} model read the cache of earlier ones, which a slice does not have"
    if metadata.has_any("attention.indexer."):
        return f"this {name} model uses sparse attention with an indexer, which suffice does not model"
    return None if n_layer > 0 else "it has no layers"


def added_keys(metadata: Metadata) -> dict[str, MetadataValue]:
    """Metadata that a slice needs beyond those of the model."""
    return {f"{metadata.architecture}.{key}": value for key, value in _ADDED.get(metadata.architecture, {}).items()}

"""Metadata against tensors: what a file says of itself must agree with what it holds, or every figure from it is wrong."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from suffice.errors import ModelFileError

if TYPE_CHECKING:
    from suffice.model.gguf_header import GgufHeader, TensorInfo
    from suffice.model.kv_cache import KvLayout
    from suffice.model.metadata import Metadata

_BLOCK: Final = re.compile(r"blk\.(\d+)\.(.+)")
_TOKEN_EMBEDDING_NAME: Final = "token_embd.weight"  # noqa: S105  # a tensor's name


def check_against_tensors(header: GgufHeader, metadata: Metadata, n_layer: int, kv: KvLayout) -> None:
    """Refuse a file whose embedding length, number of layers or heads contradict its own tensors.

    Raises:
        ModelFileError: with the key, its value and what the tensors say.
    """
    keys: dict[int, TensorInfo] = {}
    largest = -1
    for tensor in header.tensors:
        match = _BLOCK.fullmatch(tensor.name)
        if match is not None:
            largest = max(largest, int(match[1]))
            if match[2] == "attn_k.weight" and len(tensor.dims) > 1:
                keys[int(match[1])] = tensor
    _check_embedding(header, metadata)
    _check_layers(metadata, n_layer, largest)
    _check_heads(metadata, n_layer, kv, keys)


def _contradiction(metadata: Metadata, key: str, stated: object, found: object) -> ModelFileError:
    return ModelFileError(
        f"{metadata.source}: metadata key {metadata.architecture}.{key} says {stated}, its tensors say {found}; the file is "
        "damaged or was edited, download it again"
    )


def _check_embedding(header: GgufHeader, metadata: Metadata) -> None:
    stated = metadata.required_count("embedding_length")
    if stated < 1:
        raise ModelFileError(
            f"{metadata.source}: an embedding length of {stated} is no model's; download the file again"
        )
    for tensor in header.tensors:
        if tensor.name == _TOKEN_EMBEDDING_NAME and tensor.dims[0] != stated:
            raise _contradiction(metadata, "embedding_length", stated, tensor.dims[0])


def _check_layers(metadata: Metadata, n_layer: int, largest: int) -> None:
    """Blocks for multi-token prediction stand behind the layers and may be left out of a file."""
    blocks = metadata.required_count("block_count")
    if largest >= 0 and not n_layer <= largest + 1 <= blocks:
        raise _contradiction(metadata, "block_count", blocks, f"{largest + 1} blocks")


def _check_heads(metadata: Metadata, n_layer: int, kv: KvLayout, keys: dict[int, TensorInfo]) -> None:
    """The key matrix of a layer has a row for each number that the cache keeps of a token."""
    own = [index for index in keys if index < n_layer]
    if kv.unknown_reason is None and len(kv.layers) < len(own):
        raise _contradiction(
            metadata, "attention.head_count_kv", "no keys for some layers", f"{len(own)} layers with keys"
        )
    if kv.unknown_reason is not None or len(kv.layers) != n_layer:
        return
    for index, tensor in keys.items():
        if index < n_layer and tensor.dims[1] != kv.layers[index].k_elements:
            raise _contradiction(
                metadata, "attention.head_count_kv (times the key length)", kv.layers[index].k_elements, tensor.dims[1]
            )

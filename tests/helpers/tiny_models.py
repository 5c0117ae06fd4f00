"""Small models of every architecture: real shapes shrunk, and written as GGUF files with random weights."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from helpers.gguf_writer import ToyTensor, encode_header

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.model.gguf_header import GgufHeader, TensorInfo
    from suffice.model.spec import Experts, LatentAttention, ModelSpec

_SEED: Final = 7
_SPREAD: Final = 0.05  # of the weights: activations stay finite
_LENGTH: Final = 32  # of a head
_HEADS: Final = 4
_WIDTH: Final = 64
# What the facts of single architectures become; other facts stay as they are.
_SMALL_FACTS: Final = {
    "rope_share": "0.5",
    "shared_ff": "64",
    "gdn_k_heads": "2",
    "gdn_v_heads": "4",
    "gdn_k_dim": "32",
    "gdn_v_dim": "32",
    "g_head_dim": "64",
    "g_kv": "1",
    "v_dim": "16",
    "swa_kv": "4",
    "swa_heads": "8",
    "m2_heads": "4",
    "m2_head_dim": "32",
    "m2_groups": "2",
    "m2_state": "32",
    "attn_layers": "1.3",
    "blocks": "ME*E",
}


def shrunk(spec: ModelSpec, n_layer: int = 4) -> ModelSpec:
    """The same architecture with the same facts and flags, and small numbers."""
    facts = {key: _SMALL_FACTS.get(key, value) for key, value in spec.extra.items()}
    if "n_moe_layers" in facts:
        facts["n_moe_layers"] = str(max(1, int(facts["n_moe_layers"]) * n_layer // spec.n_layer))
    square = spec.n_head * spec.head_length == spec.n_embd
    return replace(
        spec,
        n_layer=n_layer,
        n_embd=_HEADS * _LENGTH if square else 3 * _LENGTH,
        n_head=_HEADS,
        n_head_kv=min(spec.n_head_kv, 2) if spec.n_head_kv < spec.n_head else _HEADS,
        head_length=_LENGTH,
        n_vocab=288,
        n_ff=None if spec.n_ff is None else 3 * _LENGTH,
        context_length=512,
        latent=_small_latent(spec.latent),
        experts=_small_experts(spec.experts),
        sliding_window=None if spec.sliding_window is None else 64,
        extra=MappingProxyType(facts),
    )


def _small_latent(latent: LatentAttention | None) -> LatentAttention | None:
    if latent is None:
        return None
    return replace(
        latent,
        kv_rank=_WIDTH,
        rope_length=_LENGTH,
        nope_length=_LENGTH,
        value_length=_LENGTH,
        q_rank=None if latent.q_rank is None else _WIDTH,
    )


def _small_experts(experts: Experts | None) -> Experts | None:
    if experts is None:
        return None
    return replace(
        experts,
        n_expert=8,
        n_used=min(experts.n_used, 2),
        n_ff=_WIDTH,
        n_ff_shared=None if experts.n_ff_shared is None else _WIDTH,
        n_dense_first=min(experts.n_dense_first, 1),
    )


def write_random(header: GgufHeader, path: Path) -> Path:
    """Write a model of this header: random weights, and no vocabulary at all."""
    metadata: dict[str, object] = {**header.metadata, "tokenizer.ggml.model": "no_vocab"}
    tensors = [ToyTensor(tensor.name, tensor.dims, tensor.type_name) for tensor in header.tensors]
    start, size = encode_header(metadata, tensors)
    data = np.zeros(size - len(start), dtype=np.uint8)
    rng = np.random.default_rng(_SEED)
    for tensor in header.tensors:
        data[tensor.offset : tensor.offset + tensor.n_bytes] = _weights(rng, tensor)
    path.write_bytes(start + data.tobytes())
    return path


def _weights(rng: np.random.Generator, tensor: TensorInfo) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Norms and factors are near 1, so that nothing is multiplied or divided by nearly 0."""
    centre = 1.0 if len(tensor.dims) == 1 and tensor.name.endswith(".weight") else 0.0
    values = centre + _SPREAD * rng.standard_normal(tensor.elements)
    kind: type[np.float16 | np.float32] = np.float16 if tensor.type_name == "f16" else np.float32
    return np.frombuffer(values.astype(kind).tobytes(), dtype=np.uint8)

"""Headers of small slices, and quantized blocks made without an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from suffice.model.ggml_types import type_by_name
from suffice.model.gguf_header import GgufHeader, MetadataValue, TensorInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from helpers.gguf_writer import ToyLlama

_Q8_STEPS = 127


def tensor(name: str, dims: tuple[int, ...], type_name: str = "f32") -> TensorInfo:
    """A tensor without a place in a file."""
    n_bytes = type_by_name(type_name).row_bytes(dims[0]) * int(np.prod(dims[1:], dtype=np.int64))
    return TensorInfo(name=name, dims=dims, type_name=type_name, offset=0, n_bytes=n_bytes)


def slice_header(toy: ToyLlama, extra: Mapping[str, MetadataValue] | None = None) -> GgufHeader:
    """The header of a whole model of these sizes, as if somebody had cut it from a larger one."""
    metadata: dict[str, MetadataValue] = {**toy.metadata(), **(extra or {})}  # type: ignore[dict-item]  # plain values
    metadata[f"{toy.architecture}.attention.layer_norm_rms_epsilon"] = 1e-5
    metadata[f"{toy.architecture}.rope.freq_base"] = 10_000.0
    tensors = tuple(tensor(item.name, item.dims, item.type_name) for item in toy.tensors())
    return GgufHeader(
        source="toy",
        version=3,
        big_endian=False,
        alignment=32,
        metadata=metadata,
        tensors=tensors,
        file_bytes=sum(item.n_bytes for item in tensors),
    )


class Q8Blocks:
    """A BlockSource of real q8_0 blocks: a half-precision scale and 32 signed bytes."""

    def blocks(self, type_name: str, n_elements: int, *, sigma: float, seed: int) -> bytes:
        """Normally distributed numbers in q8_0, the only type it knows."""
        assert type_name == "q8_0"
        numbers = np.random.default_rng(seed).normal(0, sigma, (n_elements // 32, 32)).astype(np.float32)
        scale = np.abs(numbers).max(axis=1, keepdims=True) / _Q8_STEPS
        steps = np.rint(numbers / scale).astype(np.int8)
        return np.hstack([scale.astype("<f2").view(np.uint8), steps.view(np.uint8)]).tobytes()

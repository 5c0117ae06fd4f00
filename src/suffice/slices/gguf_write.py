"""Writes GGUF files, version 3, little endian, as a stream: the weights come in pieces and are never all in memory.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. llama.cpp reads each key with one type only, so a value's type matters:
whole numbers become uint32 (int32, uint64 or int64 where they do not fit), except under keys that llama.cpp reads as float.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from suffice.errors import ModelFileError
from suffice.model.ggml_types import type_by_name
from suffice.units import MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from suffice.model.gguf_header import TensorInfo

ALIGNMENT: Final = 32
_VERSION: Final = 3
_PIECE_BYTES: Final = 64 * MIB  # a single write() takes less than 2 GiB on any system
_MAX_DIMS: Final = 4  # GGML_MAX_DIMS

# Ends of the keys that llama.cpp reads as float (llama-arch.cpp with the hparams of type float): 10000 there must not become uint32.
_FLOAT_KEYS: Final = tuple(
    """
    .freq_base .freq_base_swa .compress_rope_freq_base .scale_linear .scaling.factor .scaling.alpha .scaling.attn_factor
    .yarn_log_multiplier .yarn_ext_factor .yarn_attn_factor .yarn_beta_fast .yarn_beta_slow .layer_norm_epsilon
    .layer_norm_rms_epsilon .group_norm_epsilon .max_alibi_bias .clamp_kqv .attention.scale .output_scale .value_scale
    .temperature_scale .attn_logit_softcapping .router_logit_softcapping .final_logit_softcapping .logit_scale .residual_scale
    .embedding_scale .expert_weights_scale .expert_group_scale .swiglu_clamp_exp .swiglu_clamp_shexp .hyper_connection.epsilon
    .hyper_connection.magnitude .kda.gate_lower_bound .situ_beta .situ_linear_beta .router_gain xielu.alpha_p xielu.alpha_n
    xielu.beta xielu.eps
    """.split()
)


class ValueKind(StrEnum):
    """Types of metadata values, by GGUF's names."""

    UINT8 = "uint8"
    INT8 = "int8"
    UINT16 = "uint16"
    INT16 = "int16"
    UINT32 = "uint32"
    INT32 = "int32"
    FLOAT32 = "float32"
    BOOL = "bool"
    STRING = "string"
    UINT64 = "uint64"
    INT64 = "int64"
    FLOAT64 = "float64"


# kind -> its id in the file and its struct code
_KINDS: Final[Mapping[ValueKind, tuple[int, str]]] = {
    ValueKind.UINT8: (0, "B"),
    ValueKind.INT8: (1, "b"),
    ValueKind.UINT16: (2, "H"),
    ValueKind.INT16: (3, "h"),
    ValueKind.UINT32: (4, "I"),
    ValueKind.INT32: (5, "i"),
    ValueKind.FLOAT32: (6, "f"),
    ValueKind.BOOL: (7, "?"),
    ValueKind.STRING: (8, ""),
    ValueKind.UINT64: (10, "Q"),
    ValueKind.INT64: (11, "q"),
    ValueKind.FLOAT64: (12, "d"),
}
_ARRAY_ID: Final = 9

Scalar = int | float | bool | str


@dataclass(frozen=True, slots=True)
class Typed:
    """A value, or the items of an array, with a type of one's choice: ``Typed(ValueKind.UINT16, 5)``."""

    kind: ValueKind
    value: Scalar | Sequence[Scalar]


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufLayout:
    """A file before its weights are written: the header's bytes, padded to where the data start, and where each tensor goes."""

    header: bytes
    tensors: tuple[TensorInfo, ...]  # offsets are the file's

    @property
    def file_bytes(self) -> int:
        """Size of the complete file."""
        ends = [_aligned(tensor.offset + tensor.n_bytes) for tensor in self.tensors]
        return len(self.header) + max(ends, default=0)


def lay_out(metadata: Mapping[str, object], tensors: Sequence[TensorInfo]) -> GgufLayout:
    """The layout of a file with these values and tensors, in this order; sizes and offsets of the tensors are computed anew.

    Raises:
        ModelFileError: a value or a tensor that GGUF cannot hold, or that is only known by its length.
    """
    placed = _placed(tensors)
    pieces = [b"GGUF", struct.pack("<IQQ", _VERSION, len(placed), len(metadata))]
    for key, value in metadata.items():
        pieces += [_text(key), _encoded(key, value)]
    for tensor in placed:
        pieces += [_text(tensor.name), struct.pack(f"<I{len(tensor.dims)}Q", len(tensor.dims), *tensor.dims)]
        pieces.append(struct.pack("<IQ", type_by_name(tensor.type_name).type_id, tensor.offset))
    header = b"".join(pieces)
    return GgufLayout(header=header.ljust(_aligned(len(header)), b"\x00"), tensors=placed)


def write_gguf(path: Path, layout: GgufLayout, fill: Callable[[TensorInfo], Iterable[bytes | memoryview]]) -> None:
    """Write a new file and flush it to disk. ``fill`` gives the bytes of a tensor in pieces.

    Raises:
        OSError: the file exists already, the disk is full, no permission.
        ValueError: ``fill`` gave more or fewer bytes than the tensor has.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, 0o666)
    try:
        _write(descriptor, memoryview(layout.header))
        for tensor in layout.tensors:
            written = sum(_write(descriptor, memoryview(piece)) for piece in fill(tensor))
            if written != tensor.n_bytes:
                raise ValueError(f"tensor {tensor.name} has {tensor.n_bytes} bytes, but {written} were given")
            _write(descriptor, memoryview(bytes(_aligned(written) - written)))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(descriptor: int, data: memoryview) -> int:
    """All of ``data``: a single write may take less. Returns its bytes."""
    raw = data.cast("B")
    start = 0
    while start < len(raw):
        start += os.write(descriptor, raw[start : start + _PIECE_BYTES])
    return len(raw)


def _placed(tensors: Sequence[TensorInfo]) -> tuple[TensorInfo, ...]:
    placed, offset, names = [], 0, set()
    for tensor in tensors:
        if tensor.name in names:
            raise ModelFileError(f"tensor {tensor.name} occurs twice; each may be written once")
        names.add(tensor.name)
        n_bytes = _tensor_bytes(tensor)
        placed.append(replace(tensor, offset=offset, n_bytes=n_bytes, file_index=0))
        offset = _aligned(offset + n_bytes)
    return tuple(placed)


def _tensor_bytes(tensor: TensorInfo) -> int:
    if not 1 <= len(tensor.dims) <= _MAX_DIMS or min(tensor.dims) < 1:
        raise ModelFileError(
            f"tensor {tensor.name} has the dimensions {tensor.dims}; ggml allows 1 to {_MAX_DIMS} of them"
        )
    rows = tensor.elements // tensor.dims[0]
    try:
        return type_by_name(tensor.type_name).row_bytes(tensor.dims[0]) * rows
    except ValueError as error:
        raise ModelFileError(f"tensor {tensor.name} cannot be written: {error}") from None


def _aligned(value: int) -> int:
    return -(-value // ALIGNMENT) * ALIGNMENT


def _text(text: str) -> bytes:
    raw = text.encode("utf-8", errors="surrogateescape")
    return struct.pack("<Q", len(raw)) + raw


def _encoded(key: str, value: object) -> bytes:
    """Type and bytes of one value."""
    try:
        if isinstance(value, Typed):
            return _encoded_as(value.kind, value.value)
        if isinstance(value, list | tuple):
            return _encoded_as(_array_kind(key, value), value)
        return _encoded_as(_scalar_kind(key, value), value)
    except (struct.error, TypeError, OverflowError) as error:
        raise ModelFileError(f"metadata key {key!r} holds a value that a GGUF file cannot hold: {error}") from None


def _encoded_as(kind: ValueKind, value: object) -> bytes:
    kind_id, code = _KINDS[kind]
    if isinstance(value, list | tuple):
        head = struct.pack("<IIQ", _ARRAY_ID, kind_id, len(value))
        if kind is ValueKind.STRING:
            return head + b"".join(map(_text, value))
        return head + struct.pack(f"<{len(value)}{code}", *value)
    if kind is ValueKind.STRING:
        return struct.pack("<I", kind_id) + _text(str(value))
    return struct.pack(f"<I{code}", kind_id, value)


def _scalar_kind(key: str, value: object) -> ValueKind:
    if isinstance(value, bool):
        return ValueKind.BOOL
    if isinstance(value, int):
        return ValueKind.FLOAT32 if key.endswith(_FLOAT_KEYS) else _whole_kind([value])
    if isinstance(value, float):
        return ValueKind.FLOAT32
    if isinstance(value, str):
        return ValueKind.STRING
    raise TypeError(f"{type(value).__name__} is no number, text or array")


def _array_kind(key: str, values: Sequence[object]) -> ValueKind:
    kinds = {_scalar_kind(key, value) for value in values}
    if not kinds:
        return ValueKind.UINT32
    if kinds in ({ValueKind.BOOL}, {ValueKind.STRING}):
        return kinds.pop()
    if kinds & {ValueKind.BOOL, ValueKind.STRING}:
        raise TypeError("its items have different types")
    if ValueKind.FLOAT32 in kinds:
        return ValueKind.FLOAT32
    return _whole_kind([value for value in values if isinstance(value, int)])


def _whole_kind(values: Sequence[int]) -> ValueKind:
    """The smallest kind from 32 bits on that holds all."""
    low, high = min(values), max(values)
    if low >= 0:
        return ValueKind.UINT32 if high < 1 << 32 else ValueKind.UINT64
    return ValueKind.INT32 if low >= -(1 << 31) and high < 1 << 31 else ValueKind.INT64

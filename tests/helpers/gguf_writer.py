"""Writes small GGUF files for tests; the weights are a hole in the file, so a "40 GB" model takes a few kilobytes of disk."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from suffice.model.ggml_types import type_by_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_KINDS = {
    "uint8": (0, "B"),
    "int8": (1, "b"),
    "uint16": (2, "H"),
    "int16": (3, "h"),
    "uint32": (4, "I"),
    "int32": (5, "i"),
    "float32": (6, "f"),
    "bool": (7, "?"),
    "string": (8, ""),
    "array": (9, ""),
    "uint64": (10, "Q"),
    "int64": (11, "q"),
    "float64": (12, "d"),
}


@dataclass(frozen=True, slots=True)
class Typed:
    """A value with a type of one's choice: ``Typed("uint64", 5)``. Without it, whole numbers become uint32, others float32."""

    kind: str
    value: object


@dataclass(frozen=True, slots=True)
class ToyTensor:
    """A tensor to write; ``dims[0]`` is the row length. ``offset`` None: right after the one before."""

    name: str
    dims: tuple[int, ...]
    type_name: str = "f16"
    offset: int | None = None

    @property
    def n_bytes(self) -> int:
        """Bytes of its weights."""
        rows = 1
        for dim in self.dims[1:]:
            rows *= dim
        return type_by_name(self.type_name).row_bytes(self.dims[0]) * rows


def encode_header(
    metadata: Mapping[str, object],
    tensors: Sequence[ToyTensor] = (),
    *,
    version: int = 3,
    big_endian: bool = False,
    alignment: int = 32,
) -> tuple[bytes, int]:
    """The header's bytes, padded to where the data start, and the size of the whole file."""
    order = ">" if big_endian else "<"
    parts = [b"GGUF", struct.pack(f"{order}IQQ", version, len(tensors), len(metadata))]
    for key, value in metadata.items():
        typed = _typed(value)
        parts += [_string(order, key), struct.pack(f"{order}I", _KINDS[typed.kind][0]), _value(order, typed)]
    offset = 0
    for tensor in tensors:
        start = offset if tensor.offset is None else tensor.offset
        parts.append(_string(order, tensor.name))
        parts.append(struct.pack(f"{order}I{len(tensor.dims)}Q", len(tensor.dims), *tensor.dims))
        parts.append(struct.pack(f"{order}IQ", type_by_name(tensor.type_name).type_id, start))
        offset = _aligned(start + tensor.n_bytes, alignment)
    header = b"".join(parts)
    header += b"\x00" * (_aligned(len(header), alignment) - len(header))
    return header, len(header) + offset


def write_gguf(
    path: Path,
    metadata: Mapping[str, object],
    tensors: Sequence[ToyTensor] = (),
    *,
    version: int = 3,
    big_endian: bool = False,
    alignment: int = 32,
) -> Path:
    """Write a GGUF file whose weights are zeros that take no disk space; returns ``path``."""
    header, size = encode_header(metadata, tensors, version=version, big_endian=big_endian, alignment=alignment)
    with path.open("wb") as file:
        file.write(header)
        file.truncate(size)
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyLlama:
    """The sizes of a Llama-like model; the defaults make one of some kilobytes."""

    architecture: str = "llama"
    n_layer: int = 2
    n_embd: int = 64
    n_head: int = 4
    n_head_kv: int = 2
    n_ff: int = 128
    n_vocab: int = 256
    tied: bool = False
    type_name: str = "f16"

    def metadata(self) -> dict[str, object]:
        """The keys that such a model's file has."""
        name = self.architecture
        return {
            "general.architecture": name,
            "general.name": f"Toy {name}",
            f"{name}.block_count": self.n_layer,
            f"{name}.context_length": 4096,
            f"{name}.embedding_length": self.n_embd,
            f"{name}.feed_forward_length": self.n_ff,
            f"{name}.attention.head_count": self.n_head,
            f"{name}.attention.head_count_kv": self.n_head_kv,
        }

    def tensors(self) -> list[ToyTensor]:
        """Embedding, layers, final norm, and the head unless it is tied."""
        width, kv_width = self.n_embd, self.n_embd // self.n_head * self.n_head_kv
        tensors = [ToyTensor("token_embd.weight", (width, self.n_vocab), self.type_name)]
        for layer in range(self.n_layer):
            sizes = {
                "attn_norm": (width,),
                "attn_q": (width, width),
                "attn_k": (width, kv_width),
                "attn_v": (width, kv_width),
                "attn_output": (width, width),
                "ffn_norm": (width,),
                "ffn_gate": (width, self.n_ff),
                "ffn_up": (width, self.n_ff),
                "ffn_down": (self.n_ff, width),
            }
            tensors += [
                ToyTensor(f"blk.{layer}.{name}.weight", dims, self.type_name if len(dims) > 1 else "f32")
                for name, dims in sizes.items()
            ]
        tensors.append(ToyTensor("output_norm.weight", (width,), "f32"))
        if not self.tied:
            tensors.append(ToyTensor("output.weight", (width, self.n_vocab), self.type_name))
        return tensors

    def write(self, path: Path) -> Path:
        """Write it to ``path``."""
        return write_gguf(path, self.metadata(), self.tensors())


def _aligned(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment


def _string(order: str, text: str) -> bytes:
    raw = text.encode("utf-8", errors="surrogateescape")
    return struct.pack(f"{order}Q", len(raw)) + raw


def _typed(value: object) -> Typed:
    if isinstance(value, Typed):
        return value
    if isinstance(value, bool):
        return Typed("bool", value)
    if isinstance(value, int):
        return Typed("uint32", value)
    if isinstance(value, float):
        return Typed("float32", value)
    if isinstance(value, str):
        return Typed("string", value)
    return Typed("array", value)


def _value(order: str, typed: Typed) -> bytes:
    if typed.kind == "string":
        return _string(order, str(typed.value))
    if typed.kind == "array":
        if not isinstance(typed.value, (list, tuple)):
            raise TypeError(f"an array is a list or a tuple, not {typed.value!r}")
        items = [_typed(item) for item in typed.value]
        kind = items[0].kind if items else "uint32"
        head = struct.pack(f"{order}IQ", _KINDS[kind][0], len(items))
        return head + b"".join(_value(order, item) for item in items)
    return struct.pack(f"{order}{_KINDS[typed.kind][1]}", typed.value)

"""What the header of a GGUF file says, as plain values. The reader is :mod:`suffice.loaders.gguf`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class LongArray:
    """An array too long to keep (a vocabulary, say): its length and the type of its elements."""

    element_type: str  # GGUF's word: "string", "float32", ...
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LongText:
    """A text too long to keep (a whole tokenizer, say): its length in bytes."""

    n_bytes: int


MetadataValue = int | float | bool | str | tuple[int | float | bool | str, ...] | LongArray | LongText


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorInfo:
    """One tensor: ``dims[0]`` is the row length, as in ggml; ``type_name`` is one of :mod:`suffice.model.ggml_types`."""

    name: str
    dims: tuple[int, ...]
    type_name: str
    offset: int  # bytes from the start of its file's data section
    n_bytes: int
    file_index: int = 0  # which part of a split model holds it, from 0

    @property
    def elements(self) -> int:
        """How many numbers the tensor holds."""
        product = 1
        for dim in self.dims:
            product *= dim
        return product


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufHeader:
    """The header of a model: of one file, or of all parts of a split one together."""

    source: str  # name of the file (of its first part), for messages
    version: int
    big_endian: bool
    alignment: int  # of the first part, in bytes
    metadata: Mapping[str, MetadataValue]  # of the first part
    tensors: tuple[TensorInfo, ...]
    file_bytes: int  # all parts together
    n_files: int = 1

    @property
    def tensor_bytes(self) -> int:
        """Bytes of all tensors, without header and padding."""
        return sum(tensor.n_bytes for tensor in self.tensors)

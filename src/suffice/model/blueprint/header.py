"""Puts a header together: the tensors of all layers with their places in the file, and the metadata."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from suffice.errors import UnsupportedShapeError
from suffice.model.blueprint.keys import common_keys
from suffice.model.blueprint.parts import converted_type
from suffice.model.blueprint.table import ARCHITECTURES, REFUSED
from suffice.model.ggml_types import row_bytes
from suffice.model.gguf_header import GgufHeader, TensorInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from suffice.model.blueprint.architecture import Architecture
    from suffice.model.gguf_header import MetadataValue
    from suffice.model.spec import ModelSpec

_VERSION: Final = 3  # of the GGUF format
_ALIGNMENT: Final = 32  # bytes; GGUF's default
_MOSTLY_F16: Final = 1  # llama.cpp's LLAMA_FTYPE_MOSTLY_F16
_QUANTIZATION_VERSION: Final = 2  # ggml's GGML_QNT_VERSION


def supported_architectures() -> tuple[str, ...]:
    """The architectures that :func:`blueprint_header` can build, in the alphabet's order."""
    return tuple(sorted(ARCHITECTURES))


def blueprint_refusal(spec: ModelSpec) -> str | None:
    """Why a model of this shape cannot be built as a slice, or None when it can."""
    architecture = ARCHITECTURES.get(spec.architecture)
    if architecture is None:
        return REFUSED.get(spec.architecture, "suffice does not know how its layers are laid out")
    return architecture.refusal(spec)


def blueprint_header(spec: ModelSpec) -> GgufHeader:
    """The header that a GGUF file of this model has when it is converted to F16, without its tokenizer.

    ``file_bytes`` counts the data section only: how long the header itself is depends on the tokenizer.

    Raises:
        UnsupportedShapeError: the architecture is not one that suffice can build, or the shape says something that it cannot express.
    """
    reason = blueprint_refusal(spec)
    if reason is not None:
        raise _refused(spec, reason)
    architecture = ARCHITECTURES[spec.architecture]
    try:
        tensors = _placed(_shapes(architecture, spec))
        metadata = _metadata(architecture, spec)
    except ValueError as error:  # a number that the shape lacks
        raise _refused(spec, str(error)) from None
    return GgufHeader(
        source=spec.name,
        version=_VERSION,
        big_endian=False,
        alignment=_ALIGNMENT,
        metadata=MappingProxyType(metadata),
        tensors=tensors,
        file_bytes=_aligned(tensors[-1].offset + tensors[-1].n_bytes),
    )


def _refused(spec: ModelSpec, reason: str) -> UnsupportedShapeError:
    return UnsupportedShapeError(
        f"{spec.name}: architecture {spec.architecture!r} cannot be built as a slice: {reason}"
    )


def _shapes(architecture: Architecture, spec: ModelSpec) -> Iterator[tuple[str, tuple[int, ...]]]:
    outer = architecture.outer(spec)
    first = "token_embd.weight"
    yield first, outer.pop(first)
    for index in range(spec.n_layer):
        for name, dims in architecture.layer(spec, index).items():
            yield f"blk.{index}.{name}", dims
    yield from outer.items()


def _placed(shapes: Iterable[tuple[str, tuple[int, ...]]]) -> tuple[TensorInfo, ...]:
    tensors = []
    offset = 0
    for name, dims in shapes:
        type_name = converted_type(name, dims)
        n_bytes = row_bytes(type_name, dims[0])
        for dim in dims[1:]:
            n_bytes *= dim
        tensors.append(TensorInfo(name=name, dims=dims, type_name=type_name, offset=offset, n_bytes=n_bytes))
        offset = _aligned(offset + n_bytes)
    return tuple(tensors)


def _metadata(architecture: Architecture, spec: ModelSpec) -> dict[str, MetadataValue]:
    keys = common_keys(spec)
    for group in architecture.keys:
        keys |= group(spec)
    metadata: dict[str, MetadataValue] = {
        "general.architecture": spec.architecture,
        "general.type": "model",
        "general.name": spec.name,
        "general.file_type": _MOSTLY_F16,
        "general.quantization_version": _QUANTIZATION_VERSION,
    }
    return metadata | {f"{spec.architecture}.{key}": value for key, value in keys.items()}


def _aligned(value: int) -> int:
    return -(-value // _ALIGNMENT) * _ALIGNMENT

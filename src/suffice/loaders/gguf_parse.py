"""Parses one GGUF file: preamble, metadata, tensor list, and whether the data fit into the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from suffice.errors import ModelFileError
from suffice.loaders.gguf_foreign import SNIFF_BYTES, describe_foreign
from suffice.loaders.gguf_values import HeaderReader, ReadBudget, shown
from suffice.model.ggml_types import TYPES_BY_ID
from suffice.model.gguf_header import MetadataValue, TensorInfo
from suffice.units import MIB

if TYPE_CHECKING:
    from collections.abc import Mapping

    from suffice.loaders.gguf_bytes import ByteSource

_MAGIC: Final = b"GGUF"
_SUPPORTED_VERSIONS: Final = (2, 3)
_DEFAULT_ALIGNMENT: Final = 32
_MAX_ALIGNMENT: Final = MIB
_MAX_DIMS: Final = 4  # GGML_MAX_DIMS
_MAX_ELEMENTS: Final = (1 << 63) - 1  # int64_t in ggml

# Least bytes that a key with a value, and a tensor's entry, take in the file.
_MIN_KEY_BYTES: Final = 8 + 4 + 1
_MIN_TENSOR_BYTES: Final = 8 + 4 + 8 + 4 + 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedFile:
    """The header of one file."""

    version: int
    big_endian: bool
    alignment: int
    metadata: Mapping[str, MetadataValue]
    tensors: tuple[TensorInfo, ...]
    file_bytes: int


class _Preamble(NamedTuple):
    version: int
    big_endian: bool


def parse_file(source: ByteSource, file_index: int, budget: ReadBudget) -> ParsedFile:
    """The header of the open file ``source``.

    Raises:
        ModelFileError: it is not GGUF, or damaged, unsupported or hostile.
    """
    preamble = _read_preamble(source)
    reader = HeaderReader(source, budget, big_endian=preamble.big_endian)
    n_tensors = reader.unsigned("Q", "the tensor count")
    n_keys = reader.unsigned("Q", "the metadata count")
    _raise_if_absurd(source, n_tensors, "tensors", _MIN_TENSOR_BYTES, budget.tensors)
    _raise_if_absurd(source, n_keys, "metadata keys", _MIN_KEY_BYTES, budget.keys)
    budget.tensors -= n_tensors
    budget.keys -= n_keys
    metadata = _read_metadata(reader, n_keys)
    alignment = _alignment(source, metadata)
    tensors = _read_tensors(reader, n_tensors, file_index)
    data_start = -(-source.position // alignment) * alignment
    _check_layout(source, tensors, data_start, alignment)
    return ParsedFile(
        version=preamble.version,
        big_endian=preamble.big_endian,
        alignment=alignment,
        metadata=metadata,
        tensors=tensors,
        file_bytes=source.size,
    )


def _read_preamble(source: ByteSource) -> _Preamble:
    start = source.read(min(SNIFF_BYTES, source.size), "its start")
    if not start.startswith(_MAGIC):
        raise ModelFileError(f"{source.path}: not a GGUF file, but {describe_foreign(start, source.size)}")
    source.rewind(len(_MAGIC))
    word = source.read(4, "the version")
    little, big = int.from_bytes(word, "little"), int.from_bytes(word, "big")
    # Versions are small numbers: the order of bytes that gives the smaller one is the file's.
    version, big_endian = (big, True) if big < little else (little, False)
    if version not in _SUPPORTED_VERSIONS:
        advice = (
            "convert the model again with a current llama.cpp"
            if version < min(_SUPPORTED_VERSIONS)
            else "update suffice"
        )
        raise ModelFileError(f"{source.path}: GGUF version {version} is not supported, only 2 and 3 are; {advice}")
    return _Preamble(version, big_endian)


def _raise_if_absurd(source: ByteSource, count: int, what: str, least_bytes: int, limit: int) -> None:
    if count * least_bytes > source.remaining:
        raise ModelFileError(
            f"{source.path}: the header announces {count} {what}, more than fit into the file; it is damaged, download it again"
        )
    if count > limit:
        raise ModelFileError(
            f"{source.path}: the header announces {count} {what}; suffice reads at most {limit}, the file is damaged"
        )


def _read_metadata(reader: HeaderReader, count: int) -> dict[str, MetadataValue]:
    metadata: dict[str, MetadataValue] = {}
    for index in range(count):
        key = reader.name(f"the name of metadata key {index}")
        if key in metadata:
            raise ModelFileError(
                f"{reader.source.path}: metadata key {key!r} occurs twice; the file is damaged, download it again"
            )
        what = f"metadata key {shown(key)}"
        metadata[key] = reader.value(reader.unsigned("I", what), what)
    return metadata


def _alignment(source: ByteSource, metadata: Mapping[str, MetadataValue]) -> int:
    value = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or not isinstance(value, int) or not 0 < value <= _MAX_ALIGNMENT or value & (value - 1):
        raise ModelFileError(
            f"{source.path}: general.alignment must be a power of two up to {_MAX_ALIGNMENT}, but is {shown(value)}; the file is damaged"
        )
    return value


def _read_tensors(reader: HeaderReader, count: int, file_index: int) -> tuple[TensorInfo, ...]:
    tensors: dict[str, TensorInfo] = {}
    for index in range(count):
        name = reader.name(f"the name of tensor {index}")
        if name in tensors:
            raise ModelFileError(
                f"{reader.source.path}: tensor {shown(name)} occurs twice; the file is damaged, download it again"
            )
        tensors[name] = _read_tensor(reader, name, file_index)
    return tuple(tensors.values())


def _read_tensor(reader: HeaderReader, name: str, file_index: int) -> TensorInfo:
    what = f"tensor {shown(name)}"
    where = f"{reader.source.path}: {what}"
    n_dims = reader.unsigned("I", what)
    if not 1 <= n_dims <= _MAX_DIMS:
        raise ModelFileError(f"{where} has {n_dims} dimensions, and ggml allows 1 to {_MAX_DIMS}; the file is damaged")
    dims = tuple(reader.unsigned("Q", what) for _ in range(n_dims))
    type_id = reader.unsigned("I", what)
    offset = reader.unsigned("Q", what)
    kind = TYPES_BY_ID.get(type_id)
    if kind is None:
        raise ModelFileError(
            f"{where} has the unknown type {type_id}; it is damaged, or made with a newer or much older llama.cpp"
        )
    rows = 1
    for dim in dims[1:]:
        rows *= dim
    if not 0 < dims[0] * rows <= _MAX_ELEMENTS:
        raise ModelFileError(f"{where} has the impossible dimensions {dims}; the file is damaged, download it again")
    try:
        n_bytes = kind.row_bytes(dims[0]) * rows
    except ValueError as error:
        raise ModelFileError(f"{where}: {error}; the file is damaged or was quantized wrongly") from None
    return TensorInfo(name=name, dims=dims, type_name=kind.name, offset=offset, n_bytes=n_bytes, file_index=file_index)


def _check_layout(source: ByteSource, tensors: tuple[TensorInfo, ...], data_start: int, alignment: int) -> None:
    """Tensors must be aligned, must not overlap, and must end within the file."""
    end, before = 0, ""
    for tensor in sorted(tensors, key=lambda tensor: tensor.offset):
        if tensor.offset % alignment:
            raise ModelFileError(
                f"{source.path}: tensor {shown(tensor.name)} starts at {tensor.offset}, not at a multiple of {alignment} bytes; "
                "the file is damaged, download it again"
            )
        if tensor.offset < end:
            raise ModelFileError(
                f"{source.path}: tensors {shown(before)} and {shown(tensor.name)} overlap; the file is damaged, download it again"
            )
        end, before = tensor.offset + tensor.n_bytes, tensor.name
    missing = data_start + end - source.size
    if tensors and missing > 0:
        raise ModelFileError(
            f"{source.path}: {missing} of {data_start + end} bytes are missing at its end; the download was cut off, download it again"
        )

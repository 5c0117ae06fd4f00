"""A model file as a run record names it: shape from the header, identity from a hash."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

from suffice.errors import ModelFileError
from suffice.loaders.gguf import find_parts, read_gguf_header
from suffice.loaders.shape_model import ShapeModel, shape_hash
from suffice.model.shape import ModelShape, shape_from_header
from suffice.records.schema import KvLayers, ModelRecord, TensorTypeShare
from suffice.units import GIB, MIB

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# A whole file up to this size is hashed in a few seconds; a larger one by its size, its header and evenly spaced samples.
WHOLE_HASH_LIMIT_BYTES: Final = 4 * GIB
_BLOCK_BYTES: Final = MIB
_SAMPLES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """A GGUF file (all parts of it) and its shape."""

    path: Path  # as given: the file, or the first part of a split model
    parts: tuple[Path, ...]
    shape: ModelShape


def open_model_file(path: Path) -> ModelFile:
    """Read the headers of a GGUF file and of all its parts; no weights are read.

    Raises:
        ModelFileError: see :func:`suffice.loaders.gguf.read_gguf_header`.
    """
    header = read_gguf_header(path)
    parts = tuple(find_parts(path))
    return ModelFile(path=parts[0], parts=parts, shape=shape_from_header(header))


def file_marks(parts: tuple[Path, ...]) -> tuple[tuple[int, int, int], ...]:
    """Size, time of change and inode of each part: what differs when a file was changed or replaced. Missing parts have none."""
    marks = []
    for part in parts:
        try:
            status = part.stat()
        except OSError:
            continue
        marks.append((status.st_size, status.st_mtime_ns, status.st_ino))
    return tuple(marks)


def describe_model(model: ModelFile | ShapeModel, *, type_k: str, type_v: str, with_hash: bool = True) -> ModelRecord:
    """The model's part of a run record."""
    shape = model.shape
    elements = shape.elements_by_type
    identity: dict[str, str | None]
    if isinstance(model, ShapeModel):
        identity = {"shape_sha256": shape_hash(model.header), "shape_source": model.source}
    else:
        whole, sampled = _hashes(model.parts) if with_hash else (None, None)
        identity = {"file_name": _printable_name(model.path), "sha256": whole, "sampled_sha256": sampled}
    return ModelRecord(
        name=model.reference if isinstance(model, ShapeModel) else shape.name,
        file_bytes=shape.file_bytes,
        **identity,
        architecture=shape.architecture,
        parameters=shape.parameters,
        active_parameters=round(shape.active_parameters),
        tensor_types={
            name: TensorTypeShare(elements=elements[name], bytes=n_bytes)
            for name, n_bytes in sorted(shape.bytes_by_type.items())
        },
        streamed_bytes=shape.streamed_bytes(),
        kv_bytes_per_token=shape.kv_bytes_per_token(type_k, type_v),
        kv_layers=_kv_layers(shape, type_k, type_v),
        kv_state_bytes=float(shape.kv.state_bytes_per_sequence),
        context_length=shape.context_length,
    )


def _printable_name(path: Path) -> str:
    """The file's name; bytes in it that are no UTF-8 cannot stand in a record and are replaced."""
    return path.name.encode("utf-8", errors="surrogateescape").decode("utf-8", errors="replace")


def _kv_layers(shape: ModelShape, type_k: str, type_v: str) -> tuple[KvLayers, ...]:
    if not shape.kv_known:
        return ()
    rows = sorted(
        (float(layer.row_bytes(type_k, type_v)), layer.window or 0) for layer in shape.kv.layers if layer.stores
    )
    return tuple(
        KvLayers(count=len(list(group)), bytes_per_token=row_bytes, window=window or None)
        for (row_bytes, window), group in groupby(rows)
    )


def _hashes(parts: tuple[Path, ...]) -> tuple[str | None, str | None]:
    """(hash of everything, None) for files up to the limit, else (None, hash of size and samples)."""
    try:
        total_bytes = sum(part.stat().st_size for part in parts)
        digest = hashlib.sha256()
        if total_bytes <= WHOLE_HASH_LIMIT_BYTES:
            for block in _blocks(parts):
                digest.update(block)
            return digest.hexdigest(), None
        digest.update(str(total_bytes).encode())
        for part in parts:
            for sample in _sampled_blocks(part):
                digest.update(sample)
    except OSError as error:
        raise ModelFileError(f"{error.filename} cannot be read to identify it: {error.strerror}") from error
    return None, digest.hexdigest()


def _blocks(parts: tuple[Path, ...]) -> Iterator[bytes]:
    for part in parts:
        with part.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                yield block


def _sampled_blocks(part: Path) -> Iterator[bytes]:
    """The first block (the header begins there) and evenly spaced ones."""
    size = part.stat().st_size
    with part.open("rb") as file:
        for i in range(_SAMPLES):
            file.seek(size * i // _SAMPLES)
            yield file.read(_BLOCK_BYTES)

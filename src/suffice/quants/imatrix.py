"""Importance matrices, as ``llama-imatrix`` writes them: how much each column of each weight matrix matters on some text.

Both forms are read: GGUF files (``NAME.in_sum2`` and ``NAME.counts`` for each tensor), and the older ``.dat`` files. What the quantizer
gets is the mean of the squared activations of each column, as in ``load_imatrix`` of llama.cpp's ``tools/quantize``.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from suffice.errors import ModelFileError, UsageError
from suffice.loaders.gguf import read_gguf_header
from suffice.model.recipe_types import may_quantize
from suffice.quants.gguf_spans import file_spans
from suffice.units import GIB, format_memory

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from suffice.model.gguf_header import GgufHeader, TensorInfo

_MAGIC: Final = b"GGUF"
_SUMS, _COUNTS = ".in_sum2", ".counts"
_MAX_BYTES: Final = 4 * GIB  # those of the largest mixtures of experts have 1 GiB
_MAX_NAME_BYTES: Final = 4096
_INT: Final = np.dtype("<i4")
_FLOAT: Final = np.dtype("<f4")
_STACKED: Final = 2  # the dimension that counts experts

Columns = dict[str, "NDArray[np.float32]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Imatrix:
    """An importance matrix that fits a model.

    Attributes:
        sha256: of the file.
        columns: for each tensor of the model that it knows, the importance of each column (of each expert).
        n_missing: tensors that can be quantized and that it does not know, the embedding left out.
    """

    sha256: str
    columns: Mapping[str, NDArray[np.float32]]
    n_missing: int

    @property
    def n_bytes(self) -> int:
        """Memory of all columns."""
        return sum(values.nbytes for values in self.columns.values())

    def sizes(self) -> tuple[tuple[str, int], ...]:
        """The tensors with how many numbers each has, in the order of :meth:`write`."""
        return tuple((name, values.size) for name, values in self.columns.items())

    def write(self, path: Path) -> None:
        """Write all columns as native 32-bit floats, tensor after tensor."""
        with path.open("wb") as file:
            for values in self.columns.values():
                file.write(values.astype(np.float32).tobytes())


def read_imatrix(path: Path, header: GgufHeader) -> Imatrix:
    """The importance matrix in the file, for the model with this header.

    Raises:
        UsageError: it cannot be read, is damaged, or belongs to another model.
    """
    raw = _read(path)
    found = _from_gguf(path, raw) if raw.startswith(_MAGIC) else _from_dat(path, raw)
    wanted = _wanted(header)
    columns = {name: values for name, values in found.items() if name in wanted}
    for name, values in columns.items():
        _check(path, wanted[name], values)
    if not columns:
        raise UsageError(
            f"{path}: the importance matrix names none of the tensors of {header.source}; give one of the same model"
        )
    missing = [name for name in wanted if name not in columns and name != "token_embd.weight"]
    return Imatrix(sha256=hashlib.sha256(raw).hexdigest(), columns=columns, n_missing=len(missing))


def _read(path: Path) -> bytes:
    try:
        n_bytes = path.stat().st_size
        if not path.is_file() or n_bytes > _MAX_BYTES:
            what = f"takes {format_memory(n_bytes)}" if path.is_file() else "is no regular file"
            raise UsageError(f"{path}: {what}, so it is no importance matrix; give the file that llama-imatrix wrote")
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: the importance matrix cannot be read: {error.strerror}") from error


def _wanted(header: GgufHeader) -> dict[str, TensorInfo]:
    architecture = str(header.metadata.get("general.architecture", ""))
    return {tensor.name: tensor for tensor in header.tensors if may_quantize(tensor, architecture)}


def _check(path: Path, tensor: TensorInfo, values: NDArray[np.float32]) -> None:
    stacked = tensor.dims[_STACKED] if len(tensor.dims) > _STACKED else 1
    if values.size != tensor.dims[0] * stacked:
        raise UsageError(
            f"{path}: the importance matrix has {values.size} numbers for {tensor.name}, which has {tensor.dims[0] * stacked} columns; "
            "give one of the same model"
        )
    if not np.isfinite(values).all():
        raise UsageError(f"{path}: the importance matrix has no finite numbers for {tensor.name}; make it again")


def _from_gguf(path: Path, raw: bytes) -> Columns:
    try:
        header = read_gguf_header(path)
        start = file_spans(path, header).data_start
    except ModelFileError as error:
        raise UsageError(f"the importance matrix cannot be read: {error}") from error
    tensors = {tensor.name: tensor for tensor in header.tensors}
    order = ">" if header.big_endian else "<"

    def numbers(name: str) -> NDArray[np.float32]:
        tensor = tensors.get(name)
        if tensor is None or tensor.type_name != "f32":
            raise UsageError(f"{path}: the importance matrix has no {name} in 32-bit floats; make it again")
        return np.frombuffer(raw, np.dtype(f"{order}f4"), tensor.elements, start + tensor.offset).astype(np.float32)

    names = [name.removesuffix(_SUMS) for name in tensors if name.endswith(_SUMS)]
    return {name: _means(path, name, numbers(name + _SUMS), numbers(name + _COUNTS)) for name in names}


def _means(path: Path, name: str, sums: NDArray[np.float32], counts: NDArray[np.float32]) -> NDArray[np.float32]:
    """Sums over the tokens that each expert got; an expert that got none has nothing to tell, and all its columns count the same."""
    if sums.size % counts.size:
        raise UsageError(
            f"{path}: {sums.size} sums and {counts.size} counts of {name} do not fit together; make it again"
        )
    table = sums.reshape(counts.size, -1)
    rounded = np.rint(counts)[:, None]
    means = np.divide(table, rounded, out=np.ones_like(table), where=rounded > 0)
    return means.reshape(-1)


def _from_dat(path: Path, raw: bytes) -> Columns:
    """The form before GGUF: a count, then for each tensor its name, the number of calls, and sums that were divided by tokens already."""
    columns: Columns = {}
    place = 0

    def integer() -> int:
        nonlocal place
        place += _INT.itemsize
        return int(np.frombuffer(raw, _INT, 1, place - _INT.itemsize)[0])

    try:
        for _ in range(_positive(integer())):
            n_name = _positive(integer())
            name = raw[place : place + min(n_name, _MAX_NAME_BYTES)].decode()
            place += n_name
            n_calls, n_values = integer(), _positive(integer())
            sums = np.frombuffer(raw, _FLOAT, n_values, place).astype(np.float32)
            place += n_values * _FLOAT.itemsize
            columns[name] = sums / np.float32(max(1, n_calls))
    except ValueError as error:  # numpy's, too, where the file ends before
        raise UsageError(
            f"{path}: is no importance matrix, or a damaged one; give the file that llama-imatrix wrote"
        ) from error
    return columns


def _positive(number: int) -> int:
    if number < 1:
        raise ValueError(number)
    return number

"""ggml's own quantizer, on files of numbers. Runs inside the worker, as ggml aborts its process on what it does not accept.

Without NumPy on purpose: a worker is to start fast. Numbers and blocks travel in files, not through the pipe.
"""

from __future__ import annotations

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

from suffice.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from suffice.measure.engine.binding import Binding

_NEEDED: Final = (
    *("ggml_type_name", "ggml_row_size", "ggml_quantize_init", "ggml_quantize_requires_imatrix", "ggml_quantize_chunk"),
)
_FLOAT_BYTES: Final = 4
_SUPER_BLOCK: Final = 256  # elements; the longest block of any type


def quantize_file(binding: Binding, *, numbers: str, blocks: str, type_id: int, type_name: str) -> None:
    """Quantize a file of native 32-bit floats into a file of blocks, with a neutral importance matrix where ggml wants one.

    Raises:
        EngineError: this ggml has no such type or no quantizer, or a file cannot be read or written.
    """
    missing = [name for name in _NEEDED if not binding.has(name)]
    if missing:
        raise EngineError(f"{binding.choice.library} has no {missing[0]}, so it cannot quantize; use another engine")
    found = (binding.call("ggml_type_name", type_id) or b"").decode(errors="replace")
    if found != type_name:
        raise EngineError(f"ggml in {binding.choice.library} does not know the type {type_name}; use a newer engine")
    try:
        Path(blocks).write_bytes(_quantize(binding, bytearray(Path(numbers).read_bytes()), type_id))
    except OSError as error:
        raise EngineError(f"quantized blocks could not be passed on: {error}") from error


def _quantize(binding: Binding, raw: bytearray, type_id: int) -> ctypes.Array[ctypes.c_char]:
    n_elements = len(raw) // _FLOAT_BYTES
    # Rows only group numbers for the importance matrix, which is neutral, so any whole number of blocks is one.
    row = _SUPER_BLOCK if n_elements % _SUPER_BLOCK == 0 else n_elements
    row_bytes: int = binding.call("ggml_row_size", type_id, row)
    source = (ctypes.c_float * n_elements).from_buffer(raw)
    target = ctypes.create_string_buffer(n_elements // row * row_bytes)
    needs_matrix = binding.call("ggml_quantize_requires_imatrix", type_id)
    matrix = (ctypes.c_float * row)(*[1.0] * row) if needs_matrix else None
    binding.call("ggml_quantize_init", type_id)  # before the threads, which would wait for each other's tables
    chunk = binding.function("ggml_quantize_chunk")

    def work(part: tuple[int, int]) -> int:
        first, count = part
        written: int = chunk(type_id, source, target, first * row, count, row, matrix)
        return written

    with ThreadPoolExecutor() as threads:
        written = sum(threads.map(work, _parts(n_elements // row, os.cpu_count() or 1)))
    if written != len(target):
        raise EngineError(f"ggml wrote {written} bytes of blocks instead of {len(target)}")
    return target


def _parts(n_rows: int, n_parts: int) -> Iterator[tuple[int, int]]:
    """First row and number of rows of each part."""
    size = -(-n_rows // n_parts)
    for first in range(0, n_rows, size):
        yield first, min(size, n_rows - first)

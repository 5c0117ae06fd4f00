from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.gguf_writer import ToyLlama, encode_header
from suffice.errors import ModelFileError
from suffice.loaders.gguf import read_gguf_header
from suffice.model.shape import shape_from_header
from suffice.units import MIB

MODEL = ToyLlama(n_layer=1, n_vocab=8)
HEADER, SIZE = encode_header(
    MODEL.metadata()
    | {
        "general.alignment": 32,
        "llama.attention.sliding_window_pattern": [True],
        "tokenizer.ggml.tokens": ["a", "bc", ""],
        "nested": [[1], [2, 3]],
    },
    MODEL.tensors(),
)
FEW = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

# Set to a real GGUF file to fuzz its header too.
SAMPLE = Path(os.environ.get("SUFFICE_SAMPLE_MODEL", "no sample model"))
SAMPLE_HEADER_BYTES = 4096


def holds(path: Path, content: bytes, size: int) -> None:
    """Reading ends with a header and a shape, or with ModelFileError: anything else fails the test."""
    with path.open("wb") as file:
        file.write(content)
        file.truncate(max(size, len(content)))
    try:
        shape = shape_from_header(read_gguf_header(path))
    except ModelFileError:
        return
    assert shape.streamed_bytes(4) >= 0
    assert shape.tensor_bytes <= max(size, len(content))
    for answer in (shape.kv_cache_bytes(4096), shape.kv_read_bytes(4096), shape.prefill_flops(100, 100)):
        assert answer is None or answer >= 0


@FEW
@given(body=st.binary(max_size=200), with_magic=st.booleans())
def test_any_bytes_are_read_or_refused(tmp_path: Path, body: bytes, *, with_magic: bool) -> None:
    """Random bytes, also behind a right start, never crash the reader."""
    start = HEADER[:8] if with_magic else b""

    holds(tmp_path / "f.gguf", start + body, 0)


edits = st.lists(
    st.tuples(
        st.integers(0, len(HEADER) - 1),
        st.sampled_from([b"\x00", b"\xff", b"\x01", b"\x7f", b"\xff" * 8, b"\x00" * 8, b"\x09\x00\x00\x00"]),
    ),
    min_size=1,
    max_size=4,
)


def edited(content: bytes, changes: list[tuple[int, bytes]]) -> bytes:
    """``content`` with pieces of it overwritten."""
    changed = bytearray(content)
    for at, new in changes:
        changed[at : at + len(new)] = new
    return bytes(changed[: len(content)])


@FEW
@given(edits)
def test_damaged_headers_are_read_or_refused(tmp_path: Path, changes: list[tuple[int, bytes]]) -> None:
    """A valid header with some bytes overwritten never crashes the reader or the shape."""
    holds(tmp_path / "f.gguf", edited(HEADER, changes), SIZE)


@FEW
@given(st.integers(0, len(HEADER)), st.integers(0, len(HEADER)), st.integers(0, len(HEADER)))
def test_shifted_headers_are_read_or_refused(tmp_path: Path, cut: int, start: int, end: int) -> None:
    """A valid header with a piece of itself inserted somewhere never crashes the reader or the shape."""
    holds(tmp_path / "f.gguf", HEADER[:cut] + HEADER[min(start, end) : max(start, end)] + HEADER[cut:], SIZE)


@given(st.integers(0, SIZE - 1))
@settings(FEW, max_examples=60)
def test_cut_files_are_refused(tmp_path: Path, length: int) -> None:
    """No part of a file that was cut off passes for a model."""
    path = tmp_path / "f.gguf"
    path.write_bytes((HEADER + bytes(SIZE - len(HEADER)))[:length])

    with pytest.raises(ModelFileError):
        read_gguf_header(path)


@pytest.mark.skipif(not SAMPLE.is_file(), reason="SUFFICE_SAMPLE_MODEL names no file")
@settings(FEW, max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, SAMPLE_HEADER_BYTES - 9), st.sampled_from([b"\x00", b"\xff", b"\xff" * 8])),
        min_size=1,
        max_size=3,
    )
)
def test_damaged_real_headers_are_read_or_refused(tmp_path: Path, changes: list[tuple[int, bytes]]) -> None:
    """The header of a real model, damaged near its start, never crashes the reader or the shape."""
    with SAMPLE.open("rb") as file:
        content = file.read(2 * MIB)

    holds(tmp_path / "f.gguf", edited(content, changes), SAMPLE.stat().st_size)

"""Importance matrices: whatever a file holds, reading it ends with a matrix or with one sentence; what is written is what is read."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.gguf_writer import ToyLlama
from suffice.errors import UsageError
from suffice.loaders.gguf import read_gguf_header
from suffice.quants.imatrix import read_imatrix

if TYPE_CHECKING:
    from pathlib import Path

NAME = "blk.0.attn_q.weight"
WIDTH = 64
FLOATS = st.floats(min_value=0, max_value=1e6, width=32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a model in it."""
    folder = tmp_path_factory.mktemp("imatrix")
    ToyLlama().write(folder / "toy.gguf")
    return folder


@settings(max_examples=40, deadline=None)
@given(raw=st.one_of(st.binary(max_size=200), st.binary(max_size=200).map(lambda tail: b"GGUF" + tail)))
def test_rubbish_is_one_sentence(folder: Path, raw: bytes) -> None:
    """No other error than the one that a person can read."""
    place = folder / "rubbish"
    place.write_bytes(raw)
    with pytest.raises(UsageError, match="rubbish"):
        read_imatrix(place, read_gguf_header(folder / "toy.gguf"))


@settings(max_examples=40, deadline=None)
@given(values=st.lists(FLOATS, min_size=WIDTH, max_size=WIDTH), n_calls=st.integers(1, 10_000))
def test_a_matrix_is_the_sums_over_the_calls(folder: Path, values: list[float], n_calls: int) -> None:
    """In single precision, as llama.cpp divides."""
    place, name = folder / "some.dat", NAME.encode()
    place.write_bytes(struct.pack("<ii", 1, len(name)) + name + struct.pack(f"<ii{WIDTH}f", n_calls, WIDTH, *values))

    matrix = read_imatrix(place, read_gguf_header(folder / "toy.gguf"))

    assert matrix.sizes() == ((NAME, WIDTH),)
    assert (matrix.columns[NAME] == np.array(values, np.float32) / np.float32(n_calls)).all()

from __future__ import annotations

import struct

import pytest

from suffice.errors import EngineError
from suffice.measure.engine.experts import TensorHead

INT32, FLOAT32 = 26, 0


def tensor(counts: tuple[int, ...], strides: tuple[int, ...], kind: int = INT32) -> bytes:
    """The beginning of a ggml_tensor: type, padding, buffer, four counts, four strides."""
    return struct.pack("=iiQ4q4Q", kind, 0, 0x7FFF0000, *counts, *strides)


def test_rows_with_gaps_are_read_row_by_row() -> None:
    """Two tokens choose 2 of 4 experts; the rest of each sorted row does not count."""
    head = TensorHead.parse(tensor((2, 2, 1, 1), (4, 16, 32, 32)), n_elements=4, n_bytes=24)
    assert head is not None
    rows = struct.pack("=4i2i", 3, 1, 0, 2, 1, 0)
    assert (head.n_used, head.n_tokens, head.row_stride, head.n_bytes) == (2, 2, 16, 24)
    assert head.distinct(rows, 4) == 3


def test_rows_without_gaps_are_read_as_well() -> None:
    """An engine that computes the best ones only leaves no gaps."""
    head = TensorHead.parse(tensor((2, 3, 1, 1), (4, 8, 24, 24)), n_elements=6, n_bytes=24)
    assert head is not None
    assert head.distinct(struct.pack("=6i", 7, 1, 7, 1, 1, 7), 8) == 2


@pytest.mark.parametrize(
    ("raw", "n_elements", "n_bytes"),
    [
        (tensor((2, 2, 1, 1), (4, 16, 32, 32), FLOAT32), 4, 24),
        (tensor((2, 2, 1, 1), (4, 16, 32, 32)), 5, 24),
        (tensor((2, 2, 1, 1), (4, 16, 32, 32)), 4, 32),
        (tensor((2, 2, 2, 1), (4, 16, 32, 64)), 8, 56),
        (tensor((0, 2, 1, 1), (4, 16, 32, 32)), 0, 16),
        (bytes(8) + tensor((2, 2, 1, 1), (4, 16, 32, 32))[:-8], 4, 24),
    ],
    ids=["other type", "other count", "other size", "more dimensions", "empty", "shifted struct"],
)
def test_what_ggml_does_not_confirm_is_not_believed(raw: bytes, n_elements: int, n_bytes: int) -> None:
    """A struct of another layout gives no numbers rather than wrong ones."""
    assert TensorHead.parse(raw, n_elements=n_elements, n_bytes=n_bytes) is None


def test_numbers_that_are_no_experts_are_an_error() -> None:
    """Expert 4 of 4 does not exist."""
    head = TensorHead.parse(tensor((2, 1, 1, 1), (4, 8, 8, 8)), n_elements=2, n_bytes=8)
    assert head is not None
    with pytest.raises(EngineError, match="expert 4 of 4"):
        head.distinct(struct.pack("=2i", 0, 4), 4)

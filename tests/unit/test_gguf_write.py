"""The writer of GGUF files against the tests' own writer and against the reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from helpers import gguf_writer
from helpers.slices import tensor
from suffice.errors import ModelFileError
from suffice.loaders.gguf import read_gguf_header
from suffice.model.gguf_header import LongArray, LongText, TensorInfo
from suffice.slices.gguf_write import Typed, ValueKind, lay_out, write_gguf

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def filled(item: TensorInfo) -> Iterator[bytes]:
    """Bytes that tell the tensor they belong to, in two pieces."""
    yield item.name[:1].encode() * (item.n_bytes - 3)
    yield item.name[:1].encode() * 3


def test_the_header_has_the_bytes_that_another_writer_makes() -> None:
    """Texts, numbers, arrays and tensors are encoded as the tests' own writer encodes them."""
    metadata = {
        "general.architecture": "llama",
        "a.flag": True,
        "a.list": (1, 2, 3),
        "a.words": ("x", "höy"),
        "a.rate": 0.5,
    }
    tensors = [tensor("a", (32, 3), "q8_0"), tensor("b", (5,)), tensor("c", (256, 2, 2), "q4_K")]

    layout = lay_out(metadata, tensors)

    toys = [gguf_writer.ToyTensor(item.name, item.dims, item.type_name) for item in tensors]
    assert (layout.header, layout.file_bytes) == gguf_writer.encode_header(metadata, toys)


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ("llama.block_count", 5, "uint32"),
        ("llama.block_count", 2**32 - 1, "uint32"),
        ("general.parameter_count", 2**32, "uint64"),
        ("a.offset", -1, "int32"),
        ("a.offset", -(2**31) - 1, "int64"),
        ("llama.rope.freq_base", 10_000, "float32"),
        ("llama.attention.layer_norm_rms_epsilon", 1e-5, "float32"),
        ("granite.attention.scale", 1, "float32"),
        ("a.list", (-1, 2), "int32"),
        ("a.list", (1, 2**40), "uint64"),
        ("a.list", (1, 0.5), "float32"),
        ("a.list", (True, False), "bool"),
        ("a.list", (), "uint32"),
        ("split.no", Typed(ValueKind.UINT16, 7), "uint16"),
        ("tokens", Typed(ValueKind.INT32, (1, 2)), "int32"),
    ],
)
def test_values_get_the_type_that_llama_cpp_reads(key: str, value: object, kind: str) -> None:
    """Whole numbers are uint32 unless they do not fit or the key is one of a float; a type can be asked for."""
    plain = value.value if isinstance(value, Typed) else value
    if isinstance(plain, tuple):
        expected = gguf_writer.Typed("array", [gguf_writer.Typed(kind, item) for item in plain])
    else:
        expected = gguf_writer.Typed(kind, plain)

    assert lay_out({key: value}, []).header == gguf_writer.encode_header({key: expected})[0]


@pytest.mark.parametrize(
    "value", [LongArray(element_type="string", length=5), LongText(n_bytes=5), None, (1, "x"), (True, 1), 2**70, 1e300]
)
def test_what_gguf_cannot_hold_is_refused(value: object) -> None:
    """A value of which only the length is known, a mixture, or a number that is too large: the key is named."""
    with pytest.raises(ModelFileError, match=r"a\.key"):
        lay_out({"a.key": value}, [])


@pytest.mark.parametrize(
    "tensors",
    [
        [tensor("twice", (4,)), tensor("twice", (4,))],
        [TensorInfo(name="twice", dims=(1, 1, 1, 1, 1), type_name="f32", offset=0, n_bytes=4)],
        [TensorInfo(name="twice", dims=(33,), type_name="q8_0", offset=0, n_bytes=4)],
        [TensorInfo(name="twice", dims=(), type_name="q8_0", offset=0, n_bytes=4)],
        [TensorInfo(name="twice", dims=(4,), type_name="q9_9", offset=0, n_bytes=4)],
    ],
)
def test_tensors_that_ggml_does_not_allow_are_refused(tensors: list[TensorInfo]) -> None:
    """The same name twice, five dimensions or none, half a block, an unknown type: the tensor is named."""
    with pytest.raises(ModelFileError, match="twice"):
        lay_out({}, tensors)


def test_weights_stand_where_the_reader_finds_them(tmp_path: Path) -> None:
    """What the reader says of each tensor is where its bytes are."""
    layout = lay_out(
        {"general.architecture": "llama"}, [tensor("a", (5,)), tensor("b", (64, 3), "q8_0"), tensor("c", (7,))]
    )

    write_gguf(tmp_path / "x.gguf", layout, filled)

    raw = (tmp_path / "x.gguf").read_bytes()
    header = read_gguf_header(tmp_path / "x.gguf")
    assert len(raw) == layout.file_bytes == header.file_bytes
    assert header.tensors == layout.tensors
    for item in header.tensors:
        start = len(layout.header) + item.offset
        assert raw[start : start + item.n_bytes] == item.name.encode() * item.n_bytes


@pytest.mark.parametrize("given", [19, 21])
def test_a_wrong_number_of_bytes_is_a_defect(tmp_path: Path, given: int) -> None:
    """Neither a short tensor nor one that runs into the next is written in silence."""
    with pytest.raises(ValueError, match=f"a has 20 bytes, but {given}"):
        write_gguf(tmp_path / "x.gguf", lay_out({}, [tensor("a", (5,))]), lambda _: [bytes(given)])


def test_nothing_that_exists_is_overwritten(tmp_path: Path) -> None:
    """An existing file stays, and a link is not written through."""
    (tmp_path / "file").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")

    for name in ("file", "link"):
        with pytest.raises(FileExistsError):
            write_gguf(tmp_path / name, lay_out({}, []), filled)
    assert (tmp_path / "file").read_text() == "precious"
    assert not (tmp_path / "elsewhere").exists()


def test_a_write_that_stops_in_the_middle_is_an_error(tmp_path: Path) -> None:
    """When the system takes only some of the bytes, the rest is not forgotten."""
    resource = pytest.importorskip("resource")  # POSIX has it
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            write_gguf(tmp_path / "x.gguf", lay_out({}, [tensor("a", (500,))]), filled)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

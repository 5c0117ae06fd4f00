from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

import pytest

from helpers.gguf_writer import ToyLlama, ToyTensor, Typed, encode_header, write_gguf
from suffice.errors import ModelFileError
from suffice.loaders.gguf import read_gguf_header
from suffice.model.ggml_types import TYPES_BY_ID, row_bytes, type_by_name
from suffice.model.gguf_header import LongArray, LongText
from suffice.model.shape import shape_from_header
from suffice.units import GIGA, MIB

if TYPE_CHECKING:
    from pathlib import Path

ARCHITECTURE = {"general.architecture": "llama"}


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A whole, small model."""
    return ToyLlama().write(tmp_path / "toy.gguf")


def refusal(path: Path) -> str:
    """The one sentence with which ``path`` is refused."""
    with pytest.raises(ModelFileError) as caught:
        read_gguf_header(path)
    message = str(caught.value)
    assert str(path.parent) in message
    assert "\n" not in message
    return message


def file_of(tmp_path: Path, content: bytes) -> Path:
    """A file that holds ``content``."""
    path = tmp_path / "file.gguf"
    path.write_bytes(content)
    return path


def raw_header(n_tensors: int, n_keys: int, body: bytes = b"", *, version: int = 3) -> bytes:
    """The start of a file that announces these counts, then ``body``."""
    return b"GGUF" + struct.pack("<IQQ", version, n_tensors, n_keys) + body


def string(text: bytes) -> bytes:
    """A text as GGUF writes it."""
    return struct.pack("<Q", len(text)) + text


def test_block_sizes_follow_from_the_block_layout() -> None:
    """Bits per weight are exact: q4_0 4.5, q8_0 8.5, q4_K 4.5, q6_K 6.5625, mxfp4 4.25."""
    expected = {"q4_0": 4.5, "q8_0": 8.5, "q4_K": 4.5, "q6_K": 6.5625, "mxfp4": 4.25, "iq4_xs": 4.25, "bf16": 16.0}

    assert {name: type_by_name(name).bits_per_element for name in expected} == expected


def test_removed_types_are_unknown() -> None:
    """Ids of formats that ggml removed name nothing."""
    assert not {4, 5, 31, 32, 33, 36, 37, 38} & TYPES_BY_ID.keys()


@pytest.mark.parametrize(("name", "elements"), [("q8_0", 33), ("q4_K", 32), ("f16", -1), ("q4_2", 32)])
def test_rows_that_cannot_be_are_refused(name: str, elements: int) -> None:
    """A row must be a whole number of blocks of a known type."""
    with pytest.raises(ValueError, match=r"whole number|not a ggml type"):
        row_bytes(name, elements)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("big_endian", [False, True])
@pytest.mark.parametrize("alignment", [32, 256])
def test_header_is_read_in_both_byte_orders_and_versions(
    tmp_path: Path, version: int, alignment: int, *, big_endian: bool
) -> None:
    """Metadata and tensors come back as written, whatever version, byte order and alignment."""
    model = ToyLlama()
    metadata = model.metadata() | {
        "general.alignment": alignment,
        "x.f": 0.5,
        "x.yes": True,
        "x.big": Typed("uint64", 2**63),
    }
    path = write_gguf(
        tmp_path / "m.gguf", metadata, model.tensors(), version=version, big_endian=big_endian, alignment=alignment
    )

    header = read_gguf_header(path)

    assert dict(header.metadata) == {key: getattr(value, "value", value) for key, value in metadata.items()}
    assert [(t.name, t.dims, t.type_name, t.n_bytes) for t in header.tensors] == [
        (t.name, t.dims, t.type_name, t.n_bytes) for t in model.tensors()
    ]
    assert (header.version, header.big_endian, header.alignment, header.n_files) == (version, big_endian, alignment, 1)
    assert header.file_bytes == path.stat().st_size


def test_long_arrays_are_counted_not_kept(tmp_path: Path) -> None:
    """Of a vocabulary only the length stays, of a per-layer array every number."""
    metadata = ARCHITECTURE | {
        "tokenizer.ggml.tokens": [f"token {n}" for n in range(5000)],
        "tokenizer.ggml.scores": [float(n) for n in range(5000)],
        "tokenizer.huggingface.json": "x" * (MIB + 1),
        "llama.attention.head_count_kv": [1, 2, 3],
        "nested": [[1, 2], [3]],
        "last": 7,
    }
    path = write_gguf(tmp_path / "m.gguf", metadata, [ToyTensor("a", (32,))])

    found = read_gguf_header(path).metadata

    assert found["tokenizer.ggml.tokens"] == LongArray(element_type="string", length=5000)
    assert found["tokenizer.ggml.scores"] == LongArray(element_type="float32", length=5000)
    assert found["tokenizer.huggingface.json"] == LongText(n_bytes=MIB + 1)
    assert found["llama.attention.head_count_kv"] == (1, 2, 3)
    assert found["nested"] == LongArray(element_type="array", length=2)
    assert found["last"] == 7


def test_a_40_gb_file_is_read_like_a_small_one(tmp_path: Path) -> None:
    """Only the header is read: a 40 GB file (a hole) works."""
    path = write_gguf(tmp_path / "big.gguf", ARCHITECTURE, [ToyTensor("a.weight", (2**17, 2**17, 10), "q8_0")])

    assert read_gguf_header(path).file_bytes > 40 * GIGA


def test_vocabulary_only_file_has_no_shape(tmp_path: Path) -> None:
    """A file without tensors can be read, and its shape is refused in words."""
    header = read_gguf_header(write_gguf(tmp_path / "vocab.gguf", ARCHITECTURE))

    with pytest.raises(ModelFileError, match=r"vocab\.gguf: holds no tensors"):
        shape_from_header(header)


def test_missing_file(tmp_path: Path) -> None:
    """A file that is not there is named."""
    assert "no such file" in refusal(tmp_path / "none.gguf")


def test_directory(tmp_path: Path) -> None:
    """A directory is refused as such."""
    folder = tmp_path / "folder"
    folder.mkdir()

    assert "is a directory" in refusal(folder)


def test_fifo_does_not_hang(tmp_path: Path) -> None:
    """A pipe is refused at once, though nobody writes to it."""
    path = tmp_path / "pipe.gguf"
    os.mkfifo(path)

    assert "is a pipe" in refusal(path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_no_permission(toy: Path) -> None:
    """A file that may not be read says so."""
    toy.chmod(0)

    assert "no permission" in refusal(toy)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"G", "not a GGUF file"),
        (b"GGUF", "ends inside the version"),
        (b"tjgg" + bytes(60), "old GGML"),
        (b"lmgg" + bytes(60), "old GGML"),
        (b"PK\x03\x04" + bytes(60), "PyTorch"),
        (b"\x80\x02}q\x00", "pickle"),
        (b"<!DOCTYPE html><html>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (b'{"error": "not found"}', "JSON"),
        (struct.pack("<Q", 20) + b'{"a": {}}' + bytes(20), "safetensors"),
        (bytes(100), "zeros"),
        (b"hello world, this is text", "no model format"),
        (raw_header(0, 0, version=1), "version 1 is not supported"),
        (raw_header(0, 0, version=4), "version 4 is not supported"),
    ],
)
def test_other_files_are_told_apart(tmp_path: Path, content: bytes, words: str) -> None:
    """A file that is not GGUF, or of an unsupported version, is called by what it is."""
    assert words in refusal(file_of(tmp_path, content))


def test_truncation_anywhere_is_an_error(tmp_path: Path) -> None:
    """Every prefix of a model is refused."""
    model = ToyLlama(n_layer=1, n_vocab=4)
    header, size = encode_header(model.metadata(), model.tensors())
    whole = header + bytes(size - len(header))
    path = tmp_path / "cut.gguf"

    for length in [*range(0, len(header), 7), len(header), size - 33]:
        path.write_bytes(whole[:length])
        assert refusal(path)


HUGE = 2**62


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (raw_header(HUGE, 0), "announces 4611686018427387904 tensors"),
        (raw_header(0, HUGE), "announces 4611686018427387904 metadata keys"),
        (raw_header(0, 1, struct.pack("<Q", HUGE) + bytes(20)), "only 20 are left"),
        (raw_header(0, 1, string(b"k") + struct.pack("<IQ", 8, HUGE)), "only 0 are left"),
        (raw_header(0, 1, string(b"k") + struct.pack("<IIQ", 9, 4, HUGE)), "only 0 are left"),
        (raw_header(0, 1, string(b"k") + struct.pack("<IIQ", 9, 8, HUGE)), "only 0 are left"),
        (raw_header(0, 1, string(b"k") + struct.pack("<IIQ", 9, 99, 1)), "unknown type 99"),
        (raw_header(0, 1, string(b"k") + struct.pack("<I", 13) + bytes(8)), "unknown type 13"),
        (raw_header(0, 1, string(b"k") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 9), "arrays in arrays"),
        (raw_header(0, 1, string(b"\xff\xfe") + struct.pack("<IB", 0, 1)), "not valid UTF-8"),
        (raw_header(0, 1, string(b"k") + struct.pack("<I", 8) + string(b"\xff")), "not valid UTF-8"),
        (raw_header(0, 2, (string(b"k") + struct.pack("<IB", 0, 1)) * 2), "'k' occurs twice"),
    ],
)
def test_hostile_metadata_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    """Counts and lengths beyond the file, unknown types, bad text and repeated keys end in one sentence."""
    assert words in refusal(file_of(tmp_path, content))


def test_last_text_of_a_vocabulary_must_end_in_the_file(tmp_path: Path) -> None:
    """A long array that is stepped over is still checked against the end of the file."""
    texts = string(b"token") * 4999 + struct.pack("<Q", 100)

    path = file_of(tmp_path, raw_header(0, 1, string(b"k") + struct.pack("<IIQ", 9, 8, 5000) + texts))

    assert "ends inside metadata key 'k' (100 bytes are missing there)" in refusal(path)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (struct.pack("<IIQ", 0, 0, 0) + bytes(99), "has 0 dimensions"),
        (struct.pack("<I5QIQ", 5, 1, 1, 1, 1, 1, 0, 0), "has 5 dimensions"),
        (struct.pack("<IQQIQ", 2, 32, 0, 0, 0), "impossible dimensions"),
        (struct.pack("<I4QIQ", 4, 2**40, 2**40, 2**40, 2**40, 0, 0), "impossible dimensions"),
        (struct.pack("<IQIQ", 1, 33, 8, 0), "not a whole number of q8_0 blocks"),
        (struct.pack("<IQIQ", 1, 32, 4, 0), "unknown type 4"),
        (struct.pack("<IQIQ", 1, 32, 99, 0), "unknown type 99"),
        (struct.pack("<IQIQ", 1, 32, 0, 8), "not at a multiple of 32"),
        (struct.pack("<IQIQ", 1, 32, 0, 2**60), "bytes are missing at its end"),
        (struct.pack("<IQIQ", 1, 2**50, 0, 0), "bytes are missing at its end"),
    ],
)
def test_hostile_tensors_are_refused(tmp_path: Path, body: bytes, words: str) -> None:
    """Impossible dimensions, types and places of a tensor end in one sentence."""
    assert words in refusal(file_of(tmp_path, raw_header(1, 0, string(b"t") + body) + bytes(256)))


@pytest.mark.parametrize("value", [0, 33, 2**31, "32", [32], True, Typed("int32", -32), 32.0])
def test_alignment_must_be_a_power_of_two(tmp_path: Path, value: object) -> None:
    """Any other alignment is refused."""
    assert "power of two" in refusal(write_gguf(tmp_path / "m.gguf", {"general.alignment": value}))


def test_same_tensor_twice(tmp_path: Path) -> None:
    """Two tensors of one name are refused."""
    assert "'a' occurs twice" in refusal(
        write_gguf(tmp_path / "m.gguf", {}, [ToyTensor("a", (32,)), ToyTensor("a", (32,))])
    )


def test_overlapping_tensors(tmp_path: Path) -> None:
    """Two tensors in one place are refused, in whichever order they are listed."""
    path = write_gguf(tmp_path / "m.gguf", {}, [ToyTensor("a", (64,), offset=32), ToyTensor("b", (64,), offset=0)])

    assert "tensors 'b' and 'a' overlap" in refusal(path)


def test_missing_bytes_are_counted(toy: Path) -> None:
    """A download that was cut off says how many bytes are missing."""
    size = toy.stat().st_size
    os.truncate(toy, size - 1000)

    assert f"1000 of {size} bytes are missing" in refusal(toy)


@pytest.mark.parametrize(
    ("kind", "n_bytes", "words"),
    [(8, 8, "has 1000000000 entries"), (9, 12, "too many arrays in arrays")],
)
def test_made_up_counts_in_a_hole_end_soon(tmp_path: Path, kind: int, n_bytes: int, words: str) -> None:
    """A file that is a huge hole cannot keep the reader busy: arrays of billions of empty texts or arrays are refused."""
    length = 10**9
    path = file_of(tmp_path, raw_header(0, 1, string(b"k") + struct.pack("<IIQ", 9, kind, length)))
    os.truncate(path, length * n_bytes + 4096)

    assert words in refusal(path)


def test_far_apart_texts_in_a_hole_end_soon(tmp_path: Path) -> None:
    """Texts that are far apart in a hole cannot make the reader read without end."""
    step = 10 * MIB
    path = file_of(tmp_path, raw_header(0, 1, string(b"k") + struct.pack("<IIQ", 9, 8, 100_000)))
    with path.open("r+b") as file:
        start = path.stat().st_size
        for index in range(1100):
            file.seek(start + index * (8 + step))
            file.write(struct.pack("<Q", step))
        file.truncate(start + 2000 * step)

    assert "larger than that of any model" in refusal(path)


def write_split(folder: Path, *, stem: str = "m") -> list[Path]:
    """A toy model in three parts, as gguf-split makes them."""
    model = ToyLlama()
    tensors = model.tensors()
    paths = []
    for index, part in enumerate((tensors[:5], tensors[5:9], tensors[9:])):
        split: dict[str, object] = {
            "split.no": Typed("uint16", index),
            "split.count": Typed("uint16", 3),
            "split.tensors.count": Typed("int32", len(tensors)),
        }
        metadata = model.metadata() | split if index == 0 else split
        paths.append(write_gguf(folder / f"{stem}-{index + 1:05d}-of-00003.gguf", metadata, part))
    return paths


@pytest.mark.parametrize("given", [0, 1, 2])
def test_any_part_leads_to_the_whole_model(tmp_path: Path, given: int) -> None:
    """Whichever part is named, all parts are read as one model, metadata from the first."""
    paths = write_split(tmp_path)

    header = read_gguf_header(paths[given])

    assert [tensor.name for tensor in header.tensors] == [tensor.name for tensor in ToyLlama().tensors()]
    assert {tensor.file_index for tensor in header.tensors} == {0, 1, 2}
    assert header.file_bytes == sum(path.stat().st_size for path in paths)
    assert (header.n_files, header.source) == (3, "m-00001-of-00003.gguf")
    assert shape_from_header(header).n_layer == 2


def test_missing_part_is_named(tmp_path: Path) -> None:
    """The name of the part that is not there stands in the message."""
    paths = write_split(tmp_path)
    paths[1].unlink()

    assert "m-00002-of-00003.gguf is missing" in refusal(paths[0])


def test_swapped_parts_are_noticed(tmp_path: Path) -> None:
    """A part that says of itself another number than its name is refused."""
    paths = write_split(tmp_path)
    paths[1].write_bytes(paths[2].read_bytes())

    assert "m-00002-of-00003.gguf: by its name it is part 1 (from 0) of 3, but its header says part 2 of 3" in refusal(
        paths[0]
    )


def test_part_of_another_model_is_noticed(tmp_path: Path) -> None:
    """Parts that hold too few tensors together are refused."""
    paths = write_split(tmp_path)
    write_gguf(paths[2], {"split.no": 2, "split.count": 3}, [ToyTensor("x", (32,))])

    assert "the parts hold 10 tensors together, but the header says 21" in refusal(paths[0])


def test_renamed_part_is_noticed(tmp_path: Path) -> None:
    """One part under an ordinary name is not mistaken for a model."""
    paths = write_split(tmp_path)

    assert "is one of 3 parts" in refusal(paths[0].rename(tmp_path / "model.gguf"))

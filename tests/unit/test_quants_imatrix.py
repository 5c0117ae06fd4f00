"""Importance matrices in both of their forms, and what is refused of them."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from helpers.gguf_writer import ToyLlama, ToyTensor, encode_header, write_gguf
from suffice.errors import UsageError
from suffice.loaders.gguf import read_gguf_header
from suffice.loaders.model_file import open_model_file
from suffice.quants.fake_quantizer import FAKE_FACTS, FakeQuantizer
from suffice.quants.imatrix import read_imatrix
from suffice.quants.made_store import MadeStore
from suffice.quants.remake import make_candidate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from suffice.model.gguf_header import GgufHeader

TOY = ToyLlama(n_embd=256, n_ff=512, n_layer=1)
MATRICES = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
SUMS = {"blk.0.attn_q.weight": ([3.0] * 256, [3.0]), "blk.0.ffn_down.weight": ([float(i) for i in range(512)], [2.0])}


def as_gguf(path: Path, sums: Mapping[str, tuple[list[float], list[float]]], type_name: str = "f32") -> Path:
    """The form of today: sums of squares, and the number of tokens that they are of."""
    tensors, data = [], b""
    for name, (values, counts) in sums.items():
        for suffix, numbers in ((".in_sum2", values), (".counts", counts)):
            tensors.append(ToyTensor(name + suffix, (len(numbers) // len(counts), len(counts)), type_name))
            if suffix == ".counts":
                tensors[-1] = ToyTensor(name + suffix, (1, len(counts)), type_name)
            raw = np.array(numbers, "<f4" if type_name == "f32" else "<f2").tobytes()
            data += raw.ljust(-(-len(raw) // 32) * 32, b"\0")
    start, _ = encode_header({"general.type": "imatrix", "imatrix.chunk_count": 5}, tensors)
    path.write_bytes(start + data)
    return path


def as_dat(path: Path, sums: Mapping[str, tuple[list[float], int]], tail: bytes = b"") -> Path:
    """The older form: sums that were divided by tokens and multiplied by calls, and the number of calls."""
    parts = [struct.pack("<i", len(sums))]
    for name, (values, n_calls) in sums.items():
        raw = name.encode()
        parts.append(
            struct.pack("<i", len(raw)) + raw + struct.pack(f"<ii{len(values)}f", n_calls, len(values), *values)
        )
    path.write_bytes(b"".join(parts) + tail)
    return path


@pytest.fixture
def header(tmp_path: Path) -> GgufHeader:
    """Of the model that the matrices are for."""
    return read_gguf_header(TOY.write(tmp_path / "toy.gguf"))


def test_both_forms_give_the_means_of_the_columns(tmp_path: Path, header: GgufHeader) -> None:
    """Worked by hand: 3 over 3 tokens is 1, and i over 2 is i/2; what follows the entries of a .dat file does not matter."""
    gguf = read_imatrix(as_gguf(tmp_path / "imatrix.gguf", SUMS), header)
    old = {name: (values, int(counts[0])) for name, (values, counts) in SUMS.items()}
    dat = read_imatrix(as_dat(tmp_path / "imatrix.dat", old, struct.pack("<ii3s", 5, 3, b"txt")), header)

    for matrix in (gguf, dat):
        assert matrix.sizes() == (("blk.0.attn_q.weight", 256), ("blk.0.ffn_down.weight", 512))
        assert (matrix.columns["blk.0.attn_q.weight"] == 1).all()
        assert (matrix.columns["blk.0.ffn_down.weight"] == np.arange(512) / 2).all()
        assert (
            matrix.n_missing == len(MATRICES) - 2 + 1
        )  # of the layer, and the head; an embedding is never in a matrix
    assert gguf.sha256 != dat.sha256


def test_experts_have_counts_of_their_own(tmp_path: Path) -> None:
    """An expert that saw no token weighs all its columns alike; the others are divided by their own counts."""
    stacked = ToyTensor("blk.0.ffn_gate_exps.weight", (4, 8, 3))
    path = write_gguf(tmp_path / "moe.gguf", TOY.metadata(), [*TOY.tensors(), stacked])
    sums = {stacked.name: ([2.0] * 4 + [0.0] * 4 + [9.0] * 4, [2.0, 0.0, 3.0])}

    matrix = read_imatrix(as_gguf(tmp_path / "imatrix.gguf", sums), read_gguf_header(path))

    assert matrix.columns[stacked.name].tolist() == [1.0] * 8 + [3.0] * 4


def test_columns_are_passed_on_as_floats(tmp_path: Path, header: GgufHeader) -> None:
    """Tensor after tensor, in the order of the sizes."""
    matrix = read_imatrix(as_gguf(tmp_path / "imatrix.gguf", SUMS), header)

    matrix.write(tmp_path / "floats")

    numbers = np.fromfile(tmp_path / "floats", np.float32)
    assert numbers.tolist() == [1.0] * 256 + [i / 2 for i in range(512)]
    assert matrix.n_bytes == numbers.nbytes


@pytest.mark.parametrize(
    ("sums", "said"),
    [
        ({"blk.0.attn_q.weight": ([1.0] * 64, [1.0])}, "64 numbers for blk.0.attn_q.weight, which has 256 columns"),
        ({"blk.0.attn_q.weight": ([float("nan")] * 256, [1.0])}, "no finite numbers for blk.0.attn_q.weight"),
        ({"blk.9.attn_q.weight": ([1.0] * 256, [1.0])}, "none of the tensors of toy.gguf"),
    ],
)
def test_another_models_matrix_is_refused(
    tmp_path: Path, header: GgufHeader, sums: dict[str, tuple[list[float], list[float]]], said: str
) -> None:
    """By the first tensor that does not fit."""
    with pytest.raises(UsageError, match=said):
        read_imatrix(as_gguf(tmp_path / "imatrix.gguf", sums), header)


def test_halves_and_lone_sums_are_refused(tmp_path: Path, header: GgufHeader) -> None:
    """Only 32-bit floats with counts are what llama-imatrix writes."""
    with pytest.raises(UsageError, match="in_sum2 in 32-bit floats"):
        read_imatrix(as_gguf(tmp_path / "half.gguf", SUMS, "f16"), header)
    with pytest.raises(UsageError, match=r"counts in 32-bit floats"):
        read_imatrix(
            write_gguf(tmp_path / "lone.gguf", {}, [ToyTensor("blk.0.attn_q.weight.in_sum2", (256,), "f32")]), header
        )


@pytest.mark.parametrize(
    "raw", [b"", b"\1\0\0\0", b"\xff" * 64, b"GGUF", b"some notes of mine, which are longer than a number"]
)
def test_what_is_no_matrix_is_refused(tmp_path: Path, header: GgufHeader, raw: bytes) -> None:
    """Rubbish of any kind is one sentence with the file's name."""
    path = tmp_path / "rubbish"
    path.write_bytes(raw)
    with pytest.raises(UsageError, match=r"rubbish.*importance matrix|importance matrix.*rubbish"):
        read_imatrix(path, header)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_cut_matrix_is_refused(tmp_path: Path, header: GgufHeader, share: float) -> None:
    """Both forms, wherever the end is missing."""
    old = {name: (values, int(counts[0])) for name, (values, counts) in SUMS.items()}
    for whole in (as_gguf(tmp_path / "a.gguf", SUMS), as_dat(tmp_path / "a.dat", old)):
        raw = whole.read_bytes()
        whole.write_bytes(raw[: int(len(raw) * share)])
        with pytest.raises(UsageError, match="importance matrix"):
            read_imatrix(whole, header)


def test_a_folder_or_a_missing_file_is_refused(tmp_path: Path, header: GgufHeader) -> None:
    """With what it is."""
    with pytest.raises(UsageError, match="no regular file"):
        read_imatrix(tmp_path, header)
    with pytest.raises(UsageError, match="No such file"):
        read_imatrix(tmp_path / "none", header)


def test_a_matrix_makes_another_candidate(tmp_path: Path) -> None:
    """It has a place of its own in the cache, allows recipes that need one, and says what it knows nothing of."""
    model = open_model_file(TOY.write(tmp_path / "toy.gguf"))
    matrix = as_gguf(tmp_path / "imatrix.gguf", SUMS)
    store, quantizer = MadeStore(tmp_path / "cache"), FakeQuantizer()

    plain = make_candidate(model, "q4_k_m", quantizer, store)
    weighed = make_candidate(model, "q4_k_m", quantizer, store, imatrix=matrix)
    small = make_candidate(model, "iq2_xxs", quantizer, store, imatrix=matrix)

    assert len({plain.path, weighed.path, small.path}) == 3
    assert [job.imatrix is not None for job in quantizer.jobs] == [False, True, True]
    assert quantizer.jobs[1].imatrix_sizes == (("blk.0.attn_q.weight", 256), ("blk.0.ffn_down.weight", 512))
    assert weighed.subject.warnings == (
        "the importance matrix knows nothing of 6 of 9 tensors that were quantized; those were made without it",
    )
    assert [path.name for path in sorted(weighed.path.parent.iterdir()) if path.suffix != ""] == [
        "made.json",
        "toy-q4_k_m.gguf",
    ]


def test_an_engine_that_takes_no_matrix_says_so(tmp_path: Path) -> None:
    """Builds from before spring 2026 want a C++ map instead, which nobody outside can make."""
    model = open_model_file(TOY.write(tmp_path / "toy.gguf"))
    old = FakeQuantizer(facts=replace(FAKE_FACTS, takes_imatrix=False))

    with pytest.raises(UsageError, match="takes no importance matrix from other programs"):
        make_candidate(model, "q4_k_m", old, MadeStore(tmp_path / "c"), imatrix=as_gguf(tmp_path / "i.gguf", SUMS))

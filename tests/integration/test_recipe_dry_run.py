"""Recipes against llama.cpp's own quantizer, tensor by tensor. Skipped where no installed engine has one (xllamacpp was built without)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from helpers.quantizer import Job, Planned, find_quantizer, run_quantizer
from helpers.recipe_shapes import SHAPES
from helpers.sample import require_sample_model
from suffice.loaders.gguf import read_gguf_header
from suffice.model.ggml_types import row_bytes
from suffice.model.recipe import RECIPE_NAMES, quantized_header

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.measure.engine.library import LibraryChoice
    from suffice.model.gguf_header import GgufHeader, TensorInfo

pytestmark = pytest.mark.engine

ANY_MATRIX = {"a tensor": 1}


@pytest.fixture(scope="module")
def quantizer() -> LibraryChoice:
    """A library of llama.cpp that can quantize."""
    found = find_quantizer()
    if found is None:
        pytest.skip(
            "no engine here has a quantizer: install llama-cpp-python, or set SUFFICE_TEST_LIBRARY to a libllama"
        )
    return found


@pytest.mark.parametrize("name", SHAPES)
def test_types_and_order_are_those_of_the_dry_run(quantizer: LibraryChoice, tmp_path: Path, name: str) -> None:
    """Every tensor of every shape under every recipe, with an importance matrix and without, has the quantizer's type and place."""
    source = SHAPES[name].write(tmp_path / "model.gguf")
    header = read_gguf_header(source)
    cases = [(recipe, matrix) for recipe in RECIPE_NAMES for matrix in (False, True)]
    ours = [quantized_header(header, recipe, has_imatrix=matrix) for recipe, matrix in cases]

    theirs = run_quantizer(
        quantizer,
        [
            Job(source=str(source), file_type=_file_type(result), imatrix=ANY_MATRIX if matrix else None)
            for result, (_, matrix) in zip(ours, cases, strict=True)
        ],
    )

    for result, answer, case in zip(ours, theirs, cases, strict=True):
        assert [Planned(tensor.name, tensor.type_name) for tensor in result.tensors] == answer, case


@pytest.mark.parametrize(
    ("name", "recipe", "matrix"),
    [
        ("rows of 288 and 90", "q4_k_m", False),
        ("rows of 288 and 90", "q4_0", True),
        ("odd names", "q3_k_m", False),
        ("odd names", "f32", False),
        ("positions", "bf16", False),
        ("positions", "mxfp4", False),
        ("latent attention", "q8_0", False),
        ("latent attention", "q4_k_s", False),
    ],
)
def test_the_header_is_that_of_the_file_that_the_quantizer_writes(
    quantizer: LibraryChoice, tmp_path: Path, name: str, recipe: str, *, matrix: bool
) -> None:
    """Offsets, sizes, metadata and the size of the file are those of a real quantized file."""
    source, target = SHAPES[name].write(tmp_path / "model.gguf"), tmp_path / "quantized.gguf"
    header = read_gguf_header(source)
    expected = quantized_header(header, recipe, has_imatrix=matrix)
    sizes = {tensor.name: tensor.dims[0] * (*tensor.dims, 1, 1)[2] for tensor in header.tensors} if matrix else None

    job = Job(source=str(source), target=str(target), file_type=_file_type(expected), imatrix=sizes)
    run_quantizer(quantizer, [job])

    real = read_gguf_header(target)
    assert real.tensors == expected.tensors
    assert real.metadata == expected.metadata
    slack = (
        32 if name == "odd names" else 0
    )  # dims of 1 at the end are dropped, and how much padding stood behind them is not known
    assert real.file_bytes == target.stat().st_size
    assert abs(real.file_bytes - expected.file_bytes) <= slack


def test_a_real_file_has_the_types_of_its_recipe() -> None:
    """The sample model's F16 header, quantized to Q4_1, is the header of the Q4_1 file that its makers published."""
    real = read_gguf_header(require_sample_model())
    if real.metadata.get("general.file_type") != 3:
        pytest.skip("the sample model is not Q4_1")

    made = quantized_header(replace(real, tensors=tuple(_unquantized(tensor) for tensor in real.tensors)), "q4_1")

    def types(header: GgufHeader) -> dict[str, str]:
        return {tensor.name: tensor.type_name for tensor in header.tensors}

    assert types(made) == types(real)
    assert made.tensor_bytes == real.tensor_bytes


def _file_type(header: GgufHeader) -> int:
    value = header.metadata["general.file_type"]
    assert isinstance(value, int)
    return value


def _unquantized(tensor: TensorInfo) -> TensorInfo:
    type_name = "f32" if len(tensor.dims) == 1 else "f16"
    return replace(tensor, type_name=type_name, n_bytes=row_bytes(type_name, tensor.elements))

"""Recipes against llama.cpp's own quantizer (its dry run), for every model of the catalogue, tensor by tensor.

The files are holes behind a real header: a model of 2 TB takes some hundred kilobytes of disk.

Usage: PYTHONPATH=tests python benchmarks/recipes.py [MODEL ...]   compare; without names, every model of the catalogue
       PYTHONPATH=tests python benchmarks/recipes.py --record      write the quantizer's answers for the toy shapes of the tests, for where it is missing

Needs llama-cpp-python, or SUFFICE_TEST_LIBRARY=/path/to/libllama.so.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.quantizer import Job, Planned, QuantizerError, find_quantizer, run_quantizer
from helpers.recipe_shapes import ANSWERS, SHAPES, fingerprint
from suffice.catalogue.models import all_models, model_named
from suffice.model.blueprint import blueprint_header, blueprint_refusal
from suffice.model.recipe import RECIPE_NAMES, needs_imatrix, quantized_header
from suffice.slices.gguf_write import lay_out

if TYPE_CHECKING:
    from suffice.measure.engine.library import LibraryChoice
    from suffice.model.gguf_header import GgufHeader
    from suffice.model.spec import ModelSpec

MATRIX_MATTERS = ("q4_0", "q5_0", "iq4_nl", "iq4_xs", "iq3_xxs")
ANY_MATRIX = {"a tensor": 1}
SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One tensor whose type or place is not the quantizer's."""

    recipe: str
    ours: Planned
    theirs: Planned


def file_type(header: GgufHeader) -> int:
    """llama.cpp's number of a recipe."""
    value = header.metadata["general.file_type"]
    if not isinstance(value, int):
        raise TypeError(f"general.file_type is {value!r}")
    return value


def planned(header: GgufHeader) -> list[Planned]:
    """What we say of each tensor, in the quantizer's words."""
    return [Planned(tensor.name, tensor.type_name) for tensor in header.tensors]


def compare(quantizer: LibraryChoice, spec: ModelSpec, path: Path) -> tuple[int, list[Difference]]:
    """How many tensors were compared under all recipes, and where they differ."""
    header = blueprint_header(spec)
    layout = lay_out(header.metadata, header.tensors)
    with path.open("wb") as file:
        file.write(layout.header)
        file.truncate(layout.file_bytes)
    cases = [(recipe, None) for recipe in RECIPE_NAMES] + [
        (recipe, matrix) for recipe in MATRIX_MATTERS for matrix in (False, True)
    ]
    ours = [quantized_header(header, recipe, has_imatrix=matrix) for recipe, matrix in cases]
    with_matrix = [matrix or (matrix is None and needs_imatrix(recipe)) for recipe, matrix in cases]
    jobs = [
        Job(source=str(path), file_type=file_type(result), imatrix=ANY_MATRIX if matrix else None)
        for result, matrix in zip(ours, with_matrix, strict=True)
    ]
    answers = run_quantizer(quantizer, jobs)
    differences = [
        Difference(recipe=recipe, ours=mine, theirs=other)
        for (recipe, _), result, answer in zip(cases, ours, answers, strict=True)
        for mine, other in zip(planned(result), answer, strict=True)
        if mine != other
    ]
    return sum(len(answer) for answer in answers), differences


def compare_all(quantizer: LibraryChoice, names: list[str]) -> int:
    """Print one line per model and the sum; the exit status says whether anything differs."""
    specs = [model_named(name).spec for name in names] or [entry.spec for entry in all_models()]
    compared, differing, refused = 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for spec in specs:
            reason = blueprint_refusal(spec)
            if reason:
                print(f"{spec.name:40} refused: {reason}", flush=True)
                refused += 1
                continue
            try:
                count, differences = compare(quantizer, spec, Path(folder) / "model.gguf")
            except QuantizerError as error:
                print(f"{spec.name:40} the quantizer failed: {error}", flush=True)
                differing += 1
                continue
            print(f"{spec.name:40} {count:7} compared, {len(differences)} differ", flush=True)
            for item in differences[:SHOWN]:
                print(f"    {item.recipe}: {item.ours.name} {item.ours.type_name}, {item.theirs}")
            compared, differing = compared + count, differing + len(differences)
    print(f"{len(specs) - refused} models, {compared} tensors compared, {differing} differ, {refused} models refused")
    return int(differing > 0)


def record(quantizer: LibraryChoice) -> int:
    """Write a fingerprint of the quantizer's answers for each toy shape and recipe."""
    numbers = {recipe: file_type(quantized_header(SHAPES["fused"].header(), recipe)) for recipe in RECIPE_NAMES}
    with tempfile.TemporaryDirectory() as folder, ANSWERS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["shape", *RECIPE_NAMES])
        for name, shape in SHAPES.items():
            source = str(shape.write(Path(folder) / "model.gguf"))
            jobs = [
                Job(source=source, file_type=number, imatrix=matrix)
                for number in numbers.values()
                for matrix in (None, ANY_MATRIX)
            ]
            answers = iter(run_quantizer(quantizer, jobs))
            pairs = [(plain, next(answers)) for plain in answers]
            writer.writerow(
                [
                    name,
                    *(fingerprint([(item.name, item.type_name) for item in plan] for plan in pair) for pair in pairs),
                ]
            )
    print(f"written: {ANSWERS}")
    return 0


def main(arguments: list[str]) -> int:
    """Compare or record."""
    quantizer = find_quantizer()
    if quantizer is None:
        print("no quantizer: install llama-cpp-python, or set SUFFICE_TEST_LIBRARY to a libllama")
        return 2
    print(f"quantizer: {quantizer.name} {quantizer.version or quantizer.library}")
    return record(quantizer) if arguments == ["--record"] else compare_all(quantizer, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Candidates made by llama.cpp's own quantizer of a real model: what the file is, what is said of it, and how it ends in the middle."""

from __future__ import annotations

import os
import struct
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from helpers.gguf_writer import ToyLlama
from helpers.sample import require_sample_model
from helpers.tiny_models import write_random
from suffice.errors import EngineCrashError, EngineError, EngineMissingError, UsageError
from suffice.loaders.gguf import read_gguf_header
from suffice.loaders.model_file import ModelFile, open_model_file
from suffice.measure.engine.quantizer import LlamaCppQuantizer, QuantizeJob, find_quantizer
from suffice.model.recipe_types import may_quantize
from suffice.quants.made_store import MadeStore
from suffice.quants.recipe_plan import plan_recipe
from suffice.quants.remake import Made, make_candidate

if TYPE_CHECKING:
    from collections.abc import Callable

    from suffice.model.gguf_header import GgufHeader

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def quantizer() -> LlamaCppQuantizer:
    """That of an installed engine, or of the libllama that the environment names."""
    library = os.environ.get("SUFFICE_TEST_LIBRARY")
    try:
        return find_quantizer(Path(library) if library else None)
    except EngineMissingError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def sample() -> ModelFile:
    """The sample model, which is Q4_1."""
    return open_model_file(require_sample_model())


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> MadeStore:
    """A cache for all tests here."""
    return MadeStore(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def make(quantizer: LlamaCppQuantizer, sample: ModelFile, store: MadeStore) -> Callable[..., Made]:
    """Makes a candidate of the sample model with one thread."""

    def of(recipe: str, **more: object) -> Made:
        return make_candidate(sample, recipe, quantizer, store, n_threads=1, **more)  # type: ignore[arg-type]

    return of


@pytest.mark.parametrize("recipe", ["q8_0", "q4_k_m"])
def test_the_file_is_as_the_recipe_says(make: Callable[..., Made], sample: ModelFile, recipe: str) -> None:
    """Tensor by tensor and to the byte, so that room was checked for the right size; it is warned of being made from Q4_1."""
    told: list[str] = []

    made = make(recipe, progress=told.append)

    planned = plan_recipe(read_gguf_header(sample.path), recipe, has_imatrix=False).header
    header = read_gguf_header(made.path)
    assert {t.name: t.type_name for t in header.tensors} == {t.name: t.type_name for t in planned.tensors}
    assert header.file_bytes == planned.file_bytes == made.subject.file_bytes
    assert made.subject.warnings[0].startswith("made from a file that is already Q4_1")
    assert not any("differs from the one" in warning for warning in made.subject.warnings)
    assert told[-1] == f"quantizing to {recipe}: 272 of 272 tensors"
    assert not make(recipe).is_new


def test_fallbacks_are_those_of_the_quantizer(make: Callable[..., Made]) -> None:
    """Rows of 576 take no blocks of 256: all but the 30 ffn_down of 210 matrices, and the embedding that is the head as well."""
    warning = make("q4_k_m").subject.warnings[-1]
    assert warning.startswith("181 of 211 quantized tensors")
    assert warning.endswith("q5_0 (166) or q8_0 (15) instead: 6.17 bits per weight")


def write_matrix(path: Path, header: GgufHeader, first: float) -> Path:
    """A .dat file in which the first 32 columns of every matrix matter ``first`` times as much as the others."""
    tensors = [tensor for tensor in header.tensors if may_quantize(tensor, "llama") and "token_embd" not in tensor.name]
    parts = [struct.pack("<i", len(tensors))]
    for tensor in tensors:
        name, width = tensor.name.encode(), tensor.dims[0]
        values = [first] * 32 + [1.0] * (width - 32)
        parts.append(struct.pack("<i", len(name)) + name + struct.pack(f"<ii{width}f", 1, width, *values))
    path.write_bytes(b"".join(parts))
    return path


def test_a_matrix_decides_over_the_weights(quantizer: LlamaCppQuantizer, store: MadeStore, tmp_path: Path) -> None:
    """A recipe that needs one is made with it; another matrix gives other weights of the same types."""
    toy = read_gguf_header(ToyLlama(n_embd=256, n_ff=512).write(tmp_path / "zeros.gguf"))
    more = {"llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.vocab_size": 256, "general.file_type": 1}
    toy = replace(toy, metadata={**toy.metadata, **more})
    model = open_model_file(write_random(toy, tmp_path / "toy.gguf"))
    flat, steep = (write_matrix(tmp_path / f"{first:g}.dat", toy, first) for first in (1.0, 1000.0))
    with pytest.raises(UsageError, match="needs an importance matrix"):
        make_candidate(model, "q2_k_s", quantizer, store, n_threads=1)

    evenly, firstly = (
        make_candidate(model, "q2_k_s", quantizer, store, imatrix=matrix, n_threads=1) for matrix in (flat, steep)
    )

    assert evenly.subject.file_bytes == firstly.subject.file_bytes
    assert evenly.subject.identity != firstly.subject.identity
    assert firstly.subject.warnings == ()


def test_a_reference_that_llama_cpp_refuses_is_one_sentence(
    quantizer: LlamaCppQuantizer, store: MadeStore, tmp_path: Path
) -> None:
    """A toy without what llama.cpp needs of a model: its words, and nothing in the cache."""
    path = ToyLlama(architecture="noarch").write(tmp_path / "toy.gguf")
    before = store.total_bytes()
    job = QuantizeJob(source=path, target=tmp_path / "out.gguf", file_type=7, n_threads=1)

    with pytest.raises(EngineError, match=r"could not quantize the model: .*noarch"):
        quantizer.quantize(job, lambda _done, _count: None)
    assert store.total_bytes() == before


def test_a_killed_engine_leaves_no_candidate(quantizer: LlamaCppQuantizer, sample: ModelFile, tmp_path: Path) -> None:
    """Kill -9 in the middle of the work is one error, and the cache is empty."""
    own = MadeStore(tmp_path / "cache")
    killed = threading.Event()

    def kill(text: str) -> None:
        if "272 tensors" in text and not killed.is_set():
            killed.set()
            for child in psutil.Process().children():
                if "suffice.measure.engine.worker" in child.cmdline():
                    child.kill()

    with pytest.raises(EngineCrashError, match="SIGKILL"):
        make_candidate(sample, "q5_k_m", quantizer, own, n_threads=1, progress=kill)
    assert own.total_bytes() == 0


def test_ctrl_c_ends_the_engine_at_once(quantizer: LlamaCppQuantizer, sample: ModelFile, tmp_path: Path) -> None:
    """No process goes on quantizing for nobody."""
    own = MadeStore(tmp_path / "cache")

    def interrupt(text: str) -> None:
        if "272 tensors" in text:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_candidate(sample, "q5_k_m", quantizer, own, n_threads=1, progress=interrupt)
    time.sleep(0.2)
    workers = [child for child in psutil.Process().children() if "suffice.measure.engine.worker" in child.cmdline()]
    assert workers == []
    assert own.total_bytes() == 0

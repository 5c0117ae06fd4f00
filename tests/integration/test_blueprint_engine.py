"""Every architecture that suffice can write, shrunk to some layers with random weights, runs in llama.cpp."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

from helpers.sample import require_sample_model
from helpers.tiny_models import shrunk, write_random
from suffice.catalogue.models import all_models, model_named
from suffice.errors import EngineError
from suffice.loaders.gguf import read_gguf_header
from suffice.measure.engine.client import Timeouts, find_engine
from suffice.measure.engine.library import available_engines
from suffice.measure.engine.seam import EngineSettings
from suffice.model.blueprint import blueprint_header, blueprint_refusal, supported_architectures
from suffice.model.spec import Experts, ModelSpec

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.measure.engine.client import LlamaCppEngine

# The AMX buffers of some builds take the three-dimensional matrices of latent attention and then cannot multiply them.
SETTINGS = EngineSettings(n_ctx=64, n_threads=1, n_threads_batch=1, n_batch=16, n_ubatch=16, use_extra_buffers=False)
TIMEOUTS = Timeouts(load_s=60, open_s=60, request_s=60)
LONGEST_PATTERN = 6  # "5L:1G": a shorter model has no layer of the second kind
BLOCKS = 4


def _variant(spec: ModelSpec) -> tuple[object, ...]:
    """What makes two models of an architecture differ in their tensors."""
    latent = None if spec.latent is None else spec.latent.q_rank is None
    return spec.architecture, spec.experts is None, latent, frozenset(spec.extra)


def _variants() -> list[ModelSpec]:
    """One small model for each kind in the catalogue, and for architectures that have none there."""
    found = {_variant(entry.spec): entry.spec for entry in all_models() if blueprint_refusal(entry.spec) is None}
    gemma = replace(
        model_named("gemma-2-2b").spec,
        name="gemma",
        architecture="gemma",
        sliding_window=None,
        extra=MappingProxyType({}),
    )
    qwen2moe = replace(
        model_named("qwen2.5-7b").spec,
        name="qwen2moe",
        architecture="qwen2moe",
        experts=Experts(n_expert=60, n_used=4, n_ff=1408, n_shared=1, n_ff_shared=5632),
        extra=MappingProxyType({"shared_gate": "1"}),
    )
    command_r = replace(
        model_named("qwen2.5-7b").spec, name="command-r", architecture="command-r", qkv_bias=False, tied=True
    )
    specs = [*found.values(), gemma, qwen2moe, command_r]
    return [shrunk(spec, BLOCKS if "blocks" in spec.extra else _length(spec)) for spec in specs]


def _length(spec: ModelSpec) -> int:
    return LONGEST_PATTERN if "5L" in (spec.sliding_pattern or "") else BLOCKS


SPECS = _variants()


@pytest.fixture(scope="module")
def engine() -> LlamaCppEngine:
    """The first engine that is installed."""
    if not available_engines():
        pytest.skip("no engine is installed")
    return find_engine(timeouts=TIMEOUTS)


def test_every_architecture_is_tried() -> None:
    """What is offered as supported has a model below."""
    assert {spec.architecture for spec in SPECS} == set(supported_architectures())


@pytest.mark.engine
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_the_engine_loads_and_runs_it(engine: LlamaCppEngine, spec: ModelSpec, tmp_path: Path) -> None:
    """llama.cpp finds every tensor and key that it demands, knows every one that is there, and decodes a token."""
    path = write_random(blueprint_header(spec), tmp_path / "model.gguf")
    with engine.open(path, SETTINGS) as session:
        session.prefill(8)
        assert len(session.decode(1)) == 1


@pytest.mark.engine
def test_a_tensor_too_few_is_noticed(engine: LlamaCppEngine, tmp_path: Path) -> None:
    """The test above can fail: without the norms of queries and keys llama.cpp does not load a Qwen3."""
    spec = shrunk(model_named("qwen3-0.6b").spec)
    without = replace(blueprint_header(replace(spec, architecture="llama", extra=MappingProxyType({}))))
    renamed = {key.replace("llama.", "qwen3."): value for key, value in without.metadata.items()}
    header = replace(without, metadata={**renamed, "general.architecture": "qwen3"})
    with pytest.raises(EngineError, match="attn_k_norm"):
        engine.open(write_random(header, tmp_path / "model.gguf"), SETTINGS)


@pytest.mark.engine
def test_the_sample_model_has_the_tensors_of_its_blueprint() -> None:
    """A real file: the same names, dims and F32 tensors, and the same metadata wherever both say something of the shape."""
    real = read_gguf_header(require_sample_model())
    if "smollm2" not in real.source.lower():
        pytest.skip("the sample model is another one")
    built = blueprint_header(model_named("smollm2-135m").spec)
    assert {tensor.name: tensor.dims for tensor in built.tensors} == {
        tensor.name: tensor.dims for tensor in real.tensors
    }
    kept = {tensor.name for tensor in real.tensors if tensor.type_name == "f32"}
    assert {tensor.name for tensor in built.tensors if tensor.type_name == "f32"} == kept
    chosen = ("general.name", "general.file_type", "llama.rope.freq_base", "llama.attention.layer_norm_rms_epsilon")
    common = built.metadata.keys() & real.metadata.keys() - set(chosen)
    assert {key: built.metadata[key] for key in common} == {key: real.metadata[key] for key in common}
    assert {key for key in real.metadata if key.startswith("llama.")} <= built.metadata.keys()

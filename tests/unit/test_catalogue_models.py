"""The shapes that ship with the package: complete, sourced, and found by the names that people write."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from importlib.resources import files

import pytest

from suffice.catalogue.models import all_models, model_named, search_models
from suffice.errors import UsageError

DATA = files("suffice.catalogue").joinpath("data")


def test_every_row_is_loaded_with_its_source() -> None:
    """124 models with different ids; each names where its shape comes from."""
    entries = all_models()
    assert len(entries) == len({entry.id for entry in entries}) == 124
    assert all(entry.source and entry.family for entry in entries)


def test_a_published_count_that_differs_has_a_note() -> None:
    """Where published and computed parameters are more than 2 % apart, the row says why."""
    for entry in all_models():
        published = entry.published_parameters
        assert published is not None
        assert entry.note or abs(published - entry.computed_parameters) <= 0.02 * published, entry.id


def test_the_row_becomes_the_shape() -> None:
    """Every part of a shape that has experts, latent attention and leading dense layers comes from its column."""
    spec = model_named("deepseek-v3").spec
    assert (spec.architecture, spec.n_layer, spec.n_embd, spec.n_vocab, spec.tied) == (
        "deepseek2", 61, 7168, 129280, False,
    )  # fmt: skip
    assert spec.latent is not None
    assert (spec.latent.kv_rank, spec.latent.rope_length, spec.latent.nope_length) == (512, 64, 128)
    assert (spec.latent.value_length, spec.latent.q_rank) == (128, 1536)
    assert spec.experts is not None
    assert (spec.experts.n_expert, spec.experts.n_used, spec.experts.n_ff) == (256, 8, 2048)
    assert (spec.experts.n_shared, spec.experts.n_dense_first) == (1, 3)
    assert spec.extra["router_bias"] == "1"
    assert model_named("gemma-3-1b").spec.sliding_pattern == "5L:1G"
    assert model_named("internlm2.5-20b").spec.context_length is None


@pytest.mark.parametrize("name", ["llama-3.1-8b", "LLAMA-3.1-8B", "llama-3-1-8b", " llama_3.1_8b ", "Llama 3.1 8B"])
def test_a_name_is_found_in_any_spelling(name: str) -> None:
    """Case, dots, dashes, underscores and blanks do not matter."""
    assert model_named(name).id == "llama-3.1-8b"


def test_spellings_stay_unambiguous() -> None:
    """No two models become one when dots and dashes count as one another."""
    assert all(model_named(entry.id) is entry for entry in all_models())


def test_an_unknown_name_is_refused_with_near_ones() -> None:
    """The sentence holds the name and what it may have meant."""
    with pytest.raises(UsageError, match=r"no model .* 'llama-3.1-9b'; did you mean llama-3.1-8b"):
        model_named("llama-3.1-9b")
    with pytest.raises(UsageError, match="suffice catalog models"):
        model_named("¿?")


def test_search_takes_words_of_id_family_and_architecture() -> None:
    """All words must be there; nothing asked for is everything."""
    assert [entry.id for entry in search_models("MIXTRAL 8x7b")] == ["mixtral-8x7b"]
    assert {entry.spec.architecture for entry in search_models("qwen3moe")} == {"qwen3moe"}
    assert search_models("") == all_models()
    assert search_models("no such thing") == ()


def test_every_key_of_extra_is_explained() -> None:
    """The README beside the data has a row for each of them."""
    text = DATA.joinpath("models.csv").read_text(encoding="utf-8")
    used = {key for row in csv.DictReader(text.splitlines()) for key in re.findall(r"(\w+)=", row["extra"])}
    table = [line for line in DATA.joinpath("README.md").read_text(encoding="utf-8").splitlines() if line[:3] == "| `"]
    explained = {key for line in table for key in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert used <= explained


def test_loading_needs_no_heavy_package() -> None:
    """Neither NumPy nor Pydantic nor SciPy is imported for a shape."""
    program = (
        "import sys; from suffice.catalogue.models import model_named; from suffice.model.blueprint import blueprint_header;"
        "blueprint_header(model_named('llama-3.1-8b').spec); print({'numpy','pydantic','scipy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"

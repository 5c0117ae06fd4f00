"""From what a user writes to a model: a file that is here, or a shape that nobody has downloaded.

=========================================  ==================================================================
``model.gguf``                             a file, and all its parts
``sample:smollm2-135m``                    a real small model from the package registry
``llama-3.1-8b:q4_k_m``                    a shape of the catalogue, under a quantization recipe
``path/to/config.json:q4_k_m``             a shape from a Hugging Face config (or the folder that holds one)
``Qwen/Qwen3-8B:q4_k_m``                   the same, fetched from the hub by huggingface_hub
``https://host/model.gguf``                the header of a remote GGUF file, read by range requests
``model-f16.gguf:q4_k_m``                  the header of a file, under another recipe
=========================================  ==================================================================
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from suffice.errors import ModelFileError, UsageError
from suffice.loaders.gguf import read_gguf_header
from suffice.loaders.model_file import ModelFile, open_model_file
from suffice.loaders.samples import SAMPLE_PREFIX, sample_path
from suffice.loaders.shape_model import ShapeModel, shape_model
from suffice.model.recipe import canonical_recipe, quantized_header

if TYPE_CHECKING:
    from suffice.model.gguf_header import GgufHeader
    from suffice.model.spec import ModelSpec

# Also what only nearly is one: it can hold a password, which no message may repeat. A path swallows the second slash.
_URL: Final = re.compile(r"\s*(?:https?:/|[a-z][a-z0-9+.-]+://)", re.IGNORECASE)
_RECIPE: Final = re.compile(r"(?P<shape>.+):(?P<recipe>[A-Za-z0-9_]{2,16})", re.DOTALL)
_GGUF: Final = ".gguf"


def resolve_model(reference: str, *, folder: Path | None = None, in_slices: bool = False) -> ModelFile | ShapeModel:
    """The model behind what a user wrote; see the table above.

    Args:
        reference: what was written.
        folder: what relative paths start from, when it is not the current folder.
        in_slices: take the header of a local file only, so that it is measured in slices like a model that is not here.

    Raises:
        ModelFileError: no such file or sample, not a usable file, or it cannot be fetched.
        UsageError: no such shape or recipe.
    """
    if reference.startswith(SAMPLE_PREFIX) and "/" not in reference:
        return _file(sample_path(reference.removeprefix(SAMPLE_PREFIX)), reference, in_slices=in_slices)
    path = Path(reference) if folder is None else folder / reference
    if not _URL.match(reference) and _is_there(path):
        if _is_config(path):
            raise UsageError(f"{reference}: say which quantization it should have: {reference}:q4_k_m")
        return _file(path, reference, in_slices=in_slices)
    match = _RECIPE.fullmatch(reference)
    if _URL.match(reference):
        return _remote(reference)
    if match is None:
        raise _not_found(reference)
    return _shape(reference, match["shape"], match["recipe"], folder)


def shown_reference(reference: str) -> str:
    """What may be printed and recorded of what a user wrote: all of it, but of a URL no user, password and query."""
    if not _URL.match(reference):
        return reference
    from suffice.loaders.remote import shown_url  # noqa: PLC0415  # rarely needed

    url, recipe = _url_and_recipe(reference)
    return shown_url(url) if recipe is None else f"{shown_url(url)}:{recipe}"


def _file(path: Path, reference: str, *, in_slices: bool) -> ModelFile | ShapeModel:
    if not in_slices:
        return open_model_file(path)
    return shape_model(read_gguf_header(path), reference=reference, source=f"the header of {path.name}")


def _shape(reference: str, shape: str, recipe: str, folder: Path | None) -> ShapeModel:
    path = Path(shape) if folder is None else folder / shape
    if path.name.lower().endswith(_GGUF):
        recipe = canonical_recipe(recipe)
        header = quantized_header(read_gguf_header(path), recipe)
        return shape_model(header, reference=reference, source=f"the header of {path.name}, quantized as {recipe}")
    spec, source = _spec(shape, path)
    return shape_model(_header(spec, recipe), reference=reference, source=source)


def _header(spec: ModelSpec, recipe: str) -> GgufHeader:
    from suffice.model.blueprint import blueprint_header  # noqa: PLC0415  # files need no blueprint

    return quantized_header(blueprint_header(spec), canonical_recipe(recipe))


def _spec(shape: str, path: Path) -> tuple[ModelSpec, str]:
    if _is_there(path) or _is_config(path):
        from suffice.loaders.hf_config import read_config  # noqa: PLC0415  # rarely needed, and slow to import

        return read_config(path), f"config.json in {path.name}" if path.is_dir() else path.name
    if "/" in shape:
        from suffice.loaders.hub import spec_from_hub  # noqa: PLC0415  # as above

        return spec_from_hub(shape), f"config.json of {shape} on the hub"
    from suffice.catalogue.models import model_named  # noqa: PLC0415  # files need no catalogue

    entry = model_named(shape)
    return entry.spec, f"catalogue: {entry.source}"


def _remote(reference: str) -> ShapeModel:
    from suffice.loaders.remote import is_remote_gguf, read_remote_gguf_header, shown_url  # noqa: PLC0415  # httpx is slow

    url, recipe = _url_and_recipe(reference)
    shown = shown_url(url)
    if not is_remote_gguf(url):
        raise ModelFileError(
            f"{shown}: servers cannot be measured yet; give a GGUF file, the address of one (http or https, and it ends in .gguf), or a "
            "shape such as llama-3.1-8b:q4_k_m"
        )
    header = read_remote_gguf_header(url)
    if recipe is not None:
        return shape_model(
            quantized_header(header, recipe), reference=f"{shown}:{recipe}", source=f"{shown}, quantized as {recipe}"
        )
    return shape_model(header, reference=shown, source=shown)


def _url_and_recipe(reference: str) -> tuple[str, str | None]:
    """The URL, and the recipe that stands behind it; a query may end in anything, so there only a recipe's name is taken for one."""
    from suffice.loaders.remote import is_remote_gguf  # noqa: PLC0415  # rarely needed

    text = reference.strip()
    match = _RECIPE.fullmatch(text)
    if match is None or not is_remote_gguf(match["shape"]):
        return text, None
    try:
        return match["shape"], canonical_recipe(match["recipe"])
    except UsageError:
        if is_remote_gguf(text):
            return text, None
        raise


def _not_found(reference: str) -> ModelFileError | UsageError:
    from suffice.catalogue.models import model_named  # noqa: PLC0415  # as above

    if "/" not in reference and not reference.lower().endswith(_GGUF):
        entry = model_named(reference.rstrip(":"))
        return UsageError(f"{reference}: say which quantization it should have: {entry.spec.name}:q4_k_m")
    return ModelFileError(
        f"{reference}: no such file; check the path, or give a shape and a quantization such as llama-3.1-8b:q4_k_m "
        "(`suffice catalog models` lists them)"
    )


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _is_config(path: Path) -> bool:
    try:
        return path.suffix == ".json" or path.is_dir()
    except (OSError, ValueError):
        return False

"""Models in place of one that is too big: the same with fewer bits, smaller ones of its family, mixtures of experts of its size."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from suffice.catalogue.models import ModelEntry, all_models, model_named
from suffice.catalogue.names import plain
from suffice.errors import UnsupportedShapeError, UsageError
from suffice.loaders.gguf import read_gguf_header
from suffice.loaders.shape_model import ShapeModel, shape_model
from suffice.model.blueprint import blueprint_header
from suffice.model.recipe import canonical_recipe, quantized_header

if TYPE_CHECKING:
    from collections.abc import Iterable

    from suffice.loaders.model_file import ModelFile
    from suffice.model.gguf_header import GgufHeader
    from suffice.model.shape import ModelShape

LADDER: Final = ("q8_0", "q6_k", "q5_k_m", "q4_k_m", "q3_k_m", "q2_k", "iq2_xxs")
"""Recipes to go down by: one of each number of bits. Below them are formats that are for models trained in them."""
DEFAULT_RECIPE: Final = "q4_k_m"
_WORTH_IT: Final = 0.97  # of the bytes: a recipe that saves less is no way out
_CLEARLY_SMALLER: Final = 0.9  # of the parameters
_SIMILAR: Final = 2.0  # times as many parameters, or the half
_SPARSE: Final = 0.5  # of the active parameters: else a mixture saves nothing
_SAME: Final = 0.002  # relative difference of two counts of parameters of one shape
_PART: Final = re.compile(r"-\d{5}-of-\d{5}$")
_LAST_WORD: Final = re.compile(r"[-.]")
_MOST_SIBLINGS: Final = 2
_MOST_MIXTURES: Final = 2
_REMEMBERED: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A model as the catalogue knows it.

    Attributes:
        stem: its name without the recipe: the entry's, where the model is the entry's by name.
        recipe: that it has; as its name says.
        entry: of the same shape; None: there is none.
    """

    stem: str
    recipe: str
    entry: ModelEntry | None

    @property
    def is_named(self) -> bool:
        """Whether the entry is this very model, and not another one of its shape, such as what it was tuned from."""
        return self.entry is not None and self.entry.id == self.stem


def known_of(model: ModelFile | ShapeModel) -> Known:
    """The entry of the same shape; of several the one that the reference or the file's own name names."""
    stem, written = _name_and_recipe(model)
    same = [entry for entry in all_models() if _is_shape(entry, model.shape)]
    names = (plain(stem), plain(model.shape.name))
    named = [entry for entry in same if plain(entry.id) == names[0]] or [
        entry for entry in same if any(plain(entry.id) in name for name in names)
    ]
    entry = next(iter(named or same), None)
    return Known(stem=named[0].id if named else stem, recipe=_recipe(written), entry=entry)


def _name_and_recipe(model: ModelFile | ShapeModel) -> tuple[str, str]:
    """``llama-3.1-70b:q4_k_m`` and ``Llama-3.1-70B-Q4_K_M-00001-of-00002.gguf`` both say what they are and how they are quantized."""
    if isinstance(model, ShapeModel):
        stem, colon, written = model.reference.rpartition(":")
        return (stem, written) if colon else (written, "")
    stem = _PART.sub("", model.path.stem)
    return stem, _LAST_WORD.split(stem)[-1]


def _recipe(written: str) -> str:
    try:
        return canonical_recipe(written)
    except UsageError:  # the name ends in something else
        return DEFAULT_RECIPE


def _is_shape(entry: ModelEntry, shape: ModelShape) -> bool:
    spec = entry.spec
    return (spec.architecture, spec.n_layer, spec.n_embd) == (shape.architecture, shape.n_layer, shape.n_embd) and abs(
        entry.computed_parameters / shape.parameters - 1
    ) < _SAME


def fewer_bits(model: ModelFile | ShapeModel, known: Known) -> tuple[ShapeModel, ...]:
    """The model under each recipe that makes it clearly smaller, more bits first; none where its F16 header is not known."""
    found = []
    for recipe in LADDER:
        made = _built(known.entry.id, recipe) if known.entry is not None else _from_own(model, known, recipe)
        if made is not None and made.shape.tensor_bytes < _WORTH_IT * model.shape.tensor_bytes:
            found.append(made)
    return tuple(found)


def smaller_siblings(model: ModelFile | ShapeModel, known: Known) -> tuple[ShapeModel, ...]:
    """Smaller models of the family under the same recipe, the largest first; mixtures only where the model is one."""
    if known.entry is None:
        return ()
    family = [
        entry
        for entry in all_models()
        if entry.family == known.entry.family
        and entry.computed_parameters < _CLEARLY_SMALLER * known.entry.computed_parameters
        and (entry.spec.experts is None or model.shape.is_moe)
    ]
    ranked = sorted(family, key=lambda entry: -entry.computed_parameters)
    return _first(_newest(ranked), known.recipe, _MOST_SIBLINGS)


def _newest(ranked: Iterable[ModelEntry]) -> list[ModelEntry]:
    """Of equal shapes the last, which the catalogue lists as the newest."""
    return list({(entry.spec.n_layer, entry.computed_parameters): entry for entry in ranked}.values())


def similar_mixtures(model: ModelFile | ShapeModel, known: Known) -> tuple[ShapeModel, ...]:
    """Mixtures of experts of a similar size that read far less for a token, one of each family, the nearest in size first."""
    parameters, active = model.shape.parameters, model.shape.active_parameters
    own = None if known.entry is None else known.entry.id
    near = [
        entry
        for entry in all_models()
        if entry.spec.experts is not None
        and entry.id != own
        and parameters / _SIMILAR <= entry.computed_parameters <= parameters * _SIMILAR
        and entry.active_parameters < _SPARSE * active
    ]
    ranked = sorted(near, key=lambda entry: abs(math.log(entry.computed_parameters / parameters)))
    families = {entry.family: entry for entry in reversed(ranked)}
    return _first([entry for entry in ranked if families[entry.family] is entry], known.recipe, _MOST_MIXTURES)


def _first(entries: Iterable[ModelEntry], recipe: str, most: int) -> tuple[ShapeModel, ...]:
    found: list[ShapeModel] = []
    for entry in entries:
        made = _built(entry.id, recipe)
        if made is not None:
            found.append(made)
        if len(found) == most:
            break
    return tuple(found)


@lru_cache(maxsize=_REMEMBERED)
def _built(model_id: str, recipe: str) -> ShapeModel | None:
    """A shape of the catalogue under a recipe; None: suffice cannot lay out its tensors."""
    header = _f16(model_id)
    if header is None:
        return None
    source = f"catalogue: {model_named(model_id).source}"
    return shape_model(quantized_header(header, recipe), reference=f"{model_id}:{recipe}", source=source)


@lru_cache(maxsize=_REMEMBERED)
def _f16(model_id: str) -> GgufHeader | None:
    try:
        return blueprint_header(model_named(model_id).spec)
    except UnsupportedShapeError:
        return None


def _from_own(model: ModelFile | ShapeModel, known: Known, recipe: str) -> ShapeModel | None:
    """The model's own header under a recipe; None: it is quantized already, and what it was before is not known."""
    header = model.header if isinstance(model, ShapeModel) else read_gguf_header(model.path)
    try:
        made = quantized_header(header, recipe)
    except UsageError:
        return None
    return shape_model(made, reference=f"{known.stem}:{recipe}", source=f"the header of {known.stem}, quantized")

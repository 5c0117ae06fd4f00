"""The models that the page can be asked for: those of the start and the catalogue's. A request names one of them, never a file or an address."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.catalogue.models import all_models
from suffice.errors import UsageError
from suffice.loaders.model_file import ModelFile, describe_model
from suffice.loaders.reference import resolve_model, shown_reference
from suffice.model.recipe import RECIPE_NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from suffice.loaders.shape_model import ShapeModel
    from suffice.records.schema import ModelRecord, RunRecord

GIVEN: Final = "given"
_RECORD: Final = "record-"
_MOST_MODELS: Final = 32  # that are kept: a header of a large file is some megabytes
DEFAULT_MODEL: Final = "llama-3.1-8b"
DEFAULT_RECIPE: Final = "q4_k_m"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """One model of the list.

    Attributes:
        key: in the form.
        label: for a reader.
        reference: what :func:`suffice.loaders.reference.resolve_model` takes, without a quantization; None: only records know it.
        folder: from which a relative reference starts.
        record: what a run record says of it, where one is of this model.
    """

    key: str
    label: str
    reference: str | None
    folder: Path | None = None
    record: ModelRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A model under a quantization, as the page computes with it.

    Attributes:
        label: for a reader.
        reference: as a demand states it.
        model: its shape; None: only records know it, and nothing can be predicted of it.
        record: as in :class:`ModelChoice`.
    """

    label: str
    reference: str | None
    model: ModelFile | ShapeModel | None
    record: ModelRecord | None


class Models:
    """The choices, and the models that were resolved before.

    Args:
        given: reference of the start, None: none.
        folder: from which it starts.
        records: of the start; their models are choices as well.

    Raises:
        ModelFileError, UsageError: the given model cannot be had.
    """

    def __init__(self, given: str | None, folder: Path | None, records: Sequence[RunRecord]) -> None:
        self._resolved: OrderedDict[tuple[str, str], ModelFile | ShapeModel] = OrderedDict()
        catalogue = [ModelChoice(key=entry.id, label=entry.id, reference=entry.id) for entry in all_models()]
        self._by_key = {choice.key: choice for choice in catalogue}
        starts = []
        if given is not None:
            starts.append(
                self._start(given, ModelChoice(key=GIVEN, label=shown_reference(given), reference=given, folder=folder))
            )
            first = self.chosen(*starts[0])
            records = [record for record in records if not is_of(record, first)]
        starts += [self._start(choice.label, choice) for choice in _of_records(records)]
        self.start = starts[0] if starts else (DEFAULT_MODEL, DEFAULT_RECIPE)
        """Model and quantization that the form begins with."""
        self.listed = tuple(sorted(self._by_key.values(), key=lambda choice: choice in catalogue))

    def _start(self, reference: str, choice: ModelChoice) -> tuple[str, str]:
        """What to choose for a reference: the catalogue's model where it is one, else a choice of its own, which is added."""
        name, _, recipe = reference.rpartition(":")
        if name in self._by_key and recipe.lower() in RECIPE_NAMES:
            return name, recipe.lower()
        self._by_key[choice.key] = choice
        return choice.key, ""

    def chosen(self, key: str, quantization: str) -> Chosen:
        """A model of the list.

        Raises:
            UsageError: no such one, or no such quantization of it.
            ModelFileError: its file cannot be read.
        """
        choice = self._by_key.get(key)
        if choice is None or quantization not in ("", *RECIPE_NAMES):
            raise UsageError("the model or the quantization is none of the list; choose one of it")
        if choice.reference is None:
            if quantization:
                raise UsageError(
                    f"of {choice.label} only its record is known; leave the quantization as it was measured"
                )
            return Chosen(label=choice.label, reference=None, model=None, record=choice.record)
        reference = f"{choice.reference}:{quantization}" if quantization else choice.reference
        label = f"{choice.label}:{quantization}" if quantization else choice.label
        model = self._model(choice, reference)
        return Chosen(label=label, reference=reference, model=model, record=choice.record if not quantization else None)

    def _model(self, choice: ModelChoice, reference: str) -> ModelFile | ShapeModel:
        key = (choice.key, reference)
        if key not in self._resolved:
            self._resolved[key] = resolve_model(reference, folder=choice.folder)
            if len(self._resolved) > _MOST_MODELS:
                self._resolved.popitem(last=False)
        self._resolved.move_to_end(key)
        return self._resolved[key]


def _of_records(records: Sequence[RunRecord]) -> list[ModelChoice]:
    """The models of the records, each once; a model without a name of its own is told by its machine."""
    found: dict[str, ModelChoice] = {}
    for number, record in enumerate(records, start=1):
        model = record.model
        name = model.file_name or model.name or f"record {number}"
        key = model.identity or name
        if key not in found:
            found[key] = ModelChoice(key=f"{_RECORD}{number}", label=name, reference=None, record=model)
    return list(found.values())


def is_of(record: RunRecord, chosen: Chosen) -> bool:
    """Whether a run record is of the chosen model: by its hash where both have one, else by name and size."""
    if chosen.record is not None:
        return record.model == chosen.record or (
            record.model.identity is not None and record.model.identity == chosen.record.identity
        )
    if chosen.model is None:
        return False
    described = describe_model(chosen.model, type_k="f16", type_v="f16", with_hash=False)
    if described.identity is not None and record.model.identity is not None:
        return described.identity == record.model.identity
    same_name = record.model.file_name is not None and record.model.file_name == described.file_name
    return same_name and record.model.file_bytes == described.file_bytes

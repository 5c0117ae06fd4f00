"""Comparisons of models on disk: written atomically, read through Pydantic, refused when they contradict themselves.

``docs/quants.md`` describes the JSON. Only rows are kept, no conclusions: those are computed again whenever a comparison is read.

History (add a line when the version rises):
    1  first version
"""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from suffice.errors import RecordError
from suffice.model.quants import (
    AskedModel,
    Distance,
    DocumentFigures,
    Measured,
    Outcome,
    Quantile,
    QuantsRecord,
    Subject,
    SubjectKind,
    Task,
)
from suffice.records.quants_check import check_quants
from suffice.records.store import load_json, write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import BaseModel, ValidationError

QUANTS_SCHEMA_VERSION: Final = 1
_FORM: Final = "suffice quants"


def quants_to_json(record: QuantsRecord) -> str:
    """The comparison as one JSON document, with its form and schema version first."""
    document = {"form": _FORM, "schema_version": QUANTS_SCHEMA_VERSION, **asdict(record)}
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def save_quants(record: QuantsRecord, path: Path) -> None:
    """Write a comparison so that a reader sees the old file or the new one, never half of one.

    Raises:
        OutputError: it cannot be written.
        RecordError: a number in it is none, a text cannot be written, or it contradicts itself, so that nobody could read it; nothing
            is changed on disk.
    """
    check_quants(record, source=f"the comparison cannot be kept in {path}")
    try:
        content = quants_to_json(record).encode()
    except (ValueError, TypeError) as error:
        raise RecordError(f"the comparison cannot be kept in {path}: {error}") from error
    write_atomically(path, content)


def load_quants(path: Path) -> QuantsRecord:
    """The comparison in a file.

    Raises:
        RecordError: unreadable, not a comparison, of a newer version, or edited so that it contradicts itself.
    """
    document = load_json(path)
    if not isinstance(document, dict) or document.get("form") != _FORM:
        raise RecordError(
            f"{path} is not a comparison of models; `suffice quants --out FOLDER` writes one to FOLDER/quants.json"
        )
    return quants_from(document, source=str(path))


def quants_from(document: dict[str, Any], *, source: str) -> QuantsRecord:
    """The comparison in a JSON object; ``source`` names it in error messages.

    Raises:
        RecordError: see :func:`load_quants`.
    """
    from pydantic import ValidationError  # noqa: PLC0415  # half the cost of starting the command line

    version = document.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise RecordError(f"{source}: schema_version {version!r} is not a version number")
    if version > QUANTS_SCHEMA_VERSION:
        raise RecordError(
            f"{source} has schema version {version}; this suffice reads up to {QUANTS_SCHEMA_VERSION}, upgrade it"
        )
    rows = {key: value for key, value in document.items() if key not in {"form", "schema_version"}}
    try:
        # As JSON and strict: lists become tuples, but "12" and true do not become numbers.
        read = _schema().model_validate_json(json.dumps(rows), strict=True)
    except ValidationError as error:
        raise RecordError(f"{source} is not a usable comparison: {_first_complaint(error)}") from error
    except RecursionError as error:
        raise RecordError(f"{source} is nested too deeply for a comparison") from error
    record = _record(read.model_dump())
    check_quants(record, source=source)
    return record


def _record(rows: dict[str, Any]) -> QuantsRecord:
    """The record from fields whose types are right."""
    return QuantsRecord(
        **{
            **rows,
            "tasks": tuple(Task(**task) for task in rows["tasks"]),
            "models": tuple(_model(model) for model in rows["models"]),
            "distances": tuple(_distance(one) for one in rows["distances"]),
            "measured": tuple(Measured(**one) for one in rows["measured"]),
        }
    )


def _model(rows: dict[str, Any]) -> AskedModel:
    subject = {**rows["subject"], "kind": SubjectKind(rows["subject"]["kind"])}
    return AskedModel(
        subject=Subject(**subject),
        outcomes=tuple(Outcome(**outcome) for outcome in rows["outcomes"]),
        notes=rows["notes"],
    )


def _distance(rows: dict[str, Any]) -> Distance:
    return Distance(
        **{
            **rows,
            "documents": tuple(DocumentFigures(**one) for one in rows["documents"]),
            "p99": Quantile(**rows["p99"]),
        }
    )


@cache
def _schema() -> type[BaseModel]:
    from suffice.records.quants_schema import QuantsFile  # noqa: PLC0415  # as above

    return QuantsFile


def _first_complaint(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "the document"
    return f"field '{where}': {first['msg']}"

"""The fields of a kept comparison with their types and ranges, as Pydantic reads them: nothing unknown, nothing missing that has no default."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from suffice.model.items import ScoreKind  # noqa: TC001  # Pydantic reads annotations when it runs
from suffice.model.quants import SubjectKind  # noqa: TC001  # as above

Count = Annotated[int, Field(ge=0)]
Score = Annotated[float, Field(ge=0, le=1)]
NotNegative = Annotated[float, Field(ge=0)]
Name = Annotated[str, Field(min_length=1)]


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)


class _Subject(_Row):
    name: Name
    kind: SubjectKind
    place: str
    identity: Name
    quantization: str | None = None
    file_bytes: Count | None = None
    made_from: str | None = None
    warnings: tuple[str, ...] = ()


class _Task(_Row):
    item_id: Name
    item_hash: str
    cluster: str
    kind: ScoreKind | None
    is_labelled: bool
    choices: Annotated[int, Field(ge=1)] | None = None


class _Outcome(_Row):
    score: Score | None
    text: str | None = None
    reason: str | None = None
    tokens: Count | None = None
    is_cut: bool = False


class _AskedModel(_Row):
    subject: _Subject
    outcomes: tuple[_Outcome, ...]
    notes: tuple[str, ...] = ()


class _DocumentFigures(_Row):
    name: str
    tokens: Annotated[int, Field(ge=1)]
    divergence: NotNegative
    same_top: Count
    reference_loss: NotNegative
    candidate_loss: NotNegative


class _Quantile(_Row):
    value: NotNegative
    low: NotNegative | None
    high: NotNegative | None
    shortage: str | None = None


class _Distance(_Row):
    candidate: Name
    documents: Annotated[tuple[_DocumentFigures, ...], Field(min_length=1)]
    p99: _Quantile
    largest: NotNegative
    settings: dict[str, Any] = {}
    is_self: bool = False


class _Measured(_Row):
    subject: Name
    record: Name


class QuantsFile(_Row):
    """A comparison as it is on disk."""

    items_source: str
    items_hash: str | None
    tasks: tuple[_Task, ...]
    models: Annotated[tuple[_AskedModel, ...], Field(min_length=1)]
    distances: tuple[_Distance, ...] = ()
    measured: tuple[_Measured, ...] = ()
    settings: dict[str, Any] = {}
    notes: tuple[str, ...] = ()
    created_at: str | None = None
    suffice_version: str | None = None
    complete: bool = True

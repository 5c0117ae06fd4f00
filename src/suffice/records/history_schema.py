"""The fields of a line of a history with their types and ranges, as Pydantic reads them: nothing unknown, nothing missing that has no default."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from suffice.decide.guard_types import Metric  # noqa: TC001  # Pydantic reads annotations when it runs
from suffice.model.basis import Basis  # as above

Positive = Annotated[float, Field(gt=0)]
Level = Annotated[float, Field(gt=0, lt=1)]


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)


class FigureRow(_Row):
    """One metric of one run."""

    point: Positive
    low: float | None
    high: float | None
    level: Level | None = None
    basis: Basis = Basis.MEASURED
    interval_known: bool = True
    samples: tuple[Positive, ...] = ()
    doubt: str = ""


class HistoryRow(_Row):
    """One run, as a line of JSON."""

    form: str
    schema_version: int
    name: str
    created_at: str | None
    figures: dict[Metric, FigureRow]
    fingerprint: dict[str, str | int | float | bool]
    doubts: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()
    bandwidth_bytes_per_s: Positive | None = None
    bandwidth_share: Positive | None = None
    verdict: str | None = None
    demand: str | None = None

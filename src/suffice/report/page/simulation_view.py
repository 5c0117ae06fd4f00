"""What a page takes from a document of ``suffice simulate --json``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from suffice.report.page.view_files import read_view

if TYPE_CHECKING:
    from pathlib import Path

_NO_NAN: Final = {"allow_inf_nan": False, "extra": "ignore"}
_METRICS: Final = ("ttft_s", "tpot_s", "e2e_s", "queueing_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """A percentile over runs; a point of None is without end, or nothing was answered."""

    __pydantic_config__ = _NO_NAN

    point: float | None = None
    low: float | None = None
    high: float | None = None
    supported: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedTimes:
    """One time by percentile ("p95")."""

    __pydantic_config__ = _NO_NAN

    intervals: dict[str, Simulated] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedLoad:
    """What was sent."""

    __pydantic_config__ = _NO_NAN

    arrivals: str = ""
    requests_per_second: float | None = None
    users: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationView:
    """The document: times of one load, or the answer of a search (``searched``)."""

    __pydantic_config__ = _NO_NAN

    load: SimulatedLoad
    basis: str
    curve: str | None = None
    ttft_s: SimulatedTimes | None = None
    tpot_s: SimulatedTimes | None = None
    e2e_s: SimulatedTimes | None = None
    queueing_s: SimulatedTimes | None = None
    outcome: str | None = None
    searched: str | None = None
    value: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def times(self) -> tuple[tuple[str, SimulatedTimes], ...]:
        """Those that it has, by metric."""
        found = ((name, getattr(self, name)) for name in _METRICS)
        return tuple((name, times) for name, times in found if times is not None)


def read_simulation(path: Path) -> SimulationView:
    """The document in a file.

    Raises:
        RecordError: it is none.
    """
    return read_view(path, SimulationView, names=("curve", "load", "basis"), made_by="suffice simulate")

"""The result of a search for a server's capacity: its levels, its JSON document, and how that is read back to go on."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from suffice.errors import RecordError
from suffice.load.settings import Accepted, Api, Arrivals  # noqa: TC001  # Pydantic reads annotations when it runs, here and below
from suffice.model.capacity import Criterion, LevelVerdict
from suffice.model.capacity_search import Capacity, CapacityOf, Tried, capacity_of
from suffice.report.json_values import json_text
from suffice.stats.intervals import quantile
from suffice.stats.percentiles import percentile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pydantic import TypeAdapter

CAPACITY_SCHEMA_VERSION: Final = 1


class CapacityStatus(StrEnum):
    """What a search came to."""

    FOUND = "found"
    NONE_HOLDS = "not even the lowest load holds the limits"
    UNDECIDED = "undecided"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """A percentile in seconds. ``observed_s`` None: unbounded, failures reach it. The interval is None with fewer than ``needed`` samples."""

    observed_s: float | None
    low_s: float | None
    high_s: float | None
    samples: int
    needed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """P50, P90, P95 and P99 of a time over all attempts, failures infinitely slow. Earlier versions wrote no P90."""

    p50: Times
    p95: Times
    p99: Times
    p90: Times | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedLengths:
    """Tokens of prompts or of answers, as the server counted them in the answers that succeeded: the mean and the 95th percentile."""

    mean: float
    p95: float


def lengths_of(counts: Sequence[int | None]) -> CountedLengths | None:
    """The lengths that the server counted; None where it counted none."""
    known = [count for count in counts if count is not None]
    return CountedLengths(mean=sum(known) / len(known), p95=quantile(known, 0.95)) if known else None


def metric_of(values_s: Sequence[float]) -> Metric | None:
    """The percentiles of attempts, infinite where they failed; None without any."""
    found = [percentile(values_s, fraction) for fraction in (0.5, 0.9, 0.95, 0.99)]
    times = [
        Times(
            observed_s=_finite(one.observed),
            low_s=_finite(one.low),
            high_s=_finite(one.high),
            samples=one.samples,
            needed=one.needed,
        )
        for one in found
        if one is not None
    ]
    return Metric(p50=times[0], p90=times[1], p95=times[2], p99=times[3]) if times else None


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionResult:
    """How a criterion stood at a level: see :class:`suffice.model.capacity.CriterionCount`."""

    kept: int
    counted: int
    undetermined: int
    independent: float
    attained: float | None
    low: float | None
    high: float | None
    verdict: str
    unknown: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelResult:
    """One level of load: a rate in requests/s or a number of users, as searched for.

    Times count from the schedule in an open loop. ``cut_off`` requests were under way when enough had been seen and were not waited for.
    ``prompt_tokens`` and ``output_tokens`` are of successes and None where the server counted none. ``most_requests`` and ``most_s`` are
    what the level was given at most; None in files of earlier versions, which had no lengths either. ``untimed`` has the answers without
    TPOT by reason. ``client_starved``: the client was late because all CPUs of its machine were busy.
    """

    level: float
    rate_per_s: float | None
    users: int | None
    thorough: bool
    verdict: LevelVerdict
    good: bool
    because: str
    criteria: tuple[CriterionResult, ...]
    achieved_rate_per_s: float | None
    warm_up: int
    attempted: int
    succeeded: int
    cut_off: int
    failures: dict[str, int]
    ttft: Metric | None
    tpot: Metric | None
    e2e: Metric | None
    output_tokens_per_second: float | None
    requests_per_second: float | None
    length_s: float
    client_is_bottleneck: bool
    client_reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    started_at: str
    seed: int
    prompt_tokens: CountedLengths | None = None
    output_tokens: CountedLengths | None = None
    most_requests: int | None = None
    most_s: float | None = None
    untimed: dict[str, int] = field(default_factory=dict)
    client_starved: bool = False

    @property
    def tried(self) -> Tried:
        """What the search needs to know of it."""
        return Tried(level=self.level, verdict=self.verdict, good=self.good, thorough=self.thorough)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacitySettings:
    """Everything that decided the search, as resolved. No secret is in it; ``prompt_salt`` is another one in each session.

    ``spawned`` describes a server of our own, whose address is another one each time.
    """

    url: str
    api: Api
    model: str | None
    prompts: str
    prompt_salt: str
    output_tokens: int | None
    accepted: Accepted | None
    temperature: float | None
    keep_alive: bool
    of: CapacityOf
    criteria: tuple[Criterion, ...]
    confidence: float
    tolerance: float
    most_probes: int
    start: float | None
    requests: int
    duration_s: float
    brief_requests: int
    warm_up: int | None
    arrivals: Arrivals
    burstiness: float
    seed: int
    timeout_s: float
    spawned: str | None = None

    def agrees(self, other: CapacitySettings) -> bool:
        """Whether levels of both belong to one search: what is asked for and how.

        Not which words were drawn, nor how many levels there are and how long each of them at most.
        """
        varying: dict[str, Any] = {"prompt_salt": "", "most_probes": 1, "accepted": None, "model": None}
        varying.update(requests=1, duration_s=1.0, brief_requests=1)
        if self.spawned is not None:
            varying["url"] = ""
        same_model = self.model == other.model or None in (self.model, other.model)
        return same_model and replace(self, **varying) == replace(other, **varying)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityResult:
    """A search as far as it went; ``idle`` is one user alone, from which it began."""

    suffice_version: str
    started_at: str
    settings: CapacitySettings
    idle: LevelResult | None
    levels: tuple[LevelResult, ...]
    warnings: tuple[str, ...] = ()
    interrupted: bool = False
    finished: bool = False
    ended_early: str | None = None

    @property
    def capacity(self) -> Capacity:
        """The highest level that held and the lowest that failed."""
        return capacity_of([level.tried for level in self.levels])

    @property
    def status(self) -> CapacityStatus:
        """What the search came to; an answer needs both ends, or the proof that there is no lower one."""
        if self.interrupted:
            return CapacityStatus.INTERRUPTED
        found = self.capacity
        if self.ended_early is None and self.idle is not None and self.idle.verdict is LevelVerdict.FAILS:
            return CapacityStatus.NONE_HOLDS
        if not self.finished or self.ended_early is not None or found.failed is None:
            return CapacityStatus.UNDECIDED
        if found.held is not None:
            return CapacityStatus.FOUND
        lowest = min(self.levels, key=lambda level: level.level)
        all_fail = lowest.verdict is LevelVerdict.FAILS
        return CapacityStatus.NONE_HOLDS if all_fail else CapacityStatus.UNDECIDED


def capacity_json(result: CapacityResult) -> str:
    """The search as one JSON document."""
    return json_text(capacity_document(result)) + "\n"


def capacity_document(result: CapacityResult) -> dict[str, Any]:
    """The search as plain data: the answer on top, levels in the order in which they were tried, settings below."""
    found = result.capacity
    unit = "requests/s" if result.settings.of is CapacityOf.RATE else "users"
    return {
        "capacity_schema_version": CAPACITY_SCHEMA_VERSION,
        "suffice_version": result.suffice_version,
        "started_at": result.started_at,
        "basis": "measured",
        "status": result.status,
        "capacity": found.held,
        "holds_at": found.held,
        "fails_at": found.failed,
        "unit": unit,
        "confidence": result.settings.confidence,
        "interrupted": result.interrupted,
        "finished": result.finished,
        "ended_early": result.ended_early,
        "idle": None if result.idle is None else asdict(result.idle),
        "levels": [asdict(level) for level in result.levels],
        "warnings": list(result.warnings),
        "settings": asdict(result.settings),
    }


@cache
def _adapter() -> TypeAdapter[CapacityResult]:
    from pydantic import TypeAdapter  # noqa: PLC0415  # slow to import, and only needed to go on

    return TypeAdapter(CapacityResult)


def read_capacity(path: Path) -> CapacityResult:
    """The search in a file that :func:`capacity_json` wrote.

    Raises:
        RecordError: unreadable, or no such document.
    """
    from pydantic import ValidationError  # noqa: PLC0415  # as above

    from suffice.records.store import load_json  # noqa: PLC0415  # as above

    document = load_json(path)
    if not isinstance(document, dict) or document.get("capacity_schema_version") != CAPACITY_SCHEMA_VERSION:
        raise RecordError(
            f"{path} is no result of --find-capacity of this version; give another --out, or leave --resume"
        )
    try:
        return _adapter().validate_python(document)
    except ValidationError as error:
        raise RecordError(f"{path} is no usable result of --find-capacity: {error.errors()[0]['msg']}") from error

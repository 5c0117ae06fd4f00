"""The result of a run under load, and its JSON document."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from suffice.model.load_metrics import FRACTIONS
from suffice.report.json_values import json_text

if TYPE_CHECKING:
    from suffice.load.settings import Accepted, Api, LoadPlan
    from suffice.model.load_checks import ClientCheck, ServerCheck
    from suffice.model.load_metrics import Attainment, Distribution, Limits, LoadSummary
    from suffice.model.load_ramp import RampPart
    from suffice.model.load_request import RequestRow
    from suffice.stats.percentiles import Percentile

LOAD_SCHEMA_VERSION: Final = 1
_PERCENT: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSettings:
    """Everything that decided the load, as resolved. No secret is in it."""

    url: str
    api: Api
    model: str | None
    prompts: str  # in words: where they came from
    prompt_salt: str  # with the plan's seed, it makes the same prompts again
    prompt_tokens: int | None
    output_tokens: int | None
    shared_prefix: int
    accepted: Accepted
    temperature: float | None
    keep_alive: bool
    plan: LoadPlan
    limits: Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """One run: settings, raw rows, summary, and what to think of it. ``started_at`` is for people; all times are monotonic."""

    suffice_version: str
    started_at: str
    settings: LoadSettings
    summary: LoadSummary
    client: ClientCheck
    server: ServerCheck | None
    warnings: tuple[str, ...]
    interrupted: bool
    ended_early: str | None
    probe_rows: tuple[RequestRow, ...]
    rows: tuple[RequestRow, ...]
    ramp: tuple[RampPart, ...] = ()
    in_spite: Attainment | None = None  # what was kept in spite of a late client
    contradictions: tuple[str, ...] = ()  # with physics, where a record of the machine was given

    @property
    def usable(self) -> bool:
        """Whether the numbers describe the server: not if the client was the bottleneck, nothing was measured, or physics forbids them."""
        return not self.client.is_bottleneck and self.summary.attempted > 0 and not self.contradictions


def to_json(result: LoadResult) -> str:
    """The result as one JSON document; infinity is null, with ``unbounded`` beside it."""
    return json_text(document(result)) + "\n"


def document(result: LoadResult) -> dict[str, Any]:
    """The result as plain data: the summary on top, settings and raw rows below."""
    summary = result.summary
    return {
        "load_schema_version": LOAD_SCHEMA_VERSION,
        "suffice_version": result.suffice_version,
        "started_at": result.started_at,
        "basis": "measured",
        "usable": result.usable,
        "unusable_because": [*result.client.reasons, *result.contradictions],
        "interrupted": result.interrupted,
        "ended_early": result.ended_early,
        "attempted": summary.attempted,
        "succeeded": summary.succeeded,
        "failed": summary.failed,
        "failed_by_reason": {str(outcome): count for outcome, count in summary.failures},
        "cut_off_by_interruption": summary.interrupted,
        "ttft_s": _distribution(summary.ttft),
        "ttfo_s": _distribution(summary.ttfo),
        "tpot_s": _distribution(summary.tpot),
        "e2e_s": _distribution(summary.e2e),
        "effective_ttft_s": None if summary.effective_ttft is None else _distribution(summary.effective_ttft),
        "effective_e2e_s": None if summary.effective_e2e is None else _distribution(summary.effective_e2e),
        "chunk_gaps_s": None if summary.chunk_gaps is None else asdict(summary.chunk_gaps),
        "output_tokens_per_second": summary.output_tokens_per_second,
        "estimated_token_share": summary.estimated_token_share,
        "requests_per_second": summary.requests_per_second,
        "attainment": None if summary.attainment is None else summary.attainment.share,
        "attainment_detail": None if summary.attainment is None else _attainment(summary.attainment),
        "attainment_in_spite_of_client": None if result.in_spite is None else _attainment(result.in_spite),
        "goodput_requests_per_second": summary.goodput_requests_per_second,
        "window": {
            "length_s": summary.window.length_s,
            "from_ns": summary.window.from_ns,
            "until_ns": summary.window.until_ns,
            "unsteady": summary.window.unsteady,
        },
        "ramp": [_part(part) for part in result.ramp] or None,
        "client": {
            **asdict(result.client),
            "is_bottleneck": result.client.is_bottleneck,
            "starved": result.client.starved,
        },
        "server_check": None if result.server is None else asdict(result.server),
        "contradictions": list(result.contradictions),
        "warnings": list(result.warnings),
        "settings": asdict(result.settings),
        "probe": [_row(row) for row in result.probe_rows],
        "requests": [_row(row) for row in result.rows],
    }


def _distribution(found: Distribution) -> dict[str, Any]:
    """p50, p90, p95, p99 as plain numbers (null: unsupported or unbounded), and under ``of_attempts`` and ``of_successes`` why."""
    values = {_name(item): item.value for item in found.attempts} or {_key(fraction): None for fraction in FRACTIONS}
    return {
        **values,
        "intervals": {
            _name(item): None if item.low is None else {"low": item.low, "high": item.high, "level": item.level}
            for item in found.attempts
        },
        "of_attempts": {_name(item): _percentile(item) for item in found.attempts},
        "of_successes": {_name(item): _percentile(item) for item in found.successes},
        "failed": found.failed,
        "undetermined": found.undetermined,
    }


def _name(item: Percentile) -> str:
    return _key(item.fraction)


def _key(fraction: float) -> str:
    return f"p{round(fraction * _PERCENT)}"


def _percentile(item: Percentile) -> dict[str, Any]:
    return {
        "observed": item.observed,
        "unbounded": math.isinf(item.observed),
        "supported": item.supported,
        "low": item.low,
        "high": item.high,
        "level": item.level,
        "samples": item.samples,
        "samples_needed": item.needed,
    }


def _attainment(found: Attainment) -> dict[str, Any]:
    return {
        "attained": found.attained,
        "missed": found.missed,
        "undetermined": found.undetermined,
        "share": found.share,
        "low": None if found.interval is None else found.interval.low,
        "high": None if found.interval is None else found.interval.high,
        "level": None if found.interval is None else found.interval.level,
    }


def _part(part: RampPart) -> dict[str, Any]:
    names = ("ttft_p50", "ttft_p95", "e2e_p50", "e2e_p95")
    found = {name: getattr(part, name) for name in names}
    return {
        **asdict(part),
        **{name: None if item is None else _percentile(item) for name, item in found.items()},
    }


def _row(row: RequestRow) -> dict[str, Any]:
    return {
        **asdict(row),
        "ttft_s": row.ttft_s,
        "ttfo_s": row.ttfo_s,
        "tpot_s": row.tpot_s,
        "e2e_s": row.e2e_s,
        "effective_e2e_s": row.effective_e2e_s,
    }

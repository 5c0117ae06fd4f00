"""Our own ``suffice load --out``: every request is in the file, so nothing is lost and nothing has to be put back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from suffice.errors import RecordError
from suffice.load.result import LOAD_SCHEMA_VERSION
from suffice.model.load_request import Outcome
from suffice.model.served import LoadKind, ServedLengths, ServedLoad, ServedTimes, Tool, rate_level, users_problem
from suffice.stats.intervals import quantile
from suffice.units import NANOSECONDS_PER_SECOND

if TYPE_CHECKING:
    from suffice.loaders.load_results.fields import Node

_LOOPS: Final = {"closed loop": LoadKind.USERS, "open loop": LoadKind.RATE}


def is_own(document: dict[str, Any]) -> bool:
    """Whether a document is a result of ``suffice load``."""
    return "load_schema_version" in document and "requests" in document


def own_loads(document: Node) -> tuple[ServedLoad, ...]:
    """The one load of the file.

    Raises:
        RecordError: written by a later version of suffice.
    """
    version = document.count("load_schema_version")
    if version != LOAD_SCHEMA_VERSION:
        raise RecordError(
            f"{document.source} has the load schema version {version}; this suffice reads {LOAD_SCHEMA_VERSION}"
        )
    settings = document.node("settings")
    plan = settings.node("plan")
    kind = _LOOPS.get(plan.text("loop") or "", LoadKind.UNKNOWN)
    rows = [row for row in document.nodes("requests") if row.flag("warm_up") is False]
    counted = [row for row in rows if row.text("outcome") != Outcome.INTERRUPTED]
    fine = [row for row in counted if row.text("outcome") == Outcome.SUCCESS]
    asked = plan.positive("concurrency") if kind is LoadKind.USERS else plan.positive("rate_per_s")
    window_s = document.node("window").positive("length_s")
    level = rate_level(asked, len(counted), window_s) if kind is LoadKind.RATE else (asked, asked)
    scheduled = kind is LoadKind.RATE
    load = ServedLoad(
        tool=Tool.SUFFICE,
        source=document.source,
        kind=kind,
        version=document.text("suffice_version"),
        server=settings.text("url"),
        model=settings.text("model"),
        asked=asked,
        level_low=level[0],
        level_high=level[1],
        attempted=len(rows),
        failed=len(counted) - len(fine),
        cut_off=len(rows) - len(counted),
        ttft=_times([_effective_ttft_s(row) if scheduled else row.number("ttft_s") for row in fine]),
        tpot=_times([row.number("tpot_s") for row in fine]),
        e2e=_times([row.number("effective_e2e_s" if scheduled else "e2e_s") for row in fine]),
        prompt=_lengths(fine, "prompt_tokens"),
        output=_lengths(fine, "output_tokens"),
        requests_per_s=document.positive("requests_per_second"),
        output_tokens_per_s=document.positive("output_tokens_per_second"),
        duration_s=window_s,
        of_prebuilt=plan.text("spawned") is not None,
        from_schedule=scheduled,
        problems=_problems(document, kind, asked, rows=len(rows), fine=len(fine)),
    )
    return (load,)


def _problems(document: Node, kind: LoadKind, asked: float | None, *, rows: int, fine: int) -> tuple[str, ...]:
    reasons = [text for text in document.values("unusable_because") or [] if isinstance(text, str)]
    found = [
        None
        if document.flag("usable") is not False
        else f"its figures are not usable: {'; '.join(reasons) or 'see the file'}",
        users_problem(asked, rows) if kind is LoadKind.USERS else None,
        None if fine else "no request succeeded",
        "the load of a trace is no single rate" if kind is LoadKind.UNKNOWN else None,
    ]
    return tuple(problem for problem in found if problem)


def _effective_ttft_s(row: Node) -> float | None:
    """First text after the scheduled arrival: what the user of an open loop waits."""
    chunks, scheduled = row.numbers("chunk_ns"), row.signed("scheduled_ns")
    if not chunks or scheduled is None:
        return None
    return max(0.0, chunks[0] - scheduled) / NANOSECONDS_PER_SECOND


def _times(values: list[float | None]) -> ServedTimes | None:
    known = tuple(sorted(value for value in values if value is not None))
    return ServedTimes(values_s=known, count=len(known), mean_s=sum(known) / len(known)) if known else None


def _lengths(rows: list[Node], name: str) -> ServedLengths:
    known = [value for row in rows if (value := row.number(name)) is not None]
    if not known:
        return ServedLengths()
    return ServedLengths(mean=sum(known) / len(known), p95=quantile(known, 0.95))

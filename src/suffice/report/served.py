"""Loads on servers beside a decision: which was used, what its tool measures otherwise, and what every file says."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from suffice.decide.served_words import level_text, stands_text
from suffice.report.tables import one_line, plain_table
from suffice.units import format_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.served import ServedVerdict
    from suffice.decide.served_load import LoadStanding
    from suffice.model.served import ServedLoad, ServedTimes, Tool
    from suffice.model.served_range import ServedRange

_SHORT: Final = {"ttft_s": "TTFT", "tpot_s": "TPOT"}


def served_text(served: Sequence[ServedVerdict]) -> str:
    """Each load with what it shows, and each tool's differences once."""
    lines: list[str] = []
    for server in served:
        limits = [f"P{limit.percent:g} {_SHORT[limit.metric]}" for limit in server.need.limits]
        rows = [_row(one) for one in server.standings]
        lines += ["", plain_table([["file", "tool", "load", "attempts", "failed", *limits, "shows"], *rows])]
        for one in server.standings:
            lines += [one_line(f"  {one.load.source}: {reason}") for reason in (*one.reasons, *one.failures)]
    for tool, differences in _differences(served).items():
        lines += ["", f"how {tool} measures otherwise:", *(one_line(f"  {difference}") for difference in differences)]
    return "\n".join(lines)


def _differences(served: Sequence[ServedVerdict]) -> dict[Tool, list[str]]:
    """Of each tool that has any, each once."""
    found: dict[Tool, dict[str, None]] = {}
    for load in (one.load for server in served for one in server.standings if one.load.differences):
        found.setdefault(load.tool, {}).update(dict.fromkeys(load.differences))
    return {tool: list(differences) for tool, differences in found.items()}


def _row(standing: LoadStanding) -> list[str]:
    load = standing.load
    return [
        one_line(load.source),
        one_line(f"{load.tool} {load.version or ''}".strip()),
        level_text(load),
        "unknown" if load.attempted is None else str(load.attempted),
        "unknown" if load.failed is None else str(load.failed),
        *(_range_text(seen) for seen in standing.ranges),
        stands_text(standing),
    ]


def _range_text(seen: ServedRange | None) -> str:
    if seen is None:
        return "unknown"
    point = "without end" if seen.point == float("inf") else format_seconds(seen.point)
    if not seen.supported:
        return f"{point} (unsupported)"
    if seen.high is not None and seen.high != float("inf"):
        low = "no lower end" if seen.low is None else format_seconds(seen.low)
        return f"{point} ({low} to {format_seconds(seen.high)})"
    low = "no end" if seen.low is None else f"at least {format_seconds(seen.low)}, no upper end"
    return f"{point} ({low} known)"


def served_documents(served: Sequence[ServedVerdict]) -> list[dict[str, Any]]:
    """The servers as JSON-able data: per load what the tool wrote, in our words, and what was made of it."""
    return [
        {
            "server": server.evidence.name,
            "server_kind": None if server.evidence.is_gpu is None else ("gpu" if server.evidence.is_gpu else "cpu"),
            "grade": server.verdict.grade.value,
            "settle": server.verdict.settle,
            "loads": [_load_document(one) for one in server.standings],
        }
        for server in served
    ]


def _load_document(standing: LoadStanding) -> dict[str, Any]:
    load = standing.load
    return {
        "source": load.source,
        "tool": load.tool.value,
        "version": load.version,
        "server": load.server,
        "model": load.model,
        "kind": load.kind.value,
        "asked": load.asked,
        "at_least": load.level_low,
        "at_most": load.level_high,
        "attempted": load.attempted,
        "failed": load.failed,
        "cut_off": load.cut_off,
        "prompt_tokens": asdict(load.prompt),
        "output_tokens": asdict(load.output),
        "requests_per_second": load.requests_per_s,
        "output_tokens_per_second": load.output_tokens_per_s,
        "duration_s": load.duration_s,
        "late_s": load.late_s,
        "from_schedule": load.from_schedule,
        "basis": "measured",
        "times": _times_documents(load),
        "limits": [
            {
                "metric": limit.metric,
                "percentile": limit.percent,
                "limit_s": limit.seconds,
                **({"point": None, "low": None, "high": None} if seen is None else _range_document(seen)),
            }
            for limit, seen in zip(standing.limits, standing.ranges, strict=True)
        ],
        "shows": stands_text(standing),
        "as_heavy_as_the_demand": standing.is_as_heavy,
        "reasons": [*standing.reasons, *standing.failures],
        "differences": list(load.differences),
    }


def _times_documents(load: ServedLoad) -> dict[str, Any]:
    def document(times: ServedTimes | None) -> dict[str, Any] | None:
        if times is None:
            return None
        return {
            "mapping": times.mapping.value,
            "why": times.why,
            "of": _made_of(times),
            "count": times.count,
            "mean_s": times.mean_s,
        }

    return {"ttft_s": document(load.ttft), "tpot_s": document(load.tpot), "e2e_s": document(load.e2e)}


def _made_of(times: ServedTimes) -> str:
    if times.of_attempts:
        return "percentiles of all attempts"
    return "each request" if times.values_s is not None else "percentiles of the successes"


def _range_document(seen: ServedRange) -> dict[str, Any]:
    return {
        "point": seen.point,
        "low": seen.low,
        "high": seen.high,
        "unbounded": seen.high == float("inf"),
        "attempts": seen.attempts,
        "attempts_needed": seen.needed,
        "supported": seen.supported,
    }

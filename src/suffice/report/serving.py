"""A simulated server for a reader at a terminal, and as a JSON document."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from suffice.report.tables import one_line, plain_table
from suffice.stats.intervals import median
from suffice.units import format_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.serving.search import Attainment, Found, Holding, LatencyLimit
    from suffice.serving.summary import Latencies, Percentile, Summary
    from suffice.stats.estimate import Estimate

_NAMES = {"ttft_s": "TTFT", "tpot_s": "TPOT", "e2e_s": "E2E", "queueing_s": "in the queue"}


def estimate_document(estimate: Estimate) -> dict[str, Any]:
    """Point, interval and the values of the runs; what is infinite or unknown is null."""
    interval = estimate.interval
    return {
        "point": _known(estimate.point),
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "level": None if interval is None else interval.level,
        "method": None if interval is None else interval.method,
        "runs": [_known(sample) for sample in estimate.samples],
    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _latency_document(latencies: Latencies) -> dict[str, Any]:
    def column(rows: tuple[Percentile, ...]) -> dict[str, Any]:
        return {f"p{row.percent:g}": _known(row.estimate.point) for row in rows} | {
            "intervals": {
                f"p{row.percent:g}": estimate_document(row.estimate) | {"supported": row.supported} for row in rows
            }
        }

    return column(latencies.attempted) | {"served": column(latencies.served)}


def summary_document(summary: Summary) -> dict[str, Any]:
    """The JSON document: percentiles of all attempts at the top of each metric, those of served requests under ``served``."""
    document: dict[str, Any] = {
        "ttft_s": _latency_document(summary.ttft),
        "tpot_s": _latency_document(summary.tpot),
        "e2e_s": _latency_document(summary.e2e),
        "queueing_s": _latency_document(summary.queueing),
        "output_tokens_per_second": _known(summary.output_tokens_per_second.point),
        "requests_per_second": _known(summary.requests_per_second.point),
        "estimates": {
            name: estimate_document(getattr(summary, name))
            for name in (
                "output_tokens_per_second",
                "requests_per_second",
                "utilisation",
                "occupancy",
                "kv_share",
                "most_kv_share",
                "queue_length",
                "longest_queue",
                "end_s",
            )
        },
        "runs": summary.runs,
        "requests_per_run": summary.requests,
        "rejected_share": summary.rejected,
        "failed_share": summary.failed,
        "truncated_share": summary.truncated,
        "preemptions_per_request": summary.preemptions,
        "notes": list(summary.notes),
    }
    return document


def limits_document(
    limits: Sequence[LatencyLimit], holding: Holding, confidence: float, attained: Sequence[Attainment]
) -> dict[str, Any]:
    """What was asked of the percentiles, whether it holds, and the requests that keep all limits, of one run each."""
    shares = [one.share for one in attained]
    goodputs = [one.goodput_requests_per_second for one in attained]
    return {
        "attainment": _median_known(shares),
        "attainment_of_runs": shares,
        "goodput_requests_per_second": _median_known(goodputs),
        "undetermined": sum(one.undetermined for one in attained),
        "limits": [{"metric": limit.metric, "seconds": limit.seconds, "percent": limit.percent} for limit in limits],
        "outcome": holding.value,
        "confidence": confidence,
    }


def _median_known(values: Sequence[float | None]) -> float | None:
    known = sorted(value for value in values if value is not None)
    return median(known) if known else None


def found_document(what: str, found: Found) -> dict[str, Any]:
    """The answer of a search with all that was tried on the way."""
    return {
        "searched": what,
        "value": found.value,
        "probes": [
            {"value": probe.value, "outcome": probe.holding.value, "runs": probe.runs} for probe in found.probes
        ],
    }


def summary_text(summary: Summary, title: str) -> str:
    """The table for a terminal; a star marks percentiles that rest on too few requests."""
    rows = [["", *(f"P{row.percent:g}" for row in summary.ttft.attempted)]]
    for latencies in (summary.ttft, summary.tpot, summary.e2e, summary.queueing):
        rows.append([_NAMES[latencies.name], *(_cell(row) for row in latencies.attempted)])
        if summary.rejected + summary.failed:
            rows.append(["  of those served", *(_cell(row) for row in latencies.served)])
    lines = [one_line(title), plain_table(rows), "", plain_table(_other_rows(summary))]
    if any(not row.supported for row in summary.ttft.attempted):
        lines.append("* too few requests in a run for this percentile: nothing is decided on it")
    return "\n".join([*lines, *(f"! {one_line(note)}" for note in summary.notes)])


def _cell(row: Percentile) -> str:
    interval = row.estimate.interval
    if math.isnan(row.estimate.point):
        return "none"
    text = "infinite" if math.isinf(row.estimate.point) else format_seconds(row.estimate.point)
    if interval is not None:
        text += f" ({format_seconds(interval.low)} to {format_seconds(interval.high)})"
    return text if row.supported else f"{text} *"


def _other_rows(summary: Summary) -> list[list[str]]:
    return [
        ["what", "value"],
        ["throughput", _throughput(summary)],
        [
            "engine busy",
            f"{summary.utilisation.point:.1%} of the time, {summary.occupancy.point:.1%} of the places taken",
        ],
        ["cache", f"{summary.kv_share.point:.1%} used on average, {summary.most_kv_share.point:.1%} at most"],
        ["queue", f"{summary.queue_length.point:.2f} requests on average, {summary.longest_queue.point:.0f} at most"],
        ["last answer", f"after {format_seconds(summary.end_s.point)}"],
        [
            "not served",
            f"{summary.rejected:.2%} rejected, {summary.failed:.2%} failed, {summary.truncated:.2%} cut by the context",
        ],
        ["put back", f"{summary.preemptions:.3f} times a request"],
        ["simulated", f"{summary.runs} runs of {summary.requests} requests"],
    ]


def _throughput(summary: Summary) -> str:
    tokens, requests = summary.output_tokens_per_second.point, summary.requests_per_second.point
    return "none" if math.isnan(tokens) else f"{tokens:.1f} tok/s, {requests:.3g} requests/s"


def limits_text(limits: Sequence[LatencyLimit], holding: Holding, confidence: float) -> str:
    """One line a limit, and the outcome of all together."""
    asked = " and ".join(
        f"{_NAMES[limit.metric]} P{limit.percent:g} at most {format_seconds(limit.seconds)}" for limit in limits
    )
    return f"{asked}: {holding.value} (confidence {confidence:.0%})"


def found_text(what: str, found: Found) -> str:
    """The answer of a search in one line, and what was tried."""
    tried = ", ".join(f"{probe.value:g} {probe.holding.value}" for probe in found.probes)
    value = "none that was tried holds the limits" if found.value is None else f"{found.value:.4g}"
    return f"{what}: {value}\ntried: {tried}"

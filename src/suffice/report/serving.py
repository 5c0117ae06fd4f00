"""A simulated server for a reader at a terminal, and as a JSON document."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from suffice.model.basis import Basis
from suffice.report.tables import one_line, plain_table
from suffice.serving.load import ArrivalKind, ClosedLoop, FixedLength, LognormalLength, OpenArrivals
from suffice.serving.search import Holding
from suffice.stats.intervals import median
from suffice.units import format_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.serving.load import LengthModel, Load
    from suffice.serving.schedulers import Scheduler
    from suffice.serving.search import Attainment, Found, LatencyLimit, Probe
    from suffice.serving.summary import Latencies, Percentile, Summary
    from suffice.stats.estimate import Estimate

_THREE_DIGITS = 100
_RANGES = "ranges: chance of arrivals and lengths only; the curve itself may be off (docs/serving.md)"
_PLURAL = {"holds": "hold", "fails": "fail"}
_CAUTIONS = {
    Basis.EXTRAPOLATED: "the seconds follow from measurements of a part of the model",
    Basis.MEASURED_ELSEWHERE: "the seconds were measured on another machine of this kind",
    Basis.PREDICTED: "the seconds are a prediction; no machine was measured",
    Basis.CEILING: "the seconds are the least that physics allows; a real server is slower",
    Basis.STATED: "the seconds are what somebody wrote; no machine was measured",
}
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
        "outcome": holding.value,
    } | asked_document(limits, confidence)


def asked_document(limits: Sequence[LatencyLimit], confidence: float) -> dict[str, Any]:
    """The limits that were asked, and how surely they must hold."""
    return {
        "limits": [{"metric": limit.metric, "seconds": limit.seconds, "percent": limit.percent} for limit in limits],
        "confidence": confidence,
    }


def _median_known(values: Sequence[float | None]) -> float | None:
    known = sorted(value for value in values if value is not None)
    return median(known) if known else None


def load_document(load: Load) -> dict[str, Any]:
    """The load that was taken: how requests arrive, and their lengths in tokens."""
    arrivals = load.arrivals
    document: dict[str, Any] = {"requests": load.requests}
    if isinstance(arrivals, OpenArrivals):
        document |= {"arrivals": arrivals.kind.value, "requests_per_second": arrivals.rate_per_s}
        document |= {"cv": arrivals.cv} if arrivals.kind is ArrivalKind.GAMMA else {}
    elif isinstance(arrivals, ClosedLoop):
        document |= {"arrivals": "closed loop", "users": arrivals.users, "think_s": arrivals.think_s}
    else:
        document |= {"arrivals": "at-once" if len(set(arrivals.times_s)) == 1 else "given"}
    return document | {"prompt_tokens": _length_document(load.prompt), "output_tokens": _length_document(load.output)}


def _length_document(model: LengthModel) -> dict[str, float] | None:
    if isinstance(model, FixedLength):
        return {"p50": model.tokens, "p95": model.tokens}
    if isinstance(model, LognormalLength):
        return {"p50": model.lengths.p50, "p95": model.lengths.p95}
    return None  # drawn from lengths that were seen


def load_text(load: Load, scheduler: Scheduler | None = None) -> str:
    """The same in one line, with the slots and the context of a server."""
    arrivals = load.arrivals
    if isinstance(arrivals, OpenArrivals):
        kind = (
            f"{arrivals.kind.value}, cv {arrivals.cv:g}" if arrivals.kind is ArrivalKind.GAMMA else arrivals.kind.value
        )
        coming = f"{arrivals.rate_per_s:.4g} requests/s ({kind})"
    elif isinstance(arrivals, ClosedLoop):
        pause = f"a pause of {format_seconds(arrivals.think_s)} on average" if arrivals.think_s else "no pause"
        coming = f"{arrivals.users} users with {pause}"
    elif len(set(arrivals.times_s)) == 1:
        coming = f"{load.requests} requests that are there at the start"
    else:
        coming = f"{load.requests} requests at given times"
    parts = [coming, f"prompts of {_length_text(load.prompt)}", f"answers of {_length_text(load.output)}"]
    if scheduler is not None:
        parts.append(f"{scheduler.most_requests} slots")
    return f"load: {', '.join(parts)}"


def _length_text(model: LengthModel) -> str:
    if isinstance(model, FixedLength):
        return f"{model.tokens} tokens"
    if isinstance(model, LognormalLength):
        return f"{model.lengths.p50:g} tokens (P95 {model.lengths.p95:g})"
    return "tokens as they were seen"


def found_document(what: str, found: Found) -> dict[str, Any]:
    """The answer of a search with all that was tried on the way."""
    return {
        "searched": what,
        "value": found.value,
        "reason": found.reason or None,
        "probes": [
            {
                "value": probe.value,
                "outcome": probe.holding.value,
                "runs": probe.runs,
                "confirming": probe.confirming,
            }
            for probe in found.probes
        ],
        "notes": list(found.notes),
    }


def summary_text(summary: Summary, title: str) -> str:
    """The table for a terminal; a star marks percentiles that rest on too few requests."""
    rows = [["", *(f"P{row.percent:g}" for row in summary.ttft.attempted)]]
    for latencies in (summary.ttft, summary.tpot, summary.e2e, summary.queueing):
        rows.append([_NAMES[latencies.name], *(_cell(row) for row in latencies.attempted)])
        if summary.rejected + summary.failed:
            rows.append(["  of those served", *(_cell(row) for row in latencies.served)])
    lines = [one_line(title), plain_table(rows)]
    if any(not row.supported for row in summary.ttft.attempted):
        lines.append("* too few requests in a run for this percentile: nothing is decided on it")
    if any(row.estimate.interval is not None for row in summary.ttft.attempted):
        lines.append(_RANGES)
    lines += ["", plain_table(_other_rows(summary))]
    return "\n".join([*lines, *(f"! {one_line(note)}" for note in summary.notes)])


def overload_text(summary: Summary, rate_per_s: float) -> str:
    """What an open loop of this rate does to a server that cannot keep up."""
    served = summary.requests * (1 - summary.rejected - summary.failed)
    answered = served / summary.end_s.point  # of the whole run: the window may be too short for a single answer
    return (
        f"Overloaded: {answered:.3g} of {rate_per_s:.3g} requests/s are answered; the queue grows as long as requests "
        "come, and so do TTFT and E2E above"
    )


def rejected_text(summary: Summary, context_tokens: int) -> str:
    """Where prompts do not fit, the flag that makes room; empty where all do."""
    if not summary.rejected:
        return ""
    who = "All prompts" if summary.rejected == 1 else f"{summary.rejected:.2%} of the prompts"
    return f"{who} are rejected: they fill the context of {context_tokens} tokens a request; give a larger --context"


def basis_text(basis: Basis) -> str:
    """A caution where the seconds of a curve were not measured on the machine; empty where they were."""
    caution = _CAUTIONS.get(basis)
    return "" if caution is None else f"! basis {basis.value}: {caution}"


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
    """The limits, and the outcome of all together."""
    return f"{_asked(limits)}: {holding.value} (confidence {confidence:.0%})"


def _asked(limits: Sequence[LatencyLimit]) -> str:
    return " and ".join(
        f"{_NAMES[limit.metric]} P{limit.percent:g} at most {format_seconds(limit.seconds)}" for limit in limits
    )


def found_text(what: str, found: Found, limits: Sequence[LatencyLimit], confidence: float) -> str:
    """The limits, the answer of a search or why there is none, what was tried, and what the answer rests on."""
    lines = [f"limits: {_asked(limits)}"]
    if found.value is None:
        lines.append(f"{what}: none that was tried holds the limits: {found.reason}")
    else:
        confirming = found.probes[-1].runs
        lines.append(
            f"{what}: {_counted(what, found.value)} (confidence {confidence:.0%}, confirmed by {confirming} fresh runs)"
        )
    lines.append(f"tried: {_tried(found.probes)}")
    if found.value is not None:
        lines.append(_RANGES)
    return "\n".join([*lines, *(f"! {one_line(note)}" for note in found.notes)])


def _counted(what: str, value: float) -> str:
    if what == "rate":
        return f"{_number(value)} requests/s"
    return f"{_number(value)} {what.removesuffix('s') if value == 1 else what}"


def _number(value: float) -> str:
    """Whole numbers whole, others with three digits or more."""
    return f"{value:.0f}" if value >= _THREE_DIGITS or float(value).is_integer() else f"{value:.3g}"


def _tried(probes: Sequence[Probe]) -> str:
    """Each candidate's last outcome, ascending; neighbours that ended alike stand together."""
    last: dict[float, str] = {}
    for probe in sorted(probes, key=lambda probe: probe.value):
        outcome = probe.holding.value
        last[probe.value] = "not confirmed" if probe.confirming and probe.holding is not Holding.HOLDS else outcome
    parts = []
    for outcome, group in itertools.groupby(last.items(), key=lambda item: item[1]):
        values = [value for value, _ in group]
        ends = " to ".join(_number(value) for value in dict.fromkeys((values[0], values[-1])))
        parts.append(f"{ends} {outcome if len(values) == 1 else _PLURAL.get(outcome, outcome)}")
    return ", ".join(parts)

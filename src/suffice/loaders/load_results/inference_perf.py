"""inference-perf's ``stage_N_lifecycle_metrics.json``: one load a file, percentiles of the successes, failures counted apart.

``summary_lifecycle_metrics.json`` mixes all stages; it is read, and nothing is judged by it.
"""

from __future__ import annotations

import re
from typing import Any, Final

from suffice.loaders.load_results.agreement import Said, believed
from suffice.loaders.load_results.fields import Node, ascending
from suffice.model.served import LoadKind, ServedLengths, ServedLoad, ServedTimes, Tool, rate_level, users_problem

_PERCENT: Final = 100
_PERCENTILE: Final = re.compile(r"p(\d{1,2}(?:\.\d{1,6})?)")
_DIFFERENCES: Final = (
    "latency is from the send; the longest delay behind the schedule is added at the high end",
    "its percentiles are of the successes; failures are put back as infinitely slow",
    "TPOT divides by the tokens of the client's tokenizer unless it was told to use the server's",
    "an answer of one token has neither TTFT nor TPOT there",
    "the file names neither server nor model",
)
_NO_LOAD: Final = "a summary over all stages is no single load; give the files stage_0_lifecycle_metrics.json, ..."


def is_inference_perf(document: dict[str, Any]) -> bool:
    """Whether a document has inference-perf's shape."""
    parts = (document.get("load_summary"), document.get("successes"), document.get("failures"))
    return all(isinstance(part, dict) for part in parts)


def inference_perf_loads(document: Node) -> tuple[ServedLoad, ...]:
    """The one load of the file."""
    summary, successes = document.node("load_summary"), document.node("successes")
    succeeded, failed = successes.count("count") or 0, document.node("failures").count("count")
    attempted = None if failed is None else succeeded + failed
    users, rate = summary.positive("concurrency"), summary.positive("requested_rate")
    kind = LoadKind.USERS if users else LoadKind.RATE if rate else LoadKind.UNKNOWN
    asked = users or rate
    throughput = successes.node("throughput")
    latency = successes.node("latency")
    whole, sent = latency.node("request_latency"), summary.count("count")
    said = Said(
        succeeded=succeeded,
        duration_s=document.positive("benchmark_time_seconds") or _duration_s(throughput, succeeded),
        requests_per_s=throughput.positive("requests_per_sec"),
        output_tokens_per_s=throughput.positive("output_tokens_per_sec"),
        output_tokens=successes.node("output_tokens").positive("total"),
        counts=() if sent is None or failed is None else (float(sent - failed),),
        mean_s=whole.positive("mean"),
        longest_s=whole.positive("max"),
        lost=failed or 0,
        users=users,
        rate_per_s=None if users else rate,
    )
    seen = believed(said, document.source)
    level = rate_level(asked, attempted, seen.duration_s) if kind is LoadKind.RATE else (asked, asked)
    late = summary.node("schedule_delay").signed("max")
    problems = [
        _NO_LOAD if kind is LoadKind.UNKNOWN else None,
        None if succeeded else "no request succeeded",
        users_problem(asked, attempted) if kind is LoadKind.USERS else None,
    ]
    load = ServedLoad(
        tool=Tool.INFERENCE_PERF,
        source=document.source,
        kind=kind,
        asked=asked,
        level_low=level[0],
        level_high=level[1],
        attempted=attempted,
        failed=failed,
        ttft=seen.percentiles(_times(latency, "time_to_first_token", succeeded)),
        tpot=seen.percentiles(_times(latency, "time_per_output_token", succeeded)),
        e2e=seen.percentiles(_times(latency, "request_latency", succeeded)),
        prompt=_lengths(successes, "prompt_tokens", "prompt_len"),
        output=_lengths(successes, "output_tokens", "output_len"),
        requests_per_s=seen.requests_per_s,
        output_tokens_per_s=seen.output_tokens_per_s,
        duration_s=seen.duration_s,
        late_s=None if late is None or kind is not LoadKind.RATE else max(0.0, late),
        differences=(*_DIFFERENCES, *seen.notes),
        problems=tuple(problem for problem in problems if problem),
    )
    return (load,)


def _duration_s(throughput: Node, succeeded: int) -> float | None:
    rate = throughput.positive("requests_per_sec")
    return succeeded / rate if rate and succeeded else None


def _times(latency: Node, name: str, succeeded: int) -> ServedTimes | None:
    summary = latency.node(name)
    known = ascending([(share, summary.number(field)) for field, share in _shares(summary)], summary)
    if not known or not succeeded:
        return None
    return ServedTimes(percentiles=known, count=succeeded, mean_s=summary.number("mean"))


def _shares(summary: Node) -> list[tuple[str, float]]:
    found = {"min": 0.0, "median": 0.5, "max": 1.0}
    for field in summary.fields:
        match = _PERCENTILE.fullmatch(field)
        if match:
            found[field] = float(match[1]) / _PERCENT
    return list(found.items())


def _lengths(successes: Node, newer: str, older: str) -> ServedLengths:
    """The server's counts where the version reports them, else the client's."""
    summary = successes.node(newer if successes.has(newer) else older)
    return ServedLengths(mean=summary.positive("mean"), p95=summary.positive("p95"))

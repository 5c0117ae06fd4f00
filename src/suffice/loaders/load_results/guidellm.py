"""GuideLLM's ``benchmarks.json``: versions 0.2 to 0.8, several benchmarks in one file.

Its ``inter_token_latency_ms`` is our TPOT, each request by itself; ``time_per_output_token_ms`` is E2E over all tokens and is not used. The
percentiles of the former weigh each request by its tokens (issue 1145 of its tracker), so the rows are taken where the file holds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from suffice.loaders.load_results.agreement import Believed, Said, believed
from suffice.loaders.load_results.fields import Node, all_numbers, ascending
from suffice.model.served import (
    LoadKind,
    Mapping,
    ServedLengths,
    ServedLoad,
    ServedTimes,
    Tool,
    rate_level,
    users_problem,
)
from suffice.stats.intervals import quantile
from suffice.units import MILLISECONDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Sequence

_PERCENT: Final = 100
_PERCENTS: Final = {
    "p001": 0.1, "p01": 1, "p05": 5, "p10": 10, "p25": 25, "p50": 50, "p75": 75, "p90": 90, "p95": 95, "p99": 99, "p999": 99.9,
}  # fmt: skip
_KINDS: Final = {
    "synchronous": LoadKind.USERS,
    "concurrent": LoadKind.USERS,
    "throughput": LoadKind.BURST,
    "constant": LoadKind.RATE,
    "poisson": LoadKind.RATE,
    "async": LoadKind.RATE,
}
_DIFFERENCES: Final = (
    "times are of the wall clock, which may step",
    "its percentiles are of the successes; failures are put back as infinitely slow",
    "TTFT of versions before issue 737 was fixed passes over reasoning text",
    "request latency ends with the stream, not with the last text",
    "requests under way when a run ended are counted as neither success nor failure",
)
_WEIGHTED: Final = "its percentiles weigh each request by its tokens, and the file does not hold every request"


def is_guidellm(document: dict[str, Any]) -> bool:
    """Whether a document has GuideLLM's shape."""
    benchmarks = document.get("benchmarks")
    return isinstance(benchmarks, list) and any(isinstance(one, dict) and "metrics" in one for one in benchmarks)


def guidellm_loads(document: Node) -> tuple[ServedLoad, ...]:
    """Each benchmark of the file."""
    version = document.node("metadata").text("guidellm_version")
    benchmarks = document.nodes("benchmarks")
    return tuple(_load(one, version, f"{document.source}, benchmark {i + 1}") for i, one in enumerate(benchmarks))


def _load(benchmark: Node, version: str | None, source: str) -> ServedLoad:
    config = benchmark.node("config" if benchmark.has("config") else "args")
    strategy = config.node("strategy")
    kind = _KINDS.get(strategy.text("type_") or strategy.text("kind") or "", LoadKind.UNKNOWN)
    totals = _totals(benchmark)
    succeeded = totals.count("successful") or 0
    failed, cut_off = totals.count("errored"), totals.count("incomplete") or 0
    attempted = succeeded + (failed or 0) + cut_off
    rows = benchmark.node("requests").nodes("successful")
    rows = rows if len(rows) == succeeded else []
    asked = _asked(kind, strategy)
    seen = _believed(benchmark, source, rows, attempted - succeeded, succeeded, (kind, asked))
    duration_s = seen.duration_s
    level = rate_level(asked, attempted, duration_s) if kind is LoadKind.RATE else (asked, asked)
    delays = all_numbers(rows, "request_dispatch_delay") if rows and kind is LoadKind.RATE else None
    problem = users_problem(asked, attempted) if kind is LoadKind.USERS else None
    metrics = benchmark.node("metrics")
    output = _lengths(metrics, "output_token_count", rows, "output_tokens")
    return ServedLoad(
        tool=Tool.GUIDELLM,
        source=source,
        kind=kind,
        version=version,
        server=config.node("backend").text("target") or benchmark.node("worker").text("backend_target"),
        model=config.node("backend").text("model") or benchmark.node("worker").text("backend_model"),
        asked=asked,
        level_low=level[0],
        level_high=level[1],
        attempted=attempted,
        failed=failed,
        cut_off=cut_off,
        ttft=seen.percentiles(_times(metrics, "time_to_first_token_ms", rows, MILLISECONDS_PER_SECOND, delays)),
        tpot=seen.percentiles(_tpot(metrics, rows, succeeded)),
        e2e=seen.percentiles(_times(metrics, "request_latency", rows, 1, delays)),
        prompt=_lengths(metrics, "prompt_token_count", rows, "prompt_tokens"),
        output=output,
        requests_per_s=succeeded / duration_s if duration_s else None,
        output_tokens_per_s=seen.output_tokens_per_s,
        duration_s=duration_s,
        from_schedule=delays is not None,
        differences=(*_DIFFERENCES, *seen.notes),
        problems=tuple(text for text in (problem, None if succeeded else "no request succeeded") if text),
    )


def _believed(
    benchmark: Node,
    source: str,
    rows: list[Node],
    lost: int,
    succeeded: int,
    asked: tuple[LoadKind, float | None],
) -> Believed:
    """Duration and rates as far as the requests' own times bear them out."""
    (kind, level), metrics = asked, benchmark.node("metrics")
    whole, tokens = _of(metrics, "request_latency"), _of(metrics, "output_token_count")
    counted = [whole.number("count"), float(len(rows)) if rows else None]
    trimmed = _is_trimmed(benchmark)  # then requests begin before the time that counts
    mean_tokens, values = tokens.positive("mean"), all_numbers(rows, "request_latency") if rows else None
    said = Said(
        succeeded=succeeded,
        duration_s=_duration_s(benchmark),
        requests_per_s=None if trimmed else _of(metrics, "requests_per_second").positive("mean"),
        output_tokens_per_s=_of(metrics, "output_tokens_per_second").positive("mean"),
        output_tokens=None if mean_tokens is None or trimmed else mean_tokens * succeeded,
        counts=tuple(count for count in counted if count is not None),
        mean_s=None if trimmed else whole.positive("mean"),
        longest_s=None if trimmed else max(values) if values else whole.positive("max"),
        span_s=None if trimmed else _between_s(benchmark),
        lost=lost,
        users=level if kind is LoadKind.USERS else None,
        rate_per_s=level if kind is LoadKind.RATE else None,
    )
    return believed(said, source)


def _is_trimmed(benchmark: Node) -> bool:
    """Whether a warm-up or a cool-down was left out of what is counted."""
    config = benchmark.node("config")
    places = (config.fields.get("warmup"), config.fields.get("cooldown"))
    return any(isinstance(place, dict) and (place.get("percent") or place.get("value")) for place in places)


def _totals(benchmark: Node) -> Node:
    metrics = benchmark.node("metrics")
    if metrics.has("request_totals"):
        return metrics.node("request_totals")
    newer = benchmark.node("scheduler_metrics")
    return (newer if newer.has("requests_made") else benchmark.node("run_stats")).node("requests_made")


def _asked(kind: LoadKind, strategy: Node) -> float | None:
    if kind is LoadKind.RATE:
        return strategy.positive("rate")
    if kind is LoadKind.USERS:
        return 1.0 if strategy.text("type_") == "synchronous" else strategy.positive("streams")
    return None


def _duration_s(benchmark: Node) -> float | None:
    return benchmark.positive("duration") or _between_s(benchmark)


def _between_s(benchmark: Node) -> float | None:
    """From the start to the end by the wall clock."""
    start, end = benchmark.number("start_time"), benchmark.number("end_time")
    return end - start if start is not None and end is not None and end > start else None


def _of(metrics: Node, name: str) -> Node:
    return metrics.node(name).node("successful")


def _times(
    metrics: Node, name: str, rows: list[Node], per_second: float, delays: Sequence[float] | None
) -> ServedTimes | None:
    values = all_numbers(rows, name) if rows else None
    if values is not None:
        lags = delays or [0.0] * len(values)
        whole = sorted(value / per_second + lag for value, lag in zip(values, lags, strict=True))
        return ServedTimes(values_s=tuple(whole), count=len(whole), mean_s=sum(whole) / len(whole))
    summary = _of(metrics, name)
    count = summary.count("count")
    if not count:  # an empty distribution is written as zeros
        return None
    return ServedTimes(
        percentiles=_percentiles(summary, per_second), count=count, mean_s=_scaled(summary, "mean", per_second)
    )


def _percentiles(summary: Node, per_second: float) -> tuple[tuple[float, float], ...]:
    given = summary.node("percentiles")
    pairs = [(percent / _PERCENT, _scaled(given, name, per_second)) for name, percent in _PERCENTS.items()]
    return ascending(
        [*pairs, (0.0, _scaled(summary, "min", per_second)), (1.0, _scaled(summary, "max", per_second))], summary
    )


def _scaled(node: Node, name: str, per_second: float) -> float | None:
    value = node.number(name)
    return None if value is None else value / per_second


def _tpot(metrics: Node, rows: list[Node], succeeded: int) -> ServedTimes | None:
    if rows:  # an answer of one token has none, and says null
        known = [value for row in rows if (value := row.number("inter_token_latency_ms")) is not None]
        whole = tuple(sorted(value / MILLISECONDS_PER_SECOND for value in known))
        return ServedTimes(values_s=whole, count=len(whole), mean_s=sum(whole) / len(whole)) if whole else None
    summary, lengths = _of(metrics, "inter_token_latency_ms"), _of(metrics, "output_token_count")
    if not summary.number("count"):
        return None
    same = lengths.number("min") is not None and lengths.number("min") == lengths.number("max")
    return ServedTimes(
        mapping=Mapping.EXACT if same else Mapping.UNUSABLE,
        why="" if same else _WEIGHTED,
        percentiles=_percentiles(summary, MILLISECONDS_PER_SECOND),
        count=succeeded,
        mean_s=_scaled(summary, "mean", MILLISECONDS_PER_SECOND),
    )


def _lengths(metrics: Node, name: str, rows: list[Node], row_name: str) -> ServedLengths:
    values = all_numbers(rows, row_name) if rows else None
    if values:
        return ServedLengths(mean=sum(values) / len(values), p95=quantile(values, 0.95))
    summary = _of(metrics, name)
    if not summary.number("count"):
        return ServedLengths()
    return ServedLengths(mean=summary.positive("mean"), p95=summary.node("percentiles").positive("p95"))

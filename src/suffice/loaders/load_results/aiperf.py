"""AIPerf's ``profile_export_aiperf.json`` (0.1 to 0.13) and GenAI-Perf's ``profile_export_genai_perf.json``.

Both write one object a metric, with its unit. ``inter_token_latency`` is (request latency - TTFT) / (tokens - 1) of each request: our TPOT
where the first chunk holds one token. GenAI-Perf does not say how many requests failed, so no percentile over attempts is known from it.
"""

from __future__ import annotations

from typing import Any, Final

from suffice.errors import RecordError
from suffice.loaders.load_results.agreement import Believed, Said, believed
from suffice.loaders.load_results.fields import Node, ascending
from suffice.model.served import LoadKind, ServedLengths, ServedLoad, ServedTimes, Tool, rate_level, users_problem
from suffice.units import MEGA, MILLISECONDS_PER_SECOND, NANOSECONDS_PER_SECOND, SECONDS_PER_MINUTE

_SHARES: Final = {
    "min": 0.0, "p1": 0.01, "p5": 0.05, "p10": 0.1, "p25": 0.25, "p50": 0.5,
    "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99, "max": 1.0,
}  # fmt: skip
_PER_SECOND: Final = {
    "s": 1, "sec": 1, "seconds": 1, "ms": MILLISECONDS_PER_SECOND, "us": MEGA, "ns": NANOSECONDS_PER_SECOND,
}  # fmt: skip
_RATE_SECONDS: Final = {
    "s": 1, "sec": 1, "second": 1, "seconds": 1, "min": SECONDS_PER_MINUTE, "minute": SECONDS_PER_MINUTE,
}  # fmt: skip
_COUNTED: Final = ("request_latency", "time_to_first_token")  # one value a success that streamed
_BOTH: Final = (
    "latency is from the send, not from the schedule",
    "tokens are counted by the client's tokenizer, which sees no chat template and none of what it takes away",
    "TPOT takes the first chunk for one token",
)
_DIFFERENCES: Final = (
    *_BOTH,
    "its percentiles are of the successes (adj_* has failures as infinite); failures are put back",
)
_OLDER_DIFFERENCES: Final = (
    *_BOTH,
    "its percentiles are of the successes, and it does not say how many failed: nothing bounds them from above",
)


def is_aiperf(document: dict[str, Any]) -> bool:
    """Whether a document has the shape of either of the two."""
    latency = document.get("request_latency")
    return isinstance(document.get("input_config"), dict) and isinstance(latency, dict) and "unit" in latency


def aiperf_loads(document: Node) -> tuple[ServedLoad, ...]:
    """The one load of the file."""
    config = document.node("input_config")
    older = not document.has("aiperf_version") and not isinstance(config.fields.get("endpoint"), dict)
    kind, asked = _older_load(config) if older else _load(config)
    succeeded = _metric_count(document, "request_count") or 0
    failed = None if older else _metric_count(document, "error_request_count") or 0
    attempted = None if failed is None else succeeded + failed
    seen, notes = _believed(document, kind, asked, succeeded, failed)
    level = rate_level(asked, attempted, seen.duration_s) if kind is LoadKind.RATE else (asked, asked)
    counted = _lengths(document, "usage_prompt_tokens")
    problems = [
        users_problem(asked, attempted or succeeded) if kind is LoadKind.USERS else None,
        None if succeeded else "no request succeeded",
        "the run was cancelled" if document.flag("was_cancelled") else None,
    ]
    load = ServedLoad(
        tool=Tool.GENAI_PERF if older else Tool.AIPERF,
        source=document.source,
        kind=kind,
        version=document.text("aiperf_version"),
        server=_server(config, older=older),
        model=_model(config, older=older),
        asked=asked,
        level_low=level[0],
        level_high=level[1],
        attempted=attempted,
        failed=failed,
        ttft=seen.percentiles(_times(document, "time_to_first_token", succeeded)),
        tpot=seen.percentiles(_times(document, "inter_token_latency", succeeded)),
        e2e=seen.percentiles(_times(document, "request_latency", succeeded)),
        prompt=counted if counted.mean is not None else _lengths(document, "input_sequence_length", at_least=True),
        output=_lengths(document, "output_sequence_length"),
        requests_per_s=seen.requests_per_s,
        output_tokens_per_s=seen.output_tokens_per_s,
        duration_s=seen.duration_s,
        differences=(*(_OLDER_DIFFERENCES if older else _DIFFERENCES), *notes),
        problems=tuple(problem for problem in problems if problem),
    )
    return (load,)


def _believed(
    document: Node, kind: LoadKind, asked: float | None, succeeded: int, failed: int | None
) -> tuple[Believed, tuple[str, ...]]:
    """Count, duration and rates as far as the rest of the file bears them out, and what is not used."""
    latency = document.node("request_latency")
    scale = _per_second(latency)
    mean, longest, answers = latency.number("avg"), latency.number("max"), document.node("output_sequence_length")
    requests_per_s, odd_requests = _rate(document.node("request_throughput"), ("request", "requests", "req"))
    tokens_per_s, odd_tokens = _rate(document.node("output_token_throughput"), ("token", "tokens", "tok"))
    said = Said(
        succeeded=succeeded,
        duration_s=_duration_s(document),
        requests_per_s=requests_per_s,
        output_tokens_per_s=tokens_per_s,
        output_tokens=answers.positive("sum"),
        counts=_counts(document),
        mean_s=None if mean is None else mean / scale,
        longest_s=None if longest is None else longest / scale,
        lost=failed or 0,
        users=asked if kind is LoadKind.USERS else None,
        rate_per_s=asked if kind is LoadKind.RATE else None,
    )
    seen = believed(said, document.source)
    return seen, (*odd_requests, *odd_tokens, *seen.notes)


def _counts(document: Node) -> tuple[float, ...]:
    """How many values stand behind the times: as told, and as their sum and mean give it."""
    found: list[float] = []
    for metric in map(document.node, _COUNTED):
        told, total, mean = metric.number("count"), metric.positive("sum"), metric.positive("avg")
        found += [] if told is None else [told]
        found += [] if total is None or mean is None else [total / mean]
    return tuple(found)


def _rate(metric: Node, nouns: tuple[str, ...]) -> tuple[float | None, tuple[str, ...]]:
    """A throughput per second by its unit; None and a sentence where the unit is not one that is known."""
    value, unit = metric.positive("avg"), metric.text("unit") or ""
    if value is None:
        return None, ()
    noun, _, time = unit.lower().partition("/")
    if noun.strip() not in nouns or time.strip() not in _RATE_SECONDS:
        return None, (f"{metric.source}: '{metric.place}' is in {unit or 'no unit'!r}, which is not read: not used",)
    return value / _RATE_SECONDS[time.strip()], ()


def _load(config: Node) -> tuple[LoadKind, float | None]:
    """Of AIPerf: the last phase that counts; of its first versions: ``loadgen``."""
    phases = [phase for phase in config.nodes("phases") if phase.flag("exclude_from_results") is not True]
    phase = phases[-1] if phases else config.node("loadgen")
    rate = phase.positive("rate") or phase.positive("request_rate")
    if rate is not None:
        return LoadKind.RATE, rate
    users = phase.positive("concurrency")
    return (LoadKind.UNKNOWN, None) if users is None else (LoadKind.USERS, users)


def _older_load(config: Node) -> tuple[LoadKind, float | None]:
    """Of GenAI-Perf: two arguments, and in its last versions ``perf_analyzer.stimulus``."""
    stimulus = config.fields.get("perf_analyzer")
    place = config.node("perf_analyzer").node("stimulus") if isinstance(stimulus, dict) else config
    rate, users = place.positive("request_rate"), place.positive("concurrency")
    if rate is not None:
        return LoadKind.RATE, rate
    return (LoadKind.UNKNOWN, None) if users is None else (LoadKind.USERS, users)


def _server(config: Node, *, older: bool) -> str | None:
    if older:
        return config.text("u")
    urls = config.node("endpoint").values("urls") or [config.node("endpoint").text("url")]
    return next((url for url in urls if isinstance(url, str)), None)


def _model(config: Node, *, older: bool) -> str | None:
    if older:
        names = config.fields.get("model")
        return next((name for name in names if isinstance(name, str)), None) if isinstance(names, list) else None
    models = config.fields.get("models")
    if isinstance(models, dict):
        return next((name for one in config.node("models").nodes("items") if (name := one.text("name"))), None)
    return None


def _metric_count(document: Node, name: str) -> int | None:
    return document.node(name).count("avg")


def _duration_s(document: Node) -> float | None:
    duration = document.node("benchmark_duration")
    value = duration.positive("avg")
    return None if value is None else value / _per_second(duration)


def _per_second(metric: Node) -> float:
    unit = metric.text("unit") or ""
    if unit not in _PER_SECOND:
        raise RecordError(f"{metric.source}: '{metric.place}' is in {unit or 'no unit'!r}, which is no unit of time")
    return _PER_SECOND[unit]


def _times(document: Node, name: str, succeeded: int) -> ServedTimes | None:
    metric = document.node(name)
    if not metric.fields:
        return None
    scale = _per_second(metric)
    values = ((share, metric.number(field)) for field, share in _SHARES.items())
    mean = metric.number("avg")
    return ServedTimes(
        percentiles=ascending(((share, None if value is None else value / scale) for share, value in values), metric),
        count=metric.count("count") or succeeded or None,
        mean_s=None if mean is None else mean / scale,
    )


def _lengths(document: Node, name: str, *, at_least: bool = False) -> ServedLengths:
    metric = document.node(name)
    return ServedLengths(mean=metric.positive("avg"), p95=metric.positive("p95"), at_least=at_least)

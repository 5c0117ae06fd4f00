"""``vllm bench serve --save-result``: one load a file, with every request's times where ``--save-detailed`` was given.

TTFT of chat endpoints was stamped on the chunk that holds only the role in older versions (issue 15106); files of versions that are known
to skip it hold ``queue_times``. TPOT is (latency - TTFT) / (tokens - 1), so an early TTFT makes it too large.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from suffice.errors import RecordError
from suffice.loaders.load_results.agreement import Believed, Said, believed
from suffice.loaders.load_results.fields import Node, ascending
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

_PERCENT: Final = 100
_PERCENTILE: Final = re.compile(r"p(\d{1,2}(?:\.\d{1,6})?)_([a-z0-9]+)_ms")
_DIFFERENCES: Final = (
    "latency is from the send, not from the schedule",
    "its percentiles are of the successes; failures are put back as infinitely slow",
    "the first prompt was sent once before the run, so a prefix cache may know it",
    "tokens are those of `usage`, else of the client's tokenizer",
    "TPOT takes the first chunk for one token",
)
_EARLY: Final = "older versions stamp the first token on the chunk that holds only the role"
_CAPPED: Final = "--max-concurrency held requests back, and the time of that wait is not in the file"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Detail:
    """Times of the successes, from the lists of ``--save-detailed``."""

    ttft_s: tuple[float, ...]
    tpot_s: tuple[float, ...]
    prompts: tuple[float, ...]
    outputs: tuple[float, ...]
    queued: bool  # client-side waiting is in the TTFT


def is_vllm(document: dict[str, Any]) -> bool:
    """Whether a document has vLLM's shape."""
    return {"model_id", "num_prompts", "completed", "request_throughput", "request_rate"} <= document.keys()


def vllm_loads(document: Node) -> tuple[ServedLoad, ...]:
    """The one load of the file."""
    completed = document.count("completed") or 0
    attempted = document.count("num_prompts")
    failed = document.count("failed")
    if failed is None and attempted is not None:
        failed = attempted - completed  # what older versions leave out
    if failed is None or failed < 0:
        raise RecordError(f"{document.source}: 'completed' is more than 'num_prompts', which cannot be")
    if attempted is not None and completed + failed > attempted:
        raise RecordError(
            f"{document.source}: 'completed' and 'failed' are {completed + failed} of {attempted} 'num_prompts', which cannot be"
        )
    if attempted is not None:
        failed = attempted - completed  # those that never came back are in neither number
    attempted = completed + failed
    kind, asked = _load(document)
    detail = _detail(document, completed)
    seen = _believed(document, detail, completed, failed, (kind, asked))
    level = rate_level(asked, attempted, seen.duration_s) if kind is LoadKind.RATE else (asked, asked)
    problems = [
        users_problem(asked, attempted) if kind is LoadKind.USERS else None,
        None if completed else "no request succeeded",
        "its rate was ramped up, which is no single load" if document.has("ramp_up_strategy") else None,
    ]
    load = ServedLoad(
        tool=Tool.VLLM,
        source=document.source,
        kind=kind,
        model=document.text("model_id"),
        asked=asked,
        level_low=level[0],
        level_high=level[1],
        attempted=attempted,
        failed=failed,
        ttft=seen.percentiles(_ttft(document, detail, completed, kind)),
        tpot=seen.percentiles(_tpot(document, detail, completed)),
        e2e=seen.percentiles(_times(document, "e2el", completed)),
        prompt=_lengths(document, "total_input_tokens", completed, None if detail is None else detail.prompts),
        output=_lengths(document, "total_output_tokens", completed, None if detail is None else detail.outputs),
        requests_per_s=seen.requests_per_s,
        output_tokens_per_s=seen.output_tokens_per_s,
        duration_s=seen.duration_s,
        differences=(*_DIFFERENCES, *seen.notes),
        problems=tuple(problem for problem in problems if problem),
    )
    return (load,)


def _believed(
    document: Node, detail: _Detail | None, completed: int, failed: int, asked: tuple[LoadKind, float | None]
) -> Believed:
    """Duration and rates as far as the requests' own times bear them out."""
    kind, level = asked
    mean_s, latencies = _seconds(document, "mean_e2el_ms"), None if detail is None else _latencies(document)
    said = Said(
        succeeded=completed,
        duration_s=document.positive("duration"),
        requests_per_s=document.positive("request_throughput"),
        output_tokens_per_s=document.positive("output_throughput"),
        output_tokens=document.positive("total_output_tokens"),
        counts=() if detail is None else (len(detail.ttft_s),),
        mean_s=mean_s or None,
        longest_s=max(latencies) if latencies else _seconds(document, "p99_e2el_ms"),
        span_s=_span_s(document, latencies),
        lost=failed,
        users=level if kind is LoadKind.USERS else None,
        rate_per_s=level if kind is LoadKind.RATE else None,
    )
    return believed(said, document.source)


def _span_s(document: Node, latencies: list[float] | None) -> float | None:
    """From the first send to the last answer, where the file lists both."""
    starts = document.numbers("start_times")
    if not starts or latencies is None or len(starts) != len(latencies):
        return None
    return max(start + taken for start, taken in zip(starts, latencies, strict=True)) - min(starts)


def _load(document: Node) -> tuple[LoadKind, float | None]:
    users = document.positive("max_concurrency")
    if document.text("request_rate") != "inf":
        return LoadKind.RATE, document.positive("request_rate")
    return (LoadKind.BURST, None) if users is None else (LoadKind.USERS, users)


def _early(document: Node) -> bool:
    """A chat endpoint in a file of a version that may count the role chunk."""
    return "chat" in (document.text("backend") or document.text("endpoint_type") or "") and not document.has(
        "queue_times"
    )


def _ttft(document: Node, detail: _Detail | None, completed: int, kind: LoadKind) -> ServedTimes | None:
    capped = kind is LoadKind.RATE and document.has("max_concurrency") and not (detail and detail.queued)
    why = "; ".join(text for text, holds in ((_EARLY, _early(document)), (_CAPPED, capped)) if holds)
    mapping = Mapping.LOWER if why else Mapping.EXACT
    if detail is not None:
        return _raw(detail.ttft_s, mapping, why)
    return _times(document, "ttft", completed, mapping, why)


def _tpot(document: Node, detail: _Detail | None, completed: int) -> ServedTimes | None:
    mapping, why = (Mapping.UPPER, _EARLY) if _early(document) else (Mapping.EXACT, "")
    if detail is not None:
        return _raw(detail.tpot_s, mapping, why)
    return _times(document, "tpot", completed, mapping, why)


def _raw(values_s: tuple[float, ...], mapping: Mapping, why: str) -> ServedTimes | None:
    if not values_s:
        return None
    mean = sum(values_s) / len(values_s)
    return ServedTimes(mapping=mapping, why=why, values_s=values_s, count=len(values_s), mean_s=mean)


def _times(
    document: Node, name: str, completed: int, mapping: Mapping = Mapping.EXACT, why: str = ""
) -> ServedTimes | None:
    """The percentiles under ``pN_name_ms``; zeros are what it writes where nothing was streamed."""
    pairs: list[tuple[float, float | None]] = [(0.5, _seconds(document, f"median_{name}_ms"))]
    for field in document.fields:
        match = _PERCENTILE.fullmatch(field)
        if match and match[2] == name and float(match[1]) > 0:
            pairs.append((float(match[1]) / _PERCENT, _seconds(document, field)))
    known = ascending(set(pairs), document)
    if not known or known[-1][1] == 0 or not completed:
        return None
    return ServedTimes(
        mapping=mapping, why=why, percentiles=known, count=completed, mean_s=_seconds(document, f"mean_{name}_ms")
    )


def _seconds(document: Node, name: str) -> float | None:
    value = document.number(name)
    return None if value is None else value / MILLISECONDS_PER_SECOND


def _detail(document: Node, completed: int) -> _Detail | None:
    """The successes of the lists; None without lists.

    Raises:
        RecordError: the lists are of different lengths, or their successes are not those that were counted.
    """
    ttfts, outputs, errors = document.numbers("ttfts"), document.numbers("output_lens"), document.values("errors")
    prompts, latencies = document.numbers("input_lens"), _latencies(document)
    if not ttfts or outputs is None or errors is None or prompts is None or latencies is None:
        return None
    if len({len(ttfts), len(outputs), len(errors), len(prompts), len(latencies)}) > 1:
        raise RecordError(f"{document.source}: its lists of requests are of different lengths")
    fine = [i for i, error in enumerate(errors) if not error and ttfts[i] > 0]
    if len(fine) != completed:
        raise RecordError(f"{document.source}: its lists hold {len(fine)} answers, 'completed' says {completed}")
    waits = document.numbers("queue_times")
    queued = waits is not None and len(waits) == len(ttfts) and document.text("request_rate") != "inf"
    lag = waits if queued and waits is not None else [0.0] * len(ttfts)
    longer = [i for i in fine if outputs[i] > 1]
    return _Detail(
        ttft_s=tuple(sorted(ttfts[i] + lag[i] for i in fine)),
        tpot_s=tuple(sorted(max(0.0, latencies[i] - ttfts[i]) / (outputs[i] - 1) for i in longer)),
        prompts=tuple(prompts[i] for i in fine),
        outputs=tuple(outputs[i] for i in fine),
        queued=queued,
    )


def _latencies(document: Node) -> list[float] | None:
    """As listed, or in older files TTFT and all gaps after it."""
    listed = document.numbers("latencies")
    ttfts, gaps = document.numbers("ttfts"), document.values("itls")
    if listed is not None or ttfts is None or gaps is None or len(gaps) != len(ttfts):
        return listed
    totals = []
    for i, (ttft, row) in enumerate(zip(ttfts, gaps, strict=True)):
        inner = Node({"itls": row}, document.source, f"itls[{i}]").numbers("itls") or []
        totals.append(ttft + sum(inner))
    return totals


def _lengths(document: Node, name: str, completed: int, values: tuple[float, ...] | None) -> ServedLengths:
    if values:
        return ServedLengths(mean=sum(values) / len(values), p95=quantile(values, 0.95))
    total = document.positive(name)
    return ServedLengths(mean=total / completed if total and completed else None)

"""Our own ``suffice load --find-capacity --out``: one load a level, with percentiles over all attempts and their intervals."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from suffice.model.capacity import LevelVerdict
from suffice.model.served import (
    AttemptsPercentile,
    LoadKind,
    ServedLengths,
    ServedLoad,
    ServedTimes,
    Tool,
    rate_level,
    users_problem,
)
from suffice.stats.percentiles import percentile, samples_needed

if TYPE_CHECKING:
    from suffice.loaders.load_results.fields import Node

_FRACTIONS: Final = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
_DIFFERENCES: Final = (
    "a level of a search ends as soon as it is decided; its intervals are those of a fixed number of requests",
    "of its requests so many count as the level says are independent",
)


def is_capacity(document: dict[str, Any]) -> bool:
    """Whether a document is a result of ``suffice load --find-capacity``."""
    return "capacity_schema_version" in document and "levels" in document


def capacity_loads(document: Node) -> tuple[ServedLoad, ...]:
    """Each level of the search, and one user alone, from whom it began.

    Attempts under load are not independent: a level's criteria say how many independent ones they are worth, and its percentiles count
    as of so many.
    """
    levels = document.nodes("levels")
    if document.has("idle"):
        levels.insert(0, document.node("idle"))
    return tuple(_load(document, level) for level in levels)


def _load(document: Node, level: Node) -> ServedLoad:
    users, rate = level.positive("users"), level.positive("rate_per_s")
    kind = LoadKind.USERS if users else LoadKind.RATE if rate else LoadKind.UNKNOWN
    asked = users or rate
    attempted, succeeded, cut_off = (
        level.count("attempted") or 0,
        level.count("succeeded") or 0,
        level.count("cut_off") or 0,
    )
    length_s = level.positive("length_s")
    limits = rate_level(asked, attempted + cut_off, length_s) if kind is LoadKind.RATE else (asked, asked)
    reasons = [text for text in level.values("client_reasons") or [] if isinstance(text, str)]
    problems = [
        f"the client was the bottleneck: {'; '.join(reasons)}" if level.flag("client_is_bottleneck") else None,
        users_problem(asked, attempted + cut_off) if kind is LoadKind.USERS else None,
        None if succeeded else "no request succeeded",
        "the search left this level undecided" if level.text("verdict") == LevelVerdict.UNDECIDED else None,
    ]
    settings = document.node("settings")
    return ServedLoad(
        tool=Tool.SUFFICE,
        source=f"{document.source}, {asked or 0:.4g} {kind}",
        kind=kind,
        version=document.text("suffice_version"),
        server=settings.text("url"),
        model=settings.text("model"),
        asked=asked,
        level_low=limits[0],
        level_high=limits[1],
        attempted=attempted + cut_off,
        failed=max(0, attempted - succeeded),
        cut_off=cut_off,
        ttft=_times(level, "ttft"),
        tpot=_times(level, "tpot"),
        e2e=_times(level, "e2e"),
        prompt=_lengths(level, "prompt_tokens"),
        output=_lengths(level, "output_tokens"),
        requests_per_s=level.positive("requests_per_second"),
        output_tokens_per_s=level.positive("output_tokens_per_second"),
        duration_s=length_s,
        from_schedule=kind is LoadKind.RATE,
        differences=_DIFFERENCES,
        problems=tuple(problem for problem in problems if problem),
        of_prebuilt=settings.text("spawned") is not None,
    )


def _times(level: Node, name: str) -> ServedTimes | None:
    metric, worth = level.node(name), _independent_share(level)
    given = [_percentile(metric.node(part), share) for part, share in _FRACTIONS.items() if metric.has(part)]
    found = tuple(_of_independent(one, given, worth) for one in given)
    return ServedTimes(of_attempts=found, count=given[0].samples) if found else None


def _independent_share(level: Node) -> float:
    """The least part of the attempts that are independent, over the criteria of a level; 1 where the file does not say."""
    shares = [
        independent / counted
        for one in level.nodes("criteria")
        if (independent := one.number("independent")) is not None and (counted := one.positive("counted"))
    ]
    return min([1.0, *shares])


def _of_independent(one: AttemptsPercentile, given: list[AttemptsPercentile], worth: float) -> AttemptsPercentile:
    """A percentile of fewer independent attempts: its ends are the file's next percentiles outwards, and no nearer than its own ends.

    Both order statistics move outwards; where no percentile of the file lies so far out, nothing bounds it.
    """
    samples = math.floor(one.samples * worth)
    ranks = percentile(range(samples), one.fraction) if samples < one.samples else None
    if samples == one.samples:
        return one
    if ranks is None or ranks.low is None or ranks.high is None or one.low_s is None or one.high_s is None:
        return replace(one, low_s=None, high_s=None, samples=samples)
    below = [other.observed_s for other in given if other.fraction <= ranks.low / (samples - 1)]
    above = [other.observed_s for other in given if other.fraction >= ranks.high / (samples - 1)]
    return replace(
        one,
        low_s=min(one.low_s, max(below)) if below else None,
        high_s=max(one.high_s, min(above)) if above else None,
        samples=samples,
    )


def _percentile(times: Node, fraction: float) -> AttemptsPercentile:
    """Null is "unbounded" where there are samples enough: failures reach it."""
    samples, needed = times.count("samples") or 0, max(times.count("needed") or 0, samples_needed(fraction))
    observed, low, high = (times.number(name) for name in ("observed_s", "low_s", "high_s"))
    supported = samples >= needed
    return AttemptsPercentile(
        fraction=fraction,
        observed_s=math.inf if observed is None else observed,
        low_s=(math.inf if low is None else low) if supported else None,
        high_s=(math.inf if high is None else high) if supported else None,
        samples=samples,
        needed=needed,
    )


def _lengths(level: Node, name: str) -> ServedLengths:
    lengths = level.node(name)
    return ServedLengths(mean=lengths.positive("mean"), p95=lengths.positive("p95"))

"""What a run under load amounts to: percentiles with failures in them, rates over the steady window, limits met.

Definitions: docs/load.md. Warm-up requests are in no percentile; requests cut off because the run was interrupted are no failures
of the server and are counted apart.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.model.load_request import Outcome, RequestRow
from suffice.stats.intervals import median, quantile
from suffice.stats.percentiles import Percentile, percentile
from suffice.stats.proportions import wilson_interval
from suffice.units import NANOSECONDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from suffice.stats.estimate import Interval

FRACTIONS: Final = (0.5, 0.9, 0.95, 0.99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an attempt has to keep to, in seconds; None: no limit of that kind."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None

    @property
    def given(self) -> bool:
        """Whether there is any limit."""
        return self != Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """P50, P90, P95 and P99 of a time in seconds: of all attempts, failures infinite, and beside it of the successes alone.

    ``undetermined`` successes have no such time (an answer of one token has no TPOT) and are in neither.
    """

    attempts: tuple[Percentile, ...]
    successes: tuple[Percentile, ...]
    failed: int
    undetermined: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkGaps:
    """Gaps between reads with text, pooled over requests: not independent, so without intervals.

    ``tokens_per_event`` says whether a gap may be called an inter-token latency: only at 1.
    """

    count: int
    p50_s: float
    p99_s: float
    longest_s: float
    tokens_per_event: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The time in which measured requests were sent. ``steady`` is None, or says why the window holds more than a steady state."""

    from_ns: int
    until_ns: int
    unsteady: str | None

    @property
    def length_s(self) -> float:
        """Seconds."""
        return (self.until_ns - self.from_ns) / NANOSECONDS_PER_SECOND

    def holds(self, at_ns: int) -> bool:
        """Whether a moment lies inside."""
        return self.from_ns < at_ns <= self.until_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Attainment:
    """Attempts that kept to all limits; failures did not; those that lack a time that a limit is about are undetermined."""

    attained: int
    missed: int
    undetermined: int
    share: float | None
    interval: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSummary:
    """The results of one run. Rates are None where the window is empty or tokens are unknown."""

    attempted: int
    succeeded: int
    interrupted: int
    failures: tuple[tuple[Outcome, int], ...]
    ttft: Distribution
    ttfo: Distribution
    tpot: Distribution
    e2e: Distribution
    effective_ttft: Distribution | None
    effective_e2e: Distribution | None
    chunk_gaps: ChunkGaps | None
    window: Window
    output_tokens_per_second: float | None
    estimated_token_share: float | None
    requests_per_second: float | None
    attainment: Attainment | None
    goodput_requests_per_second: float | None

    @property
    def failed(self) -> int:
        """Attempts without a whole answer."""
        return self.attempted - self.succeeded


def summarize(rows: Sequence[RequestRow], limits: Limits, window: Window) -> LoadSummary:
    """The summary of a run's rows, warm-up included: it is left out of percentiles, and is part of the flow in the window."""
    measured = [row for row in rows if not row.warm_up]
    attempts = [row for row in measured if row.outcome is not Outcome.INTERRUPTED]
    failures = Counter(row.outcome for row in attempts if not row.succeeded)
    scheduled = any(row.scheduled_ns is not None for row in attempts)
    rate, estimated = _token_rate(rows, window)
    return LoadSummary(
        attempted=len(attempts),
        succeeded=sum(row.succeeded for row in attempts),
        interrupted=len(measured) - len(attempts),
        failures=tuple(failures.most_common()),
        ttft=distribution(attempts, lambda row: row.ttft_s),
        ttfo=distribution(attempts, lambda row: row.ttfo_s),
        tpot=distribution(attempts, lambda row: row.tpot_s),
        e2e=distribution(attempts, lambda row: row.e2e_s),
        effective_ttft=distribution(attempts, lambda row: row.effective_ttft_s) if scheduled else None,
        effective_e2e=distribution(attempts, lambda row: row.effective_e2e_s) if scheduled else None,
        chunk_gaps=_chunk_gaps(attempts),
        window=window,
        output_tokens_per_second=rate,
        estimated_token_share=estimated,
        requests_per_second=_ended_rate(rows, window, lambda row: row.succeeded),
        attainment=attainment(attempts, limits) if limits.given else None,
        goodput_requests_per_second=(
            _ended_rate(rows, window, lambda row: keeps_to(row, limits) is True) if limits.given else None
        ),
    )


def distribution(attempts: Sequence[RequestRow], time_s: Callable[[RequestRow], float | None]) -> Distribution:
    """The percentiles of one time over the attempts."""
    values = [time_s(row) for row in attempts if row.succeeded]
    known = [value for value in values if value is not None]
    failed = len(attempts) - len(values)
    return Distribution(
        attempts=_percentiles([*known, *[math.inf] * failed]),
        successes=_percentiles(known),
        failed=failed,
        undetermined=len(values) - len(known),
    )


def _percentiles(values: Sequence[float]) -> tuple[Percentile, ...]:
    found = (percentile(values, fraction) for fraction in FRACTIONS)
    return tuple(item for item in found if item is not None)


def keeps_to(row: RequestRow, limits: Limits) -> bool | None:
    """Whether an attempt keeps to all limits; None when it misses none and lacks a time that one is about.

    Where arrivals are scheduled, TTFT and E2E count from the schedule: the user waits from then on.
    """
    if not row.succeeded:
        return False
    from_schedule = row.scheduled_ns is not None
    pairs = (
        (limits.ttft_s, row.effective_ttft_s if from_schedule else row.ttft_s),
        (limits.tpot_s, row.tpot_s),
        (limits.e2e_s, row.effective_e2e_s if from_schedule else row.e2e_s),
    )
    asked = [(limit, value) for limit, value in pairs if limit is not None]
    if any(value is not None and value > limit for limit, value in asked):
        return False
    return None if any(value is None for _, value in asked) else True


def attainment(attempts: Iterable[RequestRow], limits: Limits) -> Attainment:
    """The share of the determined attempts that keep to all limits."""
    answers = Counter(keeps_to(row, limits) for row in attempts)
    attained, determined = answers[True], answers[True] + answers[False]
    return Attainment(
        attained=attained,
        missed=answers[False],
        undetermined=answers[None],
        share=attained / determined if determined else None,
        interval=wilson_interval(attained, determined),
    )


def _ended_rate(rows: Iterable[RequestRow], window: Window, counts: Callable[[RequestRow], bool]) -> float | None:
    if window.length_s <= 0:
        return None
    return sum(1 for row in rows if row.chunk_ns and window.holds(row.chunk_ns[-1]) and counts(row)) / window.length_s


def _token_rate(rows: Sequence[RequestRow], window: Window) -> tuple[float | None, float | None]:
    """Tokens per second that arrived in the window, and the share of them that no server counted.

    A request's tokens are spread over its text events. Requests that were cut off before the count came are part of what the server
    did; their tokens are estimated from the others' tokens per event. Without any count there is no rate.
    """
    per_event = [row.tokens_per_event for row in rows if row.tokens_per_event is not None]
    if not per_event or window.length_s <= 0:
        return None, None
    usual = median(per_event)
    counted = estimated = 0.0
    for row in rows:
        inside = sum(
            events for at_ns, events in zip(row.chunk_ns, row.chunk_events, strict=True) if window.holds(at_ns)
        )
        if row.tokens_per_event is None:
            estimated += inside * usual
        else:
            counted += inside * row.tokens_per_event
    total = counted + estimated
    return total / window.length_s, (estimated / total if total else None)


def _chunk_gaps(attempts: Iterable[RequestRow]) -> ChunkGaps | None:
    rows = [row for row in attempts if row.succeeded]
    gaps = [gap for row in rows for gap in row.chunk_gaps_s]
    if not gaps:
        return None
    per_event = [row.tokens_per_event for row in rows if row.tokens_per_event is not None]
    return ChunkGaps(
        count=len(gaps),
        p50_s=median(gaps),
        p99_s=quantile(gaps, FRACTIONS[-1]),
        longest_s=max(gaps),
        tokens_per_event=median(per_event) if per_event else None,
    )

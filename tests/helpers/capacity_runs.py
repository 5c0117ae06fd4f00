"""Levels of load on simulated queues: rows as the load generator would have them, judged while they come in."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from suffice.model.capacity import Criterion, Judge, Judgement, LevelVerdict
from suffice.model.load_metrics import Limits
from suffice.model.load_request import Outcome, RequestRow, TokenSource
from suffice.units import NANOSECONDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Sequence

SERVICE_S = 1.0


def waits_s(rate_per_s: float, count: int, seed: int, slots: int = 1) -> list[tuple[float, float]]:
    """Arrivals and waits of a queue with deterministic service of a second: M/D/slots from an empty start."""
    chance = random.Random(seed)  # noqa: S311  # a simulation that can be repeated
    free_s = [0.0] * slots
    at_s, found = 0.0, []
    for _ in range(count):
        at_s += chance.expovariate(rate_per_s)
        slot = min(range(slots), key=free_s.__getitem__)
        begins_s = max(free_s[slot], at_s)
        free_s[slot] = begins_s + SERVICE_S
        found.append((at_s, begins_s - at_s))
    return found


def queue_rows(waits: Sequence[tuple[float, float]], warm_up: int = 0) -> list[RequestRow]:
    """Rows of open-loop requests that each get their only text when the wait and the service are over."""
    return [
        answered(index, at_s, at_s + wait_s + SERVICE_S, warm_up=index < warm_up)
        for index, (at_s, wait_s) in enumerate(waits)
    ]


def answered(index: int, at_s: float, end_s: float, *, warm_up: bool = False) -> RequestRow:
    """A request that came at a time and got its only text at another."""
    at_ns, end_ns = round(at_s * NANOSECONDS_PER_SECOND), round(end_s * NANOSECONDS_PER_SECOND)
    return RequestRow(
        index=index,
        warm_up=warm_up,
        outcome=Outcome.SUCCESS,
        dispatched_ns=at_ns,
        scheduled_ns=at_ns,
        start_ns=at_ns,
        end_ns=end_ns,
        chunk_ns=(end_ns,),
        chunk_events=(1,),
        output_tokens=1,
        token_source=TokenSource.USAGE,
    )


def under_way(index: int, at_s: float, outcome: Outcome = Outcome.INTERRUPTED) -> RequestRow:
    """A request of which nothing has come, or that ended without any text."""
    at_ns = round(at_s * NANOSECONDS_PER_SECOND)
    return RequestRow(
        index=index,
        warm_up=False,
        outcome=outcome,
        dispatched_ns=at_ns,
        scheduled_ns=at_ns,
        start_ns=at_ns,
        end_ns=at_ns,
    )


def seen_at(rows: Sequence[RequestRow], now_ns: int) -> list[RequestRow]:
    """The rows as they are at a moment: those that came, without what came later."""
    return [
        row if row.end_ns <= now_ns else under_way(row.index, (row.scheduled_ns or 0) / NANOSECONDS_PER_SECOND)
        for row in rows
        if (row.scheduled_ns or 0) <= now_ns
    ]


def judged(rows: Sequence[RequestRow], judge: Judge, looks: float = 1.25) -> Judgement:
    """The judgement at the first look that is decided, or the last: looks at 20, 25, 31, ... requests, as a run has them."""
    number = 20.0
    while number < len(rows):
        now_ns = rows[int(number)].scheduled_ns or 0
        found = judge.judgement(seen_at(rows, now_ns), now_ns)
        if found.verdict is not LevelVerdict.UNDECIDED:
            return found
        number = number * looks + 1
    return judge.judgement(rows, max(row.end_ns for row in rows))


def judge_of(limit_s: float, *, risk: float = 0.05, share: float = 0.95, rate_per_s: float | None = None) -> Judge:
    """A judge of a limit on the time to first token."""
    criterion = Criterion(limits=Limits(ttft_s=limit_s), share=share)
    return Judge(criteria=(criterion,), risk_holds=risk, risk_fails=risk, rate_per_s=rate_per_s)

"""A load whose rate changes evenly, part by part: where it breaks. Parts are cut by the schedule, not by when answers came."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.model.load_metrics import Limits, keeps_to
from suffice.model.load_request import Outcome
from suffice.stats.percentiles import Percentile, percentile
from suffice.units import NANOSECONDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.model.load_request import RequestRow

PARTS: Final = 10
BREAKS: Final = 0.95  # of a part's attempts that keep the limits: below it the load is too much


@dataclass(frozen=True, slots=True, kw_only=True)
class RampPart:
    """A stretch of the ramp, seconds from its start; ``rate_per_s`` is the mean that was asked for in it.

    Times count from the schedule, failures are infinitely slow; None without attempts. ``attained`` is None without limits.
    """

    from_s: float
    until_s: float
    rate_per_s: float
    attempts: int
    failed: int
    ttft_p50: Percentile | None
    ttft_p95: Percentile | None
    e2e_p50: Percentile | None
    e2e_p95: Percentile | None
    attained: float | None


def ramp_parts(
    rows: Sequence[RequestRow], rates_per_s: tuple[float, float], duration_s: float, limits: Limits, parts: int = PARTS
) -> tuple[RampPart, ...]:
    """The measured requests of a ramp in so many equal stretches of time."""
    attempts = [
        row
        for row in rows
        if not row.warm_up and row.scheduled_ns is not None and row.outcome is not Outcome.INTERRUPTED
    ]
    origin_ns = min((row.scheduled_ns for row in attempts if row.scheduled_ns is not None), default=0)
    binned: list[list[RequestRow]] = [[] for _ in range(parts)]
    for row in attempts:
        at_s = ((row.scheduled_ns or 0) - origin_ns) / NANOSECONDS_PER_SECOND
        binned[min(parts - 1, int(at_s / duration_s * parts))].append(row)
    return tuple(
        _part(rows_of, number, rates_per_s, duration_s / parts, limits, parts) for number, rows_of in enumerate(binned)
    )


def _part(
    rows: Sequence[RequestRow],
    number: int,
    rates_per_s: tuple[float, float],
    length_s: float,
    limits: Limits,
    parts: int,
) -> RampPart:
    first, last = rates_per_s
    ttft = [math.inf if not row.succeeded else row.effective_ttft_s for row in rows]
    e2e = [math.inf if not row.succeeded else row.effective_e2e_s for row in rows]
    kept = [keeps for row in rows if (keeps := keeps_to(row, limits)) is not None]
    return RampPart(
        from_s=number * length_s,
        until_s=(number + 1) * length_s,
        rate_per_s=first + (last - first) * (number + 0.5) / parts,
        attempts=len(rows),
        failed=sum(not row.succeeded for row in rows),
        ttft_p50=_percentile(ttft, 0.5),
        ttft_p95=_percentile(ttft, 0.95),
        e2e_p50=_percentile(e2e, 0.5),
        e2e_p95=_percentile(e2e, 0.95),
        attained=sum(kept) / len(kept) if kept and limits.given else None,
    )


def _percentile(values_s: Sequence[float | None], fraction: float) -> Percentile | None:
    return percentile([value for value in values_s if value is not None], fraction)


def kept_up_to(parts: Sequence[RampPart]) -> RampPart | None:
    """The last part before the first one in which too many attempts miss the limits; None when the first does, or nothing can be said."""
    last = None
    for part in parts:
        if not part.attempts:
            continue
        if part.attained is None or part.attained < BREAKS:
            break
        last = part
    return last

"""Latency and throughput against load: the curve behind a verdict on users, a rate or a queue."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from suffice.decide.service_load import MOST_STREAMS, LoadKind
from suffice.serving.capacity import Proof, at_rate, saturated_rate
from suffice.serving.search import run_holds
from suffice.serving.simulate import simulate
from suffice.serving.summary import run_percentiles, steady_rates
from suffice.stats.intervals import median

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.service import Served
    from suffice.decide.service_curves import CurveEnds
    from suffice.serving.curve import ServiceCurve
    from suffice.serving.run import SimulatedRun
    from suffice.serving.search import LatencyLimit
    from suffice.serving.summary import Window

_SHARES: Final = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0, 1.2)  # of the capacity
_MEDIAN: Final = 50.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRow:
    """What one load gives, in the runs of the search for the capacity. A time without end: the queue grows for ever.

    Times are of the run that counts for the capacity: the middle one of a measured curve, the worst of a slow end, the best of a fast one. So a
    load that counts as held has times within their limits.

    Attributes:
        load: users or requests a second.
        ttft_p50_s: half of the requests have their first token by then.
        ttft_s: at the percentile of its limit, P95 without one.
        tpot_p50_s: of half of the answers.
        tpot_s: at the percentile of its limit, P95 without one.
        output_tokens_per_second: of all answers together, in the middle run.
        missed: the limits that do not hold, by metric; a queue that grows for ever holds none.
        is_demanded: the demand's own load.
    """

    load: float
    ttft_p50_s: float
    ttft_s: float
    tpot_p50_s: float
    tpot_s: float
    output_tokens_per_second: float
    missed: tuple[str, ...]
    is_demanded: bool = False


def shown_curve(ends: CurveEnds) -> tuple[ServiceCurve | None, str]:
    """The curve that a table shows, and what it is."""
    if ends.likely is not None:
        return ends.likely, "the measured service curve"
    if ends.slow is not None:
        return ends.slow, "the slow end, without gain by batching"
    return ends.fast, "the fast end"


def shown_proof(ends: CurveEnds) -> Proof:
    """What runs on that curve have to say for a load to count."""
    if ends.likely is not None:
        return Proof.MEDIAN
    return Proof.HOLDS if ends.slow is not None else Proof.MAY_HOLD


def percent_of(served: Served, metric: str) -> float:
    """At which percentile a metric is limited, P95 without a limit."""
    return next((limit.percent for limit in served.case.limits if limit.metric == metric), 95.0)


@lru_cache(maxsize=16)
def load_table(served: Served) -> tuple[LoadRow, ...]:
    """Some loads from little to more than the capacity, and the demanded one; empty where nothing is known of the machine."""
    curve, _ = shown_curve(served.ends)
    if curve is None:
        return ()
    rows = [_row(served, curve, load) for load in _loads(served)]
    return tuple(row for row in rows if row is not None)


def _loads(served: Served) -> Sequence[float]:
    case, capacity = served.case, served.capacity
    top = capacity.point if capacity is not None and capacity.point > 0 else case.demanded
    loads = [share * top for share in _SHARES]
    if case.kind is LoadKind.USERS:
        loads = [float(max(1, round(load))) for load in loads]
    return sorted({*loads, case.demanded})


def _row(served: Served, curve: ServiceCurve, load: float) -> LoadRow | None:
    case, trial, slots = served.case, served.case.trial, served.capacity_slots
    if case.kind is LoadKind.USERS:
        slots = math.ceil(load)
        if slots > MOST_STREAMS:
            return None
        asked, trial = case.crowd(slots)
    else:
        asked = at_rate(case.load(), load)
    scheduler = case.scheduler(slots)
    runs = [simulate(curve, scheduler, asked, trial.seed + number) for number in range(trial.runs)]
    endless = case.kind is LoadKind.RATE and load > saturated_rate(curve, scheduler, case.load())
    needed = shown_proof(served.ends).passes_of(trial)

    def latency(metric: str, percent: float) -> float:
        return sorted(run_percentiles(run, metric, trial.window, [percent])[0][0] for run in runs)[needed - 1]

    def first(percent: float) -> float:
        return math.inf if endless else latency("ttft_s", percent)

    return LoadRow(
        load=load,
        ttft_p50_s=first(_MEDIAN),
        ttft_s=first(percent_of(served, "ttft_s")),
        tpot_p50_s=latency("tpot_s", _MEDIAN),
        tpot_s=latency("tpot_s", percent_of(served, "tpot_s")),
        output_tokens_per_second=median([steady_rates(run, trial.window).output_tokens_per_second for run in runs]),
        missed=tuple(limit.metric for limit in case.limits)
        if endless
        else _missed(runs, case.limits, trial.window, needed),
        is_demanded=load == case.demanded,
    )


def _missed(
    runs: Sequence[SimulatedRun], limits: Sequence[LatencyLimit], window: Window, needed: int
) -> tuple[str, ...]:
    """The limits that too few runs keep; each of them where only too few keep all at once."""
    kept = [[run_holds(run, [limit], window) is not False for limit in limits] for run in runs]
    if sum(all(row) for row in kept) >= needed:
        return ()
    alone = tuple(
        limit.metric for limit, column in zip(limits, zip(*kept, strict=True), strict=True) if sum(column) < needed
    )
    return alone or tuple(limit.metric for limit in limits)

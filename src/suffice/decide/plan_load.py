"""What a demand asks of machines of which only predicted speeds are known: in figures that are compared thousands of times.

Everything here is a condition that must hold, in plain arithmetic on both ends of a prediction. Who passes is still simulated
(:mod:`suffice.decide.plan_screen`); who cannot pass at any number of machines is out, and by how much is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from suffice.decide.service_curves import SIMULATION_ERROR
from suffice.decide.service_load import LoadKind, limits_of, queue_case, served_case
from suffice.model.cost import DAYS_PER_MONTH, Volume, hours_per_month, requests_per_month
from suffice.model.demand import DemandKind, users_with_margin
from suffice.serving.queueing import BUSY_SPREAD, EVEN, busy_under_wait
from suffice.units import SECONDS_PER_DAY, SECONDS_PER_HOUR

if TYPE_CHECKING:
    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.service_load import ServedCase
    from suffice.model.demand import Demand, Lengths

_WHOLE_PERCENTILE: Final = 95.0  # the length at P95 is what a limit there, or beyond, waits for
_CERTAIN: Final = 100.0
_SLOWER: Final = 1 + SIMULATION_ERROR  # the slow end of a simulation over the low end of what is predicted


class WorkKind(StrEnum):
    """How a demand loads a machine."""

    STREAM = "one stream"
    USERS = "users"
    RATE = "rate"
    QUEUE = "queue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A demand as a load on machines.

    Attributes:
        kind: how it loads them.
        demanded: users, or requests a second while there is time for them; 1 of one stream.
        margin: factor of load that is kept free.
        case: lengths and limits; None of one stream.
        prompt_tokens: mean length of a prompt; None: not stated.
        output_tokens: mean length of an answer; None: not stated.
        need: decode rate of each stream, tokens/s; None: not stated.
        ttft_s: limit on the time to first token; None: not stated.
        ttft_tokens: prompt for which that limit is judged.
        may_wait: share of the requests that may miss that limit; 1: it is not stated.
        may_drag: the same of the limits on each token.
    """

    kind: WorkKind
    demanded: float
    margin: float
    case: ServedCase | None = None
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    need: float | None = None
    ttft_s: float | None = None
    ttft_tokens: float = 0.0
    may_wait: float = 1.0
    may_drag: float = 1.0


def elsewhere(demand: Demand) -> Demand:
    """The demand on a machine that is not at hand: the memory that is stated in it is that of the one at hand; money, volume and model are judged apart."""
    return replace(demand, memory_bytes=None, budget_per_month=None, model=None, volume_per_day=None)


def alone(demand: Demand) -> Demand:
    """One stream of it on an idle machine, which no number of machines makes faster. The margin is one of load, so that none is left."""
    return replace(
        elsewhere(demand),
        kind=DemandKind.INTERACTIVE,
        concurrent_users=None,
        requests_per_second=None,
        rate_is_daily=False,
        window_s=None,
        interactive_share=None,
        margin=1.0,
    )


def work_of(demand: Demand, evidence: MachineEvidence) -> Work:
    """The load of a demand; any machine's evidence does."""
    case = served_case(demand, evidence)
    queue = queue_case(demand, evidence)
    limit, needed = demand.ttft, demand.required_decode_tokens_per_second
    tokens = 0.0
    if limit is not None and demand.prompt_tokens is not None:
        prompt = demand.prompt_tokens
        tokens = prompt.p95 if limit.percentile >= _WHOLE_PERCENTILE else prompt.p50
    kind = WorkKind.STREAM
    if case is not None:
        kind = WorkKind.USERS if case.kind is LoadKind.USERS else WorkKind.RATE
    elif queue is not None:
        kind = WorkKind.QUEUE
    found = case or queue
    return Work(
        kind=kind,
        demanded=1.0 if found is None else found.demanded,
        margin=demand.margin,
        case=found,
        prompt_tokens=_mean(demand.prompt_tokens if found is None else found.prompt),
        output_tokens=_mean(demand.output_tokens if found is None else found.output),
        need=needed,
        ttft_s=None if limit is None else limit.value_s,
        ttft_tokens=tokens,
        may_wait=_may_miss(demand, "ttft_s"),
        may_drag=_may_miss(demand, "tpot_s"),
    )


def _may_miss(demand: Demand, metric: str) -> float:
    """Share of the requests that may miss the limits on a metric: of several that which lets most of them."""
    return max(((_CERTAIN - one.percent) / _CERTAIN for one in limits_of(demand) if one.metric == metric), default=1.0)


def _mean(lengths: Lengths | None) -> float | None:
    return None if lengths is None else lengths.mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Both ends of what is predicted of a machine, in tokens/s; 0 at the slow end where nothing is known, and endless at the fast one."""

    decode_low: float
    decode_high: float
    prefill_low: float
    prefill_high: float

    @classmethod
    def of(cls, evidence: MachineEvidence) -> Pace:
        """Of a machine whose evidence is a prediction: behind the typical answer, and one rate for prompts."""
        decode, prefill = (evidence.decode[0].rate if evidence.decode else None), evidence.prefill_rate
        return cls(
            decode_low=(decode.low or 0.0) if decode else 0.0,
            decode_high=(decode.high or math.inf) if decode else math.inf,
            prefill_low=(prefill.low or 0.0) if prefill else 0.0,
            prefill_high=(prefill.high or math.inf) if prefill else math.inf,
        )

    def misses_alone(self, work: Work) -> bool:
        """Whether even one stream on the idle machine misses a limit at the fast end."""
        if work.need is not None and self.decode_high < work.need:
            return True
        return work.ttft_s is not None and work.ttft_tokens / self.prefill_high > work.ttft_s

    def keeps_alone(self, work: Work) -> bool:
        """Whether one stream on the idle machine keeps the limits at the slow end; under a load, at that of a simulation."""
        slower = 1.0 if work.kind is WorkKind.STREAM else _SLOWER
        if not self.decode_low or not self.prefill_low:
            return False
        if work.need is not None and self.decode_low < work.need * slower:
            return False
        return work.ttft_s is None or work.ttft_tokens / self.prefill_low * slower <= work.ttft_s

    def request_s(self, work: Work) -> float:
        """Seconds of one request served alone, at the slow end: no gain by batching."""
        if work.prompt_tokens is None or work.output_tokens is None or not self.decode_low or not self.prefill_low:
            return math.inf
        return (work.prompt_tokens / self.prefill_low + work.output_tokens / self.decode_low) * _SLOWER

    def least(self, work: Work) -> float:
        """The fewest machines that may hold the load with its margin at the slow end; infinite: none would."""
        if not self.keeps_alone(work):
            return math.inf
        if work.kind is WorkKind.STREAM:
            return 1
        if work.kind is WorkKind.USERS:
            return self._least_for_users(work)
        busy = work.demanded * work.margin * self.request_s(work)
        return max(1, math.ceil(busy / self.busy_at_most(work)))

    def busy_at_most(self, work: Work) -> float:
        """Share of its time that a machine may be busy under limits on the first and on each further token, more than a simulated one was.

        Where a lone request is ``k`` times as fast as each token's limit asks, ``k`` of them may share a machine that gains nothing by
        batching, and the others wait for the first token. Of an M/M/1 queue more than ``k`` are there for rho^k of the time, and somebody waits
        longer than ``t`` for one of ``k`` places with rho^k exp(-(1 - rho) t / S), where a request alone takes ``S``: who comes finds
        geometrically many, who leave at 1/S (Kleinrock, Queueing Systems I, 3.2). Without a limit on the first token all may wait. A wait counts
        double, as where all requests are alike, and a tenth is added: the lengths that are drawn are not the mean.
        """
        if work.kind is not WorkKind.RATE or work.need is None:
            return BUSY_SPREAD
        places = max(1.0, self.decode_low / work.need / _SLOWER)
        shared = math.pow(work.may_drag, 1 / places)
        wait_s = math.inf if work.ttft_s is None else work.ttft_s - work.ttft_tokens / self.prefill_low * _SLOWER
        waiting = busy_under_wait(places, EVEN * wait_s / self.request_s(work), work.may_wait)
        return BUSY_SPREAD * max(shared, waiting)

    def _least_for_users(self, work: Work) -> float:
        if work.need is None:
            return 1
        streams = math.floor(self.decode_low / work.need / _SLOWER)
        with_margin = users_with_margin(math.ceil(work.demanded), work.margin)
        return math.ceil(with_margin / streams) if streams else math.inf

    def least_at_best(self, work: Work, *, with_margin: bool = True) -> int:
        """The fewest machines at the fast end, where each token takes what one of a prompt does: a bound from below."""
        if work.case is None or work.kind is WorkKind.USERS or not math.isfinite(self.prefill_high):
            return 1
        tokens = work.case.prompt.mean + work.case.output.mean
        margin = work.margin if with_margin else 1.0
        return max(1, math.ceil(work.demanded * margin * tokens / self.prefill_high))


def volume_of(demand: Demand) -> Volume | None:
    """A month's work; None where the demand states no rate, no volume or no lengths: users alone are no volume."""
    if demand.prompt_tokens is None or demand.output_tokens is None:
        return None
    daily = demand.requests_per_day
    if daily is None:
        return None
    return Volume(
        requests=requests_per_month(daily / SECONDS_PER_DAY),
        prompt_tokens=demand.prompt_tokens.mean,
        output_tokens=demand.output_tokens.mean,
    )


def paid_window_s(demand: Demand) -> float | None:
    """The part of a day for which a machine is rented: a job's window; None: the whole day."""
    in_window = demand.kind is DemandKind.SCHEDULED or (demand.kind is DemandKind.BATCH and demand.rate_is_daily)
    return demand.window_s if in_window else None


def paid_hours(demand: Demand) -> float:
    """Hours of a month for which it is rented."""
    return hours_per_month(paid_window_s(demand))


def busy_share(demand: Demand, volume: Volume | None, request_s: float, count: int) -> float | None:
    """Share of the paid time that ``count`` machines work, each request served alone in ``request_s``; None: no volume is stated."""
    if volume is None or not math.isfinite(request_s):
        return None
    return min(1.0, volume.requests * request_s / SECONDS_PER_HOUR / paid_hours(demand) / count)


def asks_too_often(demand: Demand, volume: Volume | None, request_s: float | None) -> str | None:
    """A sentence where a volume is stated that so many users, or one stream, cannot send; None: they can, a rate is stated, or nothing is known.

    A user asks again when the answer is there, so that each sends at most one request in ``request_s``, what one takes that is served alone.
    """
    if volume is None or demand.requests_per_second is not None or not request_s or not math.isfinite(request_s):
        return None
    stated = volume.requests / DAYS_PER_MONTH
    most = demand.streams * SECONDS_PER_DAY / request_s
    if stated <= most:
        return None
    who = "one user who waits" if demand.streams == 1 else f"{demand.streams} users who wait"
    return (
        f"{who} for each answer: {most:,.0f} requests a day here at most; that the stated {stated:,.0f} are answered is not shown, so that a "
        "million tokens has no price"
    )


def kept_share(demand: Demand) -> float:
    """The least share of answers that keep all limits where each holds at its percentile: what all together may miss is taken off.

    Of two limits on one metric the tightest counts: who misses the other one misses it as well.
    """
    tightest = {limit.metric: limit for limit in reversed(limits_of(demand))}
    missed = sum((_CERTAIN - limit.percent) / _CERTAIN for limit in tightest.values())
    return max(0.0, 1.0 - missed)

"""From a demand and the evidence of one machine to constraints: what is required, what is available, how much is to spare.

By kind, as docs/verdict.md explains on an example:

- an interactive stream needs its decode rate and its time to first token;
- a batch needs its sustained rate over prefill AND decode work;
- a scheduled job needs its total wall time inside its window.

Limits that are stated are judged whatever the kind. Where a machine serves several requests, one number is not known from a
single stream, so its range is: one at a time at the low end, and at the high end the prefill rate, which decoding in batches
approaches and cannot beat.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from suffice.decide.quantity import Quantity
from suffice.errors import DemandError
from suffice.model.basis import Basis
from suffice.model.demand import Demand, DemandKind, Limit
from suffice.units import SECONDS_PER_DAY

if TYPE_CHECKING:
    from suffice.decide.evidence import MachineEvidence


class Sense(StrEnum):
    """Which side of the requirement is good."""

    AT_LEAST = "at least"
    AT_MOST = "at most"


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """One requirement against what a machine has.

    ``required`` or ``available`` None: unknown. ``margin`` is 1 where headroom is no policy (memory either fits or does not).
    ``of_speed`` False: neither a busy machine nor a slow build changes it. ``judged`` False: stated in the demand, but no
    evidence of this kind exists yet; it is shown and does not decide.
    """

    name: str
    unit: str
    sense: Sense
    required: float | None
    available: Quantity | None
    margin: float
    of_speed: bool = True
    judged: bool = True
    note: str = ""
    several: bool = False  # the range is that of serving several requests, which one stream does not show

    @property
    def headroom(self) -> float | None:
        """Available over required, or for an upper limit required over available: 1 is just enough."""
        return None if self.available is None else self._headroom(self.available.point)

    @property
    def headroom_range(self) -> tuple[float | None, float | None]:
        """Low and high end of the headroom; None where it is not bounded."""
        if self.available is None:
            return None, None
        low, high = self.available.low, self.available.high
        if self.sense is Sense.AT_MOST:
            low, high = high, low
        return (None if low is None else self._headroom(low), None if high is None else self._headroom(high))

    def _headroom(self, value: float) -> float | None:
        if self.required is None:
            return None
        if self.sense is Sense.AT_LEAST:
            return value / self.required
        return math.inf if value == 0 else self.required / value


def constraints_for(demand: Demand, evidence: MachineEvidence) -> tuple[Constraint, ...]:
    """All constraints of a demand on one machine, in the order in which a reader expects them.

    Raises:
        DemandError: the model cannot hold the context that the demand needs, on any machine.
    """
    check_context(demand, evidence.context_length, evidence.model_name)
    found: list[Constraint | None] = [
        _decode_rate(demand, evidence),
        _ttft(demand, evidence),
        _sustained(demand, evidence),
        _wall_time(demand, evidence),
        _memory(demand, evidence),
        *_not_judged(demand),
    ]
    return tuple(constraint for constraint in found if constraint is not None)


def check_context(demand: Demand, context_length: int | None, model_name: str | None) -> None:
    """Refuse a demand that the model cannot hold.

    Raises:
        DemandError: the demand needs more context than the model was made for.
    """
    needed = demand.needed_context_tokens
    if needed is not None and context_length is not None and needed > context_length:
        raise DemandError(
            f"impossible: the demand needs a context of {needed} tokens, and {model_name or 'the model'} was made for "
            f"{context_length}; no hardware changes that, choose another model or shorter prompts"
        )


def _decode_rate(demand: Demand, evidence: MachineEvidence) -> Constraint | None:
    required = demand.required_decode_tokens_per_second
    if required is None:
        return None
    available = evidence.decode_rate(demand.work_depth_tokens)
    note = ""
    if available is not None and demand.streams > 1:
        note = (
            f"{demand.streams} streams at once: from each stream's share with no gain by batching, up to the rate of a "
            "single stream"
        )
        shared = available.scaled(1 / demand.streams)
        available = shared.with_bounds(low=shared.low, high=available.high)
    return Constraint(
        name="decode_tokens_per_second",
        unit="tokens/s",
        sense=Sense.AT_LEAST,
        required=required,
        available=available,
        margin=demand.margin,
        note=note,
        several=demand.streams > 1,
    )


def _ttft(demand: Demand, evidence: MachineEvidence) -> Constraint | None:
    limit = demand.ttft
    if limit is None or demand.prompt_tokens is None:
        return None
    idle = evidence.time_to_first_token(demand.prompt_tokens.at(limit.percentile))
    available, note = idle, f"P{limit.percentile:g} of requests"
    if idle is not None and demand.streams > 1:
        note += f"; {demand.streams} users: from an idle machine to all asking at once"
        high = None if idle.high is None else idle.high * demand.streams
        available = idle.with_bounds(low=idle.low, high=high)
    elif idle is not None and demand.requests_per_second is not None:
        available, wait_note = _with_queue(demand, evidence, idle, limit)
        note += wait_note
    return Constraint(
        name="ttft_s",
        unit="s",
        sense=Sense.AT_MOST,
        required=limit.value_s,
        available=available,
        margin=demand.margin,
        note=note,
        several=demand.streams > 1 or demand.requests_per_second is not None,
    )


def _with_queue(demand: Demand, evidence: MachineEvidence, idle: Quantity, limit: Limit) -> tuple[Quantity, str]:
    """Add the wait behind others, served one at a time: the M/M/1 quantile of the wait is the high end.

    P(wait > t) = rho * exp(-(mu - lambda) * t) for Poisson arrivals and exponential service (Kleinrock, Queueing Systems I,
    1975, section 3.2). Real service times vary less than exponential ones, so the true wait is shorter.
    """
    service = _service(demand, evidence)
    arrivals = demand.requests_per_second
    if service is None or service.high is None or arrivals is None:
        return idle.with_bounds(low=idle.low, high=None), "; the wait in the queue is not known"
    rho = arrivals * service.high
    tail = 1 - limit.percentile / 100
    if rho >= 1:
        return idle.with_bounds(low=idle.low, high=None), "; one at a time, the queue grows without end"
    wait_s = max(0.0, math.log(rho / tail)) / (1 / service.high - arrivals) if rho > 0 else 0.0
    high = None if idle.high is None else idle.high + wait_s
    return idle.with_bounds(low=idle.low, high=high), f"; up to {wait_s:.2f} s of queueing (M/M/1, one at a time)"


def _service(demand: Demand, evidence: MachineEvidence) -> Quantity | None:
    if demand.prompt_tokens is None or demand.output_tokens is None:
        return None
    return evidence.service_seconds(demand.prompt_tokens.mean, demand.output_tokens.mean)


def _best_service_s(demand: Demand, evidence: MachineEvidence) -> float | None:
    """Least seconds per request with perfect batching: every token at the prefill rate."""
    rate = evidence.prefill_rate
    if rate is None or rate.high is None or demand.prompt_tokens is None or demand.output_tokens is None:
        return None
    return (demand.prompt_tokens.mean + demand.output_tokens.mean) / rate.high


def _sustained(demand: Demand, evidence: MachineEvidence) -> Constraint | None:
    """Batch, or interactive with a rate: tokens of prompts and outputs together, per second, for as long as it takes."""
    arrivals = demand.requests_per_second
    if arrivals is None or demand.kind is DemandKind.SCHEDULED:
        return None
    if demand.prompt_tokens is None or demand.output_tokens is None:
        return None
    if demand.window_s is not None and demand.rate_is_daily:
        arrivals *= SECONDS_PER_DAY / demand.window_s
    tokens = demand.prompt_tokens.mean + demand.output_tokens.mean
    service = _service(demand, evidence)
    available = None
    if service is not None:
        available = service.inverted(tokens)
        best_s = _best_service_s(demand, evidence)
        high = None if best_s is None else max(tokens / best_s, available.high or available.point)
        available = available.with_bounds(low=available.low, high=high)
    return Constraint(
        name="sustained_tokens_per_second",
        unit="tokens/s",
        sense=Sense.AT_LEAST,
        required=arrivals * tokens,
        available=available,
        margin=demand.margin,
        note=_sustained_note(arrivals, service),
        several=True,
    )


def _sustained_note(arrivals: float, service: Quantity | None) -> str:
    note = f"{arrivals:.4g} requests/s, prompt and output tokens together"
    if service is not None:
        note += f"; {service.point:.3g} s per request one at a time, up to the prefill rate with perfect batching"
    return note


def _wall_time(demand: Demand, evidence: MachineEvidence) -> Constraint | None:
    """Scheduled: all of the day's requests, one after the other, against the window."""
    if demand.kind is not DemandKind.SCHEDULED or demand.requests_per_day is None or demand.window_s is None:
        return None
    requests = demand.requests_per_day
    service = _service(demand, evidence)
    available = None
    if service is not None:
        available = service.scaled(requests)
        best_s = _best_service_s(demand, evidence)
        low = None if best_s is None else min(best_s * requests, available.low or available.point)
        available = available.with_bounds(low=low, high=available.high)
    return Constraint(
        name="wall_time_s",
        unit="s",
        sense=Sense.AT_MOST,
        required=demand.window_s,
        available=available,
        margin=demand.margin,
        note=f"{requests:.6g} requests a day, from perfect batching to one at a time",
        several=True,
    )


def _memory(demand: Demand, evidence: MachineEvidence) -> Constraint | None:
    context = demand.needed_context_tokens or evidence.run_context_tokens
    needed = evidence.memory_needed_bytes(context, demand.streams)
    stated = demand.memory_bytes
    usable = stated if stated is not None else evidence.memory_usable_bytes
    if usable is None or needed is None:
        return _unknown_memory(needed, usable, judged=stated is not None or evidence.memory_basis is Basis.STATED)
    basis = evidence.memory_basis if stated is None else Basis.STATED
    return Constraint(
        name="memory_bytes",
        unit="bytes",
        sense=Sense.AT_LEAST,
        required=needed,
        available=Quantity(point=usable, low=usable, high=usable, basis=basis),
        margin=1.0,
        of_speed=False,
        note=f"weights, buffers and a KV cache of {context} tokens for each of {demand.streams} streams"
        if demand.streams > 1
        else f"weights, buffers and a KV cache of {context} tokens",
    )


def _unknown_memory(needed: float | None, usable: float | None, *, judged: bool) -> Constraint:
    """Open when a limit was stated or nobody was there to look, else named as not judged: a missing number is no proof of room."""
    missing = "what the model takes" if needed is None else "what the machine has"
    return Constraint(
        name="memory_bytes",
        unit="bytes",
        sense=Sense.AT_LEAST,
        required=needed,
        available=None if usable is None else Quantity(point=usable, low=usable, high=usable, basis=Basis.STATED),
        margin=1.0,
        of_speed=False,
        judged=judged,
        note=f"{missing} is not known",
    )


def _not_judged(demand: Demand) -> list[Constraint]:
    """Stated, but nothing here measures it: shown beside the verdict, so that nobody believes it was checked."""
    stated = [
        ("quality_floor", "share", Sense.AT_LEAST, demand.quality_floor, "not measured by this command"),
        (
            "budget_per_month",
            demand.currency or "money",
            Sense.AT_MOST,
            demand.budget_per_month,
            "no price is known to this command",
        ),
    ]
    return [
        Constraint(
            name=name,
            unit=unit,
            sense=sense,
            required=value,
            available=None,
            margin=1.0,
            of_speed=False,
            judged=False,
            note=note,
        )
        for name, unit, sense, value, note in stated
        if value is not None
    ]

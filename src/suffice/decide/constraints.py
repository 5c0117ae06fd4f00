"""From a demand and the evidence of one machine to constraints: what is required, what is available, how much is to spare.

By kind, as docs/verdict.md explains on an example:

- one interactive stream needs its decode rate and its time to first token;
- users or a rate with limits need a capacity: the most at which the limits hold at their percentiles, simulated;
- a batch needs its sustained rate over prefill AND decode work, with a queue that is never empty;
- a scheduled job needs its total wall time inside its window.

Limits that are stated are judged whatever the kind.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from suffice.decide.constraint import Constraint, Sense
from suffice.decide.encoder import encoder_memory, encoder_s, encoder_text, encoder_tokens
from suffice.decide.evidence import add
from suffice.decide.quality import quality_constraints
from suffice.decide.quantity import Quantity
from suffice.decide.service import drain_s, outlook
from suffice.decide.service_load import MOST_DRAINED, LoadKind
from suffice.errors import DemandError
from suffice.model.basis import Basis
from suffice.model.demand import Demand, DemandKind
from suffice.units import format_seconds

if TYPE_CHECKING:
    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.service import Drained, Served, ServiceOutlook
    from suffice.decide.service_curves import CurveEnds
    from suffice.serving.search import LatencyLimit


# Constraints in which the reading of prompts has a part.
_FLOOR_NOTE: Final = (
    "; nobody states the memory of this machine: larger models ran there, so that it has as much or more"
)
_OF_PROMPTS: Final = (
    "capacity_users", "capacity_requests_per_second", "ttft_s", "sustained_tokens_per_second", "wall_time_s",
)  # fmt: skip


def constraints_for(
    demand: Demand, evidence: MachineEvidence, service: ServiceOutlook | None = None
) -> tuple[Constraint, ...]:
    """All constraints of a demand on one machine, in the order in which a reader expects them.

    Args:
        demand: what is needed.
        evidence: of the machine.
        service: what was simulated of them; None: it is simulated here, where the demand has users or a rate.

    Raises:
        DemandError: the model cannot hold the context that the demand needs, on any machine.
    """
    check_context(demand, evidence.context_length, evidence.model_name)
    service = service or outlook(demand, evidence)
    served = None if service is None else service.served
    drained = None if service is None else service.drained
    found: list[Constraint | None] = [
        _capacity(demand, served),
        _decode_rate(demand, evidence, served),
        _ttft(demand, evidence, served),
        _sustained(demand, drained),
        _wall_time(demand, drained),
        _memory(demand, evidence, service),
        *quality_constraints(demand, evidence.quality),
        _budget(demand),
    ]
    encoder_known = encoder_tokens(demand.images, evidence) is not None
    return tuple(
        constraint if encoder_known else _without_encoder(constraint) for constraint in found if constraint is not None
    )


def _without_encoder(constraint: Constraint) -> Constraint:
    """Where the time of the images' encoder is not known: what depends on the prompt is at best what it says."""
    available = constraint.available
    if available is None or constraint.name not in _OF_PROMPTS:
        return constraint
    if constraint.sense is Sense.AT_LEAST:
        return replace(constraint, available=available.with_bounds(low=None, high=available.high))
    return replace(constraint, available=available.with_bounds(low=available.low, high=None))


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


def _capacity(demand: Demand, served: Served | None) -> Constraint | None:
    """Users or a rate with limits: the most at which the limits hold. The margin is one of load."""
    if served is None:
        return None
    case = served.case
    users = case.kind is LoadKind.USERS
    return Constraint(
        name="capacity_users" if users else "capacity_requests_per_second",
        unit=case.kind.value,
        sense=Sense.AT_LEAST,
        required=case.demanded,
        available=served.capacity,
        margin=demand.margin,
        note=_service_note(served),
        several=True,
    )


def _service_note(served: Served) -> str:
    case, ends = served.case, served.ends
    slots = "a slot each" if case.kind is LoadKind.USERS else _slots_text(served.slots)
    parts = [f"simulated: llama-server, {slots}, {_known_of(ends)}"]
    if case.kind is LoadKind.USERS and served.slots_that_fit is not None and served.slots_that_fit < served.slots:
        parts.append(f"memory holds {served.slots_that_fit}")
    parts += [
        part
        for part in (_alone_text(served), _uneven_text(served), case.assumed, case.images, _beyond_text(ends))
        if part
    ]
    return "; ".join(parts)


def _alone_text(served: Served) -> str:
    """Why a capacity is none at all."""
    missed = [
        f"{'TTFT' if limit.metric == 'ttft_s' else 'TPOT'} P{limit.percent:g} {_seconds(value)} against {_seconds(limit.seconds)}"
        for limit, value in served.missed_alone
    ]
    who = "one user" if served.case.kind is LoadKind.USERS else "a request that is alone"
    what = "limit" if len(missed) == 1 else "limits"
    return f"even {who} misses the {what}: {', '.join(missed)}" if missed else ""


def _uneven_text(served: Served) -> str:
    """That fewer users miss what more of them keep, or "" where that was not seen."""
    if not served.uneven:
        return ""
    fewer = ", ".join(f"{users}" for users in served.uneven)
    who = "user does" if served.uneven == (1,) else "users do"
    return f"{fewer} {who} not hold the limits although more of them do: a step of more sequences is faster there than one of fewer"


def _seconds(value: float) -> str:
    return "without end" if value == math.inf else format_seconds(value)


def _slots_text(slots: int) -> str:
    return f"--parallel {slots}"


def _known_of(ends: CurveEnds) -> str:
    if ends.likely is not None:
        return "from the measured service curve"
    return "from a single stream: no gain by batching at the low end, each token at the prefill rate at the high end"


def _beyond_text(ends: CurveEnds) -> str:
    return f"beyond what was measured: {', '.join(ends.beyond)}" if ends.beyond else ""


def _decode_rate(demand: Demand, evidence: MachineEvidence, served: Served | None) -> Constraint | None:
    required = demand.required_decode_tokens_per_second
    if required is None:
        return None
    limit = None if served is None else _limit_on(served, "tpot_s")
    simulated = served is not None and limit is not None
    available = evidence.decode_rate(demand.work_depth_tokens)
    if simulated and served is not None:
        available = None if served.tpot is None else served.tpot.inverted()
    return Constraint(
        name="decode_tokens_per_second",
        unit="tokens/s",
        sense=Sense.AT_LEAST,
        required=required,
        available=available,
        margin=1.0 if simulated else demand.margin,
        note=_at_load(served, limit) if simulated and served is not None else "",
        several=simulated,
    )


def _limit_on(served: Served, metric: str) -> LatencyLimit | None:
    return next((limit for limit in served.case.limits if limit.metric == metric), None)


def _at_load(served: Served, limit: LatencyLimit | None) -> str:
    percent = 0.0 if limit is None else limit.percent
    load = f"{served.case.demanded:.4g} {served.case.kind.value}"
    slots = "1 slot" if served.slots == 1 else f"{served.slots} slots"
    return f"P{percent:g} of requests, at {load} with {slots}; the margin is one of load"


def _ttft(demand: Demand, evidence: MachineEvidence, served: Served | None) -> Constraint | None:
    limit = demand.ttft
    if limit is None or demand.prompt_tokens is None:
        return None
    simulated = None if served is None else _limit_on(served, "ttft_s")
    if served is not None and simulated is not None:
        available, margin, note = served.ttft, 1.0, _at_load(served, simulated)
    else:
        available = _first_token_alone(demand, evidence, demand.prompt_tokens.at(limit.percentile))
        margin, note = demand.margin, f"P{limit.percentile:g} of requests"
        note = ", ".join(part for part in (note, encoder_text(demand.images, evidence)) if part)
    return Constraint(
        name="ttft_s",
        unit="s",
        sense=Sense.AT_MOST,
        required=limit.value_s,
        available=available,
        margin=margin,
        note=note,
        several=simulated is not None,
    )


def _first_token_alone(demand: Demand, evidence: MachineEvidence, prompt_tokens: float) -> Quantity | None:
    """Of one request on an idle machine, with the encoder of its images."""
    alone = evidence.time_to_first_token(prompt_tokens)
    encoder = encoder_s(demand.images, evidence, prompt_tokens)
    return alone if alone is None or encoder is None else add(alone, encoder)


def _sustained(demand: Demand, drained: Drained | None) -> Constraint | None:
    """Work that nobody waits for: tokens of prompts and outputs together, per second, for as long as it takes."""
    if drained is None or demand.kind is DemandKind.SCHEDULED:
        return None
    tokens = drained.case.prompt.mean + drained.case.output.mean
    rate = drained.requests_per_second
    return Constraint(
        name="sustained_tokens_per_second",
        unit="tokens/s",
        sense=Sense.AT_LEAST,
        required=drained.case.demanded * tokens,
        available=None if rate is None else rate.scaled(tokens),
        margin=demand.margin,
        note=f"{drained.case.demanded:.4g} requests/s, prompt and output tokens together; {_drained_note(drained)}",
        several=True,
    )


def _drained_note(drained: Drained) -> str:
    beyond = _beyond_text(drained.ends)
    note = f"simulated with a queue that is never empty: llama-server, {_slots_text(drained.slots)}, {_known_of(drained.ends)}"
    return "; ".join(part for part in (note, drained.case.images, beyond) if part)


def _wall_time(demand: Demand, drained: Drained | None) -> Constraint | None:
    """Scheduled: all of the day's requests, which are there at the start, against the window."""
    requests = demand.requests_per_day
    if drained is None or demand.kind is not DemandKind.SCHEDULED or requests is None or demand.window_s is None:
        return None
    scaled = "" if requests <= MOST_DRAINED else f", {MOST_DRAINED:,} of them simulated and the rest in proportion"
    return Constraint(
        name="wall_time_s",
        unit="s",
        sense=Sense.AT_MOST,
        required=demand.window_s,
        available=drain_s(drained, requests),
        margin=demand.margin,
        note=f"{requests:.6g} requests a day, all there at the start{scaled}; {_drained_note(drained)}",
        several=True,
    )


def _memory(demand: Demand, evidence: MachineEvidence, service: ServiceOutlook | None) -> Constraint | None:
    context = demand.needed_context_tokens or evidence.run_context_tokens
    slots = demand.streams if service is None else max(demand.streams, service.slots)
    needed = evidence.memory_needed_bytes(context, slots)
    stated = demand.memory_bytes
    usable = stated if stated is not None else evidence.memory_usable_bytes
    if usable is None or needed is None:
        return _unknown_memory(needed, usable, judged=stated is not None or evidence.memory_basis is Basis.STATED)
    basis = evidence.memory_basis if stated is None else Basis.STATED
    is_floor = stated is None and evidence.memory_is_floor
    encoder_bytes, encoder_note = encoder_memory(demand.images)
    each = f" for each of {slots} slots" if slots > 1 else ""
    return Constraint(
        name="memory_bytes",
        unit="bytes",
        sense=Sense.AT_LEAST,
        required=needed + encoder_bytes,
        available=Quantity(point=usable, low=usable, high=None if is_floor else usable, basis=basis),
        margin=1.0,
        of_speed=False,
        note=f"weights, buffers and a KV cache of {context} tokens{each}{encoder_note}{_FLOOR_NOTE if is_floor else ''}",
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


def _budget(demand: Demand) -> Constraint | None:
    """Stated, but nothing here prices a machine: shown beside the verdict, so that nobody believes it was checked."""
    if demand.budget_per_month is None:
        return None
    return Constraint(
        name="budget_per_month",
        unit=demand.currency or "money",
        sense=Sense.AT_MOST,
        required=demand.budget_per_month,
        available=None,
        margin=1.0,
        of_speed=False,
        judged=False,
        note="no price is known to this command",
    )

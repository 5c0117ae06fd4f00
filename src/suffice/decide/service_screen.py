"""Thousands of machines against users, a rate or a queue: only what may be enough is simulated, and few of those.

A prospect is named when its slow end holds the load with the margin. That end gains nothing by batching, so that arithmetic rules most
machines out. Of the others, one that is at least as fast in both phases as one that is enough is enough as well, and one that is no faster
than one that is not is not either.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from suffice.decide.covering import Covering, all_as_fast
from suffice.decide.service import ServiceOutlook, outlook
from suffice.decide.service_curves import SIMULATION_ERROR
from suffice.decide.service_load import MOST_SLOTS, NOTHING, LoadKind, queue_case, served_case, slots_that_fit
from suffice.decide.service_shown import low_end, shown_outlook, slow_alone
from suffice.model.demand import users_with_margin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.service_load import ServedCase
    from suffice.model.demand import Demand

_WHOLE_PERCENTILE: Final = 95.0  # the length at P95 is what a limit there, or beyond, waits for


@dataclass(frozen=True, slots=True)
class _Key:
    """What decides whether a machine is enough: more of each is never worse."""

    decode: tuple[float, ...]  # at each depth that is told
    prefill: float
    slots: int

    def covers(self, other: _Key) -> bool:
        return all_as_fast(self.decode, other.decode) and self.prefill >= other.prefill and self.slots >= other.slots


def screened_outlooks(demand: Demand, evidences: Sequence[MachineEvidence]) -> list[ServiceOutlook | None]:
    """For each machine whether the load holds with its margin at the slow end; None as of an outlook.

    What stands in them is of the machine or of a slower one, and nothing bounds the high end: "enough" is meant, the figures are not, and
    "not shown" is never "not enough". Machines in the middle come first, because they tell most of the others.
    """
    case = served_case(demand, evidences[0]) or queue_case(demand, evidences[0]) if evidences else None
    if case is None:
        return [None] * len(evidences)
    found = [outlook(demand, replace(evidences[0], name=""), NOTHING)] * len(evidences)
    known = Covering[_Key, ServiceOutlook]()
    able = [place for place, evidence in enumerate(evidences) if may_be_enough(demand, evidence)]
    by_speed = sorted(
        able, key=lambda place: low_end(evidences[place].decode[0].rate if evidences[place].decode else None)
    )
    for place in _halves(by_speed):
        slow = _slow_end(demand, evidences[place])
        shown = known.found(_key(demand, slow), partial(shown_outlook, demand, slow))
        found[place] = found[place] if shown is None else shown[1]
    return found


def _halves(ordered: list[int]) -> list[int]:
    """The middle one first, then the middles of both halves, and so on."""
    found, parts = [], [(0, len(ordered))]
    for low, high in parts:  # grows while it is read
        if low < high:
            middle = (low + high) // 2
            found.append(ordered[middle])
            parts += [(low, middle), (middle + 1, high)]
    return found


def _key(demand: Demand, evidence: MachineEvidence) -> _Key:
    context = demand.needed_context_tokens or evidence.run_context_tokens
    fitting = slots_that_fit(demand, evidence, context)
    return _Key(
        decode=tuple(low_end(point.rate) for point in evidence.decode),
        prefill=low_end(evidence.prefill_rate),
        slots=MOST_SLOTS if fitting is None else fitting,
    )


def may_be_enough(demand: Demand, evidence: MachineEvidence) -> bool:
    """Whether one at a time is fast enough for the load with its margin, and an idle machine for each limit."""
    case = served_case(demand, evidence) or queue_case(demand, evidence)
    if case is None:
        return True
    return _keeps_up(case, evidence) and _is_quick(demand, case, evidence)


def _keeps_up(case: ServedCase, evidence: MachineEvidence) -> bool:
    if case.kind is LoadKind.USERS:
        return True  # they wait for each other, and the limits say whether that is well
    service = evidence.service_seconds(case.prompt.mean, case.output.mean)
    if service is None or service.high is None:
        return False
    return case.demanded * case.margin * service.high * (1 + SIMULATION_ERROR) < 1


def _is_quick(demand: Demand, case: ServedCase, evidence: MachineEvidence) -> bool:
    needed, limit = demand.required_decode_tokens_per_second, demand.ttft
    if needed is not None:
        rate = evidence.decode_rate(demand.work_depth_tokens)
        streams = users_with_margin(case.demanded, case.margin) if case.kind is LoadKind.USERS else 1
        if rate is None or rate.low is None or rate.low < needed * streams:
            return False
    if limit is not None:
        tokens = case.prompt.p95 if limit.percentile >= _WHOLE_PERCENTILE else case.prompt.p50
        first = evidence.prefill_seconds(tokens)
        if first is None or first.high is None or first.high > limit.value_s:
            return False
    return True


def _slow_end(demand: Demand, evidence: MachineEvidence) -> MachineEvidence:
    """The evidence with nothing above its slow end, with as many slots as are tried, and with nothing left that tells one machine from another."""
    context = demand.needed_context_tokens or evidence.run_context_tokens
    fitting = slots_that_fit(demand, evidence, context)
    memory = None
    if fitting is not None:
        users = demand.requests_per_second is None and demand.is_of_users
        tried = users_with_margin(demand.streams, demand.margin) if users else MOST_SLOTS
        memory = evidence.memory_needed_bytes(context, min(fitting, tried))
    return replace(
        evidence,
        name="",
        is_gpu=False,
        decode=tuple(replace(point, rate=slow_alone(point.rate)) for point in evidence.decode),
        prefill_rate=None if evidence.prefill_rate is None else slow_alone(evidence.prefill_rate),
        memory_usable_bytes=memory,
    )

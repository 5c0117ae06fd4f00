"""Whether the slow end of a machine holds its share of a load with the margin, and no more than that: what screens of thousands ask.

The verdict is that of :func:`suffice.decide.service.outlook` of the same speeds, with the same requests (``benchmarks/plan_counts.py``); what is spared
is the capacity, the high end, and of a queue the most of its requests where few of them tell.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from suffice.decide.quantity import Quantity
from suffice.decide.service import Served, ServiceOutlook, drain_of, drained_of, outlook
from suffice.decide.service_curves import SIMULATION_ERROR, curve_ends
from suffice.decide.service_load import DRAIN, MOST_DRAINED, SCREEN, LoadKind, queue_case, served_case
from suffice.decide.service_queue import fastest_slots, likely_drain_s
from suffice.decide.service_rate import doubled
from suffice.model.demand import DemandKind
from suffice.serving.capacity import Proof, at_rate, holds, saturated_rate
from suffice.serving.queueing import BUSY_SPREAD, EVEN, busy_under_wait

if TYPE_CHECKING:
    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.service import Drained
    from suffice.decide.service_load import ServedCase
    from suffice.model.demand import Demand
    from suffice.serving.curve import ServiceCurve

# 100 requests are worked off first. Of 2,000 whose lengths vary much some are far longer than the mean: they took up to 26 % more a request.
_QUEUE_SLACK: Final = 1.35
# All requests took 0.90 to 1.12 of what few say by their tokens: caches get deeper, chunks are not full, and slots share them.
_WORK_SLACK: Final = 1.13
_CERTAIN: Final = 100.0


def low_end(rate: Quantity | None) -> float:
    """The slow end of a speed; 0: none is known."""
    return 0.0 if rate is None or rate.low is None else rate.low


def slow_alone(rate: Quantity) -> Quantity:
    """A speed of which nothing is left above its slow end, so that machines that share that are one."""
    low = rate.low or rate.point
    return replace(rate, point=low, low=rate.low, high=low)


def shown_outlook(share: Demand, machine: MachineEvidence) -> ServiceOutlook | None:
    """What is simulated of the slow end where it is enough, by as many requests as its own figures rest on; nothing bounds the high end."""
    found = _simulated(share, machine)
    if found is None or not found.serves:
        return None
    if found.drained is None:
        return found
    drained = _worked_off(share, machine, found.drained) if _reach(found.drained) * _QUEUE_SLACK >= 1 else None
    return None if drained is None else replace(found, drained=drained)


def _day_of(share: Demand) -> tuple[float, float] | None:
    """Requests of a day and the seconds for them, of a job; None: work without an end."""
    requests, window_s = share.requests_per_day, share.window_s
    if share.kind is not DemandKind.SCHEDULED or requests is None or window_s is None:
        return None
    return requests, window_s


def _worked_off(share: Demand, machine: MachineEvidence, coarse: Drained) -> Drained | None:
    """A queue that does not grow, by as many requests as its own figures rest on; or else a day's work in its window."""
    day = _day_of(share)
    if day is not None:
        return _done_in_time(machine, coarse, day[0], day[1] / share.margin)
    whole = drained_of(share, machine, replace(coarse.case, effort=DRAIN))
    return whole if _reach(whole) >= 1 else None


def _done_in_time(machine: MachineEvidence, coarse: Drained, requests: float, limit_s: float) -> Drained | None:
    """About as fast as few requests say, where that is clear; else by as many as its own figures rest on."""
    curve, case, rate = coarse.ends.slow, replace(coarse.case, effort=DRAIN), coarse.requests_per_second
    speeds = low_end(machine.prefill_rate), low_end(machine.decode[0].rate) if machine.decode else 0.0
    if curve is None or rate is None or not all(speeds):
        return None
    count, token_s = max(1, min(MOST_DRAINED, math.ceil(requests))), (1 / speeds[0], 1 / speeds[1])
    surely_s = likely_drain_s(curve, case, count, token_s) * (requests / count) * _WORK_SLACK
    if surely_s <= limit_s:
        return replace(
            coarse, requests_per_second=replace(rate, point=requests / surely_s, low=requests / surely_s, high=None)
        )
    if surely_s > limit_s * _WORK_SLACK**2 and fastest_slots(curve, case) == 1:
        return None
    return replace(coarse, case=case) if drain_of(curve, case, requests) <= limit_s else None


def _simulated(share: Demand, machine: MachineEvidence) -> ServiceOutlook | None:
    """Whether the machine holds its share with the margin; of a rate that alone, not with which slots best, nor what it gets there."""
    case = served_case(share, machine, SCREEN)
    if case is None or case.kind is not LoadKind.RATE or queue_case(share, machine) is not None:
        return outlook(share, machine, SCREEN)
    ends = replace(curve_ends(machine, case.extent(case.most_slots), with_fast=False), fast=None)
    if ends.slow is None:
        return None
    curve, wanted = ends.slow, case.demanded * case.margin
    least = _places_for(machine, case)
    slots = next(
        (
            count
            for count in reversed(doubled(case.most_slots))
            if count >= least and _keeps(curve, case, count, wanted)
        ),
        None,
    )
    if slots is None:
        return None
    capacity = Quantity(
        point=wanted, low=wanted, high=None, basis=ends.basis, interval_known=ends.interval_known, more_untried=True
    )
    return ServiceOutlook(served=Served.of_capacity(case, ends, slots, capacity), drained=None)


def _places_for(machine: MachineEvidence, case: ServedCase) -> int:
    """Slots with fewer of which too many would wait too long for their first token, by more than any simulated server was better than theory."""
    service = machine.service_seconds(case.prompt.mean, case.output.mean)
    limits = [limit for limit in case.limits if limit.metric == "ttft_s"]
    if service is None or service.high is None or not limits:
        return 1
    alone_s = service.high * (1 + SIMULATION_ERROR)
    busy = case.demanded * case.margin * alone_s / BUSY_SPREAD
    waits = [(EVEN * limit.seconds / alone_s, 1 - limit.percent / _CERTAIN) for limit in limits]
    return next(
        (count for count in doubled(case.most_slots) if all(busy <= busy_under_wait(count, *wait) for wait in waits)),
        case.most_slots,
    )


def _keeps(curve: ServiceCurve, case: ServedCase, slots: int, rate_per_s: float) -> bool:
    """As :meth:`suffice.decide.service_rate.RateServer.holds`; that the queue does not grow for ever is asked last, since most that fail do so at once."""
    scheduler, load = case.scheduler(slots), case.load()
    if not holds(curve, scheduler, at_rate(load, rate_per_s), case.limits, case.trial, Proof.HOLDS):
        return False
    return rate_per_s <= saturated_rate(curve, scheduler, load)


def _reach(drained: Drained) -> float:
    """How many times what is asked with the margin the slow end works off."""
    rate = drained.requests_per_second
    return 0.0 if rate is None or rate.low is None else rate.low / (drained.case.demanded * drained.case.margin)

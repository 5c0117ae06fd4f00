"""Whether the slow end of a machine holds its share of a load with the margin, and no more than that: what screens of thousands ask.

The verdict is that of :func:`suffice.decide.service.outlook` of the same speeds, with the same requests (``benchmarks/plan_counts.py``); what is spared
is the capacity, the high end, and of a queue the most of its requests where few of them tell.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from suffice.decide.quantity import Quantity
from suffice.decide.service import Served, ServiceOutlook, drain_of, drained_of, outlook
from suffice.decide.service_curves import curve_ends
from suffice.decide.service_load import DRAIN, SCREEN, LoadKind, queue_case, served_case
from suffice.decide.service_rate import doubled
from suffice.model.demand import DemandKind
from suffice.serving.capacity import Proof, at_rate, holds, saturated_rate

if TYPE_CHECKING:
    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.service import Drained
    from suffice.decide.service_load import ServedCase
    from suffice.model.demand import Demand
    from suffice.serving.curve import ServiceCurve

# 100 requests are worked off first. Of 2,000 whose lengths vary much some are far longer than the mean: they took up to 26 % more a request.
_QUEUE_SLACK: Final = 1.35
_RUN_SLACK: Final = 1.1  # one run of those over the middle one of three


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
    """By as many requests as its own figures rest on: a day's work in its window with the margin, or else a queue that does not grow."""
    case, day = replace(coarse.case, effort=DRAIN), _day_of(share)
    if day is None:
        whole = drained_of(share, machine, case)
        return whole if _reach(whole) >= 1 else None
    curve, limit_s = coarse.ends.slow, day[1] / share.margin
    if curve is None or drain_of(curve, case, day[0], runs=1) > limit_s * _RUN_SLACK:
        return None
    return replace(coarse, case=case) if drain_of(curve, case, day[0]) <= limit_s else None


def _simulated(share: Demand, machine: MachineEvidence) -> ServiceOutlook | None:
    """Whether the machine holds its share with the margin; of a rate that alone, not with which slots best, nor what it gets there."""
    case = served_case(share, machine, SCREEN)
    if case is None or case.kind is not LoadKind.RATE or queue_case(share, machine) is not None:
        return outlook(share, machine, SCREEN)
    ends = replace(curve_ends(machine, case.extent(case.most_slots), with_fast=False), fast=None)
    if ends.slow is None:
        return None
    curve, wanted = ends.slow, case.demanded * case.margin
    slots = next((count for count in reversed(doubled(case.most_slots)) if _keeps(curve, case, count, wanted)), None)
    if slots is None:
        return None
    capacity = Quantity(
        point=wanted, low=wanted, high=None, basis=ends.basis, interval_known=ends.interval_known, more_untried=True
    )
    return ServiceOutlook(served=Served.of_capacity(case, ends, slots, capacity), drained=None)


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

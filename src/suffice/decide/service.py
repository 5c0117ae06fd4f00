"""What a machine would do under a demanded load, simulated: the slots, the capacity, the percentiles, and how many machines hold it.

Every figure is simulated on the slow and on the fast end of what is known of the machine (:mod:`suffice.decide.service_curves`), and on the
measured curve itself where there is one: the truth lies between. The seeds are fixed: the same demand and evidence give the same answer.

The capacity of a rate is that of the slots that carry most. The slots that are named are the fewest at which the limits hold at the demanded
load times the margin; where none does, at the load; where none does either, those that carry most. Users are streams at the same time, so
that each has a slot.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from suffice.decide.quantity import Quantity
from suffice.decide.service_curves import CurveEnds, curve_ends
from suffice.decide.service_load import (
    MOST_DRAINED,
    MOST_STREAMS,
    LoadKind,
    ServedCase,
    queue_case,
    served_case,
    slots_that_fit,
)
from suffice.decide.service_queue import DRAIN_RUNS, queue_end, queue_time_s
from suffice.decide.service_rate import KNOWN, rate_end, rate_machines
from suffice.decide.service_users import users_end, users_machines
from suffice.model.basis import Basis
from suffice.model.demand import users_with_margin
from suffice.serving.capacity import Proof, percentiles_of_runs, saturated_rate

if TYPE_CHECKING:
    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.service_load import Effort
    from suffice.decide.service_rate import End
    from suffice.model.demand import Demand
    from suffice.serving.curve import ServiceCurve
    from suffice.serving.search import LatencyLimit


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """How a machine stands under users or a rate. A quantity of None: nothing bounds it.

    Attributes:
        case: the load and its limits.
        ends: the curves that were simulated.
        slots: the fewest that hold the demanded load with its margin, else without it, else those that carry most.
        capacity_slots: that carry the capacity's point.
        capacity: the most users, or with any slots the most requests a second, at which the limits hold.
        missed_alone: limits that one request at a time misses, with what it gets, on the curve of the capacity's point; looked at where that is 0.
        ttft: at its percentile, at the demanded load; None also where no limit is stated.
        tpot: the same.
        machines: the fewest equal machines that hold the load times the margin, at the slow end; None where one holds it or none would.
        machine_slots: of each of them.
        slots_that_fit: in memory; None: not known.
        uneven: users at which the limits fail although they hold with more of them, on the slowest curve of which that is so.
    """

    case: ServedCase
    ends: CurveEnds
    slots: int
    capacity_slots: int
    capacity: Quantity | None
    missed_alone: tuple[tuple[LatencyLimit, float], ...]
    ttft: Quantity | None
    tpot: Quantity | None
    machines: int | None
    machine_slots: int
    slots_that_fit: int | None
    uneven: tuple[int, ...] = ()

    @classmethod
    def of_capacity(cls, case: ServedCase, ends: CurveEnds, slots: int, capacity: Quantity | None) -> Served:
        """Where nothing but a capacity with so many slots was looked at: latencies and counts of machines are not known."""
        return cls(
            case=case,
            ends=ends,
            slots=slots,
            capacity_slots=slots,
            capacity=capacity,
            missed_alone=(),
            ttft=None,
            tpot=None,
            machines=None,
            machine_slots=slots,
            slots_that_fit=None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """How fast a machine works off a queue.

    Attributes:
        case: the work.
        ends: the curves that were simulated.
        slots: that are fastest.
        requests_per_second: answered while there is always one that waits.
        slots_that_fit: in memory; None: not known.
    """

    case: ServedCase
    ends: CurveEnds
    slots: int
    requests_per_second: Quantity | None
    slots_that_fit: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOutlook:
    """What is simulated of a demand on a machine: users or a rate under limits, and work that nobody waits for."""

    served: Served | None
    drained: Drained | None

    @property
    def slots(self) -> int:
        """For which there must be memory."""
        return max(part.slots for part in (self.served, self.drained) if part is not None)

    @property
    def is_enough(self) -> bool:
        """Whether the slow end carries the load, and works off the queue, with the margin."""
        drained = self.drained
        return self.serves and (drained is None or _carries(drained.requests_per_second, drained.case))

    @property
    def serves(self) -> bool:
        """Whether the slow end carries the load under limits with the margin; also where there is none."""
        return self.served is None or _carries(self.served.capacity, self.served.case)


def _carries(quantity: Quantity | None, case: ServedCase) -> bool:
    if quantity is None or quantity.low is None:
        return False
    wanted = case.demanded * case.margin
    return quantity.low >= (users_with_margin(case.demanded, case.margin) if case.kind is LoadKind.USERS else wanted)


@lru_cache(maxsize=KNOWN)
def outlook(demand: Demand, evidence: MachineEvidence, effort: Effort | None = None) -> ServiceOutlook | None:
    """What the machine would do; None for a demand of one stream alone.

    Args:
        demand: what is needed.
        evidence: of the machine.
        effort: how finely; None: as the evidence deserves.
    """
    case, queue = served_case(demand, evidence, effort), queue_case(demand, evidence, effort)
    if case is None and queue is None:
        return None
    return ServiceOutlook(
        served=None if case is None else _served(demand, evidence, case),
        drained=None if queue is None else drained_of(demand, evidence, queue),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What each curve answers; None where there is no such curve."""

    slow: End | None
    likely: End | None
    fast: End | None

    @property
    def known(self) -> list[End]:
        """From the slowest on."""
        return [end for end in (self.slow, self.likely, self.fast) if end is not None]

    @property
    def point(self) -> End | None:
        """That of the figure itself: measured, else surely reached."""
        return next((end for end in (self.likely, self.slow, self.fast) if end is not None), None)


def _served(demand: Demand, evidence: MachineEvidence, case: ServedCase) -> Served:
    users = min(users_with_margin(case.demanded, case.margin), MOST_STREAMS)
    ends = _ends(evidence, case, users if case.kind is LoadKind.USERS else case.most_slots)
    fitting = slots_that_fit(demand, evidence, case.context)
    found = _found(ends, case)
    slots = _chosen_slots(found.known, case)
    machines = _machines(ends.slow, found.slow, case)
    return Served(
        case=case,
        ends=ends,
        slots=slots,
        capacity_slots=slots if found.point is None else found.point.capacity_slots,
        capacity=_capacity(found, case, ends, fitting),
        missed_alone=_missed_alone(ends, found, case),
        ttft=_latency("ttft_s", case, ends, slots),
        tpot=_latency("tpot_s", case, ends, slots),
        machines=None if machines is None else machines[0],
        machine_slots=slots if machines is None else machines[1],
        slots_that_fit=fitting,
        uneven=next((end.uneven for end in found.known if end.uneven), ()),
    )


def _found(ends: CurveEnds, case: ServedCase) -> _Found:
    slow = _end(ends.slow, case, Proof.HOLDS)
    likely = _end(ends.likely, case, Proof.MEDIAN, slow)
    return _Found(slow=slow, likely=likely, fast=_end(ends.fast, case, Proof.MAY_HOLD, likely or slow))


def _machines(curve: ServiceCurve | None, end: End | None, case: ServedCase) -> tuple[int, int] | None:
    """How many, at the slow end, and the slots of each; None where one holds the load, none would, or nobody looks."""
    if curve is None or end is None or not case.effort.finds_capacity or end.capacity >= case.demanded * case.margin:
        return None
    if case.kind is LoadKind.USERS:
        return users_machines(curve, case, end, Proof.HOLDS)
    return rate_machines(curve, case, end) if end.capacity > 0 else None


def _missed_alone(ends: CurveEnds, found: _Found, case: ServedCase) -> tuple[tuple[LatencyLimit, float], ...]:
    curve = next((one for one in (ends.likely, ends.slow, ends.fast) if one is not None), None)
    end = found.point
    if curve is None or end is None or end.capacity > 0 or not case.effort.finds_capacity:
        return ()
    load, trial = case.crowd(1)
    values = percentiles_of_runs(curve, case.scheduler(1), load, case.limits, trial)
    middles = [(limit, _middle(runs)) for limit, runs in zip(case.limits, values, strict=True)]
    return tuple((limit, value) for limit, value in middles if value > limit.seconds)


def _ends(evidence: MachineEvidence, case: ServedCase, sequences: int) -> CurveEnds:
    if case.effort.simulates:
        ends = curve_ends(evidence, case.extent(sequences))
        return ends if case.effort.bounds_high else replace(ends, fast=None)
    return CurveEnds(slow=None, likely=None, fast=None, basis=Basis.EXTRAPOLATED)


def _chosen_slots(known: list[End], case: ServedCase) -> int:
    """Those of the slowest end that holds the load, else those of the slowest end."""
    if case.kind is LoadKind.USERS:
        return math.ceil(case.demanded)
    holding = [end.slots for end in known if end.capacity >= case.demanded]
    return (holding or [end.slots for end in known] or [1])[0]


def _end(curve: ServiceCurve | None, case: ServedCase, proof: Proof, slower: End | None = None) -> End | None:
    """``slower``: what a slower curve gave, so that the ends are compared at the same slots."""
    if curve is None:
        return None
    if case.kind is LoadKind.USERS:
        return users_end(curve, case, proof)
    return rate_end(curve, case, proof, slower)


@lru_cache(maxsize=KNOWN)
def _latencies(curve: ServiceCurve, case: ServedCase, slots: int) -> tuple[tuple[float, ...], ...]:
    """Of each limit one value a run at the demanded load; no first token in time where the queue grows for ever."""
    if case.kind is LoadKind.USERS:
        load, trial = case.crowd(slots)
        return percentiles_of_runs(curve, case.scheduler(slots), load, case.limits, trial)
    found = percentiles_of_runs(curve, case.scheduler(slots), case.load(), case.limits, case.trial)
    if case.demanded <= saturated_rate(curve, case.scheduler(slots), case.load()):
        return found
    return tuple(
        (math.inf,) * len(values) if limit.metric == "ttft_s" else values
        for limit, values in zip(case.limits, found, strict=True)
    )


def _enclosing(
    low: float | None, point: float | None, high: float | None, basis: Basis, *, known: bool
) -> Quantity | None:
    """A quantity whose ends enclose its point; without a curve that was measured the point is the end that is surely reached."""
    found = next((value for value in (point, low, high) if value is not None), None)
    if found is None:
        return None
    return Quantity(
        point=found,
        low=None if low is None else min(low, found),
        high=None if high is None else max(high, found),
        basis=basis,
        interval_known=known,
    )


def _capacity(found: _Found, case: ServedCase, ends: CurveEnds, fitting: int | None) -> Quantity | None:
    """Where a search ended at its own cap, the figure is one that is reached at least."""
    most = math.inf if fitting is None or case.kind is not LoadKind.USERS else fitting

    def value(end: End | None) -> float | None:
        return None if end is None else min(end.capacity, most)

    def is_capped(end: End | None) -> bool:
        return end is not None and end.capped and end.capacity <= most

    high = None if is_capped(found.fast) else value(found.fast)
    quantity = _enclosing(value(found.slow), value(found.likely), high, ends.basis, known=ends.interval_known)
    return None if quantity is None else replace(quantity, more_untried=is_capped(found.point))


def _latency(metric: str, case: ServedCase, ends: CurveEnds, slots: int) -> Quantity | None:
    places = [place for place, limit in enumerate(case.limits) if limit.metric == metric]
    if not places or slots > MOST_STREAMS:
        return None

    def values(curve: ServiceCurve | None) -> tuple[float, ...]:
        return () if curve is None else _latencies(curve, case, slots)[places[0]]

    middles = [_middle(values(curve)) for curve in (ends.likely, ends.slow, ends.fast) if curve is not None]
    return _enclosing(
        min(values(ends.fast), default=None),
        middles[0] if middles else None,
        max(values(ends.slow), default=None),
        ends.basis,
        known=ends.interval_known,
    )


def _middle(values: tuple[float, ...]) -> float:
    return sorted(values)[len(values) // 2]


def drained_of(demand: Demand, evidence: MachineEvidence, case: ServedCase) -> Drained:
    """How fast a machine works off a queue, a case of :func:`suffice.decide.service_load.queue_case`."""
    ends = _ends(evidence, case, case.most_slots)
    found = [None if curve is None else queue_end(curve, case) for curve in (ends.slow, ends.likely, ends.fast)]
    slow, likely, fast = (None if one is None else one[1] for one in found)
    slots = next((one[0] for one in (found[1], found[0], found[2]) if one is not None), 1)
    return Drained(
        case=case,
        ends=ends,
        slots=slots,
        requests_per_second=_enclosing(slow, likely, fast, ends.basis, known=ends.interval_known),
        slots_that_fit=slots_that_fit(demand, evidence, case.context),
    )


def drain_s(drained: Drained, requests: float) -> Quantity | None:
    """Seconds until a queue of so many requests is worked off; of more than 2,000 the time of 2,000 in proportion."""
    if not drained.case.effort.finds_capacity:
        rate = drained.requests_per_second
        return None if rate is None else rate.inverted(requests)
    ends = drained.ends
    slow, likely, fast = (
        None if curve is None else drain_of(curve, drained.case, requests)
        for curve in (ends.slow, ends.likely, ends.fast)
    )
    return _enclosing(fast, likely if likely is not None else slow, slow, ends.basis, known=ends.interval_known)


def drain_of(curve: ServiceCurve, case: ServedCase, requests: float, runs: int = DRAIN_RUNS) -> float:
    """The same of one curve, by so many runs."""
    count = max(1, min(MOST_DRAINED, math.ceil(requests)))
    return queue_time_s(curve, case, count, runs) * (requests / count)

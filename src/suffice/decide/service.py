"""What a machine would do under a demanded load, simulated: the slots, the capacity, the percentiles, and how many machines hold it.

Every figure is simulated on the slow and on the fast end of what is known of the machine (:mod:`suffice.decide.service_curves`), and on the
measured curve itself where there is one: the truth lies between. The seeds are fixed: the same demand and evidence give the same answer.

Slots: the fewest at which the limits hold at the demanded load times the margin; where none does, at the load; where none does either,
those that carry most. Users are streams at the same time, so that each has a slot.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

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
from suffice.model.basis import Basis
from suffice.serving.capacity import (
    Proof,
    at_rate,
    holds,
    largest_between,
    largest_whole,
    percentiles_of_runs,
    saturated_rate,
)
from suffice.serving.simulate import simulate
from suffice.stats.intervals import median

if TYPE_CHECKING:
    from collections.abc import Callable

    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.service_load import Effort
    from suffice.model.demand import Demand
    from suffice.serving.curve import ServiceCurve
    from suffice.serving.search import LatencyLimit

_KNOWN: Final = 600  # answers that are kept
_IDLE_SHARE: Final = 0.002  # of what a server answers at most: a load at which nobody meets anybody
_MOST_HALVINGS: Final = 10
_SAME: Final = 0.01  # rates of a queue that differ by less are the same
_DRAIN_RUNS: Final = 3
_QUEUE_REQUESTS: Final = 500
_MOST_STEPS_UP: Final = 3
_LEAST_STREAMS: Final = 32  # users up to which a capacity is looked for, however few are demanded


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """How a machine stands under users or a rate. A quantity of None: nothing bounds it.

    Attributes:
        case: the load and its limits.
        ends: the curves that were simulated.
        slots: that were simulated at the demanded load.
        capacity_slots: that carry the capacity's point; others than ``slots`` where no end but the fast one holds the load.
        capacity: the most users or requests a second at which the limits hold.
        missed_alone: limits that one request at a time misses, with what it gets, on the curve of the capacity's point; looked at where that is 0.
        ttft: at its percentile, at the demanded load; None also where no limit is stated.
        tpot: the same.
        machines: the fewest equal machines that hold the load times the margin, at the slow end; None where one holds it or none would.
        machine_slots: of each of them.
        slots_that_fit: in memory; None: not known.
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
        served, drained = self.served, self.drained
        return (served is None or _carries(served.capacity, served.case)) and (
            drained is None or _carries(drained.requests_per_second, drained.case)
        )


def _carries(quantity: Quantity | None, case: ServedCase) -> bool:
    return quantity is not None and quantity.low is not None and quantity.low >= case.demanded * case.margin


@lru_cache(maxsize=_KNOWN)
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
        drained=None if queue is None else _drained(demand, evidence, queue),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """What one curve answers."""

    slots: int
    capacity: float
    capped: bool = False  # more was not tried


def _served(demand: Demand, evidence: MachineEvidence, case: ServedCase) -> Served:
    users = min(math.ceil(case.demanded * case.margin), MOST_STREAMS)
    ends = _ends(evidence, case, users if case.kind is LoadKind.USERS else case.most_slots)
    fitting = slots_that_fit(demand, evidence, case.context)
    slow = _end(ends.slow, case, Proof.HOLDS)
    likely = _end(ends.likely, case, Proof.MEDIAN, slow)
    fast = _end(ends.fast, case, Proof.MAY_HOLD, likely or slow)
    known = [end for end in (slow, likely, fast) if end is not None]
    slots = _chosen_slots(known, case)
    machines = None if slow is None else _machines(ends.slow, slow, case)
    machine_slots = slots if slow is None else slow.slots
    if machines is not None and case.kind is LoadKind.USERS:
        machine_slots = math.ceil(case.demanded * case.margin / machines)
    return Served(
        case=case,
        ends=ends,
        slots=slots,
        capacity_slots=next((end.slots for end in (likely, slow, fast) if end is not None), slots),
        capacity=_capacity(slow, likely, fast, case, ends, fitting),
        missed_alone=_missed_alone(((ends.likely, likely), (ends.slow, slow), (ends.fast, fast)), case),
        ttft=_latency("ttft_s", case, ends, slots),
        tpot=_latency("tpot_s", case, ends, slots),
        machines=machines,
        machine_slots=machine_slots,
        slots_that_fit=fitting,
    )


def _missed_alone(
    found: tuple[tuple[ServiceCurve | None, _End | None], ...], case: ServedCase
) -> tuple[tuple[LatencyLimit, float], ...]:
    curve, end = next(((one, end) for one, end in found if one is not None and end is not None), (None, None))
    if curve is None or end is None or end.capacity > 0 or not case.effort.finds_capacity:
        return ()
    load, trial = case.crowd(1)
    values = percentiles_of_runs(curve, case.scheduler(1), load, case.limits, trial)
    middles = [(limit, _middle(runs)) for limit, runs in zip(case.limits, values, strict=True)]
    return tuple((limit, value) for limit, value in middles if value > limit.seconds)


def _ends(evidence: MachineEvidence, case: ServedCase, sequences: int) -> CurveEnds:
    if case.effort.simulates:
        ends = curve_ends(evidence, case.extent(sequences))
        return ends if case.effort.finds_capacity else replace(ends, fast=None)
    return CurveEnds(slow=None, likely=None, fast=None, basis=Basis.EXTRAPOLATED)


def _chosen_slots(known: list[_End], case: ServedCase) -> int:
    """Those of the slowest end that holds the load, else those of the slowest end."""
    if case.kind is LoadKind.USERS:
        return math.ceil(case.demanded)
    holding = [end.slots for end in known if end.capacity >= case.demanded]
    return (holding or [end.slots for end in known] or [1])[0]


def _end(curve: ServiceCurve | None, case: ServedCase, proof: Proof, slower: _End | None = None) -> _End | None:
    """``slower``: what a slower curve gave, so that the ends are compared at the same slots."""
    if curve is None:
        return None
    if case.kind is LoadKind.USERS:
        return _users_end(curve, case, proof)
    return _rate_end(curve, case, proof, slower)


@lru_cache(maxsize=_KNOWN)
def _users_end(curve: ServiceCurve, case: ServedCase, proof: Proof) -> _End:
    """Each user has a slot; more users are never faster for any of them."""

    def held(users: int) -> bool:
        load, trial = case.crowd(users)
        return holds(curve, case.scheduler(users), load, case.limits, trial, proof)

    demanded = math.ceil(case.demanded)
    wanted, most = math.ceil(case.demanded * case.margin), MOST_STREAMS
    if case.effort.finds_capacity:
        most = min(MOST_STREAMS, max(_LEAST_STREAMS, 4 * wanted))
        capacity = largest_whole(min(wanted, most), most, held)
    else:
        capacity = wanted if wanted <= MOST_STREAMS and held(wanted) else 0
    return _End(slots=demanded, capacity=capacity, capped=capacity == most)


@lru_cache(maxsize=_KNOWN)
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


@lru_cache(maxsize=_KNOWN)
def _rate_end(curve: ServiceCurve, case: ServedCase, proof: Proof, slower: _End | None) -> _End:
    server = _RateServer(curve, case, proof)
    slots, held = server.slots_and_rate(slower)
    if not case.effort.finds_capacity:
        return _End(slots=slots, capacity=held)
    capacity = server.capacity(slots, held)
    return _End(slots=slots, capacity=capacity) if held >= case.demanded else server.more_slots(slots, capacity)


class _RateServer:
    """One curve under Poisson arrivals, with what was found out of it."""

    def __init__(self, curve: ServiceCurve, case: ServedCase, proof: Proof) -> None:
        self._curve, self._case, self._proof = curve, case, proof
        self._load, self._trial = case.load(), case.trial
        self._saturated: dict[int, float] = {}

    def saturated(self, slots: int) -> float:
        """Requests a second that so many slots answer at most."""
        if slots not in self._saturated:
            self._saturated[slots] = saturated_rate(self._curve, self._case.scheduler(slots), self._load)
        return self._saturated[slots]

    def holds(self, slots: int, rate_per_s: float) -> bool:
        """Whether the limits hold and the queue does not grow for ever, which a short run would not show."""
        if rate_per_s > self.saturated(slots):
            return False
        case, load = self._case, at_rate(self._load, rate_per_s)
        return holds(self._curve, case.scheduler(slots), load, case.limits, self._trial, self._proof)

    def _holds_with(self, rate_per_s: float, slots: int) -> bool:
        return self.holds(slots, rate_per_s)

    def slots_and_rate(self, slower: _End | None) -> tuple[int, float]:
        """The fewest slots that hold the load times the margin, else the load, else a half, a quarter of it; and what they hold.

        Those of the slower curve come first where they hold the load there, so that the ends are compared at the same slots; where nothing
        holds the load, its slots serve as well.
        """
        case = self._case
        wanted = case.demanded * case.margin
        if slower is not None and slower.capacity >= case.demanded:
            held = next((rate for rate in (wanted, case.demanded) if self.holds(slower.slots, rate)), 0.0)
            return slower.slots, held
        if not self.holds(1, _IDLE_SHARE * self.saturated(1)):
            return 1, 0.0  # nobody waits there, and it is too slow
        rates = [wanted, case.demanded]
        if case.effort.finds_capacity and (slower is None or slower.capacity == 0):
            rates += [case.demanded / 2**number for number in range(1, _MOST_HALVINGS)]
        for rate in rates:
            slots = _fewest(case.most_slots, partial(self._holds_with, rate))
            if slots is not None:
                return slots, rate
        return (1 if slower is None else slower.slots), 0.0

    def capacity(self, slots: int, held: float) -> float:
        """The highest rate with so many slots; ``held``: one that is known to hold, 0 when none is."""
        most = self.saturated(slots)
        low = held or _IDLE_SHARE * most
        if not held and not self.holds(slots, low):
            return 0.0
        if low >= most or self.holds(slots, most):
            return most
        return largest_between(low, most, lambda rate: self.holds(slots, rate), tolerance=self._case.effort.tolerance)

    def more_slots(self, slots: int, capacity: float) -> _End:
        """Slots that carry more than the fewest that hold a lower rate, one more or twice as many at a time."""
        tolerance = self._case.effort.tolerance
        while capacity > 0:
            tried = (count for count in (slots + 1, slots * 2) if count <= self._case.most_slots)
            better = next((count for count in tried if self.holds(count, capacity * (1 + tolerance))), None)
            if better is None:
                break
            slots, capacity = better, self.capacity(better, capacity * (1 + tolerance))
        return _End(slots=slots, capacity=capacity)


def _doubled(most: int) -> list[int]:
    """1, 2, 4 and so on, and the most."""
    return [*(2**number for number in range(most.bit_length()) if 2**number < most), most]


def _fewest(most: int, is_good: Callable[[int], bool]) -> int | None:
    """The fewest slots that are good: powers of two first, then between the last that was not and the first that was."""
    bad = 0
    for slots in _doubled(most):
        if is_good(slots):
            good = slots
            while good - bad > 1:
                middle = (good + bad) // 2
                bad, good = (bad, middle) if is_good(middle) else (middle, good)
            return good
        bad = slots
    return None


def _machines(curve: ServiceCurve | None, end: _End, case: ServedCase) -> int | None:
    """Requests are shared out at random, users evenly; a share of Poisson arrivals is Poisson."""
    wanted = case.demanded * case.margin
    if curve is None or not case.effort.finds_capacity or end.capacity >= wanted or end.capacity <= 0:
        return None
    least = math.ceil(wanted / end.capacity)
    if case.kind is LoadKind.USERS:
        return least
    server = _RateServer(curve, case, Proof.HOLDS)
    tried = range(least, least + _MOST_STEPS_UP)
    return next((count for count in tried if server.holds(end.slots, wanted / count)), None)


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


def _capacity(
    slow: _End | None, likely: _End | None, fast: _End | None, case: ServedCase, ends: CurveEnds, fitting: int | None
) -> Quantity | None:
    most = math.inf if fitting is None or case.kind is not LoadKind.USERS else fitting

    def value(end: _End | None) -> float | None:
        return None if end is None else min(end.capacity, most)

    high = None if fast is not None and fast.capped and fast.capacity <= most else value(fast)
    return _enclosing(value(slow), value(likely), high, ends.basis, known=ends.interval_known)


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


def _drained(demand: Demand, evidence: MachineEvidence, case: ServedCase) -> Drained:
    ends = _ends(evidence, case, case.most_slots)
    found = [None if curve is None else _queue_end(curve, case) for curve in (ends.slow, ends.likely, ends.fast)]
    slow, likely, fast = (None if one is None else one[1] for one in found)
    slots = next((one[0] for one in (found[1], found[0], found[2]) if one is not None), 1)
    return Drained(
        case=case,
        ends=ends,
        slots=slots,
        requests_per_second=_enclosing(slow, likely, fast, ends.basis, known=ends.interval_known),
        slots_that_fit=slots_that_fit(demand, evidence, case.context),
    )


@lru_cache(maxsize=_KNOWN)
def _queue_end(curve: ServiceCurve, case: ServedCase) -> tuple[int, float]:
    """The slots that answer most, the fewest among equals, and how much they answer."""
    load = case.load()
    if not case.effort.finds_capacity:
        return 1, saturated_rate(curve, case.scheduler(1), load)
    rates = [(slots, saturated_rate(curve, case.scheduler(slots), load)) for slots in _doubled(case.most_slots)]
    most = max(rate for _, rate in rates)
    slots = next(slots for slots, rate in rates if rate >= most * (1 - _SAME))
    return slots, saturated_rate(curve, case.scheduler(slots), case.load(_QUEUE_REQUESTS), runs=_DRAIN_RUNS)


def drain_s(drained: Drained, requests: float) -> Quantity | None:
    """Seconds until a queue of so many requests is worked off; of more than 2,000 the time of 2,000 in proportion."""
    if not drained.case.effort.finds_capacity:
        rate = drained.requests_per_second
        return None if rate is None else rate.inverted(requests)
    case, count = drained.case, max(1, min(MOST_DRAINED, math.ceil(requests)))
    ends = drained.ends

    def seconds(curve: ServiceCurve | None) -> float | None:
        if curve is None:
            return None
        return _drain_s(curve, case, _queue_end(curve, case)[0], count) * (requests / count)

    slow, likely, fast = (seconds(curve) for curve in (ends.slow, ends.likely, ends.fast))
    return _enclosing(fast, likely if likely is not None else slow, slow, ends.basis, known=ends.interval_known)


@lru_cache(maxsize=_KNOWN)
def _drain_s(curve: ServiceCurve, case: ServedCase, slots: int, requests: int) -> float:
    load = case.load(requests)
    return median([simulate(curve, case.scheduler(slots), load, seed).end_s for seed in range(_DRAIN_RUNS)])

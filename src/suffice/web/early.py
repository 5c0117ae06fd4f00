"""What can be said within a moment: the same judgement from a coarse simulation, or from one of before, and a plan over a few machines.

All of it is provisional. The page says so wherever it shows it, and the final parts take its place.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from suffice.decide.compare import Decision
from suffice.decide.plan_screen import forget
from suffice.decide.plan_types import OptionKind
from suffice.decide.service import outlook
from suffice.decide.service_load import PREDICTED, queue_case, served_case, share_of
from suffice.decide.verdict import Grade, decide_machine
from suffice.loaders.planning import make_plan

if TYPE_CHECKING:
    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.plan_types import Plan
    from suffice.decide.service import Drained, Served, ServiceOutlook
    from suffice.decide.service_load import ServedCase
    from suffice.loaders.planning import PlanRequest
    from suffice.model.demand import Demand

_MOST_OUTLOOKS: Final = 64  # that are remembered
_MOST_LEADERS: Final = 30  # machines that an early plan looks at
_OF_A_PLAN: Final = 10  # the best of one plan that are remembered
_SHOWN: Final = 5  # options of an early plan
_KINDS: Final = tuple(kind for kind in OptionKind if kind is not OptionKind.HYBRID)  # a hybrid alone takes long
_REACHING: Final = (Grade.ENOUGH, Grade.THIN)
_PLANNING = threading.Lock()


class Rests(StrEnum):
    """What a verdict rests on."""

    FINAL = "final"
    COARSE = "coarse"  # fewer simulated requests than the final one
    BEFORE = "before"  # what was simulated for another load or margin


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyDecision:
    """A provisional decision, and what it rests on."""

    decision: Decision
    rests: Rests


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyPlan:
    """The best options among so many machines of the catalogue; None: none of them is enough."""

    plan: Plan | None
    machines: int


def full_plan(request: PlanRequest) -> Plan:
    """The plan of a request, whatever was planned before: what screens learn from one plan is forgotten before the next."""
    with _PLANNING:
        forget()
        return make_plan(request)


class Outlooks:
    """What was simulated before, by all that it depends on but the rate, the margin and the budget."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[Demand, str], ServiceOutlook] = OrderedDict()

    def note(self, demand: Demand, evidence: MachineEvidence, service: ServiceOutlook | None) -> None:
        """Remember what a final verdict rests on."""
        if service is None:
            return
        with self._lock:
            self._known[_key(demand, evidence)] = service
            if len(self._known) > _MOST_OUTLOOKS:
                self._known.popitem(last=False)

    def adapted(self, demand: Demand, evidence: MachineEvidence) -> ServiceOutlook | None:
        """A capacity that was found before against this load; None: there is none. Latencies are of one load only, and left out."""
        with self._lock:
            service = self._known.get(_key(demand, evidence))
        if service is None:
            return None
        share = share_of(demand, evidence.engines)
        served = _served_under(service.served, served_case(share, evidence))
        drained = _drained_under(service.drained, queue_case(share, evidence))
        return None if served is None and drained is None else replace(service, served=served, drained=drained)


def _key(demand: Demand, evidence: MachineEvidence) -> tuple[Demand, str]:
    """A capacity in users depends on how many are demanded, one in requests does not."""
    unloaded = replace(
        demand,
        requests_per_second=None if demand.requests_per_second is None else 1.0,
        margin=1.0,
        volume_per_day=None,
        budget_per_month=None,
        currency=None,
    )
    return unloaded, evidence.name


def _served_under(before: Served | None, case: ServedCase | None) -> Served | None:
    if before is None or case is None:
        return None
    return replace(before, case=case, ttft=None, tpot=None, machines=None, uneven=())


def _drained_under(before: Drained | None, case: ServedCase | None) -> Drained | None:
    return None if before is None or case is None else replace(before, case=case)


def decided_from(
    demand: Demand, evidence: MachineEvidence, service: ServiceOutlook | None, rests: Rests
) -> EarlyDecision:
    """The verdict on one CPU from what is simulated so far; what to do next is said by the final one alone."""
    verdict = replace(decide_machine(demand, evidence, service), settle=None)
    least = verdict.machine if verdict.grade in _REACHING else None
    decision = Decision(verdict=verdict, machines=(verdict,), ratios=(), least_machine=least)
    return EarlyDecision(decision=decision, rests=rests)


def coarse_decision(demand: Demand, evidence: MachineEvidence) -> EarlyDecision:
    """From fewer requests than the final one is simulated with.

    Raises:
        DemandError: see :func:`suffice.decide.verdict.decide_machine`.
    """
    service = outlook(share_of(demand, evidence.engines), evidence, PREDICTED)
    return decided_from(demand, evidence, service, Rests.COARSE)


class Leaders:
    """Machines that led the plans before, the latest first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: OrderedDict[str, None] = OrderedDict()

    def note(self, plan: Plan) -> None:
        """Remember the best machines of a plan."""
        best = [one for one in plan.options if one.is_enough and one.kind in (OptionKind.CPU, OptionKind.GPU)]
        with self._lock:
            for option in reversed(best[:_OF_A_PLAN]):
                name = option.name.rpartition(" x ")[2]
                self._names[name] = None
                self._names.move_to_end(name)
            while len(self._names) > _MOST_LEADERS:
                self._names.popitem(last=False)

    def plan(self, request: PlanRequest) -> EarlyPlan:
        """The plan over them alone, without hybrids, and without what rests on a whole ranking.

        Under a load it leaves the machine at hand out: its simulation is that of the verdict, and takes as long.

        Raises:
            DemandError: see :func:`suffice.loaders.planning.make_plan`.
        """
        with self._lock:
            names = set(self._names)
        few = tuple(one for one in request.catalogue.instances if one.key in names)
        catalogue = replace(request.catalogue, instances=few)
        under_load = request.demand.margin_is_of_load
        here = () if under_load else request.here
        early = replace(request, catalogue=catalogue, here=here, kinds=_KINDS, proven=1, exact=0)
        plan = _unless_busy(early) if under_load else make_plan(early)
        # That others are not shown to be enough may be because so few were looked for.
        enough = () if plan is None else tuple(one for one in plan.options if one.is_enough)[:_SHOWN]
        if plan is None or not enough:
            return EarlyPlan(plan=None, machines=len(few))
        return EarlyPlan(plan=replace(plan, options=enough, crossovers=(), notes=()), machines=len(few))


def _unless_busy(request: PlanRequest) -> Plan | None:
    """A plan with users or rates; None while another one is computed, whose screens it would change."""
    if not _PLANNING.acquire(blocking=False):
        return None
    try:
        forget()
        return make_plan(request)
    finally:
        _PLANNING.release()

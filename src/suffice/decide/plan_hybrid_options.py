"""A hybrid as an option of a plan: its parts judged under their shares by the verdict rule, and its bill."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from suffice.decide.plan_hybrid_gpus import both_at_best
from suffice.decide.plan_hybrid_words import named, notes_of
from suffice.decide.plan_types import CostPart, MonthlyCost, OptionKind, PlanOption, PriceTag
from suffice.decide.quantity import Quantity
from suffice.decide.service import Drained, Served, ServiceOutlook
from suffice.decide.service_load import share_of
from suffice.decide.verdict import WORST_FIRST, decide_machine
from suffice.model.basis import weakest
from suffice.model.cost import requests_per_month
from suffice.units import SECONDS_PER_DAY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from suffice.decide.plan_hybrid import Hybrid
    from suffice.decide.plan_hybrid_gpus import Fleet
    from suffice.decide.plan_hybrid_parts import Parts, Rented
    from suffice.decide.verdict import Verdict
    from suffice.model.demand import Demand

    Tags = Mapping[str, PriceTag]

_EQUAL: Final = 1.000000001  # what is shown to be as much as needed is not to be less by rounding


def option_of(hybrid: Hybrid, tags: Tags) -> PlanOption:
    """The option, each of its parts a member of it; ``tags``: prices of an hour by the names of machines, where they are known as tags."""
    parts, waiting, rest = hybrid.parts, hybrid.waiting, hybrid.rest
    members = (
        _member(waiting, _waiting_verdict(waiting, parts), OptionKind.GPU, parts.waiting, tags),
        _member(
            rest,
            _rest_verdict(rest, parts),
            OptionKind.CPU,
            parts.rest,
            tags,
        ),
    )
    worst = min(members, key=lambda one: WORST_FIRST.index(one.grade))
    bases = [one.basis for one in members if one.basis is not None]
    cost = _cost((waiting, rest), tags)
    return PlanOption(
        kind=OptionKind.HYBRID,
        name=" + ".join(one.name for one in members),
        count=waiting.count + rest.count,
        grade=worst.grade,
        reason=f"{worst.name}: {worst.reason}",
        binding=worst.binding,
        headroom=worst.headroom,
        basis=weakest(bases),
        cost=replace(cost, low=min(hybrid.monthly_at_best, cost.amount), high=cost.amount if waiting.shown else None),
        tokens_per_month=sum(one.tokens_per_month or 0.0 for one in members),
        members=members,
        notes=notes_of(hybrid),
        prices=tuple(part.price for part in cost.parts),
    )


def alone_option(alone: Fleet, parts: Parts, tags: Tags) -> PlanOption:
    """GPUs that do both as an option: what a hybrid is measured against can be rented as well."""
    waiting = replace(alone, count=alone.count - alone.part_time, part_time=0, streams=0)
    resting = alone.count if alone.streams else alone.part_time
    rest = replace(alone, count=resting, part_time=resting, answered_per_s=parts.rest_wanted_per_s * _EQUAL / resting)
    members = (
        _member(waiting, _waiting_verdict(waiting, parts), OptionKind.GPU, parts.waiting, tags),
        _member(rest, _rest_verdict(rest, parts), OptionKind.GPU, parts.rest, tags),
    )
    worst = min(members, key=lambda one: WORST_FIRST.index(one.grade))
    extra = replace(alone, count=alone.part_time)
    cost = _cost((waiting, extra) if alone.part_time else (waiting,), tags)
    best = both_at_best(alone.machine, parts).monthly
    return replace(
        worst,
        name=f"{named(alone)}, the rest in idle time" if alone.streams else f"{named(waiting)} + {named(rest)}",
        count=alone.count,
        reason=f"{named(alone)}, for the requests that wait and the rest: {worst.reason}",
        basis=weakest([one.basis for one in members if one.basis is not None]),
        cost=replace(cost, low=best, high=cost.amount) if best < cost.amount else cost,
        tokens_per_month=sum(one.tokens_per_month or 0.0 for one in members),
        verdict=None,
        members=() if alone.streams else members,
        notes=(_alone_note(alone),),
        prices=tuple(dict.fromkeys(part.price for part in cost.parts)),
    )


def _alone_note(alone: Fleet) -> str:
    rented = (
        f"{alone.part_time} of them rented for the hours of the rest"
        if alone.part_time
        else "all of them rented for all hours"
    )
    if alone.streams:
        return f"GPUs alone: {alone.streams} streams of the rest on each, beside the requests that wait, simulated while these keep their limits; {rented}"
    return f"GPUs alone: {rented}, which they work off apart from the requests that wait"


def _member(fleet: Fleet, verdict: Verdict, kind: OptionKind, demand: Demand, tags: Tags) -> PlanOption:
    """One part; ``demand``: all of it."""
    binding = next((item.constraint for item in verdict.constraints if item.constraint.name == verdict.binding), None)
    cost = _cost((fleet,), tags)
    requests = requests_per_month((demand.requests_per_day or 0.0) / SECONDS_PER_DAY)
    return PlanOption(
        kind=kind,
        name=named(fleet),
        count=fleet.count,
        grade=verdict.grade,
        reason=verdict.reason,
        binding=verdict.binding,
        headroom=None if binding is None or not fleet.shown else binding.headroom,
        basis=verdict.basis,
        cost=cost,
        tokens_per_month=requests * fleet.machine.waiting.output.mean,
        verdict=verdict,
        prices=tuple(part.price for part in cost.parts),
    )


def _cost(fleets: tuple[Fleet, ...], tags: Tags) -> MonthlyCost:
    lines = tuple(_line(fleet, tags) for fleet in fleets)
    return MonthlyCost(amount=sum(line.amount for line in lines), currency=lines[0].price.currency, parts=lines)


def _line(fleet: Fleet, tags: Tags) -> CostPart:
    price = fleet.machine.price
    tag = tags.get(fleet.machine.name) or PriceTag.of_hour(price)
    return CostPart(name=f"machine hours, {fleet.machine.name}", amount=fleet.monthly, units=fleet.hours, price=tag)


def _waiting_verdict(fleet: Fleet, parts: Parts) -> Verdict:
    machine = fleet.machine
    case = replace(machine.waiting, demanded=parts.waiting_per_s / fleet.count)
    slots = fleet.slots if fleet.shown else case.most_slots
    capacity = _at_least(case.demanded * case.margin if fleet.shown else None, machine)
    served = Served.of_capacity(case, machine.ends, slots, capacity)
    share = share_of(parts.waiting, fleet.count)
    return decide_machine(share, machine.evidence, ServiceOutlook(served=served, drained=None))


def _rest_verdict(fleet: Fleet, parts: Parts) -> Verdict:
    machine = fleet.machine
    drained = Drained(
        case=replace(machine.rest, demanded=parts.rest_per_s / fleet.count),
        ends=machine.ends,
        slots=1,
        requests_per_second=_at_least(fleet.answered_per_s, machine),
        slots_that_fit=None,
    )
    share = share_of(parts.rest, fleet.count)
    return decide_machine(share, machine.evidence, ServiceOutlook(served=None, drained=drained))


def _at_least(shown_per_s: float | None, machine: Rented) -> Quantity | None:
    """From what is shown to what no schedule exceeds; None where neither is known."""
    high = None if math.isinf(machine.most_per_s) else machine.most_per_s
    point = shown_per_s if shown_per_s is not None else high
    if point is None:
        return None
    most = None if high is None else max(high, point)
    return Quantity(point=point, low=shown_per_s, high=most, basis=machine.ends.basis)

"""Hybrids: GPUs for the requests that somebody waits for, CPUs for the rest, and what that saves against GPUs alone.

The rule: the share that waits (:attr:`~suffice.model.demand.Demand.interactive_share`) is judged under its limits on the fewest GPUs that
hold it with the margin, the rest by its sustained rate on the fewest CPU machines that keep up with the margin. Against that stand GPUs that
do both and work off the rest in their idle time (:mod:`suffice.decide.plan_hybrid_gpus`). Only machines with a price in one currency are
joined. GPUs for the requests that wait are paid for all hours of a month; machines for the rest for those of its window, if it has one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.decide.plan_hybrid_gpus import (
    Fleet,
    both_at_best,
    cheapest_for_both,
    doing_likely,
    doing_shown,
    for_rest,
    for_waiting,
    rest_at_best,
    waiting_at_best,
)
from suffice.decide.plan_hybrid_options import alone_option, option_of
from suffice.decide.plan_hybrid_parts import one_by_one_per_s, parts_of, rented
from suffice.model.cost import HOURS_PER_MONTH

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from suffice.decide.plan_hybrid_parts import Offered, Parts, Rented
    from suffice.decide.plan_types import PlanOption, PriceTag
    from suffice.model.demand import Demand

MOST_WORKERS: Final = 64  # CPU machines of one hybrid: they take requests from one queue and know nothing of each other
_SHOWN: Final = 4  # hybrids of one currency
_CPUS: Final = 2  # kinds of CPU machines of a currency
_BASELINES: Final = 6  # further GPUs, by arithmetic, that are looked at for everything
_GPUS_TRIED: Final = 2  # in the order of their cost by arithmetic, until one is shown to be enough


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """What a hybrid costs less than GPUs alone, as a share of their cost; negative: it costs more.

    Attributes:
        likely_alone: the cheapest GPUs that do everything at the roofline through the predicted speeds; None: not known.
        likely: against them, with the hybrid's GPUs at the roofline and its CPUs as shown; None: not known.
        shown_alone: the cheapest GPUs that are shown to do everything; None: none are.
        shown: against them; None without them, or where the hybrid's own GPUs are not shown to be enough.
        alone_at_best: the cheapest GPUs that may do everything at the fast end, which no schedule beats.
        low: against them: GPUs at the fast end, CPUs at the slow one.
        high: GPUs at the slow end, CPUs at the fast one; None where ``shown`` is.
    """

    likely_alone: Fleet | None
    likely: float | None
    shown_alone: Fleet | None
    shown: float | None
    alone_at_best: Fleet
    low: float
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hybrid:
    """GPUs for the requests that wait, CPU machines for the rest."""

    parts: Parts
    waiting: Fleet
    rest: Fleet
    saving: Saving

    @property
    def monthly(self) -> float:
        """What both cost in a month."""
        return self.waiting.monthly + self.rest.monthly

    @property
    def monthly_at_best(self) -> float:
        """What the fewest machines cost that may do at the fast ends."""
        machines = self.waiting.machine, self.rest.machine
        return waiting_at_best(machines[0], self.parts).monthly + rest_at_best(machines[1], self.parts).monthly


def hybrids(
    demand: Demand,
    gpu: Sequence[Offered],
    cpu: Sequence[Offered],
    *,
    most: int = 8,
    tags: Mapping[str, PriceTag] | None = None,
) -> tuple[PlanOption, ...]:
    """The cheapest hybrids for a demand with an interactive share, those that save nothing included: the notes say so.

    Args:
        demand: with a rate, lengths, limits and ``interactive_share``; without one of them there is nothing to divide.
        gpu: machines with an accelerator; how they stand against the whole demand does not matter.
        cpu: machines without one.
        most: GPU machines of one hybrid.
        tags: prices of an hour by the names of machines; of others the tag is made here, without a mark of age.

    Raises:
        DemandError: the model cannot hold the context that the demand needs.
    """
    return tuple(option_of(one, tags or {}) for one in found_hybrids(demand, gpu, cpu, most=most))


def with_gpus_alone(
    demand: Demand, gpu: Sequence[Offered], cpu: Sequence[Offered], *, most: int, tags: Mapping[str, PriceTag]
) -> tuple[PlanOption, ...]:
    """Hybrids as :func:`hybrids` has them, and of each currency the GPUs alone that are shown to do both: they can be rented as well.

    Raises:
        DemandError: the model cannot hold the context that the demand needs.
    """
    found = found_hybrids(demand, gpu, cpu, most=most)
    shown = {one.saving.shown_alone: one.parts for one in found if one.saving.shown_alone is not None}
    # Those that keep the limits in every request are options already, as machines to rent.
    alone = (alone_option(fleet, parts, tags) for fleet, parts in shown.items() if fleet.streams or fleet.part_time)
    return (*(option_of(one, tags) for one in found), *alone)


def found_hybrids(
    demand: Demand, gpu: Sequence[Offered], cpu: Sequence[Offered], *, most: int = 8
) -> tuple[Hybrid, ...]:
    """The same as figures, the cheapest first within each currency."""
    parts = parts_of(demand)
    if parts is None:
        return ()
    gpus, cpus = _by_currency(gpu), _by_currency(cpu)
    return tuple(
        one
        for currency in sorted(gpus.keys() & cpus.keys())
        for one in _of_currency(parts, gpus[currency], cpus[currency], most)
    )


def _by_currency(found: Iterable[Offered]) -> dict[str, list[Offered]]:
    by_currency: dict[str, list[Offered]] = {}
    for offered in found:
        price = offered.prospect.price
        if price is not None:
            by_currency.setdefault(price.currency, []).append(offered)
    return by_currency


def _of_currency(parts: Parts, gpu: list[Offered], cpu: list[Offered], most: int) -> list[Hybrid]:
    gpus = _distinct([one for offered in gpu if (one := rented(offered, parts)) and one.may_keep_limits])
    workers = _workers(cpu, parts) if gpus else []
    if not workers:
        return []
    waiting = _for_waiting(gpus, parts, most)
    alone = _Alone.of(gpus, waiting, parts, most)
    found = [
        Hybrid(parts=parts, waiting=gpu, rest=cpu, saving=alone.saving_of(gpu, cpu, parts))
        for gpu in waiting
        for cpu in workers
    ]
    return sorted(found, key=lambda one: (not one.waiting.shown, one.monthly))[:_SHOWN]


def _distinct(machines: list[Rented]) -> list[Rented]:
    """Of machines that are equally fast and hold as many slots the cheapest: an accelerator comes with hosts of many sizes."""
    found: dict[tuple[float, float, int], Rented] = {}
    for one in sorted(machines, key=lambda machine: (machine.price.per_hour, machine.name)):
        found.setdefault((one.one_by_one_per_s, one.most_per_s, one.waiting.most_slots), one)
    return list(found.values())


def _for_waiting(gpus: list[Rented], parts: Parts, most: int) -> list[Fleet]:
    """The cheapest for the requests that wait, and for everything, that are shown at the slow end; and those that may be at the fast one."""
    waiting = parts.waiting_wanted_per_s
    both = waiting + parts.rest_wanted_per_s
    known = [one for one in gpus if waiting <= most * one.one_by_one_per_s]  # others cannot be shown to be enough
    found: dict[str, Fleet | None] = {}
    for load in (waiting, both):
        for one in sorted(known, key=lambda machine: _cost_one_by_one(machine, load))[:_GPUS_TRIED]:
            if one.name not in found:
                found[one.name] = for_waiting(one, parts, most)
            if found[one.name] is not None:
                break
    shown = [fleet for fleet in found.values() if fleet is not None]
    best = min(gpus, key=lambda one: both_at_best(one, parts).monthly)
    unproven = waiting_at_best(best, parts)
    return [*shown, unproven] if unproven.count <= most and found.get(best.name) is None else shown


def _cost_one_by_one(machine: Rented, requests_per_s: float) -> float:
    return math.ceil(requests_per_s / machine.one_by_one_per_s) * machine.price.per_hour


def _workers(cpu: list[Offered], parts: Parts) -> list[Fleet]:
    """The cheapest for the rest, by arithmetic and shown at the slow end."""
    wanted = parts.rest_wanted_per_s
    costs = []
    for offered in cpu:
        rate, price = one_by_one_per_s(offered.prospect.evidence, parts), offered.prospect.price
        if rate > 0 and price is not None and wanted / rate <= MOST_WORKERS:
            costs.append((math.ceil(wanted / rate) * price.per_hour, offered.prospect.name, offered))
    found: list[Fleet] = []
    for _, _, offered in sorted(costs, key=lambda cost: cost[:2]):
        machine = rented(offered, parts)
        fleet = None if machine is None else for_rest(machine, parts, MOST_WORKERS)
        found += [] if fleet is None else [fleet]
        if len(found) == _CPUS:
            break
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Alone:
    """The cheapest GPUs that do everything, at each of the speeds."""

    shown: Fleet | None
    likely: Fleet | None
    likely_waiting: dict[str, Fleet]  # of the machines that hybrids are made of, for the requests that wait
    at_best: Fleet

    @classmethod
    def of(cls, gpus: list[Rented], waiting: list[Fleet], parts: Parts, most: int) -> _Alone:
        shown = [doing for one in waiting if (doing := doing_shown(one, parts)) is not None]
        known = {one.machine.name: doing_likely(one.machine, parts, most) for one in waiting}
        likely = {name: one for name, one in known.items() if one is not None}
        best = _cheapest_shown(gpus, cheapest_for_both(shown), {one.machine.name for one in waiting}, parts, most)
        at_roofline = [one for one in (cheapest_for_both(likely.values()), best) if one is not None]
        return cls(
            shown=best,
            likely=min(at_roofline, key=lambda fleet: fleet.monthly, default=None),
            likely_waiting={name: one.waiting for name, one in likely.items()},
            at_best=min((both_at_best(one, parts) for one in gpus), key=lambda fleet: fleet.monthly),
        )

    def saving_of(self, waiting: Fleet, rest: Fleet, parts: Parts) -> Saving:
        """Of a hybrid against them."""
        cheapest, own = self.likely, self.likely_waiting.get(waiting.machine.name)
        at_roofline = None if cheapest is None or own is None else _share(own.monthly + rest.monthly, cheapest)
        shown = high = None
        if self.shown is not None and waiting.shown:
            shown = _share(waiting.monthly + rest.monthly, self.shown)
            high = _share(waiting.monthly + rest_at_best(rest.machine, parts).monthly, self.shown)
        low = _share(waiting_at_best(waiting.machine, parts).monthly + rest.monthly, self.at_best)
        known = [one for one in (low, at_roofline, shown, high) if one is not None]
        return Saving(
            likely_alone=cheapest,
            likely=at_roofline,
            shown_alone=self.shown,
            shown=shown,
            alone_at_best=self.at_best,
            low=min(known),
            high=None if high is None else max(known),
        )


def _cheapest_shown(
    gpus: list[Rented], found: Fleet | None, looked_at: set[str], parts: Parts, most: int
) -> Fleet | None:
    """The cheapest GPUs that are shown to do everything, also on machines that no hybrid is made of: else a hybrid is flattered."""
    best = found
    by_cost = sorted(gpus, key=lambda one: (_cost_one_by_one(one, parts.least_wanted_per_s), one.name))
    for one in [machine for machine in by_cost if machine.name not in looked_at][:_BASELINES]:
        if best is not None and _cost_one_by_one(one, parts.least_wanted_per_s) * HOURS_PER_MONTH >= best.monthly:
            break
        waiting = for_waiting(one, parts, most)
        doing = None if waiting is None else doing_shown(waiting, parts)
        if doing is None or (best is not None and doing.least_monthly >= best.monthly):
            continue
        fleet = doing.fleet()
        best = fleet if best is None or fleet.monthly < best.monthly else best
    return best


def _share(monthly: float, alone: Fleet) -> float:
    return 1 - monthly / alone.monthly

"""Curves of cost for charts: against volume, and against users at once. Machines to rent are steps, APIs and this machine lines."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from suffice.decide.plan_load import Pace, WorkKind, elsewhere, work_of
from suffice.decide.plan_rank import paid_apis, references
from suffice.decide.plan_screen import holds
from suffice.decide.plan_types import OptionKind
from suffice.model.cost import HOURS_PER_MONTH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.plan_machines import Offer
    from suffice.decide.plan_types import Plan, PlanOption
    from suffice.model.demand import Demand

USERS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_AROUND: Final = (0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)  # times the demand
_JUST_OVER: Final = 1.000001


@dataclass(frozen=True, slots=True, kw_only=True)
class CostCurve:
    """One line: what ``name`` costs a month, ``points`` as (x, cost) from left to right. A step is two points close to each other."""

    name: str
    points: tuple[tuple[float, float], ...]
    currency: str
    x_label: str


def volume_curves(plan: Plan, *, most: int = 6) -> tuple[CostCurve, ...]:
    """Cost against generated tokens a month, of the cheapest option of each kind that is enough and of the APIs.

    A machine whose capacity was not looked for stands for the demand's volume and less, with energy that grows as it works; one with a
    capacity for as many machines as it takes.

    Args:
        plan: with tokens a month.
        most: lines at most; the cheapest first.
    """
    tokens = next((one.tokens_per_month for one in plan.options if one.tokens_per_month is not None), None)
    if tokens is None:
        return ()
    machines = [one for one in references(plan.options, plan.currency) if one.tokens_per_month is not None]
    chosen = [*machines, *paid_apis(plan.options, plan.currency)][:most]
    label = "generated tokens a month"
    return tuple(
        CostCurve(name=one.name, points=_points(one, tokens), currency=plan.currency, x_label=label) for one in chosen
    )


def _points(option: PlanOption, tokens: float) -> tuple[tuple[float, float], ...]:
    amount = 0.0 if option.cost is None else option.cost.amount
    grid = [tokens * times for times in _AROUND]
    if option.kind is OptionKind.API:
        return tuple((x, amount * x / tokens) for x in grid)
    each = option.tokens_per_machine
    if each is None or option.kind is OptionKind.HERE:
        full = tokens if each is None else each
        grows = 0.0 if option.cost is None else option.cost.per_volume
        return tuple((x, amount - grows + grows * x / tokens) for x in grid if x <= full)
    steps = [each * count for count in range(1, math.ceil(grid[-1] / each)) if each * count < grid[-1]]
    places = sorted({*grid, *_thinned(steps), *(step * _JUST_OVER for step in _thinned(steps))})
    return tuple((x, amount / option.count * math.ceil(x / each / _JUST_OVER)) for x in places)


def _thinned(steps: list[float]) -> list[float]:
    """The first ones: beyond, a line of steps is a line."""
    return steps[:20]


def concurrency_curves(
    demand: Demand, offers: Sequence[Offer], *, users: tuple[int, ...] = USERS, most_machines: int = 8
) -> tuple[CostCurve, ...]:
    """Cost against users at the same time: of each offer as many machines as hold so many with the margin at the slow end.

    Args:
        demand: of users, or with a limit that each of them needs.
        offers: with a price, few of them; each count of users is simulated.
        users: places on the axis.
        most_machines: that are tried; beyond, the line ends.
    """
    curves = []
    for offer in offers:
        price = offer.price
        if price is None:
            continue
        points = []
        for count in users:
            machines = machines_for_users(demand, offer, count, most_machines)
            if machines is None:
                break
            points.append((float(count), _monthly(price.amount, machines)))
        if points:
            curves.append(
                CostCurve(
                    name=offer.prospect.name,
                    points=tuple(points),
                    currency=price.currency,
                    x_label="users at the same time",
                )
            )
    return tuple(curves)


def _monthly(per_hour: float, machines: int) -> float:
    return per_hour * machines * HOURS_PER_MONTH


def machines_for_users(demand: Demand, offer: Offer, users: int, most_machines: int) -> int | None:
    """The fewest machines that hold so many users with the margin at the slow end; None: more than are tried, or no number."""
    crowd = replace(
        elsewhere(demand),
        concurrent_users=users,
        is_share=True,
        requests_per_second=None,
        rate_is_daily=False,
        window_s=None,
        interactive_share=None,
    )
    evidence = offer.prospect.evidence
    work = work_of(crowd, evidence)
    least = Pace.of(evidence).least(replace(work, kind=WorkKind.USERS, demanded=float(users)))
    if not math.isfinite(least):
        return None
    for count in range(int(least), most_machines + 1):
        if work.kind is WorkKind.STREAM or holds(crowd, evidence, count) is not None:
            return count
    return None

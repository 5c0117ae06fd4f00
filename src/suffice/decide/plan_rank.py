"""From options to a plan: budget, currencies, order, and where machines and APIs cost the same."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from suffice.decide.plan_cost import million_kept
from suffice.decide.plan_types import Crossover, OptionKind
from suffice.decide.verdict import Grade

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from suffice.decide.plan_types import PlanOption
    from suffice.model.cost import Volume
    from suffice.model.demand import Demand

_ORDER = (Grade.ENOUGH, Grade.THIN, Grade.OPEN, Grade.NOT_ENOUGH)
BUDGET = "budget"


def within_budget(option: PlanOption, demand: Demand) -> PlanOption:
    """The option under the demand's budget: one whose bill is over it is not enough; one whose bill cannot be compared is open."""
    budget, currency = demand.budget_per_month, demand.currency
    if budget is None or option.grade is Grade.NOT_ENOUGH:
        return option
    cost = option.cost
    if cost is None or cost.currency != currency:
        why = (
            f"{option.cost_unknown or 'it has no price'}"
            if cost is None
            else f"its bill is in {cost.currency}: state --rate {cost.currency}=..."
        )
        reason = f"Not settled: whether it is within the budget of {budget:,.2f} {currency} a month is not known, {why}. {option.reason}"
        return replace(option, grade=Grade.OPEN, reason=reason, binding=BUDGET, headroom=None)
    least = cost.amount if cost.low is None else cost.low
    most = cost.amount if cost.high is None else cost.high
    if most <= budget:
        return option
    over = f"{cost.amount:,.2f} {currency} a month against a budget of {budget:,.2f}"
    headroom = budget / cost.amount if cost.amount else None
    if least > budget:
        reason = f"Over the budget by {cost.amount - budget:,.2f} {currency}: {over}. {option.reason}"
        return replace(option, grade=Grade.NOT_ENOUGH, reason=reason, binding=BUDGET, headroom=headroom)
    reason = f"Not settled: {over}, and as little as {least:,.2f} {_least_if(option)}. {option.reason}"
    return replace(option, grade=Grade.OPEN, reason=reason, binding=BUDGET, headroom=headroom)


def _least_if(option: PlanOption) -> str:
    """When the bill is that of its low end: of the machine at hand energy is in doubt, of others the speed."""
    if option.kind is not OptionKind.HERE:
        return "if it is as fast as the high end says"
    if option.utilisation is None:
        return "if it hardly works: the share of time in which it does is not known"
    return "if it draws nothing when idle, which is not stated (--machine-idle-watts)"


def with_price_of_tokens(option: PlanOption, kept: float) -> PlanOption:
    """The option with what a million tokens costs that keep their limits."""
    return replace(option, cost_per_million=million_kept(option, kept))


def main_currency(demand: Demand, options: Iterable[PlanOption]) -> str:
    """The demand's, else that of most bills; USD where there is none."""
    if demand.currency is not None:
        return demand.currency
    counted = Counter(option.cost.currency for option in options if option.cost is not None)
    return max(sorted(counted), key=lambda currency: counted[currency], default="USD")


def ranked(options: Iterable[PlanOption], currency: str) -> tuple[PlanOption, ...]:
    """The best first: by grade; within it the bills of the main currency, then those of each other one, then options without a bill.

    Of those that are not enough, the ones that lack least come first: what a machine costs that does not do decides nothing.
    """

    def place(option: PlanOption) -> tuple[int, int, str, float, float, str]:
        cost = option.cost
        group = 2 if cost is None else int(cost.currency != currency)
        closeness = -(option.headroom or 0.0) if option.grade is Grade.NOT_ENOUGH else 0.0
        amount = math.inf if cost is None else cost.amount
        return _ORDER.index(option.grade), group, "" if cost is None else cost.currency, closeness, amount, option.name

    return tuple(sorted(options, key=place))


def references(options: Sequence[PlanOption], currency: str) -> tuple[PlanOption, ...]:
    """Of each kind that is no API the cheapest option that is enough and has a bill in this currency."""
    found: dict[OptionKind, PlanOption] = {}
    for one in options:
        billed = one.cost is not None and one.cost.currency == currency
        if one.is_enough and billed and one.kind is not OptionKind.API:
            found.setdefault(one.kind, one)
    return tuple(found.values())


def crossovers(options: Sequence[PlanOption], currency: str, volume: Volume | None) -> tuple[Crossover, ...]:
    """The volume from which on a machine costs less than an API, for each API and the cheapest machine of each kind that is enough.

    A machine costs the same at any volume that it carries, but for the energy of the time in which it works, where that is known; an API
    costs nothing where nobody asks. There is none where the volume that fills the machines is cheaper by the token, none beyond what a
    machine is shown to carry, and none against one that costs less at any volume.
    """
    pairs = [(machine, api) for machine in references(options, currency) for api in paid_apis(options, currency)]
    found = [_crossover(machine, api, volume) for machine, api in pairs]
    return tuple(one for one in found if one is not None)


def paid_apis(options: Iterable[PlanOption], currency: str) -> list[PlanOption]:
    """Those whose bill can be compared; not one that cannot serve the demand at all, at whatever volume."""
    return [
        one
        for one in options
        if one.kind is OptionKind.API
        and one.cost is not None
        and one.cost.currency == currency
        and (one.grade is not Grade.NOT_ENOUGH or one.binding == BUDGET)
    ]


def _crossover(machine: PlanOption, api: PlanOption, volume: Volume | None) -> Crossover | None:
    """Of one machine where it is known what one carries: for less work fewer are rented. Else all of them are shown to carry the demand."""
    times = _times_the_demand(machine, api)
    if volume is None or not 0 < times < math.inf:
        return None
    each = machine.tokens_per_machine
    carried = machine.tokens_per_month if each is None else each
    tokens = volume.output_tokens_per_month * times
    if carried is None or tokens > carried:
        return None
    return Crossover(
        cheaper_below=api.name,
        cheaper_above=machine.name if each is None else unit_name(machine),
        tokens_per_month=tokens,
        times_the_demand=times,
        up_to_tokens_per_month=carried,
    )


def _times_the_demand(machine: PlanOption, api: PlanOption) -> float:
    """The volume over the demand's at which both cost the same; 0: the machine costs no more at any, infinite: at none.

    The machine costs what does not depend on the volume, and the volume times what does; the API the volume times its bill.
    """
    if machine.cost is None or api.cost is None:
        return math.inf
    count = machine.count if machine.tokens_per_machine is None else 1
    fixed = (machine.cost.amount - machine.cost.per_volume) / machine.count * count
    saved = api.cost.amount - machine.cost.per_volume
    if saved > 0:
        return max(0.0, fixed) / saved
    return math.inf if fixed > 0 or saved < 0 else 0.0


def unit_name(option: PlanOption) -> str:
    """The name of one of an option's machines: ``aws/g5.xlarge`` of ``3 x aws/g5.xlarge``."""
    return option.name.removeprefix(f"{option.count} x ")


def never_cheaper(options: Sequence[PlanOption], found: Sequence[Crossover], currency: str) -> tuple[str, ...]:
    """Sentences on machines that are full before they cost less than an API, or of which nobody knows how much more they carry."""
    crossed = {(one.cheaper_above, one.cheaper_below) for one in found}
    return tuple(
        f"{api.name} costs less than {machine.name} at every volume that {_carries(machine)}"
        for machine in references(options, currency)
        if machine.tokens_per_month is not None
        for api in paid_apis(options, currency)
        if _times_the_demand(machine, api) > 0
        and not crossed & {(machine.name, api.name), (unit_name(machine), api.name)}
    )


def _carries(machine: PlanOption) -> str:
    if machine.tokens_per_machine is not None:
        return "the machine carries"
    return "it is shown to carry, which is the demand's; whether it carries more was not looked at"

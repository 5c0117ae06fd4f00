"""From a demand, a model and the catalogue to a plan: every way to serve it, judged by one rule and ranked by its bill."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from suffice.decide.constraints import check_context
from suffice.decide.plan_apis import ApiWish, api_options
from suffice.decide.plan_cost import HereCost, converted
from suffice.decide.plan_curves import concurrency_curves
from suffice.decide.plan_here import here_options
from suffice.decide.plan_load import kept_share, volume_of
from suffice.decide.plan_rank import (
    crossovers,
    main_currency,
    never_cheaper,
    ranked,
    with_price_of_tokens,
    within_budget,
)
from suffice.decide.plan_types import OptionKind, Plan
from suffice.decide.verdict import Grade
from suffice.loaders.plan_market import Market
from suffice.loaders.plan_prices import tagged_apis
from suffice.loaders.shape_model import ShapeModel
from suffice.model.demand import DemandKind
from suffice.units import GIGA

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date

    from suffice.catalogue.catalogue import Catalogue
    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.plan_curves import CostCurve
    from suffice.decide.plan_machines import Offer
    from suffice.decide.plan_types import PlanOption, PriceTag
    from suffice.loaders.model_file import ModelFile
    from suffice.model.demand import Demand

MOST_MACHINES: Final = 8
KEPT: Final = 50
PROVEN: Final = 3
EXACT: Final = 3
_SIZE: Final = re.compile(r"(?:^|[-_ /])(?P<billions>\d+(?:\.\d+)?)b(?![a-z0-9])")
_SIZE_RANGE: Final = (
    0.75,
    1.35,
)  # parameters over the size in the name: "8b" has 7.2 to 9.1 billion where it is honest


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What a plan is asked for.

    Attributes:
        demand: what is needed.
        model: that would answer.
        catalogue: machines to rent and API prices.
        today: for the marks of old prices, and the date of what the user states.
        here: machines at hand, by their records.
        here_cost: what they cost; None: sunk, in the demand's currency or USD.
        kv_type: of the cache.
        max_machines: of a kind that are tried.
        kinds: to be looked at; empty: all.
        providers: to be looked at; empty: all. Platforms of APIs are left out where any is named.
        regions: the same.
        rates: of currencies, by the code that is converted; see :func:`suffice.loaders.plan_prices.stated_rates`.
        apis: models of APIs that the user takes instead of the demand's.
        keep: machines that are kept.
        proven: of each kind and currency so many machines that are enough are looked for, the cheapest.
        exact: of how many machines of each kind that are enough the figures of their own are simulated: the cheapest.
        siblings: also those that cost more than another one of the same provider that is as fast.
        user_curves: also the bills against users at the same time, which are simulated for it.
    """

    demand: Demand
    model: ModelFile | ShapeModel
    catalogue: Catalogue
    today: date
    here: tuple[MachineEvidence, ...] = ()
    here_cost: HereCost | None = None
    kv_type: str = "f16"
    max_machines: int = MOST_MACHINES
    kinds: tuple[OptionKind, ...] = ()
    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    rates: Mapping[str, PriceTag] = field(default_factory=lambda: MappingProxyType({}))
    apis: tuple[str, ...] = ()
    keep: int = KEPT
    proven: int = PROVEN
    exact: int = EXACT
    siblings: bool = False
    user_curves: bool = False

    def wants(self, kind: OptionKind) -> bool:
        """Whether options of a kind are looked at."""
        return not self.kinds or kind in self.kinds


def make_plan(request: PlanRequest) -> Plan:
    """Every option that could serve the demand, the best first.

    Raises:
        DemandError: the model cannot hold the context that the demand needs.
    """
    demand, shape = request.demand, request.model.shape
    check_context(demand, shape.context_length, shape.name)
    market = Market.of(request)
    volume = volume_of(demand)
    found: list[PlanOption] = [*market.options(request), *market.hybrids(request)]
    if request.wants(OptionKind.HERE):
        found += here_options(demand, request.here, _here_cost(request), volume)
    if request.wants(OptionKind.API) and not request.providers:
        wish = ApiWish(names=names_of(request.model), others=request.apis)
        tagged = tagged_apis(request.catalogue.apis, request.today)
        found += [one for one in api_options(demand, tagged, wish, volume) if _in_regions(one, request.regions)]
    plan = _plan(request, market, found)
    return replace(plan, user_curves=plan_concurrency(request, plan, market=market)) if request.user_curves else plan


def _plan(request: PlanRequest, market: Market, found: Sequence[PlanOption]) -> Plan:
    demand = request.demand
    billed = [_billed(one, request) for one in found]
    currency = main_currency(demand, billed)
    own = _with_own_figures(ranked(billed, currency), market, request)
    kept = kept_share(demand)
    options = tuple(with_price_of_tokens(one, kept) for one in ranked(own, currency))
    crossed = crossovers(options, currency, volume_of(demand))
    notes = (*market.notes, *_notes(request, options), *never_cheaper(options, crossed, currency))
    return Plan(
        options=options,
        currency=currency,
        model=_model_name(request.model),
        crossovers=crossed,
        judged=market.judged + sum(one.kind not in (OptionKind.CPU, OptionKind.GPU) for one in found),
        notes=notes,
    )


def _with_own_figures(options: Iterable[PlanOption], market: Market, request: PlanRequest) -> list[PlanOption]:
    """The cheapest machines of each kind by figures of their own: one that is only just enough by those of another loses its place."""
    left = dict.fromkeys((OptionKind.CPU, OptionKind.GPU), request.exact)
    found = []
    for option in options:
        if option.is_enough and left.get(option.kind) and market.offer_of(option) is not None:
            left[option.kind] -= 1
            found.append(market.explained(_billed(market.with_own_figures(option), request), request))
        else:
            found.append(option)
    return found


def plan_concurrency(
    request: PlanRequest, plan: Plan, *, most: int = 4, market: Market | None = None
) -> tuple[CostCurve, ...]:
    """Cost against users at the same time: of the cheapest machine to rent that is enough with each CPU or accelerator, in the plan's currency.

    Nothing where the demand says nothing of what a single user needs: a queue that is worked off has none.
    """
    demand = request.demand
    if demand.concurrent_users is None and demand.tokens_per_second_per_user is None and demand.ttft is None:
        return ()
    market = market or Market.of(request)
    enough = [one for one in plan.options if one.is_enough]
    cheapest: dict[object, Offer] = {}
    for offer in filter(None, map(market.offer_of, enough)):
        machine = market.machines[offer.prospect.name]
        if offer.price is not None and offer.price.currency == plan.currency:
            cheapest.setdefault((offer.kind, machine.accelerator or machine.cpu_model or machine.key), offer)
    return concurrency_curves(demand, list(cheapest.values())[:most], most_machines=request.max_machines)


def _in_regions(option: PlanOption, regions: tuple[str, ...]) -> bool:
    return not regions or any(price.region in regions for price in option.prices)


def _billed(option: PlanOption, request: PlanRequest) -> PlanOption:
    """With its bill in the currency of a stated rate, and under the budget."""
    return within_budget(_converted(option, request.rates), request.demand)


def _converted(option: PlanOption, rates: Mapping[str, PriceTag]) -> PlanOption:
    """The option with its bill, and those of its members, in the currency of a stated rate."""
    if option.cost is None or option.cost.currency not in rates:
        return option
    rate = rates[option.cost.currency]
    note = f"converted at 1 {rate.unit} = {rate.amount:g} {rate.currency}, as stated on {rate.date}"
    members = tuple(_converted(one, rates) for one in option.members)
    return replace(option, cost=converted(option.cost, rates), members=members, notes=(*option.notes, note))


def _here_cost(request: PlanRequest) -> HereCost:
    if request.here_cost is not None:
        return request.here_cost
    return HereCost(date=request.today.isoformat(), currency=request.demand.currency or "USD")


def _model_name(model: ModelFile | ShapeModel) -> str:
    return model.reference if isinstance(model, ShapeModel) else model.parts[0].name


def names_of(model: ModelFile | ShapeModel) -> tuple[str, ...]:
    """What a model is called by its reference, its file and its header; names that tell another size than it has are left out."""
    names = [model.shape.name]
    if isinstance(model, ShapeModel):
        names.append(model.reference.rpartition(":")[0] or model.reference)
    names += [part.stem for part in model.parts[:1]]
    parameters = model.shape.parameters
    return tuple(dict.fromkeys(name for name in names if name and _is_honest(name, parameters)))


def _is_honest(name: str, parameters: int) -> bool:
    size = _SIZE.search(name.lower())
    if size is None:
        return True
    low, high = _SIZE_RANGE
    return low <= parameters / (float(size["billions"]) * GIGA) <= high


def _notes(request: PlanRequest, options: Sequence[PlanOption]) -> list[str]:
    notes = []
    users = request.demand.concurrent_users
    if users is not None and users > 1:
        notes.append(
            f"{users} concurrent users are {users} answers that are written at the same time, all day; people with an account are rarely "
            "all answered at once: requests_per_hour of the busiest hour says that better, and may need far less"
        )
    if request.demand.interactive_share is not None:
        notes.append(
            "machines of one kind are held to the limits in every request; a hybrid only in the share that waits"
        )
    if request.wants(OptionKind.API) and not any(one.kind is OptionKind.API for one in options):
        notes.append("no API of the catalogue is known to serve this model; --api NAME takes another one's instead")
    rented = (OptionKind.CPU, OptionKind.GPU)
    loaded = request.demand.requests_per_second is not None or request.demand.concurrent_users is not None
    if loaded and any(one.kind in rented and one.grade is Grade.OPEN and one.cost is not None for one in options):
        notes.append("an open option has the bill of the fewest machines that may do: more of them may be needed")
    return [*notes, *_volume_notes(request, options)]


def _volume_notes(request: PlanRequest, options: Sequence[PlanOption]) -> list[str]:
    """What is not known, or taken, of how many requests a month has."""
    demand = request.demand
    if demand.volume_per_day is not None:
        return []
    if demand.concurrent_users is not None:
        return [
            "users are no volume: without volume_per_day (or --requests-per-day) an API has no bill, and a million tokens no price"
        ]
    daily = demand.requests_per_day
    may_be_peak = demand.kind is DemandKind.INTERACTIVE and not demand.rate_is_daily
    if daily is None or not may_be_peak or not any(one.kind is OptionKind.API and one.cost for one in options):
        return []
    how = "volume_per_day (or --requests-per-day) beside it: an API costs by the request, a machine by the hour"
    return [f"the rate is billed all day, {daily:,.0f} requests; where it is that of the busiest hour, state {how}"]

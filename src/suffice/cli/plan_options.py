"""What `suffice plan` can be told, and the request that it becomes."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from suffice.errors import DemandError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from suffice.catalogue.catalogue import Catalogue
    from suffice.decide.plan_cost import HereCost
    from suffice.decide.plan_types import OptionKind
    from suffice.loaders.model_file import ModelFile
    from suffice.loaders.planning import PlanRequest
    from suffice.loaders.shape_model import ShapeModel
    from suffice.model.demand import Demand
    from suffice.records.schema import RunRecord

_CURRENCY = re.compile("[A-Z]{3}")
_KINDS = "here, cpu, gpu, api or hybrid"

Runs = Annotated[
    list[Path] | None,
    typer.Option("--run", metavar="RUN", help="Run record of a machine at hand. May be repeated."),
]
Kinds = Annotated[
    list[str] | None, typer.Option("--kind", help=f"Look at options of this kind only: {_KINDS}. May be repeated.")
]
Providers = Annotated[
    list[str] | None, typer.Option("--provider", help="Look at machines of this provider only: aws. May be repeated.")
]
Regions = Annotated[
    list[str] | None,
    typer.Option("--region", help="Look at prices of this region only, as the catalogue writes it. May be repeated."),
]
Apis = Annotated[
    list[str] | None,
    typer.Option(
        "--api", metavar="NAME", help="Also the API of another model: its answers are others. May be repeated."
    ),
]
MaxMachines = Annotated[
    int, typer.Option("--max-machines", min=1, max=64, help="Machines of a kind that are tried together.")
]
RequestsPerDay = Annotated[
    float | None,
    typer.Option(
        "--requests-per-day",
        help="The volume, where the demand states users or the rate of its busiest hour: what an API is paid by.",
    ),
]
Rates = Annotated[
    list[str] | None,
    typer.Option(
        "--rate",
        metavar="RATE",
        help="What a unit of one currency is in another: EUR=1.08USD counts bills in EUR as USD. May be repeated.",
    ),
]
MachinePrice = Annotated[
    float | None,
    typer.Option("--machine-price", help="What the machine at hand cost. Default: sunk, it counts nothing."),
]
MachineMonths = Annotated[
    float | None, typer.Option("--machine-months", help="Months in which that price is written off.")
]
MachineCurrency = Annotated[
    str | None,
    typer.Option("--machine-currency", help="Currency of --machine-price and --price-per-kwh. Default: the demand's."),
]
MachineWatts = Annotated[float | None, typer.Option("--machine-watts", help="What the machine at hand draws at work.")]
MachineIdleWatts = Annotated[float | None, typer.Option("--machine-idle-watts", help="What it draws otherwise.")]
PricePerKwh = Annotated[float | None, typer.Option("--price-per-kwh", help="What energy costs.")]
Top = Annotated[int, typer.Option("--top", min=1, max=500, help="Options that are shown.")]
Everything = Annotated[
    bool,
    typer.Option(
        "--all",
        help="All options in JSON and --out instead of 50; also machines that cost more than others that are as fast.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="FILE", help="Also write the plan to a file: JSON by its suffix .json, else Markdown."
    ),
]
Chart = Annotated[
    Path | None,
    typer.Option("--chart", metavar="FILE", help="Draw cost against volume (.svg), where the demand states one."),
]

ChartUsers = Annotated[
    Path | None,
    typer.Option(
        "--chart-users",
        metavar="FILE",
        help="Draw cost against users at the same time (.svg), where they need something.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class HereMoney:
    """What was said of the machine at hand; None: nothing."""

    price: float | None = None
    months: float | None = None
    currency: str | None = None
    watts: float | None = None
    idle_watts: float | None = None
    price_per_kwh: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What was said of the options to look at. ``keep`` None: our default."""

    kinds: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    apis: tuple[str, ...] = ()
    rates: tuple[str, ...] = ()
    max_machines: int = 8
    requests_per_day: float | None = None
    kv_type: str = "f16"
    keep: int | None = None


def _with_volume(demand: Demand, requests_per_day: float | None) -> Demand:
    """With the volume that was said on the command line, as if it stood in the file."""
    from suffice.loaders.demand import check_consistency

    volume = _positive(requests_per_day, "--requests-per-day")
    if volume is None:
        return demand
    if demand.volume_per_day is not None:
        raise UsageError("--requests-per-day: the demand states its volume_per_day already; give one of both")
    stated = replace(demand, volume_per_day=volume)
    try:
        check_consistency(stated)
    except DemandError as error:
        raise UsageError(f"--requests-per-day: {error}") from error
    return stated


def request_of(
    demand: Demand,
    model: ModelFile | ShapeModel,
    catalogue: Catalogue,
    records: Sequence[RunRecord],
    wish: Wish,
    money: HereMoney,
) -> PlanRequest:
    """The request of what was said.

    Raises:
        UsageError: an unknown kind, provider, region or API, a rate in another form, half of a machine's price.
    """
    from suffice.catalogue.instances import provider_named
    from suffice.decide.evidence import evidence_from, of_the_asked_model
    from suffice.loaders.model_file import describe_model
    from suffice.loaders.plan_prices import stated_rates
    from suffice.loaders.planning import KEPT, PROVEN, PlanRequest

    demand = _with_volume(demand, wish.requests_per_day)
    today = datetime.now(UTC).date()
    for name in wish.apis:
        catalogue.api_named(name)  # says what may have been meant
    asked = describe_model(model, type_k=wish.kv_type, type_v=wish.kv_type, with_hash=False)
    here = [
        of_the_asked_model(asked, record, evidence_from(record, record.machine or f"record {number}"))
        for number, record in enumerate(records, 1)
    ]
    return PlanRequest(
        demand=demand,
        model=model,
        catalogue=catalogue,
        today=today,
        here=tuple(here),
        here_cost=_here_cost(money, demand, today),
        kv_type=wish.kv_type,
        max_machines=wish.max_machines,
        kinds=tuple(_kind(text) for text in wish.kinds),
        providers=tuple(provider_named(name) for name in wish.providers),
        regions=_regions(wish.regions, catalogue),
        rates=stated_rates(wish.rates, today),
        apis=wish.apis,
        keep=wish.keep or KEPT,
        proven=wish.keep or PROVEN,
        siblings=wish.keep is not None,
    )


def _kind(text: str) -> OptionKind:
    from suffice.decide.plan_types import OptionKind

    named = {
        "here": OptionKind.HERE,
        "cpu": OptionKind.CPU,
        "gpu": OptionKind.GPU,
        "api": OptionKind.API,
        "hybrid": OptionKind.HYBRID,
    }
    if text.lower() not in named:
        raise UsageError(f"--kind {text}: choose {_KINDS}")
    return named[text.lower()]


def _regions(names: tuple[str, ...], catalogue: Catalogue) -> tuple[str, ...]:
    known = {one.price.region for one in catalogue.instances if one.price is not None}
    known |= {"worldwide", "mainland", "international"}
    for name in names:
        if name not in known:
            raise UsageError(
                f"--region {name}: no price of the catalogue is of there; it has {', '.join(sorted(known))}"
            )
    return names


def _here_cost(money: HereMoney, demand: Demand, today: date) -> HereCost:
    from suffice.decide.plan_cost import HereCost

    if (money.price is None) != (money.months is None):
        raise UsageError("--machine-price and --machine-months belong together: a price is written off in some months")
    if (money.watts is None) != (money.price_per_kwh is None):
        raise UsageError("--machine-watts and --price-per-kwh belong together: energy is power times its price")
    if money.idle_watts is not None and (money.watts is None or not 0 <= money.idle_watts <= money.watts):
        raise UsageError("--machine-idle-watts is between 0 and --machine-watts, and needs it")
    stated = any(value is not None for value in (money.price, money.price_per_kwh))
    currency = money.currency or demand.currency
    if stated and currency is None:
        raise UsageError("--machine-price and --price-per-kwh need a --machine-currency, such as EUR")
    if currency is not None and _CURRENCY.fullmatch(currency.upper()) is None:
        raise UsageError(f"--machine-currency {currency}: a currency has three letters, such as EUR")
    return HereCost(
        date=today.isoformat(),
        currency=(currency or "USD").upper(),
        price=_positive(money.price, "--machine-price"),
        months=_positive(money.months, "--machine-months"),
        watts=_positive(money.watts, "--machine-watts"),
        idle_watts=money.idle_watts,
        price_per_kwh=_positive(money.price_per_kwh, "--price-per-kwh"),
    )


def _positive(value: float | None, flag: str) -> float | None:
    from suffice.cli import options

    return None if value is None else options.positive(value, flag)

"""``suffice plan``: every way to serve a demand, judged by one rule and ranked by its bill."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from suffice.cli import options
from suffice.cli import plan_options as own
from suffice.errors import UsageError

if TYPE_CHECKING:
    from suffice.decide.plan_types import Plan
    from suffice.loaders.model_file import ModelFile
    from suffice.loaders.planning import PlanRequest
    from suffice.loaders.shape_model import ShapeModel
    from suffice.model.demand import Demand
    from suffice.model.training import TrainingDemand

_ALL = 100_000  # more machines than any catalogue has

_TOP = 12
_KV_TYPE = "f16"


def plan(
    demand_file: Annotated[Path, typer.Argument(metavar="DEMAND", help="A demand.toml.")],
    model: options.ModelOption = None,
    runs: own.Runs = None,
    kind: own.Kinds = None,
    provider: own.Providers = None,
    region: own.Regions = None,
    api: own.Apis = None,
    max_machines: own.MaxMachines = 8,
    requests_per_day: own.RequestsPerDay = None,
    rate: own.Rates = None,
    machine_price: own.MachinePrice = None,
    machine_months: own.MachineMonths = None,
    machine_currency: own.MachineCurrency = None,
    machine_watts: own.MachineWatts = None,
    machine_idle_watts: own.MachineIdleWatts = None,
    price_per_kwh: own.PricePerKwh = None,
    top: own.Top = _TOP,
    everything: own.Everything = False,
    kv_type: options.KvType = _KV_TYPE,
    catalog: options.OwnCatalogue = None,
    margin: options.Margin = None,
    out: own.Out = None,
    chart: own.Chart = None,
    chart_users: own.ChartUsers = None,
    json_output: options.Json = False,
) -> None:
    """What serving a demand costs a month: this machine, machines to rent, several of them, APIs and hybrids, the cheapest first.

    Each option is judged by the rule of `suffice check`; what is not at hand by the low end of what is predicted of it. Options that fail
    say by which constraint and by how much. Prices are list prices of the catalogue, with their dates.

    Exit code 0: an option is enough; 1: none is; 3: none is shown to be, and for some that is open.

    Example: suffice plan demand.toml --model llama-3.1-8b:q4_k_m

    Example: suffice plan demand.toml --run box.json --machine-price 3000 --machine-months 36 --machine-currency EUR --rate EUR=1.08USD
    """
    from dataclasses import replace

    from suffice.cli.output import print_json, print_text, warn
    from suffice.cli.plan_outputs import check_plan_outputs, exit_code, plan_json, write_charts, write_plan
    from suffice.cli.verdicts import with_margin
    from suffice.loaders.catalogue import load_catalogue
    from suffice.loaders.demand import load_any_demand
    from suffice.loaders.planning import make_plan
    from suffice.model.demand import Demand
    from suffice.records.store import load_record
    from suffice.report.plan import plan_text

    check_plan_outputs(out, {"--chart": chart, "--chart-users": chart_users}, [demand_file, *(runs or []), catalog])
    demand = load_any_demand(demand_file)
    loaded = load_catalogue(catalog)
    records = [load_record(path) for path in runs or []]
    resolved = _model(model, demand, demand_file)
    warn(loaded.warnings)
    if not isinstance(demand, Demand):
        from suffice.cli.plan_training import plan_training, refuse_serving_options

        given = {
            "--kind": kind, "--provider": provider, "--region": region, "--api": api, "--requests-per-day": requests_per_day,
            "--rate": rate, "--machine-price": machine_price, "--machine-months": machine_months,
            "--machine-currency": machine_currency, "--machine-watts": machine_watts,
            "--machine-idle-watts": machine_idle_watts, "--price-per-kwh": price_per_kwh, "--all": everything,
            "--top": None if top == _TOP else top, "--kv-type": None if kv_type == _KV_TYPE else kv_type, "--chart": chart,
            "--chart-users": chart_users,
        }  # fmt: skip
        refuse_serving_options(given)
        code = plan_training(
            demand,
            resolved,
            loaded.catalogue,
            records,
            json_output=json_output,
            out=out,
            max_machines=max_machines,
            margin=margin,
        )
        raise typer.Exit(code)
    demand = with_margin(demand, margin)
    money = own.HereMoney(
        price=machine_price,
        months=machine_months,
        currency=machine_currency,
        watts=machine_watts,
        idle_watts=machine_idle_watts,
        price_per_kwh=price_per_kwh,
    )
    wish = own.Wish(
        kinds=tuple(kind or ()),
        providers=tuple(provider or ()),
        regions=tuple(region or ()),
        apis=tuple(api or ()),
        rates=tuple(rate or ()),
        max_machines=max_machines,
        requests_per_day=requests_per_day,
        kv_type=kv_type,
        keep=_ALL if everything else None,
    )
    request = own.request_of(demand, resolved, loaded.catalogue, records, wish, money)
    found = _with_alternatives(make_plan(replace(request, user_curves=True)), request)
    if not found.options:
        why = "".join(f"; {note}" for note in found.notes)
        raise UsageError(f"nothing is left to look at: widen --kind, --provider or --region, or give a --run{why}")
    write_plan(out, found, request.demand, everything=everything, top=top)
    write_charts(chart, chart_users, found)
    if json_output:
        print_json(plan_json(found, request.demand, everything=everything))
    else:
        print_text(plan_text(found, top))
    raise typer.Exit(exit_code(found))


def _model(model: str | None, demand: Demand | TrainingDemand, demand_file: Path) -> ModelFile | ShapeModel:
    from suffice.loaders.reference import resolve_model

    if model is not None:
        return resolve_model(model)
    if demand.model is None:
        raise UsageError(
            "which model? Give --model llama-3.1-8b:q4_k_m or --model FILE.gguf, or state 'model' in the demand"
        )
    return resolve_model(demand.model, folder=None if Path(demand.model).is_absolute() else demand_file.parent)


def _with_alternatives(found: Plan, request: PlanRequest) -> Plan:
    """The plan with what else could be done, where machines were looked at and nothing but an API carries the model."""
    from dataclasses import replace

    from suffice.decide.plan_types import OptionKind
    from suffice.decide.verdict import Grade

    if any(one.kind is not OptionKind.API and one.grade is not Grade.NOT_ENOUGH for one in found.options):
        return found
    if not (request.wants(OptionKind.CPU) or request.wants(OptionKind.GPU)):
        return found
    from suffice.loaders.alternatives import alternatives_for
    from suffice.report.alternatives import alternatives_sentences

    others = alternatives_for(
        request.demand, request.model, request.catalogue, here=request.here, kv_type=request.kv_type
    )
    return replace(found, alternatives=alternatives_sentences(others), too_big=others)

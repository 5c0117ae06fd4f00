"""What report pages are made from: a whole input, with the documents of the other commands as they print them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from helpers.quants import comparison, paired_scores
from helpers.records import bare_record, batch_demand, run_record
from helpers.served import load, rate_demand, server
from suffice.decide.compare import decide
from suffice.decide.evidence import evidence_from
from suffice.decide.plan_types import CostPart, Crossover, MonthlyCost, OptionKind, Plan, PlanOption, PriceTag
from suffice.decide.quantity import Quantity
from suffice.decide.quants_conclusion import conclude
from suffice.decide.verdict import Grade
from suffice.model.basis import Basis
from suffice.model.demand import Demand, DemandKind, Lengths, Limit
from suffice.records.schema import BandwidthRecord, CeilingRecord, ModelRecord, RunRecord, TensorTypeShare
from suffice.report.json_values import json_text
from suffice.report.page.given import NamedRun, PageInput
from suffice.report.page.plan_view import PlanView
from suffice.report.page.simulation_view import SimulationView
from suffice.report.page.view_files import view_of
from suffice.report.plan_document import plan_document as printed_plan
from suffice.units import GIB, GIGA, SECONDS_PER_HOUR

if TYPE_CHECKING:
    from suffice.decide.served import ServedEvidence

MACHINE: Final = "Test CPU 8375C"
_SOURCE: Final = "https://prices.example/list?a=1&b=2"
_TOKENS: Final = 42_340_000.0


def price(amount: float, unit: str, **changes: Any) -> PriceTag:  # noqa: ANN401  # any field
    """A price with where it comes from."""
    fields = {"currency": "USD", "region": "us-east-1", "date": "2026-07-20", "source": _SOURCE}
    return PriceTag(amount=amount, unit=unit, **{**fields, **changes})


def option(kind: OptionKind, name: str, grade: Grade, *parts: CostPart, **changes: Any) -> PlanOption:  # noqa: ANN401  # any field
    """An option with its bill."""
    amount = sum(part.amount for part in parts)
    fields: dict[str, Any] = {
        "reason": f"a reason for {name}",
        "basis": Basis.PREDICTED,
        "cost": MonthlyCost(amount=amount, currency="USD", parts=parts) if parts else None,
        "cost_unknown": None if parts else "nobody stated it",
        "tokens_per_month": _TOKENS,
        "cost_per_million": Quantity(point=amount / 42.34, low=None, high=None, basis=Basis.PREDICTED)
        if parts
        else None,
        "utilisation": None if kind is OptionKind.API else 0.37,
    }
    return PlanOption(kind=kind, name=name, grade=grade, **{**fields, **changes})


def part(name: str, units: float, tag: PriceTag) -> CostPart:
    """A line of a bill."""
    return CostPart(name=name, amount=units * tag.amount, units=units, price=tag)


def a_plan() -> Plan:
    """Four options with one crossing."""
    tokens = {"region": "worldwide", "date": "2026-09"}
    million = (
        part("input", 100.0, price(0.27, "million input tokens", **tokens)),
        part("output", 17.5, price(1.1, "million output tokens", **tokens, is_old=True)),
    )
    return Plan(
        options=(
            option(OptionKind.HERE, "this machine", Grade.ENOUGH),
            option(OptionKind.CPU, "aws/c7i.4xlarge", Grade.ENOUGH, part("machine", 730.0, price(0.714, "hour"))),
            option(OptionKind.API, "an-api (host)", Grade.OPEN, *million),
            option(OptionKind.GPU, "aws/g6.xlarge", Grade.NOT_ENOUGH, part("machine", 730.0, price(0.8048, "hour"))),
        ),
        currency="USD",
        model="toy",
        judged=812,
        notes=("list prices on demand",),
        crossovers=(
            Crossover(
                cheaper_below="an-api (host)",
                cheaper_above="aws/c7i.4xlarge",
                tokens_per_month=_TOKENS * 11.2,
                times_the_demand=11.2,
            ),
        ),
    )


def plan_document(demand: Demand | None = None) -> dict[str, Any]:
    """The same as `suffice plan --json` prints it."""
    document: dict[str, Any] = json.loads(json_text(printed_plan(a_plan(), demand or with_latency())))
    return document


def simulation_document() -> dict[str, Any]:
    """What `suffice simulate --json` prints of one load, with two of its times."""

    def times(point: float | None) -> dict[str, Any]:
        ends = {"low": None if point is None else 0.9 * point, "high": None if point is None else 1.1 * point}
        return {"p95": point, "intervals": {"p50": {"point": 0.25, "supported": True}, "p95": {"point": point, **ends}}}

    return {
        "curve": "a curve, 8 cores",
        "basis": "measured",
        "load": {"arrivals": "poisson", "requests_per_second": 2.0, "requests": 2000},
        "ttft_s": times(1.875),
        "tpot_s": times(None),
        "outcome": "holds",
        "notes": ["a note of the simulation"],
    }


def plan(document: dict[str, Any] | None = None) -> PlanView:
    """The view of a plan."""
    return view_of(document or plan_document(), PlanView, source="plan.json", made_by="suffice plan")


def simulation() -> SimulationView:
    """The view of a simulation."""
    return view_of(simulation_document(), SimulationView, source="sim.json", made_by="suffice simulate")


def record(decode: float = 31.0, **changes: Any) -> RunRecord:  # noqa: ANN401  # any field
    """A run with all that a page can show: bandwidth, ceiling, parameters, a warning."""
    model = ModelRecord(
        name="Toy",
        file_name="c1.gguf",
        file_bytes=GIGA,
        sha256="hash of c1",
        parameters=2 * GIGA,
        streamed_bytes=float(GIGA),
        kv_bytes_per_token=100_000.0,
        context_length=32768,
        tensor_types={"q4_k": TensorTypeShare(elements=2 * GIGA, bytes=GIGA)},
    )
    bandwidth = BandwidthRecord(read_bytes_per_s=40.0 * GIGA, method="made up")
    fields: dict[str, Any] = {
        "machine": MACHINE,
        "model": model,
        "bandwidth_before": bandwidth,
        "bandwidth_after": bandwidth,
        "ceiling": CeilingRecord(decode_tokens_per_second=38.0, bandwidth_bytes_per_s=40.0 * GIGA),
        "created_at": "2026-11-30T10:00:00Z",
        "environment": {"usable_cpus": 16, "usable_physical_cores": 8, "isa": ["avx2"], "os": "Linux"},
        "warnings": ("a warning of the run",),
    }
    return run_record(decode=decode, **{**fields, **changes})


def one_stream(**changes: Any) -> Demand:  # noqa: ANN401  # any field
    """One reader who needs 8 tokens/s, with a margin of 1.5."""
    return replace(Demand(kind=DemandKind.INTERACTIVE, tokens_per_second_per_user=8.0), **changes)


def with_latency(**changes: Any) -> Demand:  # noqa: ANN401  # any field
    """A rate under limits, which is simulated."""
    fields: dict[str, Any] = {
        "prompt_tokens": Lengths(p50=100, p95=100),
        "output_tokens": Lengths(p50=20, p95=20),
        "requests_per_second": 0.05,
        "ttft": Limit(value_s=5.0, percentile=95),
        "tpot": Limit(value_s=0.2, percentile=95),
    }
    return Demand(kind=DemandKind.INTERACTIVE, **{**fields, **changes})


def given(demand: Demand, *records: RunRecord, servers: tuple[ServedEvidence, ...] = (), **more: Any) -> PageInput:  # noqa: ANN401  # any field
    """The input of a page on these records, decided as the commands do."""
    names = [one.machine or "machine" for one in records]
    evidences = [evidence_from(one, name) for one, name in zip(records, names, strict=True)]
    runs = tuple(
        NamedRun(file=f"run-{place}.json", record=one, evidence=evidence)
        for place, (one, evidence) in enumerate(zip(records, evidences, strict=True), 1)
    )
    fields: dict[str, Any] = {
        "demand": demand,
        "demand_file": "demand.toml",
        "decision": decide(demand, evidences, servers),
        "runs": runs,
        "commands": ("suffice decide demand.toml run-1.json",),
        "version": "0.1.0",
    }
    return PageInput(**{**fields, **more})


def whole(demand: Demand | None = None) -> PageInput:
    """Everything at once: run, loads, simulation, comparison and plan."""
    own = record()
    reference, _ = paired_scores(600, right=540, lost=0)
    compared = comparison(reference, *(paired_scores(600, right=540, lost=lost)[1] for lost in (0, 120)))
    speeds = {name: replace(own, model=replace(own.model, sha256=f"hash of {name}")) for name in ("ref", "c1", "c2")}
    return given(
        demand or with_latency(),
        own,
        loads=(load(2.0), load(4.0, failed=3), load(8.0, ttft_s=0.7)),
        quality=conclude(compared, None, speeds),
        quality_file="quants.json",
        simulation=simulation(),
        plan=plan(),
    )


def all_kinds() -> dict[str, PageInput]:
    """Inputs of all kinds of demands and grades."""
    long_job = batch_demand(kind=DemandKind.SCHEDULED, requests_per_second=0.001, window_s=2.0 * SECONDS_PER_HOUR)
    return {
        "one stream": given(one_stream(), record()),
        "thin": given(one_stream(), record(decode=10.0)),
        "too slow": given(one_stream(), record(decode=4.0)),
        "too small": given(one_stream(memory_bytes=GIB / 2), record()),
        "first word": given(with_latency(requests_per_second=None, tokens_per_second_per_user=8.0), record()),
        "plain number": given(one_stream(), bare_record(20)),
        "nothing": given(one_stream(), bare_record(None)),
        "queue": given(batch_demand(requests_per_second=0.01), record()),
        "job": given(long_job, record()),
        "rate": given(with_latency(), record()),
        "users": given(
            with_latency(requests_per_second=None, concurrent_users=2, tpot=Limit(value_s=1, percentile=95)), record()
        ),
        "server": given(rate_demand(), servers=(server(load(4.0), load(6.0), load(8.0, ttft_s=3.0)),)),
        "servers": given(rate_demand(), servers=(server(load(4.0), is_gpu=None), server(load(9.0), is_gpu=True))),
    }

"""Plans over a few machines: fast to make, and with what a test is about changed by name."""

from __future__ import annotations

from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Any

from suffice.catalogue.catalogue import Catalogue, shipped
from suffice.loaders.planning import PlanRequest, make_plan
from suffice.loaders.reference import resolve_model
from suffice.model.demand import Demand, DemandKind, Lengths, Limit
from suffice.units import HOURS_PER_DAY, SECONDS_PER_DAY, SECONDS_PER_HOUR

if TYPE_CHECKING:
    from suffice.decide.plan_types import Plan

TODAY = date(2026, 11, 30)
NAMES = (
    "aws/c7i.4xlarge",
    "aws/c7i.8xlarge",
    "aws/g5.xlarge",
    "aws/g6.xlarge",
    "gcp/g2-standard-4",
    "alicloud/ecs.t5-c1m2.2xlarge",
)
PROMPT, OUTPUT = Lengths(p50=400, p95=1500), Lengths(p50=120, p95=300)
CHAT = Demand(
    kind=DemandKind.INTERACTIVE,
    requests_per_second=60 / SECONDS_PER_HOUR,
    prompt_tokens=PROMPT,
    output_tokens=OUTPUT,
    tokens_per_second_per_user=5.0,
    ttft=Limit(value_s=5.0, percentile=95.0),
)
JOB = Demand(
    kind=DemandKind.SCHEDULED,
    requests_per_second=1000 / SECONDS_PER_DAY,
    window_s=SECONDS_PER_DAY * 8 / HOURS_PER_DAY,
    prompt_tokens=PROMPT,
    output_tokens=OUTPUT,
)
STREAM = Demand(kind=DemandKind.INTERACTIVE, tokens_per_second_per_user=5.0)


@cache
def few_machines(*names: str) -> Catalogue:
    """The shipped catalogue with a few of its machines."""
    whole = shipped()
    chosen = tuple(one for one in whole.instances if one.key in (names or NAMES))
    return Catalogue(devices=whole.devices, instances=chosen, apis=whole.apis)


def request(demand: Demand, model: str = "qwen3-8b:q4_k_m", **changes: Any) -> PlanRequest:  # noqa: ANN401  # any field
    """What a plan is asked for, over a few machines."""
    given = {"catalogue": few_machines(), "today": TODAY, "exact": 0, **changes}
    return PlanRequest(demand=demand, model=resolve_model(model), **given)


@cache
def chat_plan() -> Plan:
    """Of the chat."""
    return make_plan(request(CHAT))


@cache
def job_plan() -> Plan:
    """Of the job."""
    return make_plan(request(JOB))

"""Machines to rent with round speeds and prices, and a demand of which a share waits, for tests of hybrids."""

# ruff: noqa: ANN401  # builders take any field of what they build

from __future__ import annotations

from dataclasses import replace
from typing import Any

from helpers.records import run_record
from suffice.catalogue.entries import Price
from suffice.decide.plan_load import alone
from suffice.decide.prospects import Prospect, Speeds, Standing, predicted_evidence
from suffice.decide.quantity import Quantity
from suffice.decide.verdict import decide_machine
from suffice.model.basis import Basis
from suffice.model.demand import Demand, DemandKind, Lengths, Limit
from suffice.units import GIB

MODEL = replace(
    run_record().model,
    file_bytes=4 * GIB,
    streamed_bytes=4 * GIB,
    kv_bytes_per_token=1000.0,
    kv_layers=(),
    kv_state_bytes=0.0,
)


def mixed_demand(**changes: Any) -> Demand:
    """Prompts of 100 and answers of 50 tokens, one in ten seconds; a fifth of them waits for 2 s and 10 tokens/s. No margin."""
    demand = Demand(
        kind=DemandKind.INTERACTIVE,
        prompt_tokens=Lengths(p50=100, p95=100),
        output_tokens=Lengths(p50=50, p95=50),
        requests_per_second=0.1,
        interactive_share=0.2,
        ttft=Limit(value_s=2.0, percentile=95.0),
        tokens_per_second_per_user=10.0,
        margin=1.0,
    )
    return replace(demand, **changes)


def machine(
    name: str,
    decode: float,
    prefill: float,
    per_hour: float | None,
    *,
    is_gpu: bool = True,
    spread: float = 0.1,
    currency: str = "USD",
    memory: float | None = 24 * GIB,
) -> Standing:
    """One that decodes and reads prompts so fast, within ``spread`` of it."""

    def rate(point: float) -> Quantity:
        return Quantity(point=point, low=point * (1 - spread), high=point * (1 + spread), basis=Basis.PREDICTED)

    speeds = Speeds(depth=150.0, decode=rate(decode), prefill=rate(prefill))
    evidence = predicted_evidence(name, MODEL, speeds, is_gpu=is_gpu, memory_bytes=memory)
    price = None
    if per_hour is not None:
        price = Price(per_hour=per_hour, currency=currency, region="here", date="2026-09-01", source="a list")
    return Standing(
        prospect=Prospect(evidence=evidence, price=price), verdict=decide_machine(alone(mixed_demand()), evidence)
    )


def gpu(name: str = "gpu", per_hour: float | None = 1.0, **more: Any) -> Standing:
    """100 tokens/s alone, 4,000 of a prompt."""
    return machine(name, 100.0, 4000.0, per_hour, **more)


def cpu(name: str = "cpu", per_hour: float | None = 0.1, **more: Any) -> Standing:
    """10 tokens/s alone, 40 of a prompt."""
    return machine(name, 10.0, 40.0, per_hour, is_gpu=False, **more)

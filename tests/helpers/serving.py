"""Hand-made service curves, and demands whose answers can be worked out by hand."""

# ruff: noqa: ANN401  # builders take any field of what they build

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from helpers.records import evidence
from suffice.decide.service import outlook
from suffice.model.demand import Demand, DemandKind, Lengths, Limit
from suffice.serving.curve import curve_of_points
from suffice.serving.surface import Point

if TYPE_CHECKING:
    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.service import Served
    from suffice.serving.curve import ServiceCurve

SIZES = (1, 2, 4, 8, 16)


def flat_curve(*, step_s: float = 0.05, more_s: float = 0.0, token_s: float = 0.001) -> ServiceCurve:
    """A step takes ``step_s`` and ``more_s`` for each further sequence, a prompt ``token_s`` a token; depth costs nothing."""
    return curve_of_points(
        [Point(size=size, depth=depth, seconds=step_s + more_s * (size - 1)) for size in SIZES for depth in (0, 4096)],
        [Point(size=size, depth=depth, seconds=size * token_s) for size in (100, 500) for depth in (0, 4096)],
    )


def with_curve(curve: ServiceCurve, uncertainty: float | None = 0.0, **changes: Any) -> MachineEvidence:
    """A machine whose service curve was measured."""
    return replace(evidence(**changes), service=curve, service_uncertainty=uncertainty)


def chat(**changes: Any) -> Demand:
    """Prompts of 100 and answers of 21 tokens, a token every 101 ms for each user, the first after two seconds."""
    demand = Demand(
        kind=DemandKind.INTERACTIVE,
        prompt_tokens=Lengths(p50=100, p95=100),
        output_tokens=Lengths(p50=21, p95=21),
        tokens_per_second_per_user=9.9,
        ttft=Limit(value_s=2, percentile=95),
    )
    return replace(demand, **changes)


def served_of(demand: Demand, machine: MachineEvidence) -> Served:
    """How the machine stands under the demand's users or rate."""
    found = outlook(demand, machine)
    assert found is not None
    assert found.served is not None
    return found.served

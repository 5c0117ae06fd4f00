"""The machine at hand as an option: judged by its record, paid for already or written off, with its energy."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from suffice.decide.plan_cost import here_cost
from suffice.decide.plan_load import asks_too_often
from suffice.decide.plan_types import OptionKind, PlanOption
from suffice.decide.verdict import decide_machine
from suffice.model.cost import HOURS_PER_MONTH
from suffice.units import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.plan_cost import HereCost
    from suffice.decide.verdict import Verdict
    from suffice.model.cost import Volume
    from suffice.model.demand import Demand


def here_options(
    demand: Demand, machines: Sequence[MachineEvidence], stated: HereCost, volume: Volume | None
) -> tuple[PlanOption, ...]:
    """Each machine of which there is a record.

    Args:
        demand: what is needed.
        machines: their evidence; of several engines side by side, of one.
        stated: what the user says of their cost; the same for each.
        volume: a month's work; None: none is stated.

    Raises:
        DemandError: the model cannot hold the context that the demand needs.
    """
    return tuple(_option(demand, machine, stated, volume, alone=len(machines) == 1) for machine in machines)


def _option(
    demand: Demand, machine: MachineEvidence, stated: HereCost, volume: Volume | None, *, alone: bool
) -> PlanOption:
    verdict = decide_machine(replace(demand, budget_per_month=None), machine)  # the plan judges its bill
    binding = next((c.constraint for c in verdict.constraints if c.constraint.name == verdict.binding), None)
    too_often = asks_too_often(demand, volume, _request_s(demand, machine, verdict))
    utilisation = None if too_often else _utilisation(demand, machine, verdict, volume)
    return PlanOption(
        kind=OptionKind.HERE,
        name=OptionKind.HERE.value if alone else f"{OptionKind.HERE.value}: {machine.name}",
        grade=verdict.grade,
        reason=verdict.reason,
        binding=verdict.binding,
        headroom=None if binding is None else binding.headroom,
        basis=verdict.basis,
        cost=here_cost(stated, utilisation),
        tokens_per_month=None if volume is None or too_often else volume.output_tokens_per_month,
        utilisation=utilisation,
        verdict=verdict,
        notes=(*_notes(machine, stated, utilisation, verdict), *([] if too_often is None else [too_often])),
    )


def _utilisation(demand: Demand, machine: MachineEvidence, verdict: Verdict, volume: Volume | None) -> float | None:
    """Of all 730 hours: it stands there whether a window is open or not."""
    if volume is None:
        return None
    request_s = _request_s(demand, machine, verdict)
    if request_s is None or not math.isfinite(request_s):
        return None
    return min(1.0, volume.requests / machine.engines * request_s / SECONDS_PER_HOUR / HOURS_PER_MONTH)


def _request_s(demand: Demand, machine: MachineEvidence, verdict: Verdict) -> float | None:
    """Seconds of one of its engines that a request takes: in a queue that is never empty where that was simulated, else served alone."""
    drained = None if verdict.service is None else verdict.service.drained
    rate = None if drained is None else drained.requests_per_second
    if rate is not None and rate.point > 0:
        return 1 / rate.point
    if demand.prompt_tokens is None or demand.output_tokens is None:
        return None
    served = machine.service_seconds(demand.prompt_tokens.mean, demand.output_tokens.mean)
    return None if served is None else served.point


def _notes(machine: MachineEvidence, stated: HereCost, utilisation: float | None, verdict: Verdict) -> tuple[str, ...]:
    notes = [f"its record is of {machine.model_name} on {machine.name}"] if machine.model_name else []
    if stated.price is None:
        notes.append(
            "sunk: it is paid for already, so that its price decides nothing; --machine-price and --machine-months write it off"
        )
    if stated.watts is None or stated.price_per_kwh is None:
        notes.append("its energy is not counted: --machine-watts and --price-per-kwh are not stated")
    elif utilisation is None:
        notes.append("the share of time in which it works is not known: energy is counted at full power for all hours")
    elif stated.idle_watts is None:
        notes.append(
            "what it draws when idle is not stated (--machine-idle-watts): energy is counted at full power for all hours"
        )
    if machine.engines > 1:
        notes.append(
            f"it runs {machine.engines} engines side by side; one of them is judged, under its part of the load"
        )
    notes += [flip for flip in verdict.flips if flip.startswith("with more machines")]
    return tuple(notes)

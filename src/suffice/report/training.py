"""A plan of a training: a table, Markdown, and the same as JSON-able data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from suffice.decide.training_types import TrainingPlace
from suffice.decide.wording import available_text, headroom_text, required_text
from suffice.report.tables import markdown_table, markdown_text, one_line, plain_table
from suffice.units import SECONDS_PER_HOUR, SECONDS_PER_MINUTE, format_memory

if TYPE_CHECKING:
    from suffice.decide.quantity import Quantity
    from suffice.decide.training_types import TrainingCost, TrainingOption, TrainingPlan
    from suffice.decide.verdict import GradedConstraint
    from suffice.model.training import TrainingDemand

_COLUMNS: Final = [
    "option",
    "verdict",
    "time",
    "range",
    "cost",
    "range of the cost",
    "memory of each",
    "price of",
    "region",
]
_RESTS_ON: Final = (
    "Times are predicted: operations over the rated speed at the utilisations that others published (docs/training.md). "
    "20 steps on one machine of a kind settle what is open: time them after the first 5, and multiply."
)
_SHOWN: Final = 20
_EXPLAINED: Final = 3


def training_text(plan: TrainingPlan, demand: TrainingDemand, shown: int = _SHOWN) -> str:
    """For a terminal: what is trained, the best options, and why they stand as they do."""
    best = _shown(plan, shown)
    sources = _sources(best)
    rows = [_row(option, sources) for option in best]
    lines = [*_head(plan, demand), "", plain_table([_COLUMNS, *rows]), "", _rest(plan, len(best))]
    for option in _explained(best):
        lines += ["", one_line(f"{option.name}: {option.reason}"), *(f"  {one_line(note)}" for note in option.notes)]
    lines += ["", *plan.notes, *_how(plan), *map(one_line, _source_lines(sources))]
    return "\n".join(lines)


def training_markdown(plan: TrainingPlan, demand: TrainingDemand, shown: int = _SHOWN) -> str:
    """For a file."""
    best = _shown(plan, shown)
    sources = _sources(best)
    parts = [
        "# Plan: training",
        *map(markdown_text, _head(plan, demand)),
        markdown_table([_COLUMNS, *(_row(option, sources) for option in best)]),
        markdown_text(_rest(plan, len(best))),
    ]
    parts += [
        f"**{markdown_text(option.name)}**: {markdown_text(' '.join((option.reason, *option.notes)))}"
        for option in _explained(best)
    ]
    return "\n\n".join([*parts, *map(markdown_text, (*plan.notes, *_how(plan), *_source_lines(sources)))]) + "\n"


def _shown(plan: TrainingPlan, shown: int) -> list[TrainingOption]:
    """The best options, and behind them the machines at hand wherever they stand."""
    best = list(plan.options[:shown])
    return best + [option for option in plan.options[shown:] if option.place is TrainingPlace.HERE]


def _explained(options: list[TrainingOption]) -> list[TrainingOption]:
    return options[:_EXPLAINED] + [option for option in options[_EXPLAINED:] if option.place is TrainingPlace.HERE]


def _head(plan: TrainingPlan, demand: TrainingDemand) -> list[str]:
    share = f"{plan.trained_parameters / plan.parameters:.2%}".replace("%", " %")
    trained = f", {plan.trained_parameters:,} trained ({share})" if demand.method.has_adapters else ""
    what = (
        f"{demand.kind.value} of {plan.model} ({plan.parameters:,} parameters{trained}), method {demand.method.value}"
    )
    work = f"{demand.tokens:,.0f} tokens in sequences of {demand.sequence_tokens:,}, {plan.flop:.3g} FLOP"
    return [one_line(f"{what}: {work}."), _asked(demand)]


def _asked(demand: TrainingDemand) -> str:
    asked = [
        f"optimizer {demand.optimizer.value}, precision {demand.precision.value}, margin {demand.margin:g} on time"
    ]
    if demand.window_s is not None:
        asked.append(f"within {_time(demand.window_s)}")
    if demand.budget_of_one is not None:
        asked.append(f"for at most {demand.budget_of_one:,.2f} {demand.currency}")
    return "Asked for: " + ", ".join(asked) + "."


def _rest(plan: TrainingPlan, shown: int) -> str:
    left = len(plan.options) - shown
    more = f", {left} more in --json" if left > 0 else ""
    return f"{plan.judged} options judged{more}."


def _how(plan: TrainingPlan) -> list[str]:
    used = any(option.cost is not None for option in plan.options)
    told = [_RESTS_ON]
    if used:
        told.append(
            "List prices on demand for the hours of the training alone; storage, failures and what is tried before are not in them."
        )
    return told


def _sources(options: list[TrainingOption]) -> dict[str, int]:
    """Source of a price -> its number in the table."""
    found = dict.fromkeys(option.cost.price.source for option in options if option.cost is not None)
    return {source: number for number, source in enumerate(found, start=1)}


def _source_lines(sources: dict[str, int]) -> list[str]:
    return [f"[{number}] {source}" for source, number in sources.items()]


def _row(option: TrainingOption, sources: dict[str, int]) -> list[str]:
    cost, memory = option.cost, option.memory
    return [
        option.name,
        option.grade.value,
        "unknown" if option.time_s is None else _time_cell(option.time_s),
        _time_range(option.time_s),
        "no price" if cost is None else _cost_cell(cost),
        "" if cost is None else _cost_range(cost),
        f"{format_memory(memory.low)} to {format_memory(memory.high)} of {_usable(option)}",
        "" if cost is None else f"{cost.price.date} [{sources[cost.price.source]}]",
        "" if cost is None else cost.price.region,
    ]


def _usable(option: TrainingOption) -> str:
    return "unknown" if option.memory_usable_bytes is None else format_memory(option.memory_usable_bytes)


def _time(seconds: float) -> str:
    """Seconds, minutes or hours, whichever a person would say."""
    if seconds < SECONDS_PER_MINUTE:
        return f"{seconds:.3g} s"
    if seconds < SECONDS_PER_HOUR:
        return f"{seconds / SECONDS_PER_MINUTE:.3g} min"
    hours = seconds / SECONDS_PER_HOUR
    return f"{hours:,.0f} h" if hours >= 100 else f"{hours:.3g} h"  # noqa: PLR2004  # from there on no decimals


def _time_cell(time_s: Quantity) -> str:
    """The estimate; where nobody knows how long it takes at most, the least: what lies between is no estimate then."""
    if time_s.high is None and time_s.low is not None:
        return f"at least {_time(time_s.low)}"
    return _time(time_s.point)


def _cost_cell(cost: TrainingCost) -> str:
    """As the time of which it is made."""
    return f"at least {cost.low:,.2f} {cost.currency}" if cost.high is None else f"{cost.amount:,.2f} {cost.currency}"


def _time_range(time_s: Quantity | None) -> str:
    if time_s is None or time_s.low is None:
        return ""
    end = "no end known" if time_s.high is None else _time(time_s.high)
    return f"{_time(time_s.low)} to {end}"


def _cost_range(cost: TrainingCost) -> str:
    return f"{cost.low:,.2f} to {'no end known' if cost.high is None else f'{cost.high:,.2f}'}"


def training_document(plan: TrainingPlan, demand: TrainingDemand) -> dict[str, Any]:
    """All options with their numbers, in the names of ``plan --json``."""
    return {
        "options": [_document(option, demand) for option in plan.options],
        "model": plan.model,
        "currency": plan.currency,
        "judged": plan.judged,
        "verdict": plan.grade.value,
        "flop": plan.flop,
        "parameters": plan.parameters,
        "trained_parameters": plan.trained_parameters,
        "notes": list(plan.notes),
        "demand": _demand_document(demand),
    }


def _document(option: TrainingOption, demand: TrainingDemand) -> dict[str, Any]:
    cost, time_s = option.cost, option.time_s
    return {
        "kind": option.place.value,
        "name": option.name,
        "count": option.count,
        "devices": option.devices,
        "device": option.device,
        "verdict": option.grade.value,
        "reason": option.reason,
        "binding": option.binding,
        "headroom": option.headroom,
        "basis": None if option.basis is None else option.basis.value,
        "hours": None if time_s is None else time_s.point / SECONDS_PER_HOUR,
        "hours_low": None if time_s is None or time_s.low is None else time_s.low / SECONDS_PER_HOUR,
        "hours_high": None if time_s is None or time_s.high is None else time_s.high / SECONDS_PER_HOUR,
        "cost": None if cost is None else cost.amount,
        "cost_low": None if cost is None else cost.low,
        "cost_high": None if cost is None else cost.high,
        "cost_unknown": "no price is known" if cost is None else None,
        "monthly_cost": None if cost is None or demand.runs_per_month is None else cost.amount * demand.runs_per_month,
        "currency": None if cost is None else cost.currency,
        "price_date": None if cost is None else cost.price.date,
        "prices": _prices(cost),
        "cost_parts": _parts(option),
        "memory_low_bytes": option.memory.low,
        "memory_high_bytes": option.memory.high,
        "memory_usable_bytes": option.memory_usable_bytes,
        "gradient_checkpointing": option.checkpointing,
        "constraints": [_constraint(item) for item in option.constraints],
        "notes": list(option.notes),
    }


def _prices(cost: TrainingCost | None) -> list[dict[str, Any]]:
    if cost is None:
        return []
    price = cost.price
    return [
        {
            "amount": price.per_hour,
            "unit": "hour",
            "currency": price.currency,
            "region": price.region,
            "date": price.date,
            "source": price.source,
        }
    ]


def _parts(option: TrainingOption) -> list[dict[str, Any]]:
    cost = option.cost
    if cost is None:
        return []
    return [{"name": option.name, "amount": cost.amount, "units": cost.hours_of_machines, "unit": "hour"}]


def _constraint(item: GradedConstraint) -> dict[str, Any]:
    constraint = item.constraint
    available = constraint.available
    return {
        "name": constraint.name,
        "unit": constraint.unit,
        "required": constraint.required,
        "available": None if available is None else available.point,
        "low": None if available is None else available.low,
        "high": None if available is None else available.high,
        "headroom": constraint.headroom,
        "grade": item.grade.value if constraint.judged else "not judged",
        "text": f"{available_text(constraint)} against {required_text(constraint)}, headroom {headroom_text(constraint.headroom)}",
    }


def _demand_document(demand: TrainingDemand) -> dict[str, Any]:
    return {
        "kind": demand.kind.value,
        "method": demand.method.value,
        "tokens": demand.tokens,
        "sequence_tokens": demand.sequence_tokens,
        "batch_tokens": demand.batch_tokens,
        "lora_rank": demand.lora_rank,
        "optimizer": demand.optimizer.value,
        "precision": demand.precision.value,
        "gradient_checkpointing": demand.gradient_checkpointing,
        "window_hours": None if demand.window_s is None else demand.window_s / SECONDS_PER_HOUR,
        "margin": demand.margin,
        "budget": demand.budget_of_one,
        "currency": demand.currency,
    }

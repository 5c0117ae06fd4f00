"""A plan as data for JSON, with every figure, price and source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suffice.decide.plan_curves import volume_curves
from suffice.report.alternatives import alternatives_document

if TYPE_CHECKING:
    from suffice.decide.plan_curves import CostCurve
    from suffice.decide.plan_types import CostPart, Crossover, Plan, PlanOption, PriceTag
    from suffice.decide.quantity import Quantity
    from suffice.model.demand import Demand, Lengths, Limit
    from suffice.model.vision import ImageLoad


def plan_document(plan: Plan, demand: Demand, options: tuple[PlanOption, ...] | None = None) -> dict[str, Any]:
    """The whole plan; ``options``: those that are kept, None: all of them."""
    return {
        "model": plan.model,
        "currency": plan.currency,
        "judged": plan.judged,
        "options": [option_document(option) for option in (plan.options if options is None else options)],
        "crossovers": [_crossover(one) for one in plan.crossovers],
        "curves": [_curve(curve) for curve in (*volume_curves(plan), *plan.user_curves)],
        "alternatives": list(plan.alternatives),
        "too_big": None if plan.too_big is None else alternatives_document(plan.too_big),
        "notes": list(plan.notes),
        "demand": _demand(demand),
    }


def option_document(option: PlanOption) -> dict[str, Any]:
    """One option. ``verdict`` is how it stands: "enough", "thin", "not enough" or "open"."""
    cost = option.cost
    return {
        "kind": option.kind.value,
        "name": option.name,
        "count": option.count,
        "verdict": option.grade.value,
        "verdict_words": None if option.verdict is None else option.verdict.verdict,
        "reason": option.reason,
        "binding": option.binding,
        "headroom": option.headroom,
        "basis": None if option.basis is None else option.basis.value,
        "monthly_cost": None if cost is None else cost.amount,
        "monthly_cost_low": None if cost is None else cost.low,
        "monthly_cost_high": None if cost is None else cost.high,
        "currency": None if cost is None else cost.currency,
        "price_date": _price_date(option),
        "prices": [price_document(price) for price in _prices(option)],
        "cost_parts": [] if cost is None else [_part(part, cost.currency) for part in cost.parts],
        "cost_unknown": option.cost_unknown,
        "cost_per_million_tokens": None if option.cost_per_million is None else _quantity(option.cost_per_million),
        "tokens_per_month": option.tokens_per_month,
        "tokens_per_month_per_machine": option.tokens_per_machine,
        "utilisation": option.utilisation,
        "members": [option_document(member) for member in option.members],
        "notes": list(option.notes),
    }


def price_document(price: PriceTag) -> dict[str, Any]:
    """A price with all that it needs to be trusted."""
    return {
        "amount": price.amount,
        "unit": price.unit,
        "currency": price.currency,
        "region": price.region,
        "date": price.date,
        "source": price.source,
        "is_old": price.is_old,
    }


def _prices(option: PlanOption) -> list[PriceTag]:
    parts = () if option.cost is None else option.cost.parts
    return list(dict.fromkeys([*(part.price for part in parts), *option.prices]))


def _price_date(option: PlanOption) -> str | None:
    return min((price.date for price in _prices(option)), default=None)


def _part(part: CostPart, currency: str) -> dict[str, Any]:
    return {
        "name": part.name,
        "amount": part.amount,
        "currency": currency,
        "units": part.units,
        "price": price_document(part.price),
        "conversion": None if part.conversion is None else price_document(part.conversion),
    }


def _quantity(quantity: Quantity) -> dict[str, Any]:
    return {
        "point": quantity.point,
        "low": quantity.low,
        "high": quantity.high,
        "basis": quantity.basis.value,
    }


def _curve(curve: CostCurve) -> dict[str, Any]:
    return {
        "name": curve.name,
        "x": curve.x_label,
        "currency": curve.currency,
        "points": [list(point) for point in curve.points],
    }


def _crossover(one: Crossover) -> dict[str, Any]:
    return {
        "cheaper_below": one.cheaper_below,
        "cheaper_above": one.cheaper_above,
        "tokens_per_month": one.tokens_per_month,
        "times_the_demand": one.times_the_demand,
        "up_to_tokens_per_month": one.up_to_tokens_per_month,
    }


def _lengths(lengths: Lengths | None) -> dict[str, float] | None:
    return None if lengths is None else {"p50": lengths.p50, "p95": lengths.p95, "mean": lengths.mean}


def _limit(limit: Limit | None) -> dict[str, float] | None:
    return None if limit is None else {"seconds": limit.value_s, "percentile": limit.percentile}


def images_stated(images: ImageLoad | None) -> dict[str, float] | None:
    """The images of each request, as the document of a plan holds them."""
    return None if images is None else {"per_request": images.per_request, "tokens_each": images.tokens_each}


def _demand(demand: Demand) -> dict[str, Any]:
    """As it was judged, in SI units; None: not stated."""
    return {
        "kind": demand.kind.value,
        "prompt_tokens": _lengths(demand.prompt_tokens),
        "output_tokens": _lengths(demand.output_tokens),
        "requests_per_second": demand.requests_per_second,
        "volume_per_day": demand.volume_per_day,
        "concurrent_users": demand.concurrent_users,
        "interactive_share": demand.interactive_share,
        "tokens_per_second_per_user": demand.tokens_per_second_per_user,
        "ttft": _limit(demand.ttft),
        "tpot": _limit(demand.tpot),
        "window_s": demand.window_s,
        "context_tokens": demand.context_tokens,
        "images": images_stated(demand.images),
        "margin": demand.margin,
        "budget_per_month": demand.budget_per_month,
        "currency": demand.currency,
    }

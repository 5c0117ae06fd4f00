"""Whether a plan belongs to the page: made for its demand, and of its model. Costs of something else beside a verdict mislead."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from suffice.report.page.model import Role, Sentence
from suffice.report.plan_document import images_stated
from suffice.report.tables import one_line

if TYPE_CHECKING:
    from suffice.model.demand import Demand, Lengths, Limit
    from suffice.report.page.given import PageInput
    from suffice.report.page.model import Block
    from suffice.report.page.plan_view import PlanView
    from suffice.report.page.words import Words

_EQUAL: Final = 1e-8  # relative: numbers went through a file


def plan_doubts(given: PageInput, words: Words) -> list[Block]:
    """What has to be said before the costs are read; nothing where the plan is of this demand and this model."""
    plan = given.plan
    if plan is None:
        return []
    told = []
    fields = differing_fields(plan, given.demand)
    if fields:
        names = words.joined(words(f"demand.{name}") for name in fields)
        told.append(words.text("cost.other_demand", fields=names))
    models = _models(given)
    if plan.model and models and not _is_one_of(plan.model, models):
        told.append(words.text("cost.other_model", plan=one_line(plan.model), page=one_line(models[0])))
    return [Sentence(text=text, role=Role.MARK) for text in told]


def is_of_this_page(given: PageInput) -> bool:
    """Whether an option of the plan may be offered beside the verdict: not where its demand, or the model that both name, is another."""
    plan = given.plan
    if plan is None or differing_fields(plan, given.demand):
        return False
    named = given.demand.model
    return not plan.model or named is None or _is_one_of(plan.model, [named])


def differing_fields(plan: PlanView, demand: Demand) -> tuple[str, ...]:
    """Names of what the plan's demand states otherwise; a document that does not hold its demand differs in nothing that is known."""
    stated = plan.demand or {}
    ours = _fields(demand)
    return tuple(name for name, (key, value) in ours.items() if key in stated and not _is_equal(stated[key], value))


def _fields(demand: Demand) -> dict[str, tuple[str, Any]]:
    """By the name of its text: the key in the plan's document, and our value as it stands there."""
    return {
        "kind": ("kind", demand.kind.value),
        "margin": ("margin", demand.margin),
        "prompt": ("prompt_tokens", _lengths(demand.prompt_tokens)),
        "output": ("output_tokens", _lengths(demand.output_tokens)),
        "rate": ("requests_per_second", demand.requests_per_second),
        "volume": ("volume_per_day", demand.volume_per_day),
        "users": ("concurrent_users", demand.concurrent_users),
        "interactive_share": ("interactive_share", demand.interactive_share),
        "decode": ("tokens_per_second_per_user", demand.tokens_per_second_per_user),
        "ttft": ("ttft", _limit(demand.ttft)),
        "tpot": ("tpot", _limit(demand.tpot)),
        "window": ("window_s", demand.window_s),
        "context": ("context_tokens", demand.context_tokens),
        "images": ("images", images_stated(demand.images)),
        "budget": ("budget_per_month", demand.budget_per_month),
        "currency": ("currency", demand.currency),
    }


def _lengths(lengths: Lengths | None) -> dict[str, float] | None:
    return None if lengths is None else {"p50": lengths.p50, "p95": lengths.p95}


def _limit(limit: Limit | None) -> dict[str, float] | None:
    return None if limit is None else {"seconds": limit.value_s, "percentile": limit.percentile}


def _is_equal(theirs: object, ours: object) -> bool:
    """The same as far as we state it; a document may say more."""
    if isinstance(ours, dict):
        return isinstance(theirs, dict) and all(_is_equal(theirs.get(key), value) for key, value in ours.items())
    if isinstance(theirs, int | float) and isinstance(ours, int | float):
        return math.isclose(theirs, ours, rel_tol=_EQUAL)
    return theirs == ours


def _models(given: PageInput) -> list[str]:
    """Names of the model of the page: what the demand says, else what the runs do."""
    if given.demand.model is not None:
        return [given.demand.model]
    names = (name for run in given.runs for name in (run.record.model.file_name, run.record.model.name))
    return list(dict.fromkeys(name for name in names if name))


def _is_one_of(name: str, models: list[str]) -> bool:
    return any(name.casefold() == model.casefold() for model in models)

"""Serverless APIs as options: those that serve the very model, by the token, each price only where its condition holds.

What an API's latency is nobody knows before it is loaded: under limits an API is open, and the reason names the command that settles it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.catalogue.names import plain
from suffice.decide.plan_cost import api_cost
from suffice.decide.plan_types import OptionKind, PlanOption, PriceTag
from suffice.decide.service_load import judged_limits
from suffice.decide.verdict import Grade
from suffice.model.basis import Basis
from suffice.units import KILO

if TYPE_CHECKING:
    from collections.abc import Iterable

    from suffice.catalogue.entries import ApiPrice
    from suffice.model.cost import Volume
    from suffice.model.demand import Demand

WORLDWIDE: Final = "worldwide"
# What a name may have beside the model itself: who made it, how it was tuned to answer, and in which precision it is served.
_VENDORS: Final = ("meta-", "mistralai-", "google-", "deepseek-ai-", "zai-")
_SUFFIXES: Final = re.compile(r"-(?:instruct|chat|it|hf|gguf|fp8|fp4|bf16|f16|awq|gptq|turbo-fp8)$")
_TUNED: Final = re.compile(r"-(?:instruct|chat|it)$")
_PRECISION: Final = re.compile(r"-(?P<type>fp8|fp4|awq|gptq)(?:-|$)")
# Of a file's name: the recipe, word by word, since what else stands there may tell another model; and the part of a split file.
_RECIPE: Final = re.compile(
    r"-(?:ud-)?(?:t?q\d(?:-[01](?:-\d-\d)?|-k)?(?:-(?:xxs|xs|s|m|l|xl|xxl))?|iq\d(?:-(?:xxs|xs|s|m|nl|xl))?|f16|bf16|f32|mxfp4(?:-moe)?)"
    r"(?:-imat(?:rix)?)?(?:-\d{5}-of-\d{5})?(?:-gguf)?$"
)
_SIZE: Final = re.compile(r"(?:^|-)(?:\d+x)?\d+(?:-\d+)?b(?:-|$)")
_OWNER: Final = re.compile(
    r"^[\w.-]+/(?=\S+$)"
)  # "Qwen/" of "Qwen/Qwen3-32B"; not the first word of "Speed / Lite / Tiny"
_PLATFORM_REGION: Final = re.compile(r"\((?:.* )?(?P<region>mainland|international)\)")
_INPUT_TIER: Final = re.compile(r"input (?P<low>\d+)K-(?P<high>\d+)K tokens")
_OFF_PEAK: Final = "off-peak"


def bare_name(name: str) -> str:
    """A model's name with what does not make it another model taken off: ``bare_name("meta-llama/Meta-Llama-3.1-8B-Instruct") == "llama-3-1-8b"``."""
    found = plain(_OWNER.sub("", name))
    found = _RECIPE.sub("", found.removesuffix("-gguf"))
    for vendor in _VENDORS:
        found = found.removeprefix(vendor)
    while (shorter := _SUFFIXES.sub("", found)) != found:
        found = shorter
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiWish:
    """What APIs are asked for.

    Attributes:
        names: of the model that the demand is about, as files and catalogues write them.
        others: models of APIs that the user takes instead: other answers, to be compared.
        today: date of statements.
    """

    names: tuple[str, ...]
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedApi:
    """An API's price, and whether it is to be marked as old."""

    api: ApiPrice
    is_old: bool

    def tag(self, amount: float, unit: str) -> PriceTag:
        """One of its prices."""
        api = self.api
        region = _PLATFORM_REGION.search(api.platform)
        return PriceTag(
            amount=amount,
            unit=unit,
            currency=api.currency,
            region=WORLDWIDE if region is None else region["region"],
            date=api.date,
            source=api.source,
            is_old=self.is_old,
        )


def api_options(
    demand: Demand, apis: Iterable[TaggedApi], wish: ApiWish, volume: Volume | None
) -> tuple[PlanOption, ...]:
    """Each API that serves the model, or one that the user takes instead; a tier whose condition does not hold is left out."""
    names = {bare_name(name) for name in wish.names}
    others = {bare_name(name) for name in wish.others}
    found = []
    for one in apis:
        bare = bare_name(one.api.model)
        if bare not in names | others or not _applies(one.api, demand):
            continue
        doubts = () if bare not in names else _doubts(bare, wish.names)
        found.append(_option(demand, one, volume, is_other=bare not in names, doubts=doubts))
    return tuple(found)


def _doubts(bare: str, names: Iterable[str]) -> tuple[str, ...]:
    """Why a name may be that of another model all the same."""
    others = sorted(name for name in names if bare_name(name) != bare)
    found = []
    if _SIZE.search(bare) is None:
        found.append("taken to be this model by its name alone, which says no size: compare their answers")
    if others:
        found.append(f"taken to be this model by one of its names; it is also called {', '.join(others)}")
    return tuple(found)


def _applies(api: ApiPrice, demand: Demand) -> bool:
    """Whether the price is that of this demand's requests. Off-peak hours are not: a month's requests come at any hour."""
    tier = api.tier or ""
    if tier.startswith(_OFF_PEAK) or "batch" in tier:
        return False
    match = _INPUT_TIER.search(tier)
    if match is None:
        return True
    prompt = None if demand.prompt_tokens is None else demand.prompt_tokens.p95
    low, high = (int(match[end]) * KILO for end in ("low", "high"))
    return low == 0 if prompt is None else low < prompt <= high or (low == 0 and prompt <= high)


def _option(
    demand: Demand, one: TaggedApi, volume: Volume | None, *, is_other: bool, doubts: tuple[str, ...]
) -> PlanOption:
    api = one.api
    prices = (
        one.tag(api.input_per_million, "million input tokens"),
        one.tag(api.output_per_million, "million output tokens"),
    )
    grade, reason, binding, headroom = _standing(demand, api)
    return PlanOption(
        kind=OptionKind.API,
        name=f"{api.model} ({api.platform}{f', {api.tier}' if api.tier else ''})",
        grade=grade,
        reason=reason,
        binding=binding,
        headroom=headroom,
        basis=Basis.STATED,
        cost=None if volume is None else api_cost(volume, *prices),
        cost_unknown="the demand states no volume: give a request rate, or volume_per_day (--requests-per-day)"
        if volume is None
        else None,
        tokens_per_month=None if volume is None else volume.output_tokens_per_month,
        notes=(*doubts, *_notes(api, is_other=is_other)),
        prices=prices,
    )


def _standing(demand: Demand, api: ApiPrice) -> tuple[Grade, str, str | None, float | None]:
    needed = demand.needed_context_tokens
    if needed is not None and api.context_tokens is not None and needed > api.context_tokens:
        reason = f"Not enough: a context of {api.context_tokens} tokens against at least {needed}, {needed - api.context_tokens} too few."
        return Grade.NOT_ENOUGH, reason, "context_tokens", api.context_tokens / needed
    limits = judged_limits(demand)
    if limits:
        names = " and ".join(
            sorted({"time to first token" if one.metric == "ttft_s" else "time per token" for one in limits})
        )
        reason = (
            f"Not settled: {names} of this API {'is' if len(limits) == 1 else 'are'} not known. Load it with your requests: "
            "`suffice load URL --demand demand.toml`."
        )
        return Grade.OPEN, reason, "ttft_s" if limits[0].metric == "ttft_s" else "decode_tokens_per_second", None
    if demand.window_s is not None or demand.requests_per_second is not None:
        reason = "Enough as far as the provider says: no latency is limited; its rate limit for your account is not known, ask for it."
        return Grade.ENOUGH, reason, None, None
    return Grade.OPEN, "Not settled: the demand states nothing that an API's price list answers.", None, None


def _notes(api: ApiPrice, *, is_other: bool) -> tuple[str, ...]:
    notes = []
    name = plain(api.model)
    precision = _PRECISION.search(name)
    if is_other:
        notes.append(
            "another model, taken because you named it: its answers are others, compare them on your items with `suffice quants`"
        )
    if precision is not None:
        notes.append(f"served as {precision['type']}, which is not your quantization")
    elif not is_other:
        notes.append("in which precision it is served, the price list does not say")
    if _TUNED.search(_PRECISION.sub("", name)):
        notes.append("the variant that is tuned to answer")
    if api.cached_input_per_million is not None:
        notes.append(
            f"cached input would cost {api.cached_input_per_million:g} {api.currency}; the demand states no share of it, none is counted"
        )
    if api.note:
        notes.append(f"the price list says: {api.note}")
    return tuple(notes)

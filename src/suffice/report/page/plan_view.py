"""What a page takes from a document of ``suffice plan --json``. A price without currency, region, date or source is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from suffice.decide.verdict import Grade
from suffice.errors import RecordError, UsageError
from suffice.records.store import load_json
from suffice.report.page.view_files import read_view
from suffice.units import KILO, TERA

if TYPE_CHECKING:
    from pathlib import Path

_NO_NAN: Final = {"allow_inf_nan": False, "extra": "ignore"}
_LARGEST: Final = float(TERA * KILO)
"""Of any amount, count or headroom of a plan."""
_ROUNDING: Final = 1e-8
_AGAIN: Final = "make the plan again with `suffice plan DEMAND --json`"


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceView:
    """An amount with where it comes from."""

    __pydantic_config__ = _NO_NAN

    amount: float
    unit: str
    currency: str
    region: str
    date: str
    source: str
    is_old: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartView:
    """One line of a bill."""

    __pydantic_config__ = _NO_NAN

    name: str
    amount: float
    units: float
    price: PriceView
    currency: str | None = None
    conversion: PriceView | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeView:
    """A figure with its ends."""

    __pydantic_config__ = _NO_NAN

    point: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionView:
    """One option. ``verdict`` is worded as a grade."""

    __pydantic_config__ = _NO_NAN

    kind: str
    name: str
    verdict: str
    reason: str = ""
    binding: str | None = None
    headroom: float | None = None
    basis: str | None = None
    monthly_cost: float | None = None
    monthly_cost_low: float | None = None
    monthly_cost_high: float | None = None
    currency: str | None = None
    price_date: str | None = None
    prices: tuple[PriceView, ...] = ()
    cost_parts: tuple[PartView, ...] = ()
    cost_unknown: str | None = None
    cost_per_million_tokens: RangeView | None = None
    tokens_per_month: float | None = None
    utilisation: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def grade(self) -> Grade:
        """OPEN where the word is none that is known."""
        return Grade(self.verdict) if self.verdict in set(Grade) else Grade.OPEN


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossoverView:
    """Where two options cost the same. ``up_to_tokens_per_month``: what the second is shown to carry; nothing is said beyond."""

    __pydantic_config__ = _NO_NAN

    cheaper_below: str
    cheaper_above: str
    tokens_per_month: float
    times_the_demand: float | None = None
    up_to_tokens_per_month: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveView:
    """What an option costs a month along ``x``: pairs of (x, cost)."""

    __pydantic_config__ = _NO_NAN

    name: str
    x: str
    currency: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    """The document; options with the best first. ``demand``: what it was made for, in SI units."""

    __pydantic_config__ = _NO_NAN

    options: tuple[OptionView, ...]
    currency: str
    model: str = ""
    crossovers: tuple[CrossoverView, ...] = ()
    curves: tuple[CurveView, ...] = ()
    alternatives: tuple[str, ...] = ()
    judged: int = 0
    notes: tuple[str, ...] = ()
    demand: dict[str, Any] | None = None


def read_plan(path: Path) -> PlanView:
    """The document in a file.

    Raises:
        UsageError: it is the plan of a training.
        RecordError: it is none, an amount has no currency, region, date or source, or a number cannot be.
    """
    if _is_of_training(path):
        raise UsageError(
            f"--plan {path} is the plan of a training, and a page is about a model that is served; `suffice plan DEMAND` of a training says it all itself"
        )
    plan = read_view(path, PlanView, names=("options", "currency"), made_by="suffice plan DEMAND")
    for option in plan.options:
        check_prices(option, source=str(path))
        _check_amounts(option, source=str(path))
    for one in plan.crossovers:
        for tokens in (one.tokens_per_month, one.up_to_tokens_per_month):
            if tokens is not None and not 0 < tokens <= _LARGEST:
                raise RecordError(f"{path}: a crossing at {tokens:g} tokens a month cannot be; {_AGAIN}")
    return plan


def _is_of_training(path: Path) -> bool:
    """Its options take hours instead of a load."""
    document = load_json(path)
    options = document.get("options") if isinstance(document, dict) else None
    return isinstance(options, list) and any(isinstance(one, dict) and "hours" in one for one in options)


def check_prices(option: OptionView, *, source: str) -> None:
    """Nobody trusts a price without a date.

    Raises:
        RecordError: an option costs something, and a price of it, or all of them, lack where they come from.
    """
    lacking = any(
        not text.strip()
        for price in _all_prices(option)
        for text in (price.currency, price.region, price.date, price.source, price.unit)
    )
    if lacking or (option.monthly_cost and not (_all_prices(option) and option.currency)):
        raise RecordError(
            f"{source}: option {option.name!r} has a price without currency, region, date or source; make the plan again with `suffice plan DEMAND --json`"
        )


def _check_amounts(option: OptionView, *, source: str) -> None:
    """Nothing costs less than nothing, and no share of time is above 1: such a row would rank first, and look true.

    Raises:
        RecordError: naming the option and the field.
    """
    fields = ["monthly_cost", "monthly_cost_low", "monthly_cost_high", "headroom", "tokens_per_month"]
    found = [(name, getattr(option, name)) for name in fields]
    found += [(f"price of {one.unit}", one.amount) for one in _all_prices(option)]
    found += [(f"part {part.name}", value) for part in option.cost_parts for value in (part.amount, part.units)]
    per_million = option.cost_per_million_tokens
    found += [] if per_million is None else [("cost_per_million_tokens", per_million.point)]
    found += [] if option.utilisation is None else [("utilisation", option.utilisation * _LARGEST)]
    for name, value in found:
        if value is not None and not 0 <= value <= _LARGEST * (1 + _ROUNDING):
            shown = value / _LARGEST if name == "utilisation" else value
            raise RecordError(f"{source}: option {option.name!r}: {name} {shown:g} cannot be; {_AGAIN}")


def _all_prices(option: OptionView) -> list[PriceView]:
    """Those of its bill, with the rates that were stated for another currency, and those that it has beside."""
    found = [*option.prices]
    for part in option.cost_parts:
        found += [part.price] if part.conversion is None else [part.price, part.conversion]
    return found

"""Bills: what an option costs in a month, part by part, each with its price tag; what a million tokens costs; and other currencies.

=====================  ======================================================================================
machines               hours a month x price of an hour x machines; 730 hours, or those of a job's window
an API                 million input tokens x their price + million output tokens x theirs
this machine           nothing (sunk), or price / months, and energy: kWh x price
a million tokens       bill / generated tokens that keep their limits; undefined where limits are missed
=====================  ======================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from suffice.decide.plan_types import CostPart, MonthlyCost, OptionKind, PriceTag
from suffice.decide.quantity import Quantity
from suffice.decide.verdict import Grade
from suffice.model.basis import Basis
from suffice.model.cost import HOURS_PER_MONTH, Volume, energy_kwh, per_million

if TYPE_CHECKING:
    from collections.abc import Mapping

    from suffice.decide.plan_types import PlanOption

STATED: Final = "stated"
_LEAST_KEPT: Final = 0.5  # below this share no bound of the price of a kept token is worth stating


@dataclass(frozen=True, slots=True, kw_only=True)
class HereCost:
    """What the user states of the machine at hand. None: not stated.

    Attributes:
        date: of the statement.
        currency: of price and energy.
        price: paid for the machine, to be written off in ``months``; None: sunk.
        months: see ``price``.
        watts: that it draws at work.
        idle_watts: that it draws otherwise.
        price_per_kwh: of energy.
    """

    date: str
    currency: str
    price: float | None = None
    months: float | None = None
    watts: float | None = None
    idle_watts: float | None = None
    price_per_kwh: float | None = None

    def tag(self, amount: float, unit: str, source: str) -> PriceTag:
        """A stated price."""
        return PriceTag(amount=amount, unit=unit, currency=self.currency, region=STATED, date=self.date, source=source)


def machine_cost(price: PriceTag, count: int, hours: float, least: int | None = None) -> MonthlyCost:
    """The bill of ``count`` machines for ``hours`` a month; ``least``: as few as may do, if they are as fast as the high end says."""
    units = hours * count
    part = CostPart(name="machine hours", amount=units * price.amount, units=units, price=price)
    low = None if least is None or least >= count else hours * least * price.amount
    high = None if low is None else part.amount
    return MonthlyCost(amount=part.amount, currency=price.currency, parts=(part,), low=low, high=high)


def api_cost(volume: Volume, input_price: PriceTag, output_price: PriceTag) -> MonthlyCost:
    """The bill of an API that is paid by the token."""
    parts = tuple(
        CostPart(name=name, amount=units * price.amount, units=units, price=price)
        for name, units, price in (
            ("input tokens", volume.million_input_tokens, input_price),
            ("output tokens", volume.million_output_tokens, output_price),
        )
    )
    return MonthlyCost(amount=sum(part.amount for part in parts), currency=input_price.currency, parts=parts)


def here_cost(stated: HereCost, utilisation: float | None) -> MonthlyCost:
    """The bill of the machine at hand: what is written off, and energy for 730 hours.

    Where the share of the time in which it works is not known, or not what it draws when idle, the bill counts full power for all hours,
    and ``low`` the least that it may be.
    """
    parts = [_written_off(stated)]
    low = high = None
    per_volume = 0.0
    if stated.watts is not None and stated.price_per_kwh is not None:
        tag = stated.tag(stated.price_per_kwh, "kWh", "--price-per-kwh")
        least_kwh, kwh = _energy_range(stated, stated.watts, utilisation)
        parts.append(CostPart(name="energy", amount=kwh * tag.amount, units=kwh, price=tag))
        if least_kwh < kwh:
            low, high = parts[0].amount + least_kwh * tag.amount, parts[0].amount + kwh * tag.amount
        per_volume = _working_kwh(stated, stated.watts, utilisation) * tag.amount
    return MonthlyCost(
        amount=sum(part.amount for part in parts),
        currency=stated.currency,
        parts=tuple(parts),
        low=low,
        high=high,
        per_volume=per_volume,
    )


def _working_kwh(stated: HereCost, watts: float, utilisation: float | None) -> float:
    """What of the counted kWh grows with the volume: those over the idle ones. None do where full power is counted for all hours.

    A machine that works all the time is counted so as well: by how much less volume it would begin to idle is not known.
    """
    if utilisation is None or stated.idle_watts is None or utilisation >= 1:
        return 0.0
    return energy_kwh(watts - stated.idle_watts, 0.0, utilisation)


def _written_off(stated: HereCost) -> CostPart:
    if stated.price is None or stated.months is None:
        tag = stated.tag(0.0, "month", "sunk: paid for already")
        return CostPart(name="machine (sunk)", amount=0.0, units=1.0, price=tag)
    tag = stated.tag(stated.price, "machine", f"--machine-price, written off in {stated.months:g} months")
    return CostPart(
        name="machine, written off", amount=stated.price / stated.months, units=1 / stated.months, price=tag
    )


def _energy_range(stated: HereCost, watts: float, utilisation: float | None) -> tuple[float, float]:
    """The least kWh of a month, and those that are counted."""
    idle = stated.idle_watts
    if utilisation is None:
        return energy_kwh(watts, idle or 0.0, 0.0), energy_kwh(watts, watts, 1.0)
    if idle is None:
        return energy_kwh(watts, 0.0, utilisation), energy_kwh(watts, watts, 1.0)
    counted = energy_kwh(watts, idle, utilisation)
    return counted, counted


def converted(cost: MonthlyCost, rates: Mapping[str, PriceTag]) -> MonthlyCost:
    """The bill in the currency of a stated rate; unchanged where none is stated. Price tags stay as the provider wrote them."""
    rate = rates.get(cost.currency)
    if rate is None:
        return cost

    def scaled(amount: float | None) -> float | None:
        return None if amount is None else amount * rate.amount

    parts = tuple(replace(part, amount=part.amount * rate.amount, conversion=rate) for part in cost.parts)
    return MonthlyCost(
        amount=cost.amount * rate.amount,
        currency=rate.currency,
        parts=parts,
        low=scaled(cost.low),
        high=scaled(cost.high),
        per_volume=cost.per_volume * rate.amount,
    )


def million_kept(option: PlanOption, kept: float) -> Quantity | None:
    """What a million generated tokens that keep their limits costs.

    The point counts all tokens of a demand that is served; the high end takes off what may miss: limits at P95 leave 5 of 100 free to.
    None: undefined, since limits are missed or nobody knows, or without a bill or a volume.

    Args:
        option: with its grade, its bill and its tokens.
        kept: the least share of answers that keep all limits.
    """
    cost, tokens = option.cost, option.tokens_per_month
    if option.grade not in (Grade.ENOUGH, Grade.THIN) or cost is None or tokens is None:
        return None
    least = cost.amount if cost.low is None else cost.low
    most = cost.amount if cost.high is None else cost.high
    high = per_million(most, tokens * kept) if kept >= _LEAST_KEPT else None
    basis = Basis.STATED if option.kind is OptionKind.API else option.basis or Basis.STATED
    return Quantity(point=per_million(cost.amount, tokens), low=per_million(least, tokens), high=high, basis=basis)


def always_on(price: PriceTag, count: int) -> float:
    """What ``count`` machines cost that are never given back: 730 hours of each."""
    return HOURS_PER_MONTH * count * price.amount

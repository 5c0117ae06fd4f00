"""The money fields of the form, as the plan takes them: what this machine costs, and a price of the user's own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.catalogue.own import parse_own_catalogue
from suffice.decide.plan_cost import HereCost
from suffice.errors import UsageError
from suffice.web.form import SOURCE
from suffice.web.toml_text import Value, table_text, value_of

if TYPE_CHECKING:
    from datetime import date

    from suffice.catalogue.catalogue import Catalogue
    from suffice.web.form import Form

_MACHINE: Final = ("machine_price", "machine_months", "machine_watts", "machine_idle_watts", "price_per_kwh")
_CURRENCY_LETTERS: Final = 3
_SOURCE: Final = "stated in the what-if page"


def here_cost_of(form: Form, today: date) -> HereCost | None:
    """What is stated of the machine at hand; None: nothing.

    Raises:
        UsageError: an amount that is none, or one without the others that it needs.
    """
    stated = {name: _amount(name, form[name]) for name in _MACHINE if form[name]}
    currency = form["machine_currency"]
    if not stated:
        return None
    if len(currency) != _CURRENCY_LETTERS or not (currency.isascii() and currency.isalpha() and currency.isupper()):
        raise UsageError("what this machine costs needs 'machine_currency', three letters such as EUR")
    for first, second in (("machine_price", "machine_months"), ("machine_watts", "price_per_kwh")):
        if (first in stated) != (second in stated):
            raise UsageError(f"'{first}' and '{second}' belong together; state both or none")
    if "machine_idle_watts" in stated and "machine_watts" not in stated:
        raise UsageError("'machine_idle_watts' is stated without 'machine_watts'; state both or none")
    return HereCost(
        date=today.isoformat(),
        currency=currency,
        price=stated.get("machine_price"),
        months=stated.get("machine_months"),
        watts=stated.get("machine_watts"),
        idle_watts=stated.get("machine_idle_watts"),
        price_per_kwh=stated.get("price_per_kwh"),
    )


def _amount(name: str, text: str) -> float:
    value = value_of(text)
    if isinstance(value, str) or not 0 <= value < math.inf or (value == 0 and name == "machine_months"):
        raise UsageError(f"'{name}' is an amount, such as 12.5, and not {text!r}")
    return float(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPrice:
    """A price for a machine of the catalogue, as it was typed."""

    instance: str
    per_hour: str
    currency: str
    region: str


def own_price_of(form: Form) -> OwnPrice | None:
    """The price of the form; None: none is stated.

    Raises:
        UsageError: a price without a machine, or the other way round.
    """
    stated = OwnPrice(
        instance=form["price_instance"],
        per_hour=form["price_per_hour"],
        currency=form["price_currency"],
        region=form["price_region"],
    )
    if not any((stated.instance, stated.per_hour, stated.currency, stated.region)):
        return None
    if not stated.instance or not stated.per_hour:
        raise UsageError("a price of your own needs 'price_instance', such as aws/c7i.4xlarge, and 'price_per_hour'")
    return stated


def repriced(catalogue: Catalogue, own: OwnPrice, today: date) -> Catalogue:
    """The catalogue with a price of the user's own.

    Raises:
        UsageError: no such machine, no amount, or a price that lacks its currency or region.
    """
    machine = catalogue.instance_named(own.instance)
    entry: dict[str, Value] = {
        "provider": machine.provider,
        "name": machine.name,
        "source": _SOURCE,
        "seen": today.isoformat(),
        "price_per_hour": value_of(own.per_hour),
    }
    entry |= {key: text for key, text in (("currency", own.currency), ("region", own.region)) if text}
    return catalogue.with_overrides(parse_own_catalogue(table_text("[instance]", entry), source=SOURCE))

"""From the catalogue's prices to price tags, old ones marked, and what the user states of currencies."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from suffice.catalogue.ages import is_old
from suffice.decide.plan_apis import TaggedApi
from suffice.decide.plan_cost import STATED
from suffice.decide.plan_types import PriceTag
from suffice.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import date

    from suffice.catalogue.entries import ApiPrice, Price

_RATE: Final = re.compile(r"(?P<of>[A-Z]{3})=(?P<amount>[0-9]+(?:\.[0-9]+)?)(?P<into>[A-Z]{3})")


def hour_tag(price: Price, today: date) -> PriceTag:
    """The price of an hour of a machine."""
    return PriceTag.of_hour(price, is_old=is_old(price.date, today))


def tagged_apis(apis: Iterable[ApiPrice], today: date) -> tuple[TaggedApi, ...]:
    """APIs with whether their prices are to be marked."""
    return tuple(TaggedApi(api=api, is_old=is_old(api.date, today)) for api in apis)


def stated_rates(texts: Iterable[str], today: date) -> Mapping[str, PriceTag]:
    """Rates of currencies that the user states: ``stated_rates(["EUR=1.08USD"], today)`` counts one euro as 1.08 dollars.

    Raises:
        UsageError: a text in another form, a rate of 0, or two for one currency.
    """
    found: dict[str, PriceTag] = {}
    for text in texts:
        match = _RATE.fullmatch(text.strip())
        if match is None or not 0 < float(match["amount"]) < math.inf:
            raise UsageError(f"--rate {text}: write what one unit costs in the other currency, such as EUR=1.08USD")
        if match["of"] in found:
            raise UsageError(f"--rate {text}: {match['of']} has a rate already; give one for each currency")
        found[match["of"]] = PriceTag(
            amount=float(match["amount"]),
            unit=match["of"],
            currency=match["into"],
            region=STATED,
            date=today.isoformat(),
            source="--rate",
        )
        if match["of"] == match["into"]:
            raise UsageError(f"--rate {text}: both are the same currency, which needs no rate")
    chained = {one.currency for one in found.values()} & set(found)
    if chained:
        raise UsageError(
            f"--rate: {', '.join(sorted(chained))} is converted into another currency itself; convert all into one"
        )
    return found

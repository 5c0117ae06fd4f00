"""Amounts of money as text: with cents, and with more digits where cents would show nothing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from suffice.report.tables import one_line

if TYPE_CHECKING:
    from suffice.report.page.plan_view import PriceView
    from suffice.report.page.words import Words

_LEAST_IN_CENTS: Final = 1.0
_MOST_DECIMALS: Final = 6
_MOST_DIGITS: Final = 6


def money(amount: float | None, currency: str | None, words: Words) -> str:
    """An amount with its currency: "312.40 USD"; "0.0832 USD" below one, where cents would hide what differs."""
    if amount is None:
        return words("unknown")
    text = f"{amount:,.2f}" if amount >= _LEAST_IN_CENTS or amount == 0 else f"{amount:.4g}"
    return text if currency is None else f"{text} {one_line(currency)}"


def price_text(price: PriceView, words: Words) -> str:
    """A price with what it is for: "0.17 USD an hour", "1.006 USD an hour": with all digits that the bill was made with, so that it can be checked."""
    unit = f"unit.{price.unit}"
    amount = money(price.amount, None, words)
    if price.amount >= _LEAST_IN_CENTS and not math.isclose(float(f"{price.amount:.2f}"), price.amount):
        amount = f"{price.amount:,.{_MOST_DECIMALS}f}".rstrip("0")
    elif price.amount < _LEAST_IN_CENTS and price.amount != 0:
        amount = f"{price.amount:.{_MOST_DIGITS}g}"
    return f"{amount} {one_line(price.currency)} {words(unit) if unit in words.texts else one_line(price.unit)}"

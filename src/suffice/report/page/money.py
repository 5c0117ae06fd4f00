"""Amounts of money as text: with cents, and with more digits where cents would show nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from suffice.report.tables import one_line

if TYPE_CHECKING:
    from suffice.report.page.plan_view import PriceView
    from suffice.report.page.words import Words

_LEAST_IN_CENTS: Final = 1.0


def money(amount: float | None, currency: str | None, words: Words) -> str:
    """An amount with its currency: "312.40 USD"; "0.0832 USD" below one, where cents would hide what differs."""
    if amount is None:
        return words("unknown")
    text = f"{amount:,.2f}" if amount >= _LEAST_IN_CENTS or amount == 0 else f"{amount:.4g}"
    return text if currency is None else f"{text} {one_line(currency)}"


def price_text(price: PriceView, words: Words) -> str:
    """A price with what it is for: "0.17 USD an hour"."""
    unit = f"unit.{price.unit}"
    return (
        f"{money(price.amount, price.currency, words)} {words(unit) if unit in words.texts else one_line(price.unit)}"
    )

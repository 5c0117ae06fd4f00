"""What the amounts of a plan are made of: each line of a bill with its price, and where that price comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from suffice.report.page.model import Table, Text
from suffice.report.page.money import money, price_text
from suffice.report.page.phrases import told
from suffice.report.tables import one_line

if TYPE_CHECKING:
    from suffice.report.page.plan_view import OptionView, PartView, PriceView
    from suffice.report.page.words import Words

_COLUMNS: Final = ("option", "part", "monthly", "units", "price", "region", "date", "source")


def bills_table(options: tuple[OptionView, ...], words: Words) -> Table | None:
    """Each line of each bill, and prices of options whose cost is not known; None where there is no price at all."""
    rows = [row for option in options for row in _rows(option, words)]
    if not rows:
        return None
    return Table(
        caption=words.text("cost.prices"),
        header=tuple(words.text(f"column.{name}") for name in _COLUMNS),
        rows=tuple(rows),
    )


def _rows(option: OptionView, words: Words) -> list[tuple[Text, ...]]:
    name = Text(text=one_line(option.name), is_code=True)
    rows: list[tuple[Text, ...]] = []
    for part in option.cost_parts:
        rows.append((name, *_of_part(part, option.currency, words), *_of_price(part.price, words)))
        if part.conversion is not None:
            rows.append((name, *_nothing(words), *_of_price(part.conversion, words)))
    billed = {part.price for part in option.cost_parts} | {part.conversion for part in option.cost_parts}
    rows += [
        (name, *_nothing(words), *_of_price(price, words))
        for price in dict.fromkeys(option.prices)
        if price not in billed
    ]
    return rows


def _nothing(words: Words) -> tuple[Text, Text, Text]:
    none = words.text("none")
    return none, none, none


def _of_part(part: PartView, currency: str | None, words: Words) -> tuple[Text, Text, Text]:
    currency = part.currency or currency
    return (
        told(part.name, words),
        Text(text=money(part.amount, currency, words), value=part.amount, unit=currency),
        Text(text=f"{part.units:,.6g}", value=part.units),
    )


def _of_price(price: PriceView, words: Words) -> tuple[Text, Text, Text, Text]:
    region, date = f"region.{price.region}", one_line(price.date)
    return (
        Text(text=price_text(price, words), value=price.amount, unit=price.currency),
        words.text(region) if region in words.texts else Text(text=one_line(price.region)),
        Text(text=words("cost.old", date=date) if price.is_old else date),
        Text(text=one_line(price.source), href=price.source),
    )

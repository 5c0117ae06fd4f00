"""Requirements and quantities with their ranges as text: what :mod:`suffice.decide.wording` says, in the page's language."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from suffice.decide.constraint import Constraint, Sense
from suffice.decide.quality import KEPT_UNIT
from suffice.decide.wording import is_least, value_texts
from suffice.report.page.model import Text

if TYPE_CHECKING:
    from suffice.decide.quantity import Quantity
    from suffice.report.page.words import Words


def required_text(constraint: Constraint, words: Words) -> str:
    """What is required: "at least 8 tokens/s"."""
    key = "sense.at least" if constraint.sense is Sense.AT_LEAST else "sense.at most"
    if constraint.required is None:
        return words(key, value=words("unknown"))
    point = constraint.required if constraint.available is None else constraint.available.point
    text = value_texts(constraint.required, point, constraint.unit)[0]
    if (
        constraint.unit == KEPT_UNIT and constraint.required <= 1
    ):  # "at least -1 point" is no way to say how much may be lost
        key, text = "sense.loss", text.removeprefix("-")
    return words(key, value=words.localized(text))


def available_text(constraint: Constraint, words: Words) -> str:
    """What is available, with its range and basis: "14.2 tokens/s (13.9 to 14.4, measured)"."""
    quantity = constraint.available
    if quantity is None:
        return words("unknown")
    point = words.localized(value_texts(constraint.required, quantity.point, constraint.unit)[1])
    if quantity.more_untried:
        point = words("quantity.least", point=point)
    basis = words.basis(quantity.basis)
    if not quantity.interval_known:
        return words("quantity.no_interval", point=point, basis=basis)
    is_endless = math.isinf(quantity.point) and quantity.low == quantity.point  # no range says more
    if is_endless or (quantity.low is not None and quantity.low == quantity.high):
        return words("quantity.sure", point=point, basis=basis)
    told = range_text(quantity, constraint.unit, words, constraint.unbounded)
    return words("quantity.range", point=point, range=told, basis=basis)


def range_text(quantity: Quantity, unit: str, words: Words, unbounded: str = "none") -> str:
    """The range of a quantity, or why it has none on a side."""
    low, high = (words.number(end, unit) for end in (quantity.low, quantity.high))
    if quantity.more_untried:
        named = quantity.low not in (None, quantity.point)
        return words("range.untried_low", low=low) if named else words("range.untried")
    if quantity.low is None and quantity.high is None:
        key = f"range.{unbounded}"
        return words(key) if key in words.texts else unbounded
    if quantity.high is None:
        return words("range.no_high", low=low)
    return words("range.no_low", high=high) if quantity.low is None else words("range.both", low=low, high=high)


def required_cell(constraint: Constraint, words: Words) -> Text:
    """A cell of a table with the number behind it."""
    return Text(text=required_text(constraint, words), value=constraint.required, unit=constraint.unit)


def available_cell(constraint: Constraint, words: Words) -> Text:
    """As above."""
    value = None if constraint.available is None else constraint.available.point
    return Text(text=available_text(constraint, words), value=value, unit=constraint.unit)


def headroom_cell(constraint: Constraint, words: Words) -> Text:
    """Headroom, and that it is a least where a search ended there."""
    text = words.headroom(constraint.headroom)
    if is_least(constraint):
        text = words("quantity.least", point=text)
    return Text(text=text, value=constraint.headroom)

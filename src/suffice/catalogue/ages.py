"""How old a date is that a source gives as exactly as it knows it."""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache
from typing import Final

OLD_AFTER_DAYS: Final = 180

_DATES: Final = 4096  # that are remembered: thousands of prices have the same few

_DATE: Final = re.compile(r"(?P<year>\d{4})(?:-(?P<month>\d\d))?(?:-(?P<day>\d\d))?")


def earliest_day(text: str) -> date | None:
    """The first day that a date can mean: ``2022`` is the first of January; None where the text starts with no date."""
    match = _DATE.match(text)
    if match is None:
        return None
    try:
        return date(int(match["year"]), int(match["month"] or 1), int(match["day"] or 1))
    except ValueError:
        return None


def age_days(text: str, today: date) -> int | None:
    """Days from the earliest day that a date can mean until today, never below 0; None where there is no date."""
    start = earliest_day(text)
    return None if start is None else max(0, (today - start).days)


@lru_cache(maxsize=_DATES)
def is_old(text: str, today: date) -> bool:
    """Whether a price of this date is to be marked: over 180 days old, or without a date."""
    days = age_days(text, today)
    return days is None or days > OLD_AFTER_DAYS


def is_newer(one: str, other: str) -> bool:
    """Whether one date is surely later than another: its first day is later. A date beats none."""
    first, second = earliest_day(one), earliest_day(other)
    if first is None:
        return False
    return second is None or first > second

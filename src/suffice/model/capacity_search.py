"""Which level of load to try next: a function of what was tried, so that a search that was cut off goes on where it was.

Levels are first tried briefly, by what they look like: doubled from a first guess until one looks too much, halved until one looks good,
then bisected to the tolerance. A level that looks good proves nothing and need not: only the two ends of the answer are. They are tried
at length afterwards, and where that leaves one undecided, a level further off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from suffice.model.capacity import LevelVerdict

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOWEST: Final = 1 / 16  # of the first guess: below it the answer is that no load holds
_ASIDE: Final = 1.25  # how far from an undecided level the next is tried


class CapacityOf(StrEnum):
    """What is searched for."""

    RATE = "rate"
    USERS = "users"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A level that was tried: requests/s or users. ``good``: it looked good, whatever could be proven."""

    level: float
    verdict: LevelVerdict
    good: bool
    thorough: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """A level to be tried, briefly or at length."""

    level: float
    thorough: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """From where, how exactly, and how long to search. Levels of users are whole numbers."""

    of: CapacityOf
    start: float
    highest: float
    tolerance: float = 0.1
    most_probes: int = 16

    @property
    def lowest(self) -> float:
        """The least load that is tried."""
        return 1.0 if self.of is CapacityOf.USERS else self.start * _LOWEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The answer: limits hold at ``held`` and fail at ``failed``; None where no level was proven to."""

    held: float | None
    failed: float | None


def capacity_of(tried: Sequence[Tried]) -> Capacity:
    """The highest level that held below the lowest that failed: attainment is taken to fall with the load."""
    failed = min((one.level for one in tried if one.verdict is LevelVerdict.FAILS), default=None)
    below = math.inf if failed is None else failed
    held = max((one.level for one in tried if one.verdict is LevelVerdict.HOLDS and one.level < below), default=None)
    return Capacity(held=held, failed=failed)


def next_try(tried: Sequence[Tried], settings: SearchSettings) -> Try | None:
    """What to try next; None when the answer is as exact as it can be had."""
    if len(tried) >= settings.most_probes:
        return None
    if not tried:
        return Try(level=_level(settings.start, settings), thorough=False)
    latest = {one.level: one for one in tried}
    bad = min((level for level, one in latest.items() if not one.good), default=None)
    good = max((level for level in latest if latest[level].good and (bad is None or level < bad)), default=None)
    step = _bracket(good, bad, settings)
    if step is not None:
        return None if step in latest else Try(level=step, thorough=False)
    known = [one.level for one in tried if one.thorough or one.verdict is not LevelVerdict.UNDECIDED]
    for end in (_lower_end(good, tried, settings), _upper_end(bad, tried, settings)):
        if end is not None and end not in known:
            return Try(level=end, thorough=True)
    return None


def _level(value: float, settings: SearchSettings) -> float:
    """A level that can be tried: whole users, within the bounds, three digits for people."""
    value = max(settings.lowest, min(settings.highest, value))
    return float(max(1, round(value))) if settings.of is CapacityOf.USERS else float(f"{value:.3g}")


def _bracket(good: float | None, bad: float | None, settings: SearchSettings) -> float | None:
    """The next level of the brief search; None when good and bad are close, or there is no room."""
    if bad is None:
        return None if good is None or good >= settings.highest else _level(2 * good, settings)
    if good is None:
        return _level(bad / 2, settings) if bad > settings.lowest * (1 + settings.tolerance) else None
    if bad <= good * (1 + settings.tolerance):
        return None
    middle = _level(math.sqrt(good * bad), settings)
    return middle if good < middle < bad else None


def _lower_end(good: float | None, tried: Sequence[Tried], settings: SearchSettings) -> float | None:
    """The level to prove good: the best that looks so, or one below it when that cannot be told."""
    if good is None:
        return None
    held = capacity_of(tried).held
    if held is not None and held * _ASIDE * (1 + settings.tolerance) >= good:
        return None
    unproven = [level for level in _unproven(tried, good=True) if level > (held or 0.0)]
    return _level(min(unproven) / _ASIDE, settings) if good in unproven else good


def _upper_end(bad: float | None, tried: Sequence[Tried], settings: SearchSettings) -> float | None:
    """The level to prove bad: the least that looks so, or one above it when that cannot be told."""
    if bad is None:
        return None
    failed = capacity_of(tried).failed
    if failed is not None and failed <= bad * _ASIDE * (1 + settings.tolerance):
        return None
    unproven = [level for level in _unproven(tried, good=False) if level < (failed or math.inf)]
    return _level(max(unproven) * _ASIDE, settings) if bad in unproven else bad


def _unproven(tried: Sequence[Tried], *, good: bool) -> list[float]:
    """Levels that were tried at length and look good, or bad, without proof."""
    return [one.level for one in tried if one.thorough and one.verdict is LevelVerdict.UNDECIDED and one.good is good]

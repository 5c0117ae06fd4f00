"""What was found out of some machines, said of those that are at least as fast, or at most as fast: most need no simulation of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Case(Protocol):
    """A machine with its load, reduced to what decides."""

    def covers(self, other: Self) -> bool:
        """Whether it is enough wherever the other one is: at least as fast, with no more to do."""


K = TypeVar("K", bound=Case)
V = TypeVar("V")


class Covering(Generic[K, V]):
    """Cases that are enough, with what was found of each, and cases that are not.

    Which case stands for which depends on their order: a long-lived process that must answer the same twice begins anew between the two.
    """

    def __init__(self) -> None:
        self._enough: dict[K, V] = {}
        self._lacking: dict[K, None] = {}

    def found(self, case: K, find: Callable[[], V | None]) -> tuple[K, V] | None:
        """The first known case that this one covers, with what was found of it, or the case itself; None: not shown to be enough."""
        for other, known in list(self._enough.items()):  # copies: another thread may add one
            if case.covers(other):
                return other, known
        if any(other.covers(case) for other in list(self._lacking)):
            return None
        found = find()
        if found is None:
            self._lacking[case] = None
            return None
        self._enough[case] = found
        return case, found


def all_as_fast(rates: Sequence[float], others: Sequence[float]) -> bool:
    """Whether each of some rates, at the same depths, is as high as another machine's; not where one tells of fewer depths."""
    return len(rates) == len(others) and all(one >= other for one, other in zip(rates, others, strict=True))

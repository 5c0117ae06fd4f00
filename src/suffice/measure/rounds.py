"""What is repeated side by side, when all are loaded again, and whose turn it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from suffice.measure.interleaved_request import named
from suffice.stats.rounds import LEAST_ROUNDS, balanced_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from suffice.measure.series import Part

# Of the budget, what loading all models once more for each stage may take. Where it would take more they are loaded once, and a warning says what that costs.
MAX_RELOADING_SHARE: Final = 0.25
_OVER: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What is repeated in the same rounds: until there are ``rounds``, or, with ``least`` of them, a share of the budget is over."""

    parts: tuple[Part, ...]
    rounds: int
    until: float = 1.0
    least: int = LEAST_ROUNDS


def sittings_of(stages: Sequence[Stage], loads_s: float, budget_s: float) -> list[list[Stage]]:
    """What is repeated between two loads of all: each stage half before one and half behind it, where loading is worth it.

    Where its memory lies makes a process up to a few percent faster or slower for as long as it lives, and the one that is opened first
    tends to be the slower one.
    """
    if loads_s * len(stages) > MAX_RELOADING_SHARE * budget_s:
        return [list(stages)]
    found: list[list[Stage]] = [[]]
    begin = 0.0
    for stage in stages:
        half = replace(stage, rounds=-(-stage.rounds // 2), until=(begin + stage.until) / 2, least=-(-stage.least // 2))
        found[-1].append(half)
        found.append([stage])
        begin = stage.until
    return found


def take_turns(pieces: Mapping[str, Iterator[None]], number: int) -> None:
    """A round of all: the first piece of each, the second of each and so on, in an order that is balanced as that of rounds is.

    Args:
        pieces: of each, by its name.
        number: of the round, from 0, which begins with another one than the round before.

    Raises:
        EngineError, UsageError: whatever a piece raises, with the name.
    """
    names, left = list(pieces), dict(pieces)
    passes = number
    while left:
        for place in balanced_order(len(names), passes):
            name = names[place]
            with named(name):
                if name in left and next(left[name], _OVER) is _OVER:
                    del left[name]
        passes += 1

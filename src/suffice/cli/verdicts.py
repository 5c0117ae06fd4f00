"""What `check` and `decide` share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from suffice.decide import words
from suffice.errors import UsageError

if TYPE_CHECKING:
    from suffice.model.demand import Demand

# A thin margin still reaches the requirement, so it is "enough" for a script; the words say that it is thin.
VERDICT_EXIT_CODES: Final = {words.CPU: 0, words.CPU_THIN: 0, words.GPU: 1, words.UNDECIDED: 3}


def with_margin(demand: Demand, margin: float | None) -> Demand:
    """The demand with the margin of the command line, when there is one.

    Raises:
        UsageError: a margin that is not a number.
    """
    if margin is None:
        return demand
    if not 1 <= margin < float("inf"):
        raise UsageError(f"--margin {margin:g} is not a factor of 1 or more")
    return replace(demand, margin=margin)

"""What is said of a level of a search while it runs: which one, how far it is, and how long it sends at most."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from suffice.load.settings import LoadPlan


def sends_for_s(plan: LoadPlan, answer_s: float) -> float:
    """About how long a level sends at most, its warm-up included, when one user's whole answer takes ``answer_s``.

    A closed loop is taken to its whole duration: how long its users wait for each other is what the level is to find out.
    """
    duration_s = plan.duration_s or 0.0
    if plan.rate_per_s is None:
        return plan.warm_up * answer_s / (plan.concurrency or 1) + duration_s
    wanted_s = duration_s if plan.requests is None else plan.requests / plan.rate_per_s
    return plan.warm_up / plan.rate_per_s + min(duration_s, wanted_s)


class LevelProgress:
    """Tells how far a level is; its own words stay the same but for whole numbers, so that a log has one line of it."""

    def __init__(self, tell: Callable[[str], None], head: str, plan: LoadPlan, answer_s: float) -> None:
        """Begin to count the time, and say what is to come.

        Args:
            tell: told each sentence.
            head: the level in words.
            plan: its load.
            answer_s: one user's whole answer.
        """
        self._tell, self._head = tell, head
        self._most = None if plan.requests is None else plan.warm_up + plan.requests
        self._sends_for_s, self._began_s = sends_for_s(plan, answer_s), time.monotonic()
        self(0, 0)

    def __call__(self, sent: int, ended: int) -> None:
        """How many requests were sent, and how many have ended."""
        of = "" if self._most is None else f" of at most {self._most}"
        left_s = self._sends_for_s - (time.monotonic() - self._began_s)
        left = f"sends for at most about {max(0.0, left_s):.0f} s more"
        if self._most is not None and sent >= self._most:
            left = "waits for what is under way"
        self._tell(f"{self._head}: {sent}{of} sent, {ended} ended; {left}")

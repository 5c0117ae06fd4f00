"""What engines on several NUMA nodes cost each other: a few points of the service curve again, all engines at work and one at a time."""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from suffice.measure.engine.side_by_side import SideBySide
from suffice.measure.service_plan import PassKind, PassPoint
from suffice.stats.intervals import median

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from suffice.measure.engine.seam import Session
    from suffice.measure.service_series import ServiceRunner

COMPARISON_SHARE: Final = 0.1  # of the curve's budget
COMPARISONS: Final = 3  # of each point, in turns, so that a slow moment of the machine hits both


def slowdown_words(
    runner: ServiceRunner, sessions: Sequence[Session], budget_s: float, progress: Callable[[str], None]
) -> tuple[str, ...]:
    """A sentence on how much longer passes take while all engines are at work; none where there is only one.

    Args:
        runner: of these sessions, with a curve that is measured.
        sessions: each :class:`~suffice.measure.engine.side_by_side.SideBySide`, or one engine.
        budget_s: of the comparison; one point is compared whatever it takes.
        progress: is told what is done.

    Raises:
        EngineError: an engine failed.
    """
    together = [session for session in sessions if isinstance(session, SideBySide)]
    if not together:
        return ()
    engines = len(together[0].sessions)
    points = compared_points(runner, engines, budget_s)
    progress("the engines one at a time, to compare")
    ratios = [_slowdown(runner, together, point) for point in points]
    spread = f"{min(ratios):.2f}" if len(ratios) == 1 else f"{min(ratios):.2f} to {max(ratios):.2f}"
    words = (
        f"the service curve is that of the slowest of {engines} engines at work at the same time, one on each NUMA node: their passes took "
        f"{spread} times as long as with one at work ({len(ratios)} points compared)"
    )
    return (words,)


def compared_points(runner: ServiceRunner, engines: int, budget_s: float) -> tuple[PassPoint, ...]:
    """Steps of one sequence and of all, and the largest chunk, behind an empty cache: those that fit, the first in any case."""
    measured = [point for point in runner.state.rows if point.depth == 0]
    steps = sorted(point for point in measured if point.kind is PassKind.DECODE)
    chunks = sorted(point for point in measured if point.kind is PassKind.PREFILL)
    chosen: list[PassPoint] = []
    for point in dict.fromkeys([*steps[:1], *steps[-1:], *chunks[-1:]]):
        takes_s = COMPARISONS * (1 + engines) * math.fsum(runner.repeat_s(one) for one in (*chosen, point))
        if not chosen or takes_s <= budget_s:
            chosen.append(point)
    return tuple(chosen)


def _slowdown(runner: ServiceRunner, sessions: Sequence[SideBySide], point: PassPoint) -> float:
    """Seconds of a pass with all engines at work, over those with one at work; slices are added up."""
    together_s, alone_s = [], []
    for _ in range(COMPARISONS):
        together_s.append(math.fsum(runner.repeat(point)))
        with ExitStack() as stack:
            for session in sessions:
                stack.enter_context(session.one_at_a_time())
            alone_s.append(math.fsum(runner.repeat(point)))
    return median(together_s) / median(alone_s)

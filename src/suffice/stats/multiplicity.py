"""Many candidates: what may be said of all of them at once.

Of twenty useless candidates, one passes a test at 5 % by luck. Holm's adjusted p-values keep the chance of *any* wrong rejection at the
level, under any dependence between the candidates, which share their items. Holm's method is for tests and has no simple intervals; the
intervals beside it are Bonferroni's, each at ``1 - (1 - level) / candidates``, so that all hold together with ``level``. They are the
cautious part: a candidate can pass by Holm while its simultaneous interval still reaches over the limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from suffice.stats.intervals import DEFAULT_LEVEL
from suffice.stats.noninferiority import Decision, Judgement, non_inferior
from suffice.stats.paired import difference_interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from suffice.stats.estimate import Interval
    from suffice.stats.paired import PairedSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class SimultaneousJudgement:
    """One candidate among ``candidates`` that could be tested.

    ``alone`` is the judgement without the others. ``p_yes`` and ``p_no`` are Holm-adjusted: the chance that any candidate is wrongly
    passed is at most ``1 - confidence``, and so is that of any being wrongly failed. ``interval`` is Bonferroni's: the intervals of all
    candidates hold together with ``together``. None where the candidate has a shortage.
    """

    name: str
    alone: Judgement
    decision: Decision
    p_yes: float | None
    p_no: float | None
    interval: Interval | None
    together: float
    candidates: int


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's adjusted p-values, in the order given: reject where they are at most the level (Holm, Scand. J. Statist. 6, 1979, 65-70).

    Raises:
        ValueError: a p-value outside [0, 1].
    """
    if not all(0 <= p <= 1 for p in p_values):
        raise ValueError("p-values lie between 0 and 1")
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return tuple(adjusted)


def bonferroni_level(level: float, intervals: int) -> float:
    """The level of each of ``intervals`` intervals that together hold with ``level``."""
    if intervals < 1:
        raise ValueError("at least one interval is needed")
    return 1 - (1 - level) / intervals


def judge_together(
    summaries: Mapping[str, PairedSummary], margin: float, confidence: float = DEFAULT_LEVEL
) -> tuple[SimultaneousJudgement, ...]:
    """Which candidates lose at most ``margin`` against one reference, corrected for their number; in the order given.

    Passing and failing are two families of tests, each with its own Holm adjustment. Candidates with a shortage are not tested and do
    not count. With one candidate, nothing is corrected.
    """
    alone = {name: non_inferior(summary, margin, confidence) for name, summary in summaries.items()}
    tested = [name for name, judgement in alone.items() if judgement.p_yes is not None]
    p_yes = dict(zip(tested, holm([p for name in tested if (p := alone[name].p_yes) is not None]), strict=True))
    p_no = dict(zip(tested, holm([p for name in tested if (p := alone[name].p_no) is not None]), strict=True))
    level = bonferroni_level(confidence, max(1, len(tested)))
    return tuple(
        SimultaneousJudgement(
            name=name,
            alone=alone[name],
            decision=_decision(p_yes.get(name), p_no.get(name), 1 - confidence),
            p_yes=p_yes.get(name),
            p_no=p_no.get(name),
            interval=difference_interval(summary, level),
            together=confidence,
            candidates=len(tested),
        )
        for name, summary in summaries.items()
    )


def _decision(p_yes: float | None, p_no: float | None, risk: float) -> Decision:
    if p_yes is not None and p_yes <= risk:
        return Decision.YES
    return Decision.NO if p_no is not None and p_no <= risk else Decision.NOT_ENOUGH

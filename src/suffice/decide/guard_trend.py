"""The trend of a history: the runs that belong to one series, and the steps in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.decide.compare_runs import DEFAULT_TOLERANCE
from suffice.decide.guard_fingerprint import Comparability, causes_of, compare_fingerprints
from suffice.decide.guard_limits import doubt_of
from suffice.decide.guard_types import Outcome
from suffice.stats.ratio import Better
from suffice.stats.steps import DEFAULT_SIGNIFICANCE, find_steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.guard_types import Metric, RunFacts

# Three of fifteen figures stand together at an end in 2 of 455 orders, so that a step shows at 0.01 wherever it lies; of nine, four do in
# 2 of 126.
LEAST_TREND: Final = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendStep:
    """A step in one metric. ``run`` is the place in the history of the first run of the new level; ``causes`` what changed there."""

    run: int
    ratio: float
    p_value: float
    is_worse: bool
    causes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """One metric over a history.

    ``places`` are those of the runs that are comparable with the latest one and are evidence, ``values`` their figures. ``others`` are runs
    with a figure that were left out: of another machine, busy, or in doubt.
    """

    metric: Metric
    places: tuple[int, ...]
    values: tuple[float, ...]
    steps: tuple[TrendStep, ...]
    others: int

    def outcome(self, tolerance: float = DEFAULT_TOLERANCE) -> Outcome:
        """FAIL when the last step made it worse by more than the tolerance, INCONCLUSIVE with too few runs to see one."""
        if self.steps:
            last = self.steps[-1]
            beyond = last.ratio < 1 - tolerance if self.metric.better is Better.HIGHER else last.ratio > 1 + tolerance
            return Outcome.FAIL if last.is_worse and beyond else Outcome.PASS
        return Outcome.PASS if len(self.values) >= LEAST_TREND else Outcome.INCONCLUSIVE


def trend_of(runs: Sequence[RunFacts], metric: Metric, significance: float = DEFAULT_SIGNIFICANCE) -> Trend:
    """The trend of one metric, of the runs that are comparable with the latest run that has it."""
    known = [place for place, run in enumerate(runs) if metric in run.figures]
    usable = [place for place in known if not doubt_of(runs[place], metric)]
    alike: list[int] = []
    if usable:
        latest = runs[usable[-1]].fingerprint
        alike = [
            place
            for place in usable
            if compare_fingerprints(runs[place].fingerprint, latest).comparability is Comparability.COMPARABLE
        ]
    values = [quantity.point for place in alike if (quantity := runs[place].figures[metric].quantity) is not None]
    steps = tuple(
        TrendStep(
            run=alike[step.index],
            ratio=step.ratio,
            p_value=step.p_value,
            is_worse=(step.ratio < 1) is (metric.better is Better.HIGHER),
            causes=tuple(
                causes_of(
                    compare_fingerprints(runs[alike[step.index - 1]].fingerprint, runs[alike[step.index]].fingerprint)
                )
            ),
        )
        for step in find_steps(values, significance)
    )
    return Trend(metric=metric, places=tuple(alike), values=tuple(values), steps=steps, others=len(known) - len(alike))

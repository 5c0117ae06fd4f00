"""A run's figures against floors and ceilings: FAIL beyond one, PASS when the whole interval holds it, else INCONCLUSIVE."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from suffice.decide.guard_types import CheckKind, GuardCheck, Limit, Metric, Outcome
from suffice.model.basis import Basis
from suffice.stats.ratio import Better
from suffice.units import format_memory, format_seconds

if TYPE_CHECKING:
    from suffice.decide.guard_types import Figure, RunFacts
    from suffice.decide.quantity import Quantity

_NOT_TIMED = (Metric.MEMORY, Metric.QUALITY)


def figure_text(metric: Metric, value: float) -> str:
    """A figure in the unit that people read it in, without the metric's name."""
    if math.isinf(value):
        return "endless (failed requests)"
    if metric is Metric.MEMORY:
        return format_memory(value)
    if metric.unit == "s":
        return format_seconds(value)
    return f"{value:.2f} tokens/s" if metric is not Metric.QUALITY else f"{value:.4g}"


def limit_text(metric: Metric, value: float) -> str:
    """A limit as it was given: rates and scores as plain numbers."""
    return f"{value:g}" if metric.better is Better.HIGHER else figure_text(metric, value)


def figures_text(kind: CheckKind, metric: Metric, value: float, against: float) -> str:
    """A figure and what it is held against, with which the reason of a check begins."""
    is_limit = kind in {CheckKind.FLOOR, CheckKind.CEILING}
    told = limit_text(metric, against) if is_limit else figure_text(metric, against)
    return f"{metric.value} {figure_text(metric, value)}, {kind.word} {told}"


def unjudged(check: GuardCheck, obstacle: str) -> GuardCheck:
    """The check as one that cannot be judged: its figures, and then the obstacle. What was judged of it before is left out."""
    figures = check.name
    if check.metric is not None:
        figures = check.metric.value
        if check.value is not None and check.limit is not None:
            figures = figures_text(check.kind, check.metric, check.value, check.limit)
    return GuardCheck(
        name=check.name,
        kind=check.kind,
        outcome=Outcome.INCONCLUSIVE,
        reason=f"{figures}: {obstacle}",
        metric=check.metric,
        unit=check.unit,
        value=check.value,
        limit=check.limit,
        obstacle=obstacle,
    )


def doubt_of(facts: RunFacts, metric: Metric) -> str:
    """Why this run's figure is no evidence, or "" when it is. Memory and quality are what they are on a busy machine as well."""
    if facts.busy and metric not in _NOT_TIMED:
        return f"measured on a busy machine ({'; '.join(facts.busy)})"
    figure = facts.figures.get(metric)
    own = "" if figure is None else figure.doubt
    if own or metric is Metric.QUALITY:
        return own
    return next(iter(facts.doubts), "")


def check_limit(facts: RunFacts, limit: Limit) -> GuardCheck:
    """One floor or ceiling. A figure that is missing, or no evidence, is INCONCLUSIVE: never a pass."""
    metric = limit.metric
    figure = facts.figures.get(metric)
    quantity = None if figure is None else figure.quantity
    outcome, reason = _Judge(metric=metric, limit=limit).judge(facts, figure, quantity)
    doubt = doubt_of(facts, metric)
    return GuardCheck(
        name=f"{metric.value} {limit.kind.value}",
        kind=limit.kind,
        outcome=outcome,
        reason=reason,
        metric=metric,
        unit=metric.unit,
        value=None if quantity is None else quantity.point,
        limit=limit.value,
        smallest_detectable_change=None if quantity is None else _detectable(quantity, metric.better),
        obstacle=doubt if doubt and reason.endswith(doubt) else "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judge:
    metric: Metric
    limit: Limit

    def judge(self, facts: RunFacts, figure: Figure | None, quantity: Quantity | None) -> tuple[Outcome, str]:
        if figure is None or quantity is None:
            missing = {
                Metric.MEMORY: "the record has no peak memory of the whole model",
                Metric.QUALITY: "no comparison tells the quality of this model; give --quality quants.json",
            }
            told = missing.get(self.metric, f"the record has no {self.metric.value} measurement")
            return Outcome.INCONCLUSIVE, told
        figures = figures_text(self.limit.kind, self.metric, quantity.point, self.limit.value)
        doubt = doubt_of(facts, self.metric)
        if doubt and self._is_bound(facts, quantity):
            outcome, told = self._by_range(figure, quantity, figures)
            if outcome is Outcome.PASS:
                return outcome, f"{told}, on a busy machine, which makes nothing better"
        if doubt:
            return Outcome.INCONCLUSIVE, f"{figures}: {doubt}"
        if self.metric is Metric.QUALITY:
            return _judged_by_test(figure, figures)
        return self._by_range(figure, quantity, figures)

    def _is_bound(self, facts: RunFacts, quantity: Quantity) -> bool:
        """Whether all that is wrong with a figure is that others were at work: alone the machine is no slower, as the verdict says as well.

        What is extrapolated from slices bounds nothing: a neighbour that slows the smaller slice makes the whole model look faster.
        """
        return quantity.basis is Basis.MEASURED and doubt_of(replace(facts, busy=()), self.metric) == ""

    def _by_range(self, figure: Figure, quantity: Quantity, figures: str) -> tuple[Outcome, str]:
        is_floor = self.metric.better is Better.HIGHER
        beyond, word = ("below", "floor") if is_floor else ("above", "ceiling")
        if not self._holds(quantity.point):
            return Outcome.FAIL, f"{figures}: {beyond} the {word}"
        if not quantity.interval_known:
            return Outcome.PASS, f"{figures}: holds (a plain number without an interval)"
        if quantity.low is None or quantity.high is None:
            return (
                Outcome.INCONCLUSIVE,
                f"{figures}: a single repetition has no interval, measure with a larger --budget",
            )
        low, high = (figure_text(self.metric, value) for value in (quantity.low, quantity.high))
        if self.metric.unit == "tokens/s":
            low, high = f"{quantity.low:.2f}", f"{quantity.high:.2f}"
        level = "" if figure.level is None else f"{figure.level:.0%} "
        interval = f"{level}interval {low} to {high}"
        if self._holds(quantity.low if is_floor else quantity.high):
            return Outcome.PASS, f"{figures}: holds, {interval}"
        return Outcome.INCONCLUSIVE, f"{figures}: the {interval} reaches {beyond} the {word}"

    def _holds(self, value: float) -> bool:
        return value >= self.limit.value if self.metric.better is Better.HIGHER else value <= self.limit.value


def _judged_by_test(figure: Figure, figures: str) -> tuple[Outcome, str]:
    """What the comparison's own test decided, corrected for the number of candidates there."""
    if figure.judged is None:
        return Outcome.INCONCLUSIVE, f"{figures}: not enough items to show either ({figure.source})"
    if figure.judged:
        return Outcome.PASS, f"{figures}: holds ({figure.source})"
    return Outcome.FAIL, f"{figures}: below the floor ({figure.source})"


def _detectable(quantity: Quantity, better: Better) -> float | None:
    end = quantity.low if better is Better.HIGHER else quantity.high
    if end is None or not quantity.interval_known or not quantity.point or math.isinf(quantity.point):
        return None
    return abs(quantity.point - end) / quantity.point

"""From a load tool's result to what a guard looks at: percentiles over all attempts, in which a failed request is endless."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from suffice.decide.guard_types import Figure, Metric, RunFacts
from suffice.decide.quantity import Quantity
from suffice.model.basis import Basis
from suffice.model.served import Mapping
from suffice.stats.percentiles import percentile

if TYPE_CHECKING:
    from suffice.model.served import ServedLoad, ServedTimes

_MEDIAN: Final = 0.5
_P90: Final = 0.9


def facts_of_load(load: ServedLoad, name: str) -> RunFacts:
    """Time to first token (median and P90) and the decode rate of one user, 1 / TPOT at its median; for limits, not for comparisons.

    Args:
        load: of one run of a load tool.
        name: that it is called by in sentences.
    """
    figures = {
        Metric.TTFT: _time(load, load.ttft, _MEDIAN),
        Metric.TTFT_P90: _time(load, load.ttft, _P90),
        Metric.DECODE: _rate(_time(load, load.tpot, _MEDIAN)),
    }
    known = {metric: figure for metric, figure in figures.items() if figure is not None}
    return RunFacts(name=name, created_at=None, fingerprint={}, figures=known, doubts=load.problems)


def _time(load: ServedLoad, times: ServedTimes | None, fraction: float) -> Figure | None:
    """A percentile over all attempts. One that the tool took of its successes alone, or by another definition, is in doubt."""
    if times is None or not times.usable:
        return None
    if times.values_s is None:
        return _told(times, fraction)
    failures = [math.inf] * (load.failed or 0)
    found = percentile([*times.values_s, *failures], fraction)
    if found is None:
        return None
    doubt = _doubt(load, times)
    if not found.supported:
        doubt = f"this percentile needs {found.needed} requests, there are {found.samples}"
    quantity = Quantity(point=found.observed, low=found.low, high=found.high, basis=Basis.MEASURED)
    return Figure(quantity=quantity, level=found.level, doubt=doubt)


def _doubt(load: ServedLoad, times: ServedTimes) -> str:
    if times.mapping is not Mapping.EXACT:
        return f"the tool's time is a {times.mapping.value} of ours: {times.why}"
    if load.failed is None:
        return "the tool does not say how many requests failed"
    return "" if load.keeps_schedule else "the client fell behind its schedule, so waiting is left out"


def _told(times: ServedTimes, fraction: float) -> Figure | None:
    """A percentile as the tool itself took it, over all attempts; other ones have no interval."""
    for one in times.of_attempts:
        if math.isclose(one.fraction, fraction):
            quantity = Quantity(point=one.observed_s, low=one.low_s, high=one.high_s, basis=Basis.MEASURED)
            few = f"this percentile needs {one.needed} requests, there are {one.samples}" if one.low_s is None else ""
            return Figure(quantity=quantity, level=None, doubt=few)
    for told, value_s in times.percentiles:
        if math.isclose(told, fraction):
            quantity = Quantity(point=value_s, low=None, high=None, basis=Basis.MEASURED)
            return Figure(quantity=quantity, doubt="the file holds no times of single requests, so it has no interval")
    return None


def _rate(figure: Figure | None) -> Figure | None:
    if figure is None or figure.quantity is None or figure.quantity.point <= 0:
        return None
    return Figure(quantity=figure.quantity.inverted(), level=figure.level, doubt=figure.doubt)

"""How much load a server carries: whether limits hold, what it answers when it never rests, the most users and the highest rate.

The searches of :mod:`suffice.serving.search` start from one load and widen; these start from what theory bounds: no server answers a
higher rate for long than the one it answers when its queue is never empty.
"""

from __future__ import annotations

import math
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from suffice.serving.load import ClosedLoop, OpenArrivals
from suffice.serving.search import keeps_limits
from suffice.serving.simulate import simulate
from suffice.serving.summary import STEADY, run_percentiles, steady_rates
from suffice.stats.intervals import median
from suffice.units import LARGEST_FIGURE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from suffice.serving.curve import ServiceCurve
    from suffice.serving.load import LengthModel, Load
    from suffice.serving.schedulers import Scheduler
    from suffice.serving.search import LatencyLimit, Trial

_USERS_A_PLACE: Final = 2  # of a saturated server: one is served, one waits
_KNOWN_ORDERS: Final = 256
_ROUNDS: Final = 6  # requests of each of its users: the first and the last do not count


class Proof(StrEnum):
    """What several runs have to say of limits; they disagree near the load at which these begin to fail."""

    HOLDS = "holds"  # shown to hold
    MEDIAN = "median"  # in more runs than not
    MAY_HOLD = "may hold"  # not shown to fail

    def passes_of(self, trial: Trial) -> int:
        """Runs of a trial that must keep the limits."""
        match self:
            case Proof.HOLDS:
                return trial.passes_needed
            case Proof.MEDIAN:
                return trial.runs // 2 + 1
            case Proof.MAY_HOLD:
                return trial.runs - trial.passes_needed + 1


def holds(
    curve: ServiceCurve,
    scheduler: Scheduler,
    load: Load,
    limits: Sequence[LatencyLimit],
    trial: Trial,
    proof: Proof = Proof.HOLDS,
) -> bool:
    """Whether limits hold, by the proof that is asked for; stops at the first runs that settle it.

    A run that is too short for a percentile keeps no limit, but does not show that one fails either. What all runs say together does not depend
    on their order: one that broke a limit of the same requests is simulated first the next time, on whatever machine.
    """
    needed, passes = proof.passes_of(trial), 0
    order = _order_of(load.prompt, load.output, load.requests, trial.seed, trial.runs)
    for done, number in enumerate(tuple(order.seeds), start=1):
        kept = keeps_limits(curve, scheduler, load, number, limits, trial.window)
        passed = (kept is not False) if proof is Proof.MAY_HOLD else (kept is True)
        passes += passed
        if not passed and proof is not Proof.MAY_HOLD:
            order.put_first(number)
        if passes >= needed or passes + trial.runs - done < needed:
            break
    return passes >= needed


class _Order:
    """Seeds of the runs of a trial, those that broke limits last first."""

    __slots__ = ("seeds",)

    def __init__(self, seeds: Iterable[int]) -> None:
        self.seeds = tuple(seeds)

    def put_first(self, seed: int) -> None:
        """A run broke a limit."""
        self.seeds = (seed, *(other for other in self.seeds if other != seed))


@lru_cache(maxsize=_KNOWN_ORDERS)
def _order_of(prompt: LengthModel, output: LengthModel, requests: int, seed: int, runs: int) -> _Order:  # noqa: ARG001  # the key
    return _Order(range(seed, seed + runs))


def percentiles_of_runs(
    curve: ServiceCurve, scheduler: Scheduler, load: Load, limits: Sequence[LatencyLimit], trial: Trial
) -> tuple[tuple[float, ...], ...]:
    """Of each limit the value of its percentile in each run, infinite where too many requests got no answer."""
    runs = [simulate(curve, scheduler, load, trial.seed + number) for number in range(trial.runs)]
    return tuple(
        tuple(run_percentiles(run, limit.metric, trial.window, [limit.percent])[0][0] for run in runs)
        for limit in limits
    )


def saturated_rate(curve: ServiceCurve, scheduler: Scheduler, load: Load, *, runs: int = 1, seed: int = 0) -> float:
    """Requests a second that are answered while there is always one that waits: the median over runs."""
    crowd = ClosedLoop(users=_USERS_A_PLACE * scheduler.most_requests)
    full = replace(load, arrivals=crowd, requests=max(load.requests, _ROUNDS * crowd.users))
    rates = [
        steady_rates(simulate(curve, scheduler, full, seed + number), STEADY).requests_per_second
        for number in range(runs)
    ]
    return median(rates)


def at_rate(load: Load, rate_per_s: float) -> Load:
    """The load in an open loop of Poisson arrivals at a rate.

    Rates beyond what any machine knows, one request in 30 years or 10^9 in a second, are simulated as those: clocks of 10^17 s have no
    milliseconds left, and at either end a further factor changes no latency.
    """
    return replace(load, arrivals=arrivals_at(rate_per_s))


def arrivals_at(rate_per_s: float) -> OpenArrivals:
    """Poisson arrivals at a rate, of :func:`at_rate`."""
    return OpenArrivals(rate_per_s=min(max(rate_per_s, 1 / LARGEST_FIGURE), LARGEST_FIGURE))


def largest_between(low: float, high: float, is_good: Callable[[float], bool], *, tolerance: float) -> float:
    """The largest value that is good, to a share of ``tolerance``, between one that is known to be and one that is not."""
    while high > low * (1 + tolerance):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if is_good(middle) else (low, middle)
    return low


def largest_whole(start: int, most: int, is_good: Callable[[int], bool]) -> int:
    """The largest whole number up to ``most`` that is good, 0 when none is; from ``start`` on by doubling or halving.

    What is good is taken to stay so for smaller numbers; who knows better tries them one by one (:mod:`suffice.decide.service_users`).
    """
    start = max(1, min(start, most))
    if is_good(start):
        low, high = start, min(most, start * 2)
        while high > low and is_good(high):
            low, high = high, min(most, high * 2)
        if high == low:
            return low
    else:
        low, high = 0, start
        while high > 1:
            low = high // 2
            if is_good(low):
                break
            low, high = 0, low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_good(middle) else (low, middle)
    return low

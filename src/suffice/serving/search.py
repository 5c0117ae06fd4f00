"""How much is enough: limits at percentiles, the fewest slots or machines, the highest rate, and how long a queue takes.

A limit holds when the percentile of a run stays under it in so many of the simulated runs that, were it over the limit in half
of all possible runs, this would be seen with a probability of at most ``1 - confidence``: a sign test on the median over
runs. Five runs that all pass give 97 %. A run that fails early ends the test: most candidates cost one or two runs.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np

from suffice.serving.load import ClosedLoop, OpenArrivals
from suffice.serving.simulate import simulate
from suffice.serving.summary import LEAST_SAMPLES, STEADY, Window, estimate_over, latency_of, run_percentiles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from suffice.serving.curve import ServiceCurve
    from suffice.serving.load import Load
    from suffice.serving.run import SimulatedRun
    from suffice.serving.schedulers import Scheduler
    from suffice.stats.estimate import Estimate

DEFAULT_CONFIDENCE: Final = 0.95
DEFAULT_RUNS: Final = 5
_MOST_DOUBLINGS: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyLimit:
    """``metric`` (``ttft_s``, ``tpot_s`` or ``e2e_s``) stays at or under ``seconds`` for ``percent`` % of the attempts."""

    metric: str
    seconds: float
    percent: float = 95.0

    def __post_init__(self) -> None:
        if not 0 < self.seconds < math.inf or not 0 < self.percent < 100:  # noqa: PLR2004  # per cent
            raise ValueError("a limit is a positive number of seconds at a percentile between 0 and 100")


class Holding(StrEnum):
    """Whether limits hold."""

    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "undecided"  # the runs disagree, or are too short for the percentile


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """How to test: so many runs from a seed on, the window that counts, the confidence that is asked for."""

    runs: int = DEFAULT_RUNS
    seed: int = 0
    confidence: float = DEFAULT_CONFIDENCE
    window: Window = STEADY

    def __post_init__(self) -> None:
        if self.runs < 1 or not 0.5 <= self.confidence < 1:  # noqa: PLR2004  # a coin
            raise ValueError("a trial has at least one run and a confidence from 0.5 to under 1")
        if self.runs < self.least_runs:
            raise ValueError(
                f"{self.runs} runs cannot show anything with a confidence of {self.confidence:g}; give {self.least_runs} or more"
            )

    @property
    def least_runs(self) -> int:
        """Runs that can reach the confidence when all agree: ``0.5^n <= 1 - confidence``."""
        return next(count for count in itertools.count(1) if 0.5**count <= 1 - self.confidence)

    @property
    def passes_needed(self) -> int:
        """The fewest passing runs whose chance under a fair coin is at most ``1 - confidence``."""
        chance, needed = 0.0, self.runs + 1
        while needed > 0:
            chance += math.comb(self.runs, needed - 1) / 2**self.runs
            if chance > 1 - self.confidence:
                break
            needed -= 1
        return needed


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One candidate that was tried: a number of slots, of machines, or a rate."""

    value: float
    holding: Holding
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The answer of a search; ``value`` None: nothing up to the end of the search holds the limits."""

    value: float | None
    probes: tuple[Probe, ...]


def run_holds(run: SimulatedRun, limits: Sequence[LatencyLimit], window: Window) -> bool | None:
    """Whether one run holds all limits; None when it is too short to say so of a percentile."""
    verdicts: list[bool | None] = []
    for limit in limits:
        value, attempts = run_percentiles(run, limit.metric, window, [limit.percent])[0]
        if attempts < least_samples(limit.percent):
            verdicts.append(None)
        else:
            verdicts.append(value <= limit.seconds)
    if False in verdicts:
        return False
    return None if None in verdicts else True


def least_samples(percent: float) -> int:
    """Attempts that a run needs for a percentile: the next higher one of those that are known."""
    return LEAST_SAMPLES[min((known for known in LEAST_SAMPLES if known >= percent), default=max(LEAST_SAMPLES))]


def holding_of_runs(runs: Sequence[SimulatedRun], limits: Sequence[LatencyLimit], trial: Trial) -> Holding:
    """Whether the limits hold in the runs of a trial, fail, or neither can be said with its confidence."""
    verdicts = [run_holds(run, limits, trial.window) for run in runs]
    if verdicts.count(True) >= trial.passes_needed:
        return Holding.HOLDS
    return Holding.FAILS if verdicts.count(False) >= trial.passes_needed else Holding.UNDECIDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Attainment:
    """How many requests kept all limits.

    Attributes:
        share: of the attempts for which it is known; failures miss; None without such attempts.
        goodput_requests_per_second: attaining requests over the time of the window; None when that has no length.
        undetermined: attempts of which it is not known: a limit on TPOT and an answer of one token.
    """

    share: float | None
    goodput_requests_per_second: float | None
    undetermined: int


def attainment_of(run: SimulatedRun, limits: Sequence[LatencyLimit], window: Window) -> Attainment:
    """The requests of a run that keep every limit's seconds, each on its own, whatever the percentile."""
    kept = window.requests(run)
    served = run.served[kept]
    values = {limit.metric: latency_of(run, limit.metric)[kept] for limit in limits}
    unknown = served & np.any([np.isnan(column) for column in values.values()], axis=0)
    within = np.all([values[limit.metric] <= limit.seconds for limit in limits], axis=0) & served & ~unknown
    known = len(served) - int(unknown.sum())
    arrivals = run.arrival_s[kept]
    length_s = float(arrivals[-1] - arrivals[0]) if window.lead or window.tail else run.end_s
    return Attainment(
        share=int(within.sum()) / known if known else None,
        goodput_requests_per_second=int(within.sum()) / length_s if length_s > 0 else None,
        undetermined=int(unknown.sum()),
    )


def smallest_slots(
    curve: ServiceCurve,
    scheduler_of: Callable[[int], Scheduler],
    load: Load,
    limits: Sequence[LatencyLimit],
    *,
    most: int,
    trial: Trial,
) -> Found:
    """The fewest slots (or sequences) at which the limits hold.

    More slots shorten the queue and lengthen each step, so limits may hold in the middle only: all numbers are tried from 1 on.
    """
    probes = []
    for slots in range(1, most + 1):
        holding, runs = _quick(curve, scheduler_of(slots), load, limits, trial)
        probes.append(Probe(value=slots, holding=holding, runs=runs))
        if holding is Holding.HOLDS:
            return Found(value=slots, probes=tuple(probes))
    return Found(value=None, probes=tuple(probes))


def _quick(
    curve: ServiceCurve, scheduler: Scheduler, load: Load, limits: Sequence[LatencyLimit], trial: Trial
) -> tuple[Holding, int]:
    """``HOLDS``, or that this is not shown, as soon as it cannot be shown any more."""
    passes = 0
    for number in range(trial.runs):
        verdict = run_holds(simulate(curve, scheduler, load, trial.seed + number), limits, trial.window)
        if verdict is None:
            return Holding.UNDECIDED, number + 1
        passes += verdict
        if passes >= trial.passes_needed:
            return Holding.HOLDS, number + 1
        if number + 1 - passes > trial.runs - trial.passes_needed:
            return (Holding.UNDECIDED if passes else Holding.FAILS), number + 1
    return Holding.UNDECIDED, trial.runs


def smallest_machines(
    curve: ServiceCurve,
    scheduler: Scheduler,
    load: Load,
    limits: Sequence[LatencyLimit],
    *,
    most: int,
    trial: Trial,
) -> Found:
    """The fewest equal machines among which a load is split at random, each with its share of the rate or of the users.

    A random share of Poisson arrivals is Poisson; a router that knows the queues does better. More machines never do worse
    here, so the number is doubled and then halved.

    Raises:
        ValueError: the arrivals are given times, which nobody can share out.
    """

    def holding(machines: int) -> tuple[Holding, int]:
        return _quick(curve, scheduler, _share(load, machines), limits, trial)

    probes: list[Probe] = []

    def holds(machines: int) -> bool:
        verdict, runs = holding(machines)
        probes.append(Probe(value=machines, holding=verdict, runs=runs))
        return verdict is Holding.HOLDS

    high = 1
    while not holds(high):
        if high >= most:
            return Found(value=None, probes=tuple(probes))
        high = min(most, high * 2)
    low = high // 2  # fails, or is none
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return Found(value=high, probes=tuple(probes))


def _share(load: Load, machines: int) -> Load:
    """What one of several machines gets."""
    arrivals = load.arrivals
    if isinstance(arrivals, OpenArrivals):
        return replace(load, arrivals=replace(arrivals, rate_per_s=arrivals.rate_per_s / machines))
    if isinstance(arrivals, ClosedLoop):
        return replace(load, arrivals=replace(arrivals, users=math.ceil(arrivals.users / machines)))
    raise ValueError("arrivals at given times cannot be shared out; give a rate or a number of users")


def highest_rate(
    curve: ServiceCurve,
    scheduler: Scheduler,
    load: Load,
    limits: Sequence[LatencyLimit],
    *,
    trial: Trial,
    tolerance: float = 0.02,
) -> Found:
    """The highest rate at which the limits hold, to a share of ``tolerance``; the load's own rate is the first that is tried.

    The same seeds at every rate: patterns of arrivals are stretched, not drawn anew, so neighbours differ by their rate alone.

    Raises:
        ValueError: the arrivals are no open loop.
    """
    arrivals = load.arrivals
    if not isinstance(arrivals, OpenArrivals):
        raise ValueError(  # noqa: TRY004  # of a load, one kind among several
            "the highest rate needs arrivals of an open loop"
        )
    probes: list[Probe] = []

    def holds(rate_per_s: float) -> bool:
        asked = replace(load, arrivals=replace(arrivals, rate_per_s=rate_per_s))
        verdict, runs = _quick(curve, scheduler, asked, limits, trial)
        probes.append(Probe(value=rate_per_s, holding=verdict, runs=runs))
        return verdict is Holding.HOLDS

    low = high = arrivals.rate_per_s
    if holds(low):
        for _ in range(_MOST_DOUBLINGS):
            high *= 2
            if not holds(high):
                break
            low = high
        else:
            return Found(value=low, probes=tuple(probes))
    else:
        for _ in range(_MOST_DOUBLINGS):
            low /= 2
            if holds(low):
                break
            high = low
        else:
            return Found(value=None, probes=tuple(probes))
    while high > low * (1 + tolerance):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return Found(value=low, probes=tuple(probes))


def drain_time_s(
    curve: ServiceCurve, scheduler: Scheduler, load: Load, *, runs: int = DEFAULT_RUNS, seed: int = 0
) -> Estimate:
    """Seconds until the last answer to a load, one value a run: of a batch that is there at the start, its time to drain."""
    return estimate_over([simulate(curve, scheduler, load, seed + number).end_s for number in range(runs)])

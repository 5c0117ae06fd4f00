"""Whether limits hold at percentiles, how many requests keep them, and how long a queue takes.

A limit holds when the percentile of a run stays under it in so many of the simulated runs that, were it over the limit in half
of all possible runs, this would be seen with a probability of at most ``1 - confidence``: a sign test on the median over
runs. Five runs that all pass give 97 %. What is found with them, is in :mod:`suffice.serving.sizing`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np

from suffice.serving.simulate import simulate, simulate_until_certain
from suffice.serving.summary import STEADY, Window, latency_of, least_samples, run_percentiles
from suffice.stats.intervals import median

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.serving.curve import ServiceCurve
    from suffice.serving.load import Load
    from suffice.serving.run import SimulatedRun
    from suffice.serving.schedulers import Scheduler

DEFAULT_CONFIDENCE: Final = 0.95
DEFAULT_RUNS: Final = 5


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
        return least_runs(self.confidence)

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
    """One candidate that was tried: a number of slots, of machines, or a rate.

    Attributes:
        value: the candidate.
        holding: what its runs say; as soon as it cannot be shown any more that the limits hold, there are no further runs.
        runs: until then.
        confirming: the runs have fresh seeds, because the candidate held the limits under the first ones.
    """

    value: float
    holding: Holding
    runs: int
    confirming: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The answer of a search.

    Attributes:
        value: None: nothing up to the end of the search holds the limits.
        probes: all that was tried, in order.
        reason: one sentence why there is no value; empty with one.
        notes: what the runs of the answer (without one: all runs) asked beyond the curve's measurements.
    """

    value: float | None
    probes: tuple[Probe, ...]
    reason: str = ""
    notes: tuple[str, ...] = ()

    @property
    def undecided(self) -> bool:
        """There is no answer, and of some candidates the runs cannot tell, or a second time not what they told first."""
        return self.value is None and any(
            probe.holding is Holding.UNDECIDED or probe.confirming for probe in self.probes
        )


def least_runs(confidence: float) -> int:
    """Runs that can reach a confidence when all agree: ``0.5^n <= 1 - confidence``."""
    count = 1
    while 0.5**count > 1 - confidence:
        count += 1
    return count


def keeps_limits(
    curve: ServiceCurve, scheduler: Scheduler, load: Load, seed: int, limits: Sequence[LatencyLimit], window: Window
) -> bool | None:
    """:func:`run_holds` of one simulated run, which ends as soon as that is certain."""
    run = simulate_until_certain(curve, scheduler, load, seed, limits, window)
    return run if isinstance(run, bool) else run_holds(run, limits, window)


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


def drain_time_s(curve: ServiceCurve, scheduler: Scheduler, load: Load, *, runs: int = DEFAULT_RUNS) -> float:
    """Seconds until the last answer to a load, the median over runs: of a batch that is there at the start, its time to drain."""
    return median([simulate(curve, scheduler, load, seed).end_s for seed in range(runs)])

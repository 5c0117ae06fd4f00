"""How much is enough: the fewest slots, the fewest machines, and the highest rate at which limits hold.

A search tries many candidates, and of many that fall short one passes by chance. So a candidate that holds is an answer only
after it held again under fresh seeds. The k-th such confirmation has a confidence of ``1 - (1 - confidence) / (k (k + 1))``;
these errors sum up to ``1 - confidence`` at most, however many candidates come up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from suffice.serving.curve import farthest
from suffice.serving.load import ClosedLoop, GivenArrivals, OpenArrivals
from suffice.serving.search import Found, Holding, Probe, least_runs, run_holds
from suffice.serving.simulate import simulate
from suffice.serving.summary import WHOLE, least_samples, run_percentiles
from suffice.units import format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from suffice.serving.curve import Reached, ServiceCurve
    from suffice.serving.load import Load
    from suffice.serving.schedulers import Scheduler
    from suffice.serving.search import LatencyLimit, Trial

_MOST_DOUBLINGS: Final = 40
_MOST_ALONE: Final = 400  # requests of a run that shows one at a time
_FINEST: Final = 32  # machines up to which an answer that is not confirmed is raised by one
_UNTIL = {"ttft_s": "to its first token", "tpot_s": "per output token", "e2e_s": "to its last token"}


@dataclass(slots=True, kw_only=True)
class _Tests:
    """Candidates of one search: all are tested under the same seeds, those that hold once more under fresh ones."""

    curve: ServiceCurve
    limits: Sequence[LatencyLimit]
    trial: Trial
    probes: list[Probe] = field(default_factory=list)
    reached: dict[float, list[Reached]] = field(default_factory=dict)
    confirmations: int = 0
    fresh_seed: int = 0
    too_short: bool = False

    def holds(self, value: float, scheduler: Scheduler, load: Load) -> bool:
        """Whether a candidate holds under the seeds of the search."""
        return self._holds(value, scheduler, load, self.trial, confirming=False)

    def confirmed(self, value: float, scheduler: Scheduler, load: Load) -> bool:
        """Whether it holds under seeds that no other candidate had, twice as many."""
        self.confirmations += 1
        confidence = 1 - (1 - self.trial.confidence) / (self.confirmations * (self.confirmations + 1))
        runs = max(2 * self.trial.runs, least_runs(confidence))
        seed = self.trial.seed + self.trial.runs + self.fresh_seed
        self.fresh_seed += runs
        trial = replace(self.trial, runs=runs, seed=seed, confidence=confidence)
        return self._holds(value, scheduler, load, trial, confirming=True)

    def _holds(self, value: float, scheduler: Scheduler, load: Load, trial: Trial, *, confirming: bool) -> bool:
        holding, runs = self._quick(value, scheduler, load, trial)
        self.probes.append(Probe(value=value, holding=holding, runs=runs, confirming=confirming))
        return holding is Holding.HOLDS

    def _quick(self, value: float, scheduler: Scheduler, load: Load, trial: Trial) -> tuple[Holding, int]:
        """``HOLDS``, or that this is not shown, as soon as it cannot be shown any more."""
        passes = 0
        for number in range(trial.runs):
            run = simulate(self.curve, scheduler, load, trial.seed + number)
            self.reached.setdefault(value, []).append(run.reached)
            verdict = run_holds(run, self.limits, trial.window)
            if verdict is None:
                self.too_short = True
                return Holding.UNDECIDED, number + 1
            passes += verdict
            if passes >= trial.passes_needed:
                return Holding.HOLDS, number + 1
            if number + 1 - passes > trial.runs - trial.passes_needed:
                return (Holding.UNDECIDED if passes else Holding.FAILS), number + 1
        return Holding.UNDECIDED, trial.runs

    def found(self, value: float) -> Found:
        """The answer."""
        notes = self.curve.beyond(farthest(self.reached[value]))
        return Found(value=value, probes=tuple(self.probes), notes=notes)

    def nothing(self, scheduler: Scheduler, load: Load, what: str) -> Found:
        """No answer, and why: ``what`` was tried in vain."""
        notes = self.curve.beyond(farthest(one for runs in self.reached.values() for one in runs))
        reason = self._alone(scheduler, load, what) or self._under_load(what)
        return Found(value=None, probes=tuple(self.probes), reason=reason, notes=notes)

    def _alone(self, scheduler: Scheduler, load: Load, what: str) -> str:
        """The first limit that requests break which have the machine to themselves, one after the other; empty: none."""
        one_user = replace(load, arrivals=ClosedLoop(users=1), requests=min(load.requests, _MOST_ALONE))
        run = simulate(self.curve, scheduler, one_user, self.trial.seed)
        for limit in self.limits:
            value_s, _ = run_percentiles(run, limit.metric, WHOLE, [limit.percent])[0]
            if math.isinf(value_s):
                return f"too many prompts fill the context of a request: no {what} helps, a larger one (--context) does"
            if value_s > limit.seconds:
                return (
                    f"one request alone needs {format_seconds(value_s)} {_UNTIL[limit.metric]} (P{limit.percent:g}), "
                    f"the limit is {format_seconds(limit.seconds)}: no {what} helps"
                )
        return ""

    def _under_load(self, what: str) -> str:
        if self.too_short and all(probe.holding is Holding.UNDECIDED for probe in self.probes):
            percent = max(limit.percent for limit in self.limits)
            return (
                f"the runs are too short: P{percent:g} needs {least_samples(percent)} requests that count in each run, "
                "so simulate more requests"
            )
        undecided = any(probe.holding is Holding.UNDECIDED or probe.confirming for probe in self.probes)
        more = "; some are undecided, which more runs may settle" if undecided else ""
        return f"a request alone keeps the limits, but under this load no {what} that was tried does{more}"


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

    More slots shorten the queue and lengthen each step, so limits may hold in the middle only: all numbers are tried from 1 on,
    but no more than requests can be there at once.
    """
    tests = _Tests(curve=curve, limits=limits, trial=trial)
    for slots in range(1, min(most, _most_at_once(load)) + 1):
        scheduler = scheduler_of(slots)
        if tests.holds(slots, scheduler, load) and tests.confirmed(slots, scheduler, load):
            return tests.found(slots)
    return tests.nothing(scheduler_of(1), load, "number of slots")


def _most_at_once(load: Load) -> int:
    """Requests that can be at the server at the same time."""
    return min(load.requests, load.arrivals.users) if isinstance(load.arrivals, ClosedLoop) else load.requests


def smallest_machines(
    curve: ServiceCurve,
    scheduler: Scheduler,
    load: Load,
    limits: Sequence[LatencyLimit],
    *,
    most: int,
    trial: Trial,
) -> Found:
    """The fewest equal machines among which a load is split at random, each with its share of the rate, the users or the queue.

    A random share of Poisson arrivals is Poisson; a router that knows the queues does better. More machines never do worse
    here, so the number is doubled and then halved. An answer that is not confirmed is raised until one is.

    Raises:
        ValueError: the arrivals are given times that differ, which nobody can share out.
    """
    tests = _Tests(curve=curve, limits=limits, trial=trial)
    most = min(most, _most_at_once(load))
    low, high = 0, 1
    while not tests.holds(high, scheduler, share_of(load, high)):
        if high >= most:
            return tests.nothing(scheduler, load, "number of machines")
        low, high = high, min(most, high * 2)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if tests.holds(middle, scheduler, share_of(load, middle)) else (middle, high)
    while not tests.confirmed(high, scheduler, share_of(load, high)):
        if high >= most:
            return tests.nothing(scheduler, load, "number of machines")
        high = min(most, high + max(1, high // _FINEST))
    return tests.found(high)


def share_of(load: Load, machines: int) -> Load:
    """What one of several machines gets.

    Raises:
        ValueError: the arrivals are given times that differ.
    """
    arrivals = load.arrivals
    if isinstance(arrivals, OpenArrivals):
        return replace(load, arrivals=replace(arrivals, rate_per_s=arrivals.rate_per_s / machines))
    if isinstance(arrivals, ClosedLoop):
        return replace(load, arrivals=replace(arrivals, users=math.ceil(arrivals.users / machines)))
    requests = math.ceil(load.requests / machines)
    if len(set(arrivals.times_s)) > 1:
        raise ValueError(
            "arrivals at given times cannot be shared out; give a rate, a number of users, or a queue that is there at the start"
        )
    return replace(load, arrivals=GivenArrivals(times_s=arrivals.times_s[:requests]), requests=requests)


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
    An answer that is not confirmed is lowered by the tolerance until one is.

    Raises:
        ValueError: the arrivals are no open loop.
    """
    arrivals = load.arrivals
    if not isinstance(arrivals, OpenArrivals):
        raise ValueError(  # noqa: TRY004  # of a load, one kind among several
            "the highest rate needs arrivals of an open loop"
        )
    tests = _Tests(curve=curve, limits=limits, trial=trial)

    def at(rate_per_s: float) -> Load:
        return replace(load, arrivals=replace(arrivals, rate_per_s=rate_per_s))

    low, high = _bracket(lambda rate: tests.holds(rate, scheduler, at(rate)), arrivals.rate_per_s)
    if low is None:
        return tests.nothing(scheduler, load, "rate")
    while low * (1 + tolerance) < high < math.inf:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if tests.holds(middle, scheduler, at(middle)) else (low, middle)
    for _ in range(_MOST_DOUBLINGS):
        if tests.confirmed(low, scheduler, at(low)):
            return tests.found(low)
        low /= 1 + tolerance
    return tests.nothing(scheduler, load, "rate")


def _bracket(holds: Callable[[float], bool], start: float) -> tuple[float | None, float]:
    """A rate that holds (None: none does) and twice that rate, which does not (infinite: all do)."""
    low = high = start
    if holds(start):
        for _ in range(_MOST_DOUBLINGS):
            high *= 2
            if not holds(high):
                return low, high
            low = high
        return low, math.inf
    for _ in range(_MOST_DOUBLINGS):
        low /= 2
        if holds(low):
            return low, high
        high = low
    return None, high

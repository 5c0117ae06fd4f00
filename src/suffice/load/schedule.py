"""When requests arrive: pure functions of a plan and a seed."""

from __future__ import annotations

import itertools
import math
import random
from typing import TYPE_CHECKING

from suffice.load.settings import Arrivals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from suffice.load.settings import LoadPlan


def gaps_s(arrivals: Arrivals, rate_per_s: float, burstiness: float, seed: int) -> Iterator[float]:
    """Endless gaps of mean ``1/rate_per_s``: CV 0 (constant), 1 (poisson), 1/sqrt(burstiness) (gamma)."""
    chance = random.Random(seed)  # noqa: S311  # a schedule that can be repeated, no secret
    mean_s = 1 / rate_per_s
    while True:
        if arrivals is Arrivals.CONSTANT:
            yield mean_s
        elif arrivals is Arrivals.POISSON:
            yield chance.expovariate(rate_per_s)
        else:
            yield chance.gammavariate(burstiness, mean_s / burstiness)


def arrivals_s(plan: LoadPlan) -> Iterator[float]:
    """Arrival times from 0 on: ``warm_up`` of them, then ``requests`` or those within ``duration_s`` of the first measured one.

    The times are sums of gaps and not points strewn over the duration: with a fixed number of points a Poisson load loses its CV.
    """
    if plan.rate_per_s is None:
        return
    total = math.inf if plan.requests is None else plan.warm_up + plan.requests
    measured_from_s = at_s = 0.0
    gaps = gaps_s(plan.arrivals, plan.rate_per_s, plan.burstiness, plan.seed)
    work = 0.0  # expected arrivals of a ramp since the first measured request
    for index in itertools.count():
        if index == plan.warm_up:
            measured_from_s = at_s
        late = plan.duration_s is not None and index > plan.warm_up and at_s - measured_from_s >= plan.duration_s
        if index >= total or late:
            return
        yield at_s
        if plan.ramp_to_per_s is None or index < plan.warm_up:
            at_s += next(gaps)
        else:
            work += next(gaps) * plan.rate_per_s
            at_s = measured_from_s + ramp_time_s(work, plan.rate_per_s, plan.ramp_to_per_s, plan.duration_s or math.inf)


def ramp_time_s(work: float, from_per_s: float, to_per_s: float, duration_s: float) -> float:
    """When a rate that goes evenly from one to the other in ``duration_s`` has brought ``work`` expected arrivals.

    The inverse of ``L(t) = from t + (to - from) t^2 / (2 duration)``: arrivals of a process of rate 1 at the times L are moved to t
    (Çinlar, Introduction to Stochastic Processes, 1975, chapter 4), which keeps the shape of any gaps. The end of the ramp is the
    end of the load: beyond it the last rate goes on.
    """
    whole = (from_per_s + to_per_s) / 2 * duration_s
    if work >= whole:
        return duration_s + (work - whole) / to_per_s
    slope = (to_per_s - from_per_s) / duration_s
    # The root of the quadratic in the form that needs no division by the slope, which may be 0.
    return 2 * work / (from_per_s + math.sqrt(max(0.0, from_per_s**2 + 2 * slope * work)))

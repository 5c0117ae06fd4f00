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
    for index in itertools.count():
        if index == plan.warm_up:
            measured_from_s = at_s
        late = plan.duration_s is not None and index > plan.warm_up and at_s - measured_from_s >= plan.duration_s
        if index >= total or late:
            return
        yield at_s
        at_s += next(gaps)

"""The simulation agrees with queueing theory where theory has the answer."""

from __future__ import annotations

import math

import numpy as np
import pytest

from suffice.serving.curve import curve_of_points
from suffice.serving.load import EmpiricalLength, FixedLength, LengthModel, Load, OpenArrivals
from suffice.serving.schedulers import KvLayout, LlamaCppScheduler, Scheduler, VllmScheduler
from suffice.serving.simulate import simulate
from suffice.serving.surface import Point
from suffice.serving.theory import erlang_c, md1_mean_wait_s, mmc_mean_wait_s

STEP_S = 0.01
FLAT = [Point(size=size, depth=0, seconds=STEP_S) for size in (1, 4096)]
CURVE = curve_of_points(FLAT, FLAT)
MEAN_TOKENS = 400
SERVICE_S = MEAN_TOKENS * STEP_S


def _mean_wait_s(scheduler: Scheduler, rate_per_s: float, output: LengthModel) -> float:
    load = Load(
        arrivals=OpenArrivals(rate_per_s=rate_per_s), prompt=FixedLength(tokens=1), output=output, requests=12_000
    )
    return float(np.mean([simulate(CURVE, scheduler, load, seed).queueing_s[1000:].mean() for seed in range(2)]))


def test_erlang_c_equals_its_sum() -> None:
    """The recursion gives what the textbook's sum gives, and the known values of one and two servers."""
    for servers, offered in ((1, 0.4), (2, 1.0), (5, 4.2), (30, 27.0)):
        last = offered**servers / math.factorial(servers) * servers / (servers - offered)
        below = sum(offered**k / math.factorial(k) for k in range(servers))

        assert erlang_c(servers, offered) == pytest.approx(last / (below + last))
    assert erlang_c(1, 0.4) == pytest.approx(0.4)  # a single server is busy for its share of the time
    assert erlang_c(2, 1.0) == pytest.approx(1 / 3)


def test_a_full_queue_has_no_mean() -> None:
    """At a utilisation of one and over it there is no steady state."""
    with pytest.raises(ValueError, match="stable"):
        md1_mean_wait_s(1.0, 1.0)
    with pytest.raises(ValueError, match="stable"):
        mmc_mean_wait_s(4.0, 1.0, 4)


@pytest.mark.parametrize("load_share", [0.3, 0.7])
def test_one_slot_with_equal_answers_is_m_d_1(load_share: float) -> None:
    """Mean wait within 5 % of Pollaczek and Khinchine."""
    rate_per_s = load_share / SERVICE_S

    waited_s = _mean_wait_s(
        LlamaCppScheduler(slots=1, context_tokens=4096), rate_per_s, FixedLength(tokens=MEAN_TOKENS)
    )

    assert waited_s == pytest.approx(md1_mean_wait_s(rate_per_s, SERVICE_S), rel=0.05)


@pytest.mark.parametrize(
    "scheduler",
    [
        LlamaCppScheduler(slots=4, context_tokens=1 << 18, layout=KvLayout.UNIFIED),
        VllmScheduler(max_sequences=4, context_tokens=1 << 14, blocks=1 << 14),
    ],
)
def test_slots_with_exponential_answers_are_m_m_c(scheduler: Scheduler) -> None:
    """Four slots that do not slow each other down: mean wait within 8 % of Erlang C, which two seeds reach."""
    lengths = np.random.default_rng(7).geometric(1 / MEAN_TOKENS, 50_000)
    service_s = float(lengths.mean()) * STEP_S
    rate_per_s = 0.6 * 4 / service_s

    waited_s = _mean_wait_s(scheduler, rate_per_s, EmpiricalLength(tokens=tuple(lengths.tolist())))

    assert waited_s == pytest.approx(mmc_mean_wait_s(rate_per_s, service_s, 4), rel=0.08)

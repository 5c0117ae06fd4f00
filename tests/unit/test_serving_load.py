"""Arrivals and lengths have the moments that were asked for, and seeds repeat them."""

from __future__ import annotations

import numpy as np
import pytest

from suffice.model.demand import Lengths
from suffice.serving.curve import curve_of_points
from suffice.serving.load import (
    ArrivalKind,
    ClosedLoop,
    EmpiricalLength,
    FixedLength,
    GivenArrivals,
    Load,
    LognormalLength,
    OpenArrivals,
)
from suffice.serving.schedulers import KvLayout, LlamaCppScheduler
from suffice.serving.simulate import simulate
from suffice.serving.surface import Point

COUNT = 20_000
ONE = FixedLength(tokens=1)
FLAT = [Point(size=size, depth=0, seconds=1.0) for size in (1, 4096)]


@pytest.mark.parametrize(
    ("kind", "cv", "expected_cv"),
    [(ArrivalKind.CONSTANT, 1.0, 0.0), (ArrivalKind.POISSON, 1.0, 1.0), (ArrivalKind.GAMMA, 2.0, 2.0)],
)
def test_gaps_have_the_asked_mean_and_variation(kind: ArrivalKind, cv: float, expected_cv: float) -> None:
    """Four requests a second: gaps of a quarter second, none, as much or twice as much spread."""
    load = Load(arrivals=OpenArrivals(rate_per_s=4, kind=kind, cv=cv), prompt=ONE, output=ONE, requests=COUNT)

    gaps = np.diff(load.draw(1).times_s or [])

    assert gaps.mean() == pytest.approx(0.25, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(expected_cv, rel=0.05, abs=1e-9)


def test_another_rate_stretches_the_same_pattern() -> None:
    """The same seed at twice the rate: the same lengths, all times halved."""
    lengths = LognormalLength(lengths=Lengths(p50=100, p95=300))
    slow, fast = (
        Load(arrivals=OpenArrivals(rate_per_s=rate), prompt=lengths, output=lengths, requests=50).draw(3)
        for rate in (1.0, 2.0)
    )

    assert slow.prompts == fast.prompts
    assert slow.outputs == fast.outputs
    assert slow.prompts != slow.outputs
    assert np.array(slow.times_s) == pytest.approx(2 * np.array(fast.times_s))


def test_seeds_repeat_and_differ() -> None:
    """One seed gives one load, another seed another."""
    load = Load(arrivals=OpenArrivals(rate_per_s=1), prompt=ONE, output=ONE, requests=10)

    assert load.draw(1) == load.draw(1)
    assert load.draw(1) != load.draw(2)


def test_lengths_go_through_their_percentiles() -> None:
    """The median and the 95th percentile of many drawn lengths are those stated."""
    drawn = LognormalLength(lengths=Lengths(p50=400, p95=1600)).draw(np.random.default_rng(1), COUNT)

    assert np.percentile(drawn, [50, 95]) == pytest.approx([400, 1600], rel=0.05)
    assert drawn.min() >= 1


def test_given_lengths_repeat_in_order_or_are_drawn() -> None:
    """In order they start again at the end; drawn ones are all among those given."""
    generator = np.random.default_rng(1)

    assert EmpiricalLength(tokens=(3, 5), in_order=True).draw(generator, 5).tolist() == [3, 5, 3, 5, 3]
    assert set(EmpiricalLength(tokens=(3, 5)).draw(generator, 50).tolist()) == {3, 5}


def test_users_wait_for_their_answers() -> None:
    """Two users without pauses on one slot: each sends its next request when its last is answered."""
    load = Load(arrivals=ClosedLoop(users=2, turnaround_s=0), prompt=ONE, output=FixedLength(tokens=3), requests=6)
    scheduler = LlamaCppScheduler(slots=1, context_tokens=100, layout=KvLayout.UNIFIED)

    run = simulate(curve_of_points(FLAT, FLAT), scheduler, load)

    assert run.arrival_s.tolist() == [0, 0, 3, 6, 9, 12]
    assert run.finish_s.tolist() == [3, 6, 9, 12, 15, 18]


def test_pauses_lengthen_the_cycle_of_a_user() -> None:
    """One user alone: a cycle is the service and a pause, the pauses have the stated mean."""
    load = Load(
        arrivals=ClosedLoop(users=1, think_s=7, turnaround_s=0), prompt=ONE, output=FixedLength(tokens=3), requests=5000
    )
    scheduler = LlamaCppScheduler(slots=1, context_tokens=100)

    run = simulate(curve_of_points(FLAT, FLAT), scheduler, load)

    assert np.diff(run.arrival_s).mean() == pytest.approx(3 + 7, rel=0.05)
    assert (run.queueing_s == 0).all()


def test_users_of_rejected_requests_come_again() -> None:
    """A prompt that does not fit ends at once, and the loop goes on to the last request."""
    load = Load(
        arrivals=ClosedLoop(users=1, turnaround_s=0),
        prompt=EmpiricalLength(tokens=(50, 1), in_order=True),
        output=FixedLength(tokens=2),
        requests=6,
    )

    run = simulate(curve_of_points(FLAT, FLAT), LlamaCppScheduler(slots=1, context_tokens=20), load)

    assert run.served.tolist() == [False, True] * 3
    assert run.end_s == 6


def test_loads_that_cannot_be_are_refused() -> None:
    """No rate, no users, no length, times that fall, fewer times than requests."""
    with pytest.raises(ValueError, match="positive"):
        OpenArrivals(rate_per_s=0)
    with pytest.raises(ValueError, match="at least 1 user"):
        ClosedLoop(users=0)
    with pytest.raises(ValueError, match="at least 1 token"):
        FixedLength(tokens=0)
    with pytest.raises(ValueError, match="ascend"):
        GivenArrivals(times_s=(2.0, 1.0))
    with pytest.raises(ValueError, match="only 1 arrival"):
        Load(arrivals=GivenArrivals(times_s=(0.0,)), prompt=ONE, output=ONE, requests=2).draw(0)

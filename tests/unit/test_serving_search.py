"""Searches for the fewest slots or machines and the highest rate, with answers that can be worked out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from suffice.serving.curve import curve_of_points
from suffice.serving.load import (
    ArrivalKind,
    ClosedLoop,
    EmpiricalLength,
    FixedLength,
    GivenArrivals,
    Load,
    OpenArrivals,
)
from suffice.serving.schedulers import KvLayout, LlamaCppScheduler
from suffice.serving.search import (
    Holding,
    LatencyLimit,
    Trial,
    attainment_of,
    drain_time_s,
    highest_rate,
    holding_of_runs,
    smallest_machines,
    smallest_slots,
)
from suffice.serving.simulate import simulate
from suffice.serving.summary import WHOLE
from suffice.serving.surface import Point

FLAT = [Point(size=size, depth=0, seconds=1.0) for size in (1, 4096)]
ONE_SECOND = curve_of_points(FLAT, FLAT)
TRIAL = Trial()


def _slots(count: int) -> LlamaCppScheduler:
    return LlamaCppScheduler(slots=count, context_tokens=1000, layout=KvLayout.UNIFIED)


def _constant(rate_per_s: float) -> Load:
    """Answers of ten seconds at even gaps."""
    return Load(
        arrivals=OpenArrivals(rate_per_s=rate_per_s, kind=ArrivalKind.CONSTANT),
        prompt=FixedLength(tokens=1),
        output=FixedLength(tokens=10),
        requests=200,
    )


FIRST_TOKEN = LatencyLimit(metric="ttft_s", seconds=2.0)


def test_the_fewest_slots_are_the_offered_load() -> None:
    """One request every 2.5 seconds, each 10 seconds long, needs four slots; three let the queue grow for ever."""
    found = smallest_slots(ONE_SECOND, _slots, _constant(0.4), [FIRST_TOKEN], most=8, trial=TRIAL)

    assert found.value == 4
    assert [probe.holding for probe in found.probes] == [Holding.FAILS] * 3 + [Holding.HOLDS]
    assert [probe.runs for probe in found.probes] == [1, 1, 1, 5]


def test_the_fewest_machines_share_the_rate() -> None:
    """0.4 requests a second on machines of one slot, each good for 0.1: four machines."""
    found = smallest_machines(ONE_SECOND, _slots(1), _constant(0.4), [FIRST_TOKEN], most=64, trial=TRIAL)

    assert found.value == 4
    assert [probe.value for probe in found.probes] == [1, 2, 4, 3]


def test_users_are_shared_out_as_well() -> None:
    """Seven users on machines of two slots wait for nobody only when each machine has two of them: four machines."""
    load = replace(_constant(1), arrivals=ClosedLoop(users=7))

    found = smallest_machines(ONE_SECOND, _slots(2), load, [FIRST_TOKEN], most=64, trial=TRIAL)

    assert found.value == 4


def test_the_highest_rate_is_found_within_its_tolerance() -> None:
    """Four slots of ten seconds carry 0.4 requests a second at even gaps, from a guess above or below."""
    for guess in (0.05, 3.0):
        found = highest_rate(ONE_SECOND, _slots(4), _constant(guess), [FIRST_TOKEN], trial=TRIAL, tolerance=0.02)

        assert found.value == pytest.approx(0.4, rel=0.05)


def test_nothing_is_found_where_nothing_holds() -> None:
    """An answer of ten seconds is never there in five, whatever the slots, the machines or the rate."""
    limit = [LatencyLimit(metric="e2e_s", seconds=5)]

    assert smallest_slots(ONE_SECOND, _slots, _constant(0.1), limit, most=3, trial=TRIAL).value is None
    assert smallest_machines(ONE_SECOND, _slots(1), _constant(0.1), limit, most=8, trial=TRIAL).value is None
    assert highest_rate(ONE_SECOND, _slots(1), _constant(0.1), limit, trial=TRIAL).value is None


def test_a_search_is_repeatable() -> None:
    """The same seed finds the same rate with the same probes."""
    load = replace(_constant(0.2), arrivals=OpenArrivals(rate_per_s=0.2))
    trial = replace(TRIAL, seed=4)

    one, two = (highest_rate(ONE_SECOND, _slots(4), load, [FIRST_TOKEN], trial=trial) for _ in range(2))

    assert one == two
    assert one.value is not None


def test_runs_that_are_too_short_decide_nothing() -> None:
    """P99 needs 368 attempts in a run; 200 leave it undecided even where every request is quick."""
    limit = [LatencyLimit(metric="ttft_s", seconds=100, percent=99)]
    runs = [simulate(ONE_SECOND, _slots(8), _constant(0.1), seed) for seed in range(5)]

    assert holding_of_runs(runs, limit, TRIAL) is Holding.UNDECIDED
    assert holding_of_runs(runs, [FIRST_TOKEN], TRIAL) is Holding.HOLDS
    assert holding_of_runs(runs, [replace(FIRST_TOKEN, seconds=0.5)], TRIAL) is Holding.FAILS


def test_attainment_counts_requests_that_keep_all_limits() -> None:
    """Two answers at once on one slot, 20 seconds apart: first tokens after 1 and 11 seconds, half keep a limit of two."""
    times = tuple(20.0 * (number // 2) for number in range(200))
    load = replace(_constant(1), arrivals=GivenArrivals(times_s=times), output=EmpiricalLength(tokens=(10,)))
    run = simulate(ONE_SECOND, _slots(1), load)

    half = attainment_of(run, [FIRST_TOKEN, LatencyLimit(metric="tpot_s", seconds=1)], WHOLE)
    none = attainment_of(run, [FIRST_TOKEN, LatencyLimit(metric="e2e_s", seconds=5)], WHOLE)

    assert half.share == 0.5
    assert half.goodput_requests_per_second == pytest.approx(100 / 2000)
    assert none.share == 0
    assert half.undetermined == 0


def test_an_answer_of_one_token_leaves_tpot_undetermined() -> None:
    """It neither keeps nor breaks a limit on TPOT; a rejected request breaks it."""
    load = replace(
        _constant(0.01),
        prompt=EmpiricalLength(tokens=(1, 5000), in_order=True),
        output=EmpiricalLength(tokens=(1, 1, 2, 2), in_order=True),
    )
    run = simulate(ONE_SECOND, _slots(1), load)

    attained = attainment_of(run, [LatencyLimit(metric="tpot_s", seconds=9)], WHOLE)

    assert attained.undetermined == 50
    assert attained.share == pytest.approx(50 / 150)


def test_confidence_needs_runs() -> None:
    """Five agreeing runs give 97 %, four give 94 %; of eight, seven must agree for 95 %."""
    assert Trial(runs=5).passes_needed == 5
    assert Trial(runs=8).passes_needed == 7
    assert Trial(runs=7, confidence=0.99).passes_needed == 7
    with pytest.raises(ValueError, match="give 5 or more"):
        Trial(runs=4)


def test_a_queue_drains_in_rounds() -> None:
    """Ten answers of ten seconds over four slots are three rounds."""
    load = replace(_constant(1), arrivals=GivenArrivals(times_s=(0.0,) * 10), requests=10)

    assert drain_time_s(ONE_SECOND, _slots(4), load, runs=1).point == 30


def test_given_times_cannot_be_shared_or_stretched() -> None:
    """Neither machines nor rates can be searched for under given arrival times."""
    load = replace(_constant(1), arrivals=GivenArrivals(times_s=(0.0,) * 200))

    with pytest.raises(ValueError, match="shared out"):
        smallest_machines(ONE_SECOND, _slots(1), load, [FIRST_TOKEN], most=4, trial=TRIAL)
    with pytest.raises(ValueError, match="open loop"):
        highest_rate(ONE_SECOND, _slots(1), load, [FIRST_TOKEN], trial=TRIAL)

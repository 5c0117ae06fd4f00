"""Searches for the fewest slots or machines and the highest rate, with answers that can be worked out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from suffice.serving import sizing
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
    holding_of_runs,
)
from suffice.serving.simulate import simulate
from suffice.serving.sizing import highest_rate, smallest_machines, smallest_slots
from suffice.serving.summary import STEADY, WHOLE, run_percentiles
from suffice.serving.surface import Point

if TYPE_CHECKING:
    from suffice.serving.curve import ServiceCurve
    from suffice.serving.run import SimulatedRun

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


def _poisson(rate_per_s: float) -> Load:
    """The same with Poisson arrivals."""
    return replace(_constant(1), arrivals=OpenArrivals(rate_per_s=rate_per_s))


FIRST_TOKEN = LatencyLimit(metric="ttft_s", seconds=2.0)


def test_the_fewest_slots_are_the_offered_load() -> None:
    """One request every 2.5 seconds, each 10 seconds long, needs four slots; three let the queue grow for ever."""
    found = smallest_slots(ONE_SECOND, _slots, _constant(0.4), [FIRST_TOKEN], most=8, trial=TRIAL)

    assert found.value == 4
    assert [probe.holding for probe in found.probes] == [Holding.FAILS] * 3 + [Holding.HOLDS] * 2
    assert [probe.runs for probe in found.probes] == [1, 1, 1, 5, 9]  # 9 of 10 agree by chance once in 93 times
    assert [probe.confirming for probe in found.probes] == [False] * 4 + [True]


def test_the_fewest_machines_share_the_rate() -> None:
    """0.4 requests a second on machines of one slot, each good for 0.1: four machines."""
    found = smallest_machines(ONE_SECOND, _slots(1), _constant(0.4), [FIRST_TOKEN], most=64, trial=TRIAL)

    assert found.value == 4
    assert [probe.value for probe in found.probes] == [1, 2, 4, 3, 4]


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


def test_nothing_is_found_where_nothing_holds_and_it_is_said_why() -> None:
    """An answer of ten seconds is never there in five, whatever the slots, the machines or the rate: alone it is too slow."""
    limit = [LatencyLimit(metric="e2e_s", seconds=5)]
    slots = smallest_slots(ONE_SECOND, _slots, _constant(0.1), limit, most=3, trial=TRIAL)
    machines = smallest_machines(ONE_SECOND, _slots(1), _constant(0.1), limit, most=8, trial=TRIAL)
    rate = highest_rate(ONE_SECOND, _slots(1), _constant(0.1), limit, trial=TRIAL)

    for found, what in ((slots, "number of slots"), (machines, "number of machines"), (rate, "rate")):
        assert found.value is None
        assert (
            f"one request alone needs 10.00 s to its last token (P95), the limit is 5.00 s: no {what}" in found.reason
        )


def test_the_load_the_context_or_short_runs_are_the_reason_where_they_are() -> None:
    """0.4 requests a second need four slots; prompts over the context fit nowhere; P99 needs 368 requests."""
    crowded = smallest_slots(ONE_SECOND, _slots, _constant(0.4), [FIRST_TOKEN], most=3, trial=TRIAL)
    long = replace(_constant(0.1), prompt=FixedLength(tokens=5000))
    filled = smallest_slots(ONE_SECOND, _slots, long, [FIRST_TOKEN], most=2, trial=TRIAL)
    strict = [replace(FIRST_TOKEN, seconds=100, percent=99)]
    short = smallest_slots(ONE_SECOND, _slots, _constant(0.01), strict, most=2, trial=TRIAL)

    assert "a request alone keeps the limits" in crowded.reason
    assert "--context" in filled.reason
    assert "P99 needs 368 requests" in short.reason


def test_more_slots_than_users_are_not_tried() -> None:
    """Three users can never fill a fourth slot."""
    load = replace(_constant(1), arrivals=ClosedLoop(users=3))

    found = smallest_slots(ONE_SECOND, _slots, load, [replace(FIRST_TOKEN, seconds=0.5)], most=64, trial=TRIAL)

    assert [probe.value for probe in found.probes] == [1, 2, 3]


def test_a_candidate_that_holds_by_chance_is_not_an_answer() -> None:
    """A limit that half of all runs keep holds in three runs of some seeds, and under fresh seeds in none of them."""
    load = _poisson(0.06)
    values = sorted(
        run_percentiles(simulate(ONE_SECOND, _slots(1), load, seed), "ttft_s", STEADY, [95.0])[0][0]
        for seed in range(1000, 1041)
    )
    limit = [LatencyLimit(metric="ttft_s", seconds=values[20])]
    quick = Trial(runs=3, confidence=0.8)

    found = [
        smallest_slots(ONE_SECOND, _slots, load, limit, most=1, trial=replace(quick, seed=100 * start))
        for start in range(60)
    ]

    assert any(one.probes[0].holding is Holding.HOLDS for one in found)
    assert all(one.value is None for one in found)


def test_every_confirmation_is_stricter_and_has_seeds_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three slots numbers hold at first; two are not confirmed, and the third needs all ten runs where nine were enough."""
    seeds: list[tuple[int, int]] = []

    def recorded(curve: ServiceCurve, scheduler: LlamaCppScheduler, load: Load, seed: int) -> SimulatedRun:
        seeds.append((scheduler.slots, seed))
        return simulate(curve, scheduler, load, seed)

    def holds(*_: object) -> bool:
        slots, seed = seeds[-1]
        return seed < TRIAL.runs or slots == 3

    monkeypatch.setattr(sizing, "simulate", recorded)
    monkeypatch.setattr(sizing, "run_holds", holds)

    found = smallest_slots(ONE_SECOND, _slots, _constant(0.4), [FIRST_TOKEN], most=8, trial=TRIAL)

    fresh = [seed for _, seed in seeds if seed >= TRIAL.runs]
    assert found.value == 3
    assert [(probe.value, probe.confirming) for probe in found.probes] == [
        (slots, confirming) for slots in (1, 2, 3) for confirming in (False, True)
    ]
    assert found.probes[-1].runs == 10
    assert len(fresh) == len(set(fresh))


def test_a_rate_or_a_number_of_machines_that_is_not_confirmed_is_moved_to_the_safe_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Five machines where four hold at first only; a rate 2 % lower."""
    asked: list[tuple[float, int]] = []

    def recorded(curve: ServiceCurve, scheduler: LlamaCppScheduler, load: Load, seed: int) -> SimulatedRun:
        assert isinstance(load.arrivals, OpenArrivals)
        asked.append((load.arrivals.rate_per_s, seed))
        return simulate(curve, scheduler, load, seed)

    def holds(*_: object) -> bool:
        rate_per_s, seed = asked[-1]
        return rate_per_s <= (0.1 if seed < TRIAL.runs else 0.09)

    monkeypatch.setattr(sizing, "simulate", recorded)
    monkeypatch.setattr(sizing, "run_holds", holds)

    machines = smallest_machines(ONE_SECOND, _slots(1), _constant(0.4), [FIRST_TOKEN], most=64, trial=TRIAL)
    rate = highest_rate(ONE_SECOND, _slots(1), _constant(0.1), [FIRST_TOKEN], trial=TRIAL)

    assert machines.value == 5
    assert rate.value is not None
    assert 0.09 / 1.02 < rate.value <= 0.09


def test_a_queue_that_is_there_at_the_start_is_shared_out() -> None:
    """400 answers of ten seconds on one slot each: 1000 seconds are enough for P95 when four machines share them."""
    load = replace(_constant(1), arrivals=GivenArrivals(times_s=(0.0,) * 400), requests=400)
    trial = replace(TRIAL, window=WHOLE)

    found = smallest_machines(
        ONE_SECOND, _slots(1), load, [LatencyLimit(metric="e2e_s", seconds=1000)], most=64, trial=trial
    )

    assert found.value == 4


def test_an_answer_says_where_its_runs_left_the_curve() -> None:
    """Three slots on a curve that was measured with two sequences, at one depth: both are noted, once each."""
    points = [Point(size=size, depth=0, seconds=0.25) for size in (1, 2)]
    curve = curve_of_points(points, [Point(size=8, depth=0, seconds=0.25)])

    found = smallest_slots(curve, _slots, _constant(1), [FIRST_TOKEN], most=4, trial=TRIAL)

    assert found.value == 3
    assert len(found.notes) == 2
    assert "sequences is beyond the 2 that were measured" in found.notes[0]
    assert "at one depth" in found.notes[1]


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

    assert drain_time_s(ONE_SECOND, _slots(4), load, runs=1) == 30


def test_given_times_cannot_be_shared_or_stretched() -> None:
    """Neither machines nor rates can be searched for under given arrival times."""
    load = replace(_constant(1), arrivals=GivenArrivals(times_s=tuple(map(float, range(200)))))

    with pytest.raises(ValueError, match="shared out"):
        smallest_machines(ONE_SECOND, _slots(1), load, [FIRST_TOKEN], most=4, trial=TRIAL)
    with pytest.raises(ValueError, match="open loop"):
        highest_rate(ONE_SECOND, _slots(1), load, [FIRST_TOKEN], trial=TRIAL)

"""A run that ends once it is certain whether its limits are kept says of them what the whole run does."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.model.demand import Lengths
from suffice.serving.capacity import Proof, holds
from suffice.serving.curve import curve_of_points
from suffice.serving.load import ClosedLoop, FixedLength, Load, LognormalLength, OpenArrivals
from suffice.serving.misses import Misses
from suffice.serving.mix import Mix, others_beside, simulate_mix
from suffice.serving.run import Recorder, SimulatedRun
from suffice.serving.schedulers import KvLayout, LlamaCppScheduler, Scheduler, VllmScheduler
from suffice.serving.search import LatencyLimit, Trial, keeps_limits, run_holds
from suffice.serving.simulate import simulate, simulate_until_certain
from suffice.serving.summary import STEADY, WHOLE, Window, run_percentiles
from suffice.serving.surface import Point
from suffice.stats.intervals import median

QUICK = settings(max_examples=60, deadline=None, derandomize=True)
CURVE = curve_of_points(
    [
        Point(size=size, depth=depth, seconds=0.04 + 0.01 * size + 1e-5 * size * depth)
        for size in (1, 8)
        for depth in (0, 900)
    ],
    [
        Point(size=size, depth=depth, seconds=0.001 * size + 1e-6 * size * depth)
        for size in (8, 512)
        for depth in (0, 900)
    ],
)
# Of a limit: what it is on, its percentile, and its seconds as a share of what the whole run has there.
WISHES = st.lists(
    st.tuples(
        st.sampled_from(["ttft_s", "tpot_s", "e2e_s"]),
        st.sampled_from([50.0, 90.0, 95.0, 99.0]),
        st.sampled_from([0.5, 0.98, 1.0, 1.02, 2.0]),
    ),
    min_size=1,
    max_size=3,
)
SERVERS = st.one_of(
    st.builds(
        LlamaCppScheduler,
        slots=st.integers(1, 6),
        context_tokens=st.integers(200, 4000),
        layout=st.sampled_from(KvLayout),
    ),
    st.builds(VllmScheduler, max_sequences=st.integers(1, 6), context_tokens=st.just(300), blocks=st.integers(20, 200)),
)
LOADS = st.builds(
    lambda arrivals, answer, requests: Load(
        arrivals=arrivals,
        prompt=LognormalLength(lengths=Lengths(p50=60, p95=150)),
        output=answer,
        requests=requests,
    ),
    st.one_of(st.builds(OpenArrivals, rate_per_s=st.floats(0.02, 5)), st.builds(ClosedLoop, users=st.integers(1, 9))),
    st.sampled_from([FixedLength(tokens=1), FixedLength(tokens=2), LognormalLength(lengths=Lengths(p50=3, p95=40))]),
    st.sampled_from([5, 60, 100, 100, 450]),
)


def limits_near(run: SimulatedRun, wishes: list[tuple[str, float, float]], window: Window) -> list[LatencyLimit]:
    """Limits at shares of the run's own percentiles; where it has none, of five seconds."""
    limits = []
    for metric, percent, share in wishes:
        value = run_percentiles(run, metric, window, [percent])[0][0]
        seconds = share * (value if 0 < value < math.inf else 5.0)
        limits.append(LatencyLimit(metric=metric, seconds=seconds, percent=percent))
    return limits


@QUICK
@given(server=SERVERS, load=LOADS, wishes=WISHES, window=st.sampled_from([STEADY, WHOLE]), seed=st.integers(0, 3))
def test_the_word_of_a_run_that_ends_early_is_that_of_the_whole_run(
    server: Scheduler, load: Load, wishes: list[tuple[str, float, float]], window: Window, seed: int
) -> None:
    """With answers that are cut, rejected, failed and of one token, in open and closed loops, on both kinds of servers, at limits that are just kept."""
    run = simulate(CURVE, server, load, seed)
    limits = limits_near(run, wishes, window)

    assert keeps_limits(CURVE, server, load, seed, limits, window) is run_holds(run, limits, window)


@QUICK
@given(
    asked=st.lists(st.tuples(st.floats(0.1, 1), st.floats(0.1, 10)), min_size=1, max_size=12),
    proof=st.sampled_from(Proof),
    trial=st.sampled_from([Trial(), Trial(runs=1, confidence=0.5), Trial(runs=8, seed=3)]),
)
def test_what_a_trial_says_does_not_depend_on_what_was_asked_before(
    asked: list[tuple[float, float]], proof: Proof, trial: Trial
) -> None:
    """Runs that broke limits come first the next time, and all of them together say the same in any order."""
    server = LlamaCppScheduler(slots=2, context_tokens=4000)
    for rate, seconds in asked:
        load, limit = _load(rate), LatencyLimit(metric="ttft_s", seconds=seconds)
        kept = [
            keeps_limits(CURVE, server, load, trial.seed + number, [limit], trial.window)
            for number in range(trial.runs)
        ]
        passes = sum(one is not False if proof is Proof.MAY_HOLD else one is True for one in kept)

        assert holds(CURVE, server, load, [limit], trial, proof) is (passes >= proof.passes_of(trial))


@pytest.mark.parametrize(("seconds", "said"), [(0.01, False), (100.0, True)])
def test_a_run_ends_where_its_limit_is_broken_or_kept_for_sure(seconds: float, *, said: bool) -> None:
    """Without its end."""
    server = LlamaCppScheduler(slots=2, context_tokens=4000)
    load = Load(
        arrivals=OpenArrivals(rate_per_s=0.5),
        prompt=FixedLength(tokens=100),
        output=FixedLength(tokens=20),
        requests=100,
    )
    limit = LatencyLimit(metric="ttft_s", seconds=seconds)

    assert simulate_until_certain(CURVE, server, load, 0, [limit], STEADY) is said


def test_answers_of_one_token_leave_the_time_per_token_to_the_end() -> None:
    """They are no attempts, so that how many count is known at the end alone."""
    server = LlamaCppScheduler(slots=2, context_tokens=4000)
    load = Load(
        arrivals=OpenArrivals(rate_per_s=0.5),
        prompt=FixedLength(tokens=100),
        output=LognormalLength(lengths=Lengths(p50=3, p95=9)),
        requests=300,
    )
    limit = LatencyLimit(metric="tpot_s", seconds=100.0)

    assert isinstance(simulate_until_certain(CURVE, server, load, 0, [limit], STEADY), SimulatedRun)


def test_answers_that_the_context_cuts_to_one_token_are_no_attempts_either() -> None:
    """Each prompt leaves room for one token of its answer: no time per token is kept or missed."""
    server = LlamaCppScheduler(slots=2, context_tokens=2 * 101)
    limit = LatencyLimit(metric="tpot_s", seconds=100.0)

    assert isinstance(simulate_until_certain(CURVE, server, _load(0.5), 0, [limit], STEADY), SimulatedRun)


def test_one_miss_more_than_a_percentile_allows_breaks_it() -> None:
    """Of 100 requests that all count P95 allows five."""
    load = Load(
        arrivals=OpenArrivals(rate_per_s=1.0),
        prompt=FixedLength(tokens=10),
        output=FixedLength(tokens=5),
        requests=100,
    )
    server = LlamaCppScheduler(slots=1, context_tokens=400)
    drawn = load.draw(0)
    misses = Misses([LatencyLimit(metric="ttft_s", seconds=1.0)], WHOLE, drawn, server.request_tokens)
    recorder = Recorder(drawn.prompts, drawn.outputs)  # nothing has ended, so that each one is a miss

    for number in range(5):
        misses.ended(number, recorder)
    assert misses.kept is None
    misses.ended(5, recorder)
    assert misses.kept is False


def test_as_many_as_a_percentile_asks_for_keep_it() -> None:
    """Of 100 requests that all count, 95."""
    load = Load(
        arrivals=OpenArrivals(rate_per_s=1.0),
        prompt=FixedLength(tokens=10),
        output=FixedLength(tokens=5),
        requests=100,
    )
    drawn = load.draw(0)
    misses = Misses([LatencyLimit(metric="ttft_s", seconds=1.0)], WHOLE, drawn, 400)
    recorder = Recorder(drawn.prompts, drawn.outputs)
    recorder.arrival_s = recorder.first_token_s = recorder.finish_s = [0.0] * 100

    for number in range(94):
        misses.ended(number, recorder)
    assert misses.kept is None
    misses.ended(94, recorder)
    assert misses.kept is True


@QUICK
@given(
    rate=st.floats(0.02, 1),
    streams=st.integers(1, 5),
    seconds=st.floats(0.05, 0.5),
    share=st.sampled_from([0.0, 0.5, 0.97, 1.0, 1.03, 2.0]),
)
def test_beside_others_too(rate: float, streams: int, seconds: float, share: float) -> None:
    """What others get beside requests that wait: too little at the first run whatever the limits, else None where whole runs do not show that these hold."""
    mix, limit, trial = _mix(rate, streams), LatencyLimit(metric="tpot_s", seconds=seconds), Trial()
    server = LlamaCppScheduler(slots=2 + streams, context_tokens=(2 + streams) * 600)

    runs = [simulate_mix(CURVE, server, mix, trial.seed + number) for number in range(trial.runs)]
    rates = [run.others_per_s(trial.window) for run in runs]
    held = [run_holds(run.waited_for, [limit], trial.window) for run in runs]
    least = share * rates[0]
    found = others_beside(CURVE, server, mix, [limit], trial, least_per_s=least)

    if rates[0] < least:
        assert found == rates[0]
    elif held.count(True) >= trial.passes_needed:
        assert found == pytest.approx(median([one for one, kept in zip(rates, held, strict=True) if kept]))
    else:
        assert found is None


def _mix(rate: float, streams: int) -> Mix:
    return Mix(waited_for=_load(rate), others=_load(rate), streams=streams)


def _load(rate: float) -> Load:
    return Load(
        arrivals=OpenArrivals(rate_per_s=rate),
        prompt=FixedLength(tokens=100),
        output=FixedLength(tokens=20),
        requests=90,
    )

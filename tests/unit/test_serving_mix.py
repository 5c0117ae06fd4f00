"""Requests that somebody waits for beside others that fill the idle time of the same server."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.serving import flat_curve
from suffice.serving.load import ClosedLoop, FixedLength, GivenArrivals, Load, OpenArrivals
from suffice.serving.mix import Mix, MixedRun, others_beside, simulate_mix
from suffice.serving.run import Outcome
from suffice.serving.schedulers import LlamaCppScheduler
from suffice.serving.search import LatencyLimit, Trial
from suffice.serving.simulate import simulate
from suffice.serving.summary import STEADY

REST = Load(
    arrivals=GivenArrivals(times_s=(0.0,) * 50),
    prompt=FixedLength(tokens=100),
    output=FixedLength(tokens=21),
    requests=50,
)
TPOT = LatencyLimit(metric="tpot_s", seconds=0.14, percent=95.0)


def waiting(rate_per_s: float = 0.2, requests: int = 100) -> Load:
    """Prompts of 100 tokens, answers of 21."""
    return Load(
        arrivals=OpenArrivals(rate_per_s=rate_per_s),
        prompt=FixedLength(tokens=100),
        output=FixedLength(tokens=21),
        requests=requests,
    )


def server(slots: int, context: int = 4096) -> LlamaCppScheduler:
    """A cache each."""
    return LlamaCppScheduler(slots=slots, context_tokens=slots * context)


def run(streams: int = 2, slots: int = 4, rate_per_s: float = 0.2, more_s: float = 0.01) -> MixedRun:
    """One mixed run on a curve whose steps lengthen with the batch."""
    mix = Mix(waited_for=waiting(rate_per_s), others=REST, streams=streams)
    return simulate_mix(flat_curve(more_s=more_s), server(slots + streams), mix)


def at_once(mixed: MixedRun) -> int:
    """The most others that were at the server at the same time."""
    edges = [(time, 1) for time in mixed.others.arrival_s] + [(time, -1) for time in mixed.others.finish_s]
    return int(np.cumsum([step for _, step in sorted(edges)]).max())


def test_an_other_alone_takes_what_one_user_does() -> None:
    """100 ms of prompt and 20 steps of 50 ms, and 1 ms until the next: 1 in 1.101 s while next to nobody waits."""
    mix = Mix(waited_for=waiting(0.001, 20), others=REST, streams=1)

    mixed = simulate_mix(flat_curve(), server(2), mix)

    assert mixed.others_per_s(STEADY) == pytest.approx(1 / 1.101, rel=0.01)


def test_those_that_wait_come_as_they_would_alone() -> None:
    """Arrivals and lengths are the same as without the others, and all are answered."""
    mixed = run()

    alone = simulate(flat_curve(more_s=0.01), server(4), waiting())

    assert mixed.waited_for.arrival_s.tolist() == pytest.approx(alone.arrival_s.tolist())
    assert mixed.waited_for.served.all()
    assert (mixed.waited_for.tpot_s >= alone.tpot_s - 1e-9).all()


@pytest.mark.parametrize("streams", [1, 3])
def test_no_more_others_than_streams_are_there_at_once(streams: int) -> None:
    """Each answer draws the next, so that the number is reached and never exceeded."""
    assert at_once(run(streams)) == streams


def test_more_streams_answer_more_and_slow_those_that_wait() -> None:
    """Where a batch gains something, and lengthens each step."""
    few, many = run(1), run(4)

    assert many.others_per_s(STEADY) > few.others_per_s(STEADY)
    assert np.median(many.waited_for.tpot_s) > np.median(few.waited_for.tpot_s)


def test_more_that_wait_leave_less_time_for_others() -> None:
    """On a machine that gains nothing by batches."""
    quiet, busy = (run(1, rate_per_s=rate, more_s=0.05).others_per_s(STEADY) for rate in (0.05, 0.4))

    assert busy < 0.8 * quiet


def test_limits_decide_how_many_others_there_are() -> None:
    """Two caches apart cost two passes, 100 ms, and eleven in one pass 150 ms: a limit of 140 ms holds beside one stream, not beside ten."""
    curve = flat_curve(more_s=0.01)

    def answered(streams: int) -> float | None:
        mix = Mix(waited_for=waiting(), others=REST, streams=streams)
        return others_beside(curve, server(4 + streams), mix, [TPOT], Trial())

    assert answered(1) == pytest.approx(
        simulate_mix(curve, server(5), Mix(waited_for=waiting(), others=REST, streams=1)).others_per_s(STEADY), rel=0.1
    )
    assert answered(10) is None


def test_a_first_run_that_answers_too_few_is_the_last() -> None:
    """Its rate is returned although the limits fail."""
    mix = Mix(waited_for=waiting(), others=REST, streams=10)
    curve = flat_curve(more_s=0.01)

    found = others_beside(curve, server(14), mix, [TPOT], Trial(), least_per_s=100.0)

    assert found == simulate_mix(curve, server(14), mix).others_per_s(STEADY)


def test_prompts_that_do_not_fit_are_rejected_and_answers_are_cut() -> None:
    """In a context of 110 tokens an answer ends after 10; in one of 100 nothing is answered."""
    mix = Mix(waited_for=waiting(1.0, 20), others=REST, streams=1)

    cut, none = (simulate_mix(flat_curve(), server(2, context), mix) for context in (110, 100))

    assert set(cut.waited_for.output_tokens.tolist()) == {10}
    assert cut.others.count(Outcome.TRUNCATED) == len(cut.others.outcome)
    assert none.waited_for.count(Outcome.REJECTED) == 20
    assert not none.others.served.any()


def test_others_of_which_none_fits_are_given_up() -> None:
    """Those that wait come once in six days: nobody asks again in each millisecond until then."""
    rare = replace(waiting(2e-6, 20), prompt=FixedLength(tokens=10))
    mix = Mix(waited_for=rare, others=REST, streams=2)

    found = simulate_mix(flat_curve(), server(4, context=60), mix)

    assert found.others.count(Outcome.REJECTED) == len(found.others.outcome) < 2 * REST.requests
    assert found.waited_for.served.all()


def test_a_mix_is_an_open_loop_and_something_beside_it() -> None:
    """Users who ask again would wait for each other, and no stream is no mix."""
    users = Load(arrivals=ClosedLoop(users=2), prompt=FixedLength(tokens=1), output=FixedLength(tokens=1), requests=2)

    with pytest.raises(ValueError, match="open loop"):
        Mix(waited_for=users, others=REST, streams=1)
    with pytest.raises(ValueError, match="at least 1 stream"):
        Mix(waited_for=waiting(), others=REST, streams=0)

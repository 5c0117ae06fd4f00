"""Repeated looks at a share: error rates by simulation, on independent trials and on queues."""

from __future__ import annotations

import math
import random

import pytest

from helpers.capacity_runs import judge_of, judged, queue_rows, waits_s
from suffice.model.capacity import LevelVerdict
from suffice.stats.sequential import (
    ShareVerdict,
    correlation_time,
    falls_behind,
    keeps_up,
    log_evidence,
    looks_growing,
    queue_growth,
    share_verdict,
)

RISK = 0.05


def ever(share: float, truth: float, *, runs: int, trials: int, risk: float) -> dict[ShareVerdict, float]:
    """How often each verdict is the first one, looking after every fourth trial."""
    chance = random.Random(7)  # noqa: S311  # a simulation that can be repeated
    found = dict.fromkeys(ShareVerdict, 0.0)
    for _ in range(runs):
        kept, verdict = 0, ShareVerdict.UNDECIDED
        for number in range(1, trials + 1):
            kept += chance.random() < truth
            if number % 4 == 0:
                verdict = share_verdict(kept, number, share, risk=risk)
            if verdict is not ShareVerdict.UNDECIDED:
                break
        found[verdict] += 1 / runs
    return found


@pytest.mark.parametrize("share", [0.5, 0.9, 0.95])
def test_looking_often_makes_no_answer_wrong(share: float) -> None:
    """At the share itself neither answer is right: 50 looks give each with at most the risk (three standard errors allowed)."""
    found = ever(share, share, runs=200, trials=200, risk=RISK)

    allowed = RISK + 3 * math.sqrt(RISK * (1 - RISK) / 200)
    assert found[ShareVerdict.HOLDS] <= allowed
    assert found[ShareVerdict.FAILS] <= allowed


def test_what_is_plain_is_found() -> None:
    """A share of 99.5 % is over 90 %, one of 70 % is under it, in most runs of two hundred trials."""
    assert ever(0.9, 0.995, runs=40, trials=200, risk=RISK)[ShareVerdict.HOLDS] > 0.9
    assert ever(0.9, 0.70, runs=40, trials=200, risk=RISK)[ShareVerdict.FAILS] > 0.9


def test_the_evidence_is_one_in_the_mean() -> None:
    """Over all outcomes of ten trials at the share itself, the evidence has the mean 1: the definition of a fair bet."""
    for above in (True, False):
        mean = sum(
            math.comb(10, kept) * 0.8**kept * 0.2 ** (10 - kept) * math.exp(log_evidence(kept, 10, 0.8, above=above))
            for kept in range(11)
        )
        assert mean == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize(("kept", "trials", "share"), [(5, 4, 0.5), (-1, 4, 0.5), (1, 4, 0.0), (1, 4, 1.0)])
def test_impossible_trials_are_refused(kept: float, trials: float, share: float) -> None:
    """More successes than trials and shares of nothing or all are defects of the caller."""
    with pytest.raises(ValueError, match="cannot be"):
        log_evidence(kept, trials, share, above=True)


def test_the_correlation_time_of_known_series() -> None:
    """Independent values are worth about one each; pairs of equal values half; failures are values like any other."""
    chance = random.Random(3)  # noqa: S311  # a simulation that can be repeated
    alone = [chance.random() for _ in range(800)]
    pairs = [value for value in alone[:400] for _ in range(2)]

    assert correlation_time(alone) < 2.5
    assert 1.6 < correlation_time(pairs) < 4.5
    assert correlation_time(pairs) > 1.3 * correlation_time(alone)
    assert correlation_time([1.0] * 50) == 1.0
    assert correlation_time([1.0, math.inf] * 30) < 5
    assert correlation_time([1.0] * 40 + [math.inf] * 40) > 20


@pytest.mark.parametrize(("rate_per_s", "limit_s", "asked"), [(0.5, 2.06, None), (0.7, 4.10, 0.7), (0.85, 9.10, 0.85)])
def test_requests_of_a_queue_are_not_taken_for_independent_ones(
    rate_per_s: float, limit_s: float, asked: float | None
) -> None:
    """M/D/1 with the limit at the P95 of its waits (long simulations): 50 levels, each wrong answer at most as often as allowed.

    With the rate known, attempts far from their limit count as independent once the queue is proven to be kept up with.
    """
    verdicts = [
        judged(
            queue_rows(waits_s(rate_per_s, 320, seed), warm_up=20), judge_of(limit_s + 1.0, rate_per_s=asked)
        ).verdict
        for seed in range(50)
    ]

    allowed = RISK + 3 * math.sqrt(RISK * (1 - RISK) / 50)
    assert verdicts.count(LevelVerdict.HOLDS) / 50 <= allowed
    assert verdicts.count(LevelVerdict.FAILS) / 50 <= allowed


def test_the_same_queue_taken_for_independent_trials_is_wrong_most_of_the_time() -> None:
    """The test above can fail: without the correlation time, a busy queue at its limit "holds" in most levels."""
    wrong = 0
    for seed in range(40):
        late = [wait_s > 9.1 for _, wait_s in waits_s(0.85, 320, seed)[20:]]
        looks = (share_verdict(n - sum(late[:n]), n, 0.95, risk=RISK) for n in range(20, 301, 20))
        wrong += next((look for look in looks if look is not ShareVerdict.UNDECIDED), None) is ShareVerdict.HOLDS

    assert wrong / 40 > 0.5


def test_a_server_that_falls_behind_is_seen_and_one_that_keeps_up_is_not() -> None:
    """At 1.6 of what it can do the queue grows and is seen in 300 requests; at 0.9 of it, never in 60 levels of 300."""
    grows, stable = 0, 0
    for seed in range(60):
        for rate_per_s in (1.6, 0.9):
            waits = waits_s(rate_per_s, 300, seed)
            arrivals = [at_s for at_s, _ in waits]
            ends = [at_s + wait_s + 1.0 for at_s, wait_s in waits]
            seen = falls_behind(arrivals, ends, rate_per_s, variation=1.0, risk=0.01)
            grows += seen and rate_per_s > 1
            stable += seen and rate_per_s < 1

    assert grows >= 55
    assert stable == 0


def waits_in_gaps(rate_per_s: float, count: int, seed: int) -> list[float]:
    """The waits of a queue in mean gaps between its arrivals."""
    return [wait_s * rate_per_s for _, wait_s in waits_s(rate_per_s, count, seed)]


def test_a_queue_at_saturation_is_seldom_said_to_be_kept_up_with() -> None:
    """M/D/1 at exactly the rate that its server can do: looked at 32, 64, ... 512 waits, a wrong yes at most as often as allowed."""
    wrong = sum(keeps_up(waits_in_gaps(1.0, 512, seed), 1.0, risk=RISK) for seed in range(200))

    assert wrong / 200 <= RISK + 3 * math.sqrt(RISK * (1 - RISK) / 200)


def test_a_queue_far_from_saturation_is_told_from_one_beyond_it() -> None:
    """At 0.6 of what the server can do it keeps up, at 1.3 it never does; after 80 requests most of each look like what they are."""
    assert sum(keeps_up(waits_in_gaps(0.6, 256, seed), 1.0, risk=0.02) for seed in range(50)) >= 48
    assert not any(keeps_up(waits_in_gaps(1.3, 256, seed), 1.0, risk=0.02) for seed in range(50))
    assert sum(looks_growing(waits_in_gaps(0.6, 80, seed), 1.0) for seed in range(50)) <= 2
    assert sum(looks_growing(waits_in_gaps(1.3, 80, seed), 1.0) for seed in range(50)) >= 45


def test_half_of_all_queues_at_saturation_look_as_if_they_grew() -> None:
    """The line between good and bad looks is the rate that the server can just do: of 400 such queues half are on either side."""
    growing = sum(looks_growing(waits_in_gaps(1.0, 96, seed), 1.0) for seed in range(400))

    assert 0.40 < growing / 400 < 0.60


def test_long_answers_that_differ_are_no_growing_queue() -> None:
    """Prompts take 10 to 25 gaps to read, many at a time: no wait is short, and the queue does not grow."""
    chance = random.Random(5)  # noqa: S311  # a simulation that can be repeated
    waits = [chance.uniform(10, 25) for _ in range(1024)]

    assert keeps_up(waits, 1.0, risk=0.01)
    assert not looks_growing(waits, 1.0)


def test_constant_gaps_leave_next_to_no_growth_to_chance() -> None:
    """Each request waits a twentieth of a gap longer than the one before: seen, and the same waits without the slope are kept up with."""
    level = [3.0 + 0.1 * (index % 3) for index in range(200)]
    slope = [wait + 0.05 * index for index, wait in enumerate(level)]

    assert keeps_up(level, 0.0, risk=0.01)
    assert looks_growing(slope, 0.0)
    assert not keeps_up(slope, 0.0, risk=0.01)


def test_a_handful_of_waits_says_nothing_of_a_queue() -> None:
    """Thirty-one waits: neither growing nor kept up with."""
    assert queue_growth([0.0] * 31, 1.0) is None
    assert not looks_growing([float(index) for index in range(31)], 1.0)
    assert not keeps_up([0.0] * 31, 1.0, risk=0.5)

"""Ramps: the schedule, the parts, and where it breaks."""

from __future__ import annotations

import statistics

import pytest

from helpers.capacity_runs import queue_rows, under_way, waits_s
from helpers.load_runs import plan, run_against
from suffice.errors import UsageError
from suffice.load.mock_script import Pace
from suffice.load.schedule import arrivals_s, ramp_time_s
from suffice.load.settings import Arrivals, LoadPlan, Loop
from suffice.model.load_metrics import Limits
from suffice.model.load_ramp import kept_up_to, ramp_parts
from suffice.model.load_request import Outcome


def ramp(**changes: object) -> LoadPlan:
    """From 2 to 10 requests a second in 100 s."""
    fields: dict[str, object] = {"loop": Loop.OPEN, "rate_per_s": 2.0, "ramp_to_per_s": 10.0, "duration_s": 100.0}
    return LoadPlan(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("arrivals", list(Arrivals))
def test_each_part_of_a_ramp_has_the_arrivals_asked_for(arrivals: Arrivals) -> None:
    """Mean over 60 seeds in each tenth: the rate in its middle times its ten seconds, within 8 %."""
    counts = [[0] * 10 for _ in range(60)]
    for seed, found in enumerate(counts):
        for at_s in arrivals_s(ramp(arrivals=arrivals, burstiness=2.0, seed=seed)):
            found[int(at_s / 10)] += 1

    for number in range(10):
        asked = 10 * (2.0 + 8.0 * (number + 0.5) / 10)
        assert statistics.fmean(found[number] for found in counts) == pytest.approx(asked, rel=0.08)


def test_a_poisson_ramp_varies_as_a_poisson_process_and_a_constant_one_does_not() -> None:
    """The number of arrivals has the variance of its mean, 600; with constant gaps it is the same number each time."""
    poisson = [len(list(arrivals_s(ramp(seed=seed)))) for seed in range(200)]
    constant = {len(list(arrivals_s(ramp(arrivals=Arrivals.CONSTANT, seed=seed)))) for seed in range(5)}

    assert statistics.fmean(poisson) == pytest.approx(600, abs=10)
    assert 400 < statistics.variance(poisson) < 850
    assert len(constant) == 1


@pytest.mark.parametrize(("first", "last"), [(2.0, 10.0), (10.0, 2.0), (4.0, 4.0)])
def test_the_time_of_a_ramp_inverts_its_expected_arrivals(first: float, last: float) -> None:
    """L(t) = first t + (last - first) t^2 / 200 at the time that is given, up to its end, and beyond it at the last rate."""
    for work in (0.0, 1.0, 77.7, 50 * (first + last)):
        at_s = ramp_time_s(work, first, last, 100.0)
        assert first * at_s + (last - first) * at_s**2 / 200 == pytest.approx(work)
    assert ramp_time_s(50 * (first + last) + last, first, last, 100.0) == pytest.approx(101.0)


def test_the_warm_up_comes_before_the_ramp_at_its_first_rate() -> None:
    """Four constant arrivals at 2/s, and the hundred seconds begin with the first measured one."""
    times = list(arrivals_s(ramp(arrivals=Arrivals.CONSTANT, warm_up=4)))

    assert times[:5] == pytest.approx([0.0, 0.5, 1.0, 1.5, 2.0])
    assert 101 < times[-1] < 102


@pytest.mark.parametrize(
    "changes", [{"duration_s": None, "requests": 5}, {"ramp_to_per_s": 0.0}, {"ramp_to_per_s": -1.0}]
)
def test_ramps_that_cannot_be_are_refused(changes: dict[str, object]) -> None:
    """Without an end in time, or to no rate at all."""
    with pytest.raises(UsageError):
        ramp(**changes)


def test_the_part_where_it_breaks() -> None:
    """A queue of one request a second behind arrivals that pass that rate: the limit is kept up to a part below it, not beyond."""
    times = list(arrivals_s(ramp(rate_per_s=0.2, ramp_to_per_s=1.8, duration_s=400.0, seed=3)))
    free_s, waits = 0.0, []
    for at_s in times:
        begins_s = max(free_s, at_s)
        free_s = begins_s + 1.0
        waits.append((at_s, begins_s - at_s))
    parts = ramp_parts(queue_rows(waits), (0.2, 1.8), 400.0, Limits(ttft_s=4.0))
    last = kept_up_to(parts)

    assert [part.rate_per_s for part in parts] == pytest.approx([0.28 + 0.16 * number for number in range(10)])
    assert sum(part.attempts for part in parts) == len(times)
    assert last is not None
    assert 0.4 < last.rate_per_s < 1.1
    assert parts[-1].attained == 0.0
    assert parts[-1].ttft_p50 is not None
    assert parts[-1].ttft_p50.observed > 10


def test_failures_and_nothing_have_their_place_in_parts() -> None:
    """A failure is infinitely slow in its part; a part without requests has no times; without limits nothing is attained."""
    rows = [*queue_rows(waits_s(0.5, 4, seed=1)), under_way(4, 0.5, Outcome.HTTP_ERROR)]
    parts = ramp_parts(rows, (1.0, 2.0), 1000.0, Limits(), parts=2)

    assert parts[0].failed == 1
    assert parts[0].ttft_p95 is not None
    assert parts[0].ttft_p95.observed == float("inf")
    assert (parts[1].ttft_p50, parts[1].attained, parts[0].attained) == (None, None, None)
    assert kept_up_to(parts) is None


def test_a_ramp_is_sent() -> None:
    """Against the mock: later arrivals come closer together, as scheduled."""
    run, served = run_against(
        lambda _: Pace(tokens=2).answer(),
        plan(
            loop=Loop.OPEN,
            requests=None,
            rate_per_s=20.0,
            ramp_to_per_s=120.0,
            duration_s=0.5,
            arrivals=Arrivals.CONSTANT,
        ),
    )
    times = [row.scheduled_ns or 0 for row in run.rows]

    assert len(run.rows) == len(served) == 35
    assert times[1] - times[0] > 2 * (times[-1] - times[-2])

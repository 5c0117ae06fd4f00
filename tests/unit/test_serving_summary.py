"""Percentiles with failures, windows, queues and rates, on runs that are written by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from suffice.serving.curve import Reached
from suffice.serving.run import Outcome, SimulatedRun
from suffice.serving.summary import (
    LEAST_SAMPLES,
    WHOLE,
    Window,
    estimate_over,
    is_overloaded,
    nearest_rank,
    queue_at,
    run_percentiles,
    steady_rates,
    summarize,
)


def _run(
    arrival: list[float], start: list[float], first: list[float], finish: list[float], tokens: list[int]
) -> SimulatedRun:
    return SimulatedRun(
        arrival_s=np.array(arrival),
        start_s=np.array(start),
        first_token_s=np.array(first),
        finish_s=np.array(finish),
        prompt_tokens=np.ones(len(arrival), dtype=np.int64),
        output_tokens=np.array(tokens),
        outcome=np.array([Outcome.REJECTED if math.isnan(end) else Outcome.DONE for end in finish]),
        busy_s=5.0,
        end_s=10.0,
        steps=9,
        cached_token_seconds=50.0,
        most_cached_tokens=8,
        capacity_tokens=20,
        most_requests=2,
        recomputed_tokens=0,
        preemptions=0,
        reached=Reached(),
    )


NAN = math.nan
RUN = _run([0, 1, 2, 3], [0, 1, 6, NAN], [1, 2, 7, NAN], [6, 2, 10, NAN], [6, 1, 4, 0])


def test_percentiles_count_failures_as_infinite() -> None:
    """Of ten attempts with eight values P80 is the largest of them, and P90 is infinite."""
    values = np.arange(8.0)

    assert nearest_rank(values, 10, 50) == 4
    assert nearest_rank(values, 10, 80) == 7
    assert nearest_rank(values, 10, 90) == math.inf
    assert math.isnan(nearest_rank(np.array([]), 0, 50))


def test_latencies_follow_their_definitions() -> None:
    """TTFT and E2E from the arrival, TPOT after the first token, none for an answer of one."""
    assert RUN.ttft_s[:3].tolist() == [1, 1, 5]
    assert RUN.e2e_s[:3].tolist() == [6, 1, 8]
    assert RUN.tpot_s[[0, 2]].tolist() == [1, 1]
    assert np.isnan(RUN.tpot_s[1])
    assert RUN.queueing_s[:3].tolist() == [0, 0, 4]


def test_a_rejected_request_counts_and_one_token_has_no_tpot() -> None:
    """TTFT has four attempts of which one is infinite; TPOT has three, the rejected one among them."""
    assert run_percentiles(RUN, "ttft_s", WHOLE, [50, 75, 99]) == [(1, 4), (5, 4), (math.inf, 4)]
    assert run_percentiles(RUN, "tpot_s", WHOLE, [50, 99]) == [(1, 3), (math.inf, 3)]
    with pytest.raises(ValueError, match="none of"):
        run_percentiles(RUN, "speed", WHOLE, [50])


def test_the_queue_is_what_came_and_was_not_let_in() -> None:
    """The third request waits from 2 to 6; the rejected one never stood in the queue."""
    assert queue_at(RUN, np.array([0.5, 2.0, 5.9, 6.0])).tolist() == [0, 1, 1, 0]


def test_rates_cut_answers_at_the_edges_of_the_window() -> None:
    """Whole run: 11 tokens and 3 answers in 10 s. From 1 s to 3 s: half of two later tokens of the first answer, and firsts."""
    whole = steady_rates(RUN, WHOLE)
    inner = steady_rates(RUN, Window(lead=0.25, tail=0.01))

    assert whole.output_tokens_per_second == pytest.approx(1.1)
    assert whole.requests_per_second == pytest.approx(0.3)
    # First tokens at 1 and 2, and 5 * (3 - 1) / (6 - 1) = 2 of the later ones of the first answer, in two seconds.
    assert inner.output_tokens_per_second == pytest.approx((2 + 2) / 2)
    assert inner.requests_per_second == pytest.approx(1 / 2)


def test_a_summary_has_shares_and_marks_what_is_unsupported() -> None:
    """Eight equal runs of four requests: exact shares, intervals of width zero, and no percentile that is supported."""
    summary = summarize([RUN] * 8, WHOLE, ("a note",))

    assert summary.utilisation.point == 0.5
    assert summary.occupancy.point == pytest.approx((6 + 1 + 4) / 20)
    assert summary.kv_share.point == pytest.approx(0.25)
    assert summary.most_kv_share.point == pytest.approx(0.4)
    assert summary.queue_length.point == pytest.approx(0.4)
    assert summary.longest_queue.point == 1
    assert summary.rejected == 0.25
    assert summary.notes == ("a note",)
    assert not any(row.supported for row in summary.ttft.attempted)
    assert summary.ttft.attempted[-1].estimate.point == math.inf
    assert summary.ttft.served[-1].estimate.point == 5
    assert summary.ttft.served[0].estimate.interval is not None


def test_enough_requests_support_a_percentile() -> None:
    """36 attempts support P90 and not P95."""
    ones = [1.0] * LEAST_SAMPLES[90.0]
    run = _run([0.0] * len(ones), ones, ones, ones, [1] * len(ones))

    summary = summarize([run, run], WHOLE)

    assert [row.supported for row in summary.ttft.attempted] == [True, True, False, False]
    assert all(not row.supported for row in summary.tpot.attempted)
    assert math.isnan(summary.tpot.attempted[0].estimate.point)


def test_an_estimate_with_an_infinite_value_has_no_interval() -> None:
    """One overloaded run of three leaves a median and nothing that bounds it."""
    estimate = estimate_over([1.0, math.inf, 2.0])

    assert estimate.point == 2.0
    assert estimate.interval is None
    assert estimate_over([math.inf, math.inf, 2.0]).point == math.inf


def test_windows_leave_something() -> None:
    """Lead and tail are shares whose sum is under one."""
    with pytest.raises(ValueError, match="leave something"):
        Window(lead=0.6, tail=0.4)
    with pytest.raises(ValueError, match="nothing to summarize"):
        summarize([], WHOLE)


def test_a_run_of_no_time_has_no_rates() -> None:
    """Everything rejected at the start: unknown rates, not zero ones."""
    assert math.isnan(steady_rates(replace(RUN, end_s=0.0), WHOLE).output_tokens_per_second)


def test_an_overload_is_a_growing_queue_and_not_a_slow_answer() -> None:
    """One request a second: answered every two seconds the queue grows; after 50 seconds each, side by side, it does not."""
    arrival = [float(number) for number in range(100)]
    behind = [2.0 * number for number in range(100)]
    slow = [number + 50.0 for number in arrival]

    overloaded = _run(arrival, behind, behind, [at + 2 for at in behind], [2] * 100)
    patient = _run(arrival, arrival, arrival, slow, [2] * 100)

    assert is_overloaded([overloaded], WHOLE)
    assert not is_overloaded([patient], WHOLE)
    assert not is_overloaded([overloaded, patient], WHOLE)


def test_rejected_requests_are_no_overload() -> None:
    """Nothing is answered, but nobody waits either; and a queue that is there at the start has no rate."""
    nobody = _run([0, 1, 2, 3], [NAN] * 4, [NAN] * 4, [NAN] * 4, [0] * 4)
    at_once = _run([0, 0, 0, 0], [0, 1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4], [1] * 4)

    assert not is_overloaded([nobody], WHOLE)
    assert not is_overloaded([at_once], WHOLE)

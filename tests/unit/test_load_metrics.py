"""Times of a request and sums over a run, worked by hand: no server, no clock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from helpers.load_runs import row, summary_of, window
from suffice.model.load_checks import check_client, check_server, doubts
from suffice.model.load_metrics import Limits, attainment, keeps_to, summarize
from suffice.model.load_request import Outcome, RequestRow, ServerTimings
from suffice.units import NANOSECONDS_PER_SECOND

S = NANOSECONDS_PER_SECOND


def failed(index: int = 0, outcome: Outcome = Outcome.HTTP_ERROR) -> RequestRow:
    """A request without an answer."""
    return row(index, outcome=outcome, chunk_ns=(), chunk_events=(), output_tokens=None, first_answer_ns=None)


def test_times_by_hand() -> None:
    """Start 1 s, texts at 2, 3, 4 s, three tokens: TTFT 1 s, E2E 3 s, TPOT 2 s / 2 = 1 s; TTFT is not part of TPOT (pitfall 3)."""
    found = row()

    assert (found.ttft_s, found.e2e_s, found.tpot_s) == (1.0, 3.0, 1.0)
    assert found.chunk_gaps_s == (1.0, 1.0)


def test_tpot_counts_tokens_and_not_chunks() -> None:
    """Pitfall 4: 9 tokens in 3 events; the first event brought 3, so 2 s were spent on 6: 1/3 s each."""
    assert row(output_tokens=9).tpot_s == pytest.approx(1 / 3)


def test_tokens_that_came_in_the_first_read_took_no_decode_time() -> None:
    """Pitfall 5: of 5 one-token events, 3 came in the first read; 2 s were spent on the other 2."""
    assert row(chunk_events=(3, 1, 1), output_tokens=5).tpot_s == pytest.approx(1.0)


def test_the_unseen_end_token_changes_next_to_nothing() -> None:
    """101 tokens in 100 events: an end-of-text token is counted and not shown; the first event still holds one."""
    times = tuple(range(S, 101 * S, S))
    found = row(chunk_ns=times, chunk_events=(1,) * 100, output_tokens=101)

    assert found.tpot_s == pytest.approx(99 / 100)


@pytest.mark.parametrize(
    "changes", [{"chunk_ns": (2 * S,), "chunk_events": (1,), "output_tokens": 1}, {"output_tokens": None}]
)
def test_no_tpot_without_a_second_token_or_a_count(changes: dict[str, Any]) -> None:
    """Pitfall 8: None, not 0, and such an answer neither passes nor misses a limit on TPOT."""
    found = row(**changes)

    assert found.tpot_s is None
    assert keeps_to(found, Limits(tpot_s=0.1)) is None
    assert keeps_to(found, Limits(tpot_s=0.1, ttft_s=0.5)) is False


def test_failures_count_as_infinite_and_are_shown_apart() -> None:
    """Pitfall 26: half of 40 attempts failed: P90 of all is unbounded, of the successes it is finite."""
    summary = summary_of([row(index) if index % 2 else failed(index) for index in range(80)])

    p50, p90, _, _ = summary.ttft.attempts
    assert (summary.attempted, summary.succeeded, summary.failed) == (80, 40, 40)
    assert summary.failures == ((Outcome.HTTP_ERROR, 40),)
    assert p50.value is None
    assert p90.observed == float("inf")
    assert summary.ttft.successes[1].value == 1.0


def test_p99_of_thirty_requests_is_no_number() -> None:
    """Pitfall 27: it is marked unsupported and has no value, while P50 has both."""
    p50, p90, p95, p99 = summary_of([row(index) for index in range(30)]).ttft.attempts

    assert p50.supported
    assert (p90.supported, p90.needed) == (False, 36)
    assert (p95.supported, p95.needed) == (False, 72)
    assert (p99.value, p99.needed, p99.observed) == (None, 368, 1.0)


def test_p95_is_there_from_72_requests_on() -> None:
    """It is the percentile of limits: 72 attempts have it, 71 do not."""
    few, enough = (
        next(one for one in summary_of([row(index) for index in range(count)]).ttft.attempts if one.fraction == 0.95)
        for count in (71, 72)
    )

    assert few.value is None
    assert enough.value == 1.0


def test_warm_up_is_in_no_percentile_but_is_part_of_the_flow() -> None:
    """Two rows, one to warm up: one attempt, and the tokens of both in the window: 6 in 10 s."""
    summary = summary_of([row(0, warm_up=True), row(1)])

    assert summary.attempted == 1
    assert summary.output_tokens_per_second == pytest.approx(0.6)


def test_the_window_leaves_out_ramp_and_tail() -> None:
    """Pitfall 24: of texts at 2, 3 and 4 s, one lies in the window from 2 to 3 s: 1 token/s, and no answer ended in it."""
    summary = summarize((row(),), Limits(), window(2, 3))

    assert summary.output_tokens_per_second == pytest.approx(1.0)
    assert summary.requests_per_second == 0.0


def test_tokens_of_requests_that_were_cut_off_count() -> None:
    """Pitfall 24: a cut stream of three events has as many tokens as the others' events, and the share is marked as estimated."""
    cut = row(1, outcome=Outcome.CUT_OFF, output_tokens=None, token_source=None)
    summary = summary_of([row(0), cut])

    assert summary.output_tokens_per_second == pytest.approx(0.6)
    assert summary.estimated_token_share == pytest.approx(0.5)


def test_the_rate_is_of_the_run_and_not_of_its_users() -> None:
    """Pitfall 25: two users at the same time, 3 tokens each in 10 s: 0.6 tokens/s, not 1.2."""
    assert summary_of([row(0), row(1)]).output_tokens_per_second == pytest.approx(0.6)


def test_nobody_counted_so_there_is_no_rate() -> None:
    """Chunks are not taken for tokens: without any count, tokens/s and TPOT are unknown."""
    summary = summary_of([row(index, output_tokens=None) for index in range(9)])

    assert summary.output_tokens_per_second is None
    assert summary.tpot.attempts == ()
    assert summary.tpot.undetermined == 9
    assert "counts no tokens" in doubts([row(output_tokens=None)], prompts_are_unique=True)[0]


def test_latency_counts_from_the_schedule() -> None:
    """Pitfall 21: scheduled at 0.5 s and started at 1 s: from the schedule TTFT is 1.5 s, and a limit of 1.2 s is missed."""
    late = row(scheduled_ns=S // 2)

    assert (late.ttft_s, late.effective_ttft_s, late.effective_e2e_s, late.send_lag_s) == (1.0, 1.5, 3.5, 0.5)
    assert keeps_to(late, Limits(ttft_s=1.2)) is False
    assert keeps_to(row(), Limits(ttft_s=1.2)) is True


def test_attainment_and_goodput_by_hand() -> None:
    """Of 4 attempts one failed, one has no TPOT, two keep to the limits: 2 of 3, the third apart; goodput 2 in 10 s."""
    rows = [row(0), row(1), failed(2), row(3, output_tokens=None)]
    limits = Limits(ttft_s=1.0, tpot_s=1.0)
    found = attainment(rows, limits)

    assert (found.attained, found.missed, found.undetermined) == (2, 1, 1)
    assert found.share == pytest.approx(2 / 3)
    assert summary_of(rows, limits).goodput_requests_per_second == pytest.approx(0.2)
    assert summary_of(rows).attainment is None


def test_an_interruption_is_no_failure_of_the_server() -> None:
    """Requests that were under way are counted apart."""
    summary = summary_of([row(0), failed(1, Outcome.INTERRUPTED)])

    assert (summary.attempted, summary.failed, summary.interrupted) == (1, 0, 1)


def scheduled(index: int, gap_ns: int, dispatched_gap_ns: int) -> RequestRow:
    """A row of an open loop whose client may fall behind."""
    return row(index, scheduled_ns=index * gap_ns, dispatched_ns=index * dispatched_gap_ns)


def test_a_client_that_cannot_keep_up_says_so() -> None:
    """Pitfall 23: 10 requests/s were scheduled and 9 sent: the client is the bottleneck; at 10 it is not."""
    slow = check_client([scheduled(i, S // 10, S // 9) for i in range(30)], [0.001] * 100, 0.5)
    good = check_client([scheduled(i, S // 10, S // 10) for i in range(30)], [0.001] * 100, 0.5)

    assert slow.is_bottleneck
    assert slow.achieved_rate_per_s == pytest.approx(9.0)
    assert slow.scheduled_rate_per_s == pytest.approx(10.0)
    assert not good.is_bottleneck


@pytest.mark.parametrize(("lag_s", "share", "bottleneck"), [(0.001, 0.5, False), (0.2, 0.5, True), (0.001, 0.99, True)])
def test_the_client_is_judged_by_its_loop_and_its_core(lag_s: float, share: float, bottleneck: bool) -> None:  # noqa: FBT001  # a parameter
    """A late event loop or a full core makes the numbers the client's own."""
    assert check_client([row()], [lag_s] * 50, share).is_bottleneck is bottleneck


def timed(predicted_s: float, prompt_s: float = 0.9) -> RequestRow:
    """A row with the server's own times: its client saw 1 s to the first text and 2 s after it."""
    timings = ServerTimings(
        prompt_tokens=16, prompt_s=prompt_s, predicted_tokens=3, predicted_s=predicted_s, cached_tokens=None
    )
    return row(timings=timings)


@pytest.mark.parametrize(
    ("timings", "agrees"),
    [((2.0, 0.9), True), ((3.0, 0.9), True), ((2.4, 0.9), False), ((1.2, 0.9), False), ((2.0, 1.2), False)],
)
def test_the_servers_clock_is_compared(timings: tuple[float, float], agrees: bool) -> None:  # noqa: FBT001  # a parameter
    """Pitfall 18: n tokens may be timed as n or n - 1 steps, both agree; another time, or text before its prompt, contradicts."""
    found = check_server([timed(*timings)])

    assert found is not None
    assert found.agrees is agrees
    assert check_server([row()]) is None


def test_caches_and_lengths_are_named() -> None:
    """Pitfall 13: a cached prompt of a load without shared prefixes is a doubt; the template's own tokens are none."""
    base = row(prompt_tokens=100, asked_prompt_tokens=92, output_tokens=3, asked_output_tokens=3)

    assert doubts([replace(base, cached_tokens=8)], prompts_are_unique=True) == []
    assert "prompt cache" in doubts([replace(base, cached_tokens=60)], prompts_are_unique=True)[0]
    assert doubts([replace(base, cached_tokens=60)], prompts_are_unique=False) == []
    assert "another length" in doubts([replace(base, asked_output_tokens=8)], prompts_are_unique=True)[0]

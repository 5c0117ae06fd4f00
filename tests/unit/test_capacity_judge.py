"""What a level says while it runs: which attempts count, and when it is decided."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from helpers.capacity_runs import answered, judge_of, queue_rows, seen_at, under_way, waits_s
from suffice.model.capacity import Criterion, Judge, LevelVerdict, is_gone, score_of
from suffice.model.load_metrics import Limits
from suffice.model.load_request import Outcome, RequestRow
from suffice.units import NANOSECONDS_PER_SECOND

SECOND = NANOSECONDS_PER_SECOND


def test_attempts_count_in_the_order_of_sending_up_to_the_first_that_is_open() -> None:
    """Two hundred quick answers behind one that is still under way, and not late yet, are not counted before it."""
    rows = [under_way(0, 0.0), *(answered(index, 0.01 * index, 0.01 * index + 0.1) for index in range(1, 201))]
    found = judge_of(10.0).judgement(rows, 3 * SECOND)

    assert found.counts[0].counted == 0
    assert found.verdict is LevelVerdict.UNDECIDED
    assert not found.good


def test_an_attempt_that_is_late_has_missed_though_nothing_came() -> None:
    """The same request eleven seconds later: it is a miss, and those behind it count."""
    rows = [under_way(0, 0.0), *(answered(index, 0.01 * index, 0.01 * index + 0.1) for index in range(1, 201))]
    found = judge_of(10.0).judgement(rows, 11 * SECOND)

    assert (found.counts[0].counted, found.counts[0].kept) == (201, 200)
    assert found.verdict is LevelVerdict.HOLDS


def test_a_first_text_in_time_is_no_longer_late() -> None:
    """A request whose first text came within the limit is under way, and open, however long its answer takes; not so for E2E."""
    row = replace(under_way(0, 0.0), chunk_ns=(SECOND,), chunk_events=(1,))

    assert score_of(row, Limits(ttft_s=2.0), 50 * SECOND) is None
    assert score_of(row, Limits(e2e_s=2.0), 50 * SECOND) == math.inf
    assert score_of(replace(row, outcome=Outcome.CUT_OFF), Limits(ttft_s=2.0), 50 * SECOND) == math.inf


def test_attempts_without_the_time_that_a_limit_is_about_are_apart() -> None:
    """An answer of one token has no TPOT: it is in no count, and a level of such answers is never decided."""
    rows = [answered(index, 0.01 * index, 0.01 * index + 0.1) for index in range(300)]
    judge = Judge(criteria=(Criterion(limits=Limits(tpot_s=1.0), share=0.95),), risk_holds=0.05, risk_fails=0.05)
    found = judge.judgement(rows, 10 * SECOND)

    assert (found.counts[0].counted, found.counts[0].undetermined) == (0, 300)
    assert found.verdict is LevelVerdict.UNDECIDED


def test_all_criteria_must_hold_and_one_suffices_to_fail() -> None:
    """TTFT within 2 s for 95 % holds; E2E within 1 s, with the same rows at 2 s, fails, and the level with it."""
    rows = [answered(index, 0.01 * index, 0.01 * index + 0.5 + 0.001 * (index * 7 % 11)) for index in range(300)]
    holds = Criterion(limits=Limits(ttft_s=2.0), share=0.95)
    fails = Criterion(limits=Limits(e2e_s=0.2), share=0.5)

    def verdict(*criteria: Criterion) -> LevelVerdict:
        return Judge(criteria=criteria, risk_holds=0.05, risk_fails=0.05).judgement(rows, 10 * SECOND).verdict

    assert verdict(holds) is LevelVerdict.HOLDS
    assert verdict(fails) is LevelVerdict.FAILS
    assert verdict(holds, fails) is LevelVerdict.FAILS


def test_nothing_is_said_of_a_handful() -> None:
    """Six neighbours that all miss are one hiccup; twenty-five that all miss are a level that fails."""
    rows = [answered(index, index, index + 9.0 + 0.01 * (index * 7 % 11)) for index in range(25)]

    assert judge_of(1.0).judgement(rows[:6], 99 * SECOND).verdict is LevelVerdict.UNDECIDED
    assert judge_of(1.0).judgement(rows, 99 * SECOND).verdict is LevelVerdict.FAILS


def test_a_growing_queue_fails_before_any_limit_is_missed() -> None:
    """Twice what the server can do, and a limit of ten minutes: no attempt is late, and the level fails for its queue."""
    rows = queue_rows(waits_s(2.0, 200, seed=4))
    now_ns = rows[-1].scheduled_ns or 0
    found = judge_of(600.0, rate_per_s=2.0).judgement(seen_at(rows, now_ns), now_ns)

    assert found.verdict is LevelVerdict.FAILS
    assert "queue grows" in found.because


def test_a_server_that_is_gone_is_no_failing_level() -> None:
    """Twenty requests in a row without a connection: undecided, and said why."""
    rows = [under_way(index, float(index), Outcome.NO_CONNECTION) for index in range(20)]
    found = judge_of(1.0).judgement(rows, 30 * SECOND)

    assert is_gone(rows)
    assert not is_gone(rows[:19])
    assert (found.verdict, found.because) == (LevelVerdict.UNDECIDED, "the server is not there any more")


def test_a_level_that_will_not_be_decided_is_given_up() -> None:
    """95.5 % kept where 95 % are asked for: a thousand attempts like it decide nothing; all kept, they would."""
    close = [answered(index, index, index + (0.5 if index % 22 else 9.0)) for index in range(300)]
    clear = [answered(index, index, index + 0.5 + 0.001 * (index * 7 % 11)) for index in range(300)]
    judge = judge_of(1.0, risk=0.001)

    assert judge.is_hopeless(judge.judgement(close, 999 * SECOND), 1000)
    assert not judge.is_hopeless(judge.judgement(close[:200], 999 * SECOND), 1000)
    assert not judge.is_hopeless(judge.judgement(clear, 999 * SECOND), 1000)


@pytest.mark.parametrize(("limits", "share"), [(Limits(), 0.95), (Limits(ttft_s=1.0), 1.0), (Limits(ttft_s=1.0), 0.0)])
def test_criteria_that_are_none_are_refused(limits: Limits, share: float) -> None:
    """No limit, or all attempts: no number of requests could show that."""
    with pytest.raises(ValueError, match="criterion"):
        Criterion(limits=limits, share=share)


def two_token_rows(rate_per_s: float, count: int, seed: int) -> list[RequestRow]:
    """A queue whose answers have two tokens, the second 10 ms after the first, however long they waited."""
    rows = queue_rows(waits_s(rate_per_s, count, seed))
    return [
        replace(
            row,
            chunk_ns=(row.end_ns, row.end_ns + SECOND // 100),
            chunk_events=(1, 1),
            output_tokens=2,
            end_ns=row.end_ns + SECOND // 100,
        )
        for row in rows
    ]


def rate_judge(limits: Limits, rate_per_s: float) -> Judge:
    """A judge of an open loop."""
    return Judge(
        criteria=(Criterion(limits=limits, share=0.95),), risk_holds=0.025, risk_fails=0.003, rate_per_s=rate_per_s
    )


@pytest.mark.parametrize("limits", [Limits(tpot_s=0.1), Limits(ttft_s=600.0)])
def test_limits_that_nobody_can_miss_yet_are_no_good_sign_of_a_growing_queue(limits: Limits) -> None:
    """72 requests at 1.5 times what the server can do, all within the limits: the level looks bad; at half of it, good."""
    beyond, within = two_token_rows(1.5, 72, 4), two_token_rows(0.5, 72, 4)
    bad = rate_judge(limits, 1.5).judgement(beyond, beyond[-1].end_ns)
    good = rate_judge(limits, 0.5).judgement(within, within[-1].end_ns)

    assert bad.counts[0].kept == bad.counts[0].counted == 72
    assert not bad.good
    assert good.good


@pytest.mark.parametrize("seed", range(6))
def test_a_level_does_not_hold_while_its_queue_may_grow(seed: int) -> None:
    """1.1 times what the server can do, and a limit on TPOT that all 400 attempts keep: undecided, or failed; at 0.6 of it, it holds."""
    beyond, within = two_token_rows(1.1, 400, seed), two_token_rows(0.6, 400, seed)
    limits = Limits(tpot_s=0.1)

    assert rate_judge(limits, 1.1).judgement(beyond, beyond[-1].end_ns).verdict is not LevelVerdict.HOLDS
    assert rate_judge(limits, 0.6).judgement(within, within[-1].end_ns).verdict is LevelVerdict.HOLDS


def test_attempts_that_may_have_missed_keep_a_level_from_holding() -> None:
    """60 of 300 answers whose tokens nobody counted: what is known holds, the level does not; as answers of one token they do no harm."""
    rows = two_token_rows(0.3, 300, 1)
    uncounted = [replace(row, output_tokens=None) if row.index % 5 == 0 else row for row in rows]
    single = [
        replace(row, output_tokens=1, chunk_ns=row.chunk_ns[:1], chunk_events=(1,)) if row.index % 5 == 0 else row
        for row in rows
    ]
    judge = rate_judge(Limits(tpot_s=0.1), 0.3)
    found, other = judge.judgement(uncounted, rows[-1].end_ns), judge.judgement(single, rows[-1].end_ns)

    assert (found.counts[0].unknown, found.counts[0].undetermined) == (60, 60)
    assert found.verdict is LevelVerdict.UNDECIDED
    assert found.because == "60 of 300 attempts lack a time that a limit is about"
    assert judge.is_hopeless(found, 600)
    assert (other.counts[0].unknown, other.counts[0].undetermined) == (0, 60)
    assert other.verdict is LevelVerdict.HOLDS


def test_a_few_attempts_that_may_have_missed_are_outvoted() -> None:
    """Two of 400 without a count: even if both had missed, 95 % are proven."""
    rows = [replace(row, output_tokens=None) if row.index in {50, 250} else row for row in two_token_rows(0.3, 400, 1)]

    assert rate_judge(Limits(tpot_s=0.1), 0.3).judgement(rows, rows[-1].end_ns).verdict is LevelVerdict.HOLDS

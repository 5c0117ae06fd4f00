"""The ways in which public tools printed wrong numbers, each played by the mock server. Rows are those of the project's list.

Rows that are arithmetic (3, 18, 21 to 27) are in test_load_metrics.py and test_load_schedule.py as well.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from helpers.load_runs import one_row, plan, run_against, summary_of
from suffice.load import mock_script as script
from suffice.load.endpoint import endpoint_of
from suffice.load.mock_script import Answer, Ending, Pace, Step
from suffice.load.mock_server import MockServer
from suffice.load.prompts import made_prompts
from suffice.load.runner import LoadRunner
from suffice.load.settings import Accepted, Api, Arrivals, Ask, Loop
from suffice.model.load_metrics import Limits, keeps_to
from suffice.model.load_request import Outcome

if TYPE_CHECKING:
    from suffice.load.mock_server import MockRequest
    from suffice.model.load_request import RequestRow

END = script.finish() + script.usage(2) + script.DONE


def steps(*parts: tuple[float, bytes], ending: Ending = Ending.CLEAN) -> Answer:
    """An answer of timed writes."""
    return Answer(steps=tuple(Step(at_s=at_s, content=content) for at_s, content in parts), ending=ending)


def test_row_1_role_and_empty_chunks_are_no_first_token() -> None:
    """A role at once, an empty delta, then text after 60 ms: TTFT is at least 60 ms; the usage chunk does not prolong E2E."""
    found = one_row(
        steps(
            (0.0, script.role()),
            (0.02, script.text("")),
            (0.06, script.text("a")),
            (0.07, script.text("b")),
            (0.3, END),
        )
    )

    assert found.ttft_s is not None
    assert found.ttft_s >= 0.059
    assert found.text_events == 2
    assert found.chunk_ns[-1] < found.end_ns - 50_000_000


def test_row_2_reasoning_is_text_and_the_answer_is_timed_apart() -> None:
    """Thinking at once and an answer after 200 ms: TTFT is of the first, TTFO of the second."""
    found = one_row(steps((0.0, script.text("hm", "reasoning_content")), (0.2, script.text("a")), (0.2, END)))

    assert found.ttft_s is not None
    assert found.ttfo_s is not None
    assert found.ttfo_s - found.ttft_s >= 0.05
    assert (found.reasoning_characters, found.answer_characters) == (2, 1)


def test_row_2_only_reasoning_is_a_success_without_an_answer() -> None:
    """A model that spends all its tokens on thinking has generated text, and no time to its first answer."""
    found = one_row(Pace(tokens=3, reasoning_tokens=3).answer())

    assert found.succeeded
    assert found.ttft_s is not None
    assert found.ttfo_s is None


def test_row_3_the_time_to_first_token_is_not_in_tpot() -> None:
    """100 ms to the first token, 8 tokens: what is left of E2E without TTFT is TPOT times the tokens after the first read."""
    found = one_row(Pace(ttft_s=0.1, gap_s=0.03, tokens=8).answer())

    assert found.ttft_s is not None
    assert found.e2e_s is not None
    assert found.ttft_s >= 0.099
    assert found.tpot_s == pytest.approx((found.e2e_s - found.ttft_s) / (8 - found.chunk_events[0]))


def test_row_4_three_tokens_a_chunk() -> None:
    """12 tokens in 4 events: the time after the first one was spent on 9 tokens, not on 3 chunks."""
    found = one_row(Pace(gap_s=0.06, tokens=12, tokens_per_event=3).answer())

    assert found.tokens_per_event == 3
    assert found.e2e_s is not None
    assert found.ttft_s is not None
    assert found.tpot_s == pytest.approx((found.e2e_s - found.ttft_s) / (12 - 3 * found.chunk_events[0]))


def test_row_5_two_events_in_one_write_are_one_arrival() -> None:
    """Events that arrive together make no gap of 0 s, and the empty finish chunk makes none either."""
    pair = script.text("a") + script.text("b")
    found = one_row(steps((0.0, pair), (0.1, pair), (0.2, script.finish() + script.usage(4) + script.DONE)))

    assert found.chunk_events == (2, 2)
    assert len(found.chunk_gaps_s) == 1
    assert found.chunk_gaps_s[0] > 0.01


def test_row_6_the_first_token_is_not_held_back_by_line_buffering() -> None:
    """The first event is stamped when it comes, though the rest of the answer is 300 ms away and shorter than any buffer."""
    found = one_row(steps((0.0, script.text("a")), (0.3, script.text("b")), (0.3, END)))

    assert found.ttft_s is not None
    assert found.e2e_s is not None
    assert found.e2e_s - found.ttft_s > 0.1


def test_row_7_no_tokens_are_counted_from_text() -> None:
    """Without a usage the count is unknown, however many chunks came: nothing tokenizes pieces of text."""
    found = one_row(Pace(with_usage=False, tokens=5).answer())

    assert found.succeeded
    assert (found.output_tokens, found.tpot_s, found.text_events) == (None, None, 5)


def test_row_8_an_answer_of_one_token_passes_no_limit_on_tpot() -> None:
    """It has no TPOT; whether it keeps to the limit cannot be said."""
    found = one_row(Pace(tokens=1).answer())

    assert found.output_tokens == 1
    assert found.tpot_s is None
    assert keeps_to(found, Limits(tpot_s=10.0)) is None


FAILURES: dict[str, tuple[Answer, Outcome]] = {
    "empty answer": (script.at_once(script.role(), script.finish("stop"), script.usage(0), script.DONE), Outcome.EMPTY),
    "error event after 200": (
        script.at_once(script.role(), script.event({"error": {"message": "overloaded"}})),
        Outcome.ERROR_EVENT,
    ),
    "error event after text": (
        script.at_once(script.text("a"), b'event: error\ndata: {"message": "overloaded"}\n\n'),
        Outcome.ERROR_EVENT,
    ),
    "error as JSON with 200": (
        script.at_once(b'{"error": {"message": "overloaded"}}', content_type="application/json"),
        Outcome.ERROR_EVENT,
    ),
    "not streamed": (
        script.at_once(b'{"choices": [{"message": {"content": "a"}}]}', content_type="application/json"),
        Outcome.GARBAGE,
    ),
    "web page": (script.at_once(b"<html>login</html>", content_type="text/html"), Outcome.GARBAGE),
    "garbage": (script.at_once(b"\x00\xff\x80 nothing \n\n"), Outcome.GARBAGE),
    "garbage in an event": (script.at_once(script.text("a"), b"data: {half\n\n"), Outcome.GARBAGE),
    "status 429": (script.error_answer(429, "too many"), Outcome.HTTP_ERROR),
    "status 500": (script.error_answer(500), Outcome.HTTP_ERROR),
    "redirect": (script.error_answer(307), Outcome.HTTP_ERROR),
    "cut off": (script.ended(Pace().answer(), Ending.CUT, 4), Outcome.CUT_OFF),
    "reset": (script.ended(Pace().answer(), Ending.RESET, 4), Outcome.CUT_OFF),
    "ended without an end mark": (script.ended(Pace().answer(), Ending.CLEAN, 4), Outcome.CUT_OFF),
    "cut inside an event": (script.at_once(script.text("a"), b'data: {"choi', ending=Ending.CUT), Outcome.CUT_OFF),
    "stalled": (script.ended(Pace().answer(), Ending.HANG, 4), Outcome.TIMEOUT),
    "slow headers": (Answer(headers_at_s=30.0), Outcome.TIMEOUT),
}


@pytest.mark.parametrize("name", FAILURES)
def test_row_9_what_is_no_whole_answer_is_a_failure_with_its_reason(name: str) -> None:
    """No failure has a latency, each has its kind, and none lasts longer than its time-out."""
    answer, outcome = FAILURES[name]
    found = one_row(answer, timeout_s=0.4)

    assert found.outcome is outcome
    assert (found.ttft_s, found.tpot_s, found.e2e_s) == (None, None, None)
    assert found.detail


def test_row_9_a_failed_stream_keeps_what_came() -> None:
    """The times of the chunks before the cut are in the row."""
    found = one_row(script.ended(Pace().answer(), Ending.CUT, 4))

    assert found.text_events == 3


USAGES: dict[str, Answer] = {
    "after the finish reason": script.at_once(script.text("a"), script.finish(), script.usage(7), script.DONE),
    "in one write with the end": script.at_once(script.text("a"), script.finish() + script.usage(7) + script.DONE),
    "beside the choices": script.at_once(
        script.text("a"), script.event(script.chat_chunk({}, "stop", usage={"completion_tokens": 7})), script.DONE
    ),
    "in every chunk": script.at_once(
        script.event(script.chat_chunk({"content": "a"}, usage={"completion_tokens": 1})),
        script.event(script.chat_chunk({"content": "b"}, "stop", usage={"completion_tokens": 7})),
        script.DONE,
    ),
    "null before it comes": script.at_once(
        script.event(script.chat_chunk({"content": "a"}, usage=None)), script.finish(), script.usage(7), script.DONE
    ),
}


@pytest.mark.parametrize("name", USAGES)
def test_row_10_usage_is_found_wherever_it_stands(name: str) -> None:
    """After the finish reason, with empty choices, beside choices, in every chunk: the last one counts."""
    assert one_row(USAGES[name]).output_tokens == 7


def test_comments_wrong_types_and_crlf_do_no_harm() -> None:
    """Keep-alive comments are no text, an odd content type is noted, CRLF is a line end."""
    content = script.KEEP_ALIVE + (script.text("a") + script.text("ö")).replace(b"\n", b"\r\n") + END
    found = one_row(script.at_once(content, content_type="text/plain"))

    assert found.succeeded
    assert found.answer_characters == 2
    assert "text/plain" in found.notes[0]


def test_events_that_come_twice_are_not_two_tokens() -> None:
    """Under one id the second is dropped and noted; without ids, more events than tokens are noted."""
    twice = b"id: 1\n" + script.text("a")
    with_ids = one_row(script.at_once(twice + twice, script.finish() + script.usage(1) + script.DONE))
    without = one_row(script.at_once(script.text("a") * 4, END))

    assert with_ids.text_events == 1
    assert "twice" in with_ids.notes[0]
    assert "4 text events for 2 tokens" in without.notes[0]


def test_a_character_cut_in_two_is_one_character() -> None:
    """Bytes of one character in two writes are put together again."""
    content = script.text("世界")
    middle = content.index("界".encode()) + 1
    found = one_row(steps((0.0, content[:middle]), (0.02, content[middle:]), (0.02, END)))

    assert found.answer_characters == 2


def test_a_server_that_does_not_close_its_answer_is_left() -> None:
    """After [DONE] the answer is whole: a body that stays open is a success, not a time-out."""
    found = one_row(script.ended(Pace(tokens=2).answer(), Ending.HANG, 4), timeout_s=3.0)

    assert found.succeeded


def test_completions_are_spoken_too() -> None:
    """The older interface has its text in another place, and the prompt goes where it belongs."""
    answer = script.at_once(script.event({"choices": [{"text": "a"}]}), script.event({"choices": [{"text": "b", "finish_reason": "length"}]}) + script.usage(2) + script.DONE)  # fmt: skip
    run, served = run_against(lambda _: answer, api=Api.COMPLETIONS)

    assert run.rows[0].succeeded
    assert served[0].request.path == "/v1/completions"
    assert len(served[0].request.body["prompt"].split()) == 16
    assert served[0].request.body["ignore_eos"] is True
    assert served[0].request.body["min_tokens"] == served[0].request.body["max_tokens"] == 8


def test_row_13_no_two_prompts_begin_alike() -> None:
    """Warm-up included, the first words of all prompts differ: no prefix cache can answer."""
    _, served = run_against(lambda _: Pace().answer(), plan(requests=20, warm_up=5, concurrency=5))
    prompts = [item.request.body["messages"][0]["content"] for item in served]

    assert len({" ".join(prompt.split()[:4]) for prompt in prompts}) == 25


def test_row_20_throughput_is_not_speed_of_decode() -> None:
    """500 ms of prefill and 120 ms of decode: tokens over all the time is less than half of what decode did."""
    found = one_row(Pace(ttft_s=0.5, gap_s=0.03, tokens=5).answer())

    assert found.tpot_s is not None
    assert found.e2e_s is not None
    assert 5 / found.e2e_s < 0.5 / found.tpot_s


def test_row_21_a_slow_server_does_not_slow_an_open_loop() -> None:
    """Five arrivals 20 ms apart at a server that takes 600 ms: all are sent before the first ends, and timed from the schedule."""
    open_plan = plan(loop=Loop.OPEN, rate_per_s=50.0, arrivals=Arrivals.CONSTANT, requests=5)
    run, served = run_against(lambda _: Pace(ttft_s=0.6).answer(), open_plan)

    assert max(item.read_ns for item in served) < min(item.wrote_ns[1] for item in served)
    assert [round((row.scheduled_ns or 0) / 1e6) for row in run.rows] == [0, 20, 40, 60, 80]
    assert all((row.effective_ttft_s or 0) >= (row.ttft_s or 1) for row in run.rows)


def test_row_21_waiting_in_the_servers_queue_is_seen() -> None:
    """A server of one slot: constant arrivals twice as fast as it serves wait longer and longer, as they must."""
    free_at = [0.0]

    def one_slot(_: MockRequest) -> Answer:
        now = time.perf_counter()
        free_at[0] = max(free_at[0], now) + 0.04
        return Pace(ttft_s=free_at[0] - now, tokens=1).answer()

    run, _ = run_against(one_slot, plan(loop=Loop.OPEN, rate_per_s=50.0, arrivals=Arrivals.CONSTANT, requests=12))
    waits = [row.effective_ttft_s or 0.0 for row in run.rows]

    assert waits[-1] - waits[0] > 0.15  # 11 x (40 - 20) ms = 220 ms


def test_row_23_a_blocked_client_is_noticed() -> None:
    """The event loop is blocked for 100 ms again and again: the watch sees it."""

    async def block(_server: MockServer, _runner: LoadRunner) -> None:
        for _ in range(3):
            time.sleep(0.1)  # noqa: ASYNC251  # the fault that is to be found
            await asyncio.sleep(0)

    run, _ = run_against(lambda _: Pace(ttft_s=0.05).answer(), plan(requests=2), meanwhile=block)

    assert max(run.client.lags_s) > 0.08


def test_row_24_the_window_ends_when_the_first_user_has_nothing_to_send() -> None:
    """Two users, four requests of which the last is slow: its tail is not in the window."""
    run, _ = run_against(
        lambda request: Pace(ttft_s=0.4 if request.index == 3 else 0.02).answer(), plan(requests=4, concurrency=2)
    )

    assert run.sending_until_ns < run.rows[3].end_ns - 200_000_000


def test_row_26_failures_are_in_the_percentiles() -> None:
    """Every fourth of 16 requests fails: P50 is finite, the top is unbounded, and nothing was sent a second time."""
    run, served = run_against(
        lambda request: script.error_answer(503) if request.index % 4 == 3 else Pace().answer(),
        plan(requests=16, concurrency=4),
    )
    summary = summary_of(run.rows)

    assert len(served) == 16
    assert (summary.attempted, summary.failed) == (16, 4)
    assert summary.ttft.attempts[0].value is not None
    assert summary.ttft.attempts[1].observed == float("inf")


def test_row_28_times_are_of_the_monotonic_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wall clock that runs backwards changes nothing: all times are in order and none is negative."""
    backwards = iter(range(10**9, 0, -1))
    monkeypatch.setattr(time, "time", lambda: float(next(backwards)))

    found = one_row(Pace(gap_s=0.005).answer())

    moments = [found.dispatched_ns, found.start_ns or -1, found.headers_ns or -1, *found.chunk_ns, found.end_ns]
    assert moments == sorted(moments)
    assert moments[0] >= 0


@pytest.mark.parametrize(("keep_alive", "connections"), [(False, 4), (True, 1)])
def test_connections_are_used_again_only_when_asked(keep_alive: bool, connections: int) -> None:  # noqa: FBT001  # a parameter
    """One for each request, each with its set-up apart from TTFT; with keep-alive one for all, by httpx's own transport."""

    async def work() -> tuple[list[RequestRow], int]:
        async with MockServer(lambda _: Pace().answer()) as server:
            endpoint, _ = endpoint_of(server.url, Api.CHAT, keep_alive=keep_alive)
            run = await LoadRunner(plan(requests=4), endpoint, Accepted()).run(
                made_prompts(8, 8, seed=1), lambda _sent, _ended: None
            )
            return list(run.rows), server.connections

    rows, seen = asyncio.run(work())

    assert all(row.succeeded for row in rows)
    assert seen == connections
    assert sum(row.connect_s is not None for row in rows) == connections
    assert all((row.start_ns or 0) >= row.dispatched_ns + (row.connect_ns or 0) for row in rows)


def test_half_a_character_in_a_prompt_does_not_end_the_run() -> None:
    """A lone surrogate, which JSON can hold and UTF-8 cannot, is sent as it was written."""

    async def work() -> tuple[RequestRow, str]:
        async with MockServer(lambda _: Pace().answer()) as server:
            endpoint, _ = endpoint_of(server.url, Api.CHAT)
            runner = LoadRunner(plan(), endpoint, Accepted())
            run = await runner.run(iter([Ask(index=0, prompt="a\ud800")]), lambda _sent, _ended: None)
            return run.rows[0], server.served[0].request.body["messages"][0]["content"]

    found, arrived = asyncio.run(work())

    assert found.succeeded
    assert arrived == "a\ud800"


def test_the_key_is_in_the_request_and_nowhere_else() -> None:
    """A server that repeats the key in its complaint does not get it into the record."""
    answer = script.error_answer(500, "bad key sk-secret-123")
    run, served = run_against(lambda _: answer, key="sk-secret-123")

    assert served[0].request.headers["authorization"] == "Bearer sk-secret-123"
    assert run.rows[0].detail == "status 500: bad key [key]"

"""Whole runs: the first look, hostile servers, interruptions, the result and its report, the command."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner

from helpers.load_runs import plan, run_against, summary_of
from suffice.cli.load import load
from suffice.errors import UsageError
from suffice.load import mock_script as script
from suffice.load.endpoint import endpoint_of
from suffice.load.mock_script import Ending, Pace
from suffice.load.mock_server import served_in_thread
from suffice.load.result import document, to_json
from suffice.load.session import Content, run_session
from suffice.load.settings import Accepted, Api, Loop
from suffice.model.load_metrics import Limits
from suffice.model.load_request import Outcome
from suffice.report.load import load_text

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.load.mock_script import Answer
    from suffice.load.mock_server import MockRequest, MockServer
    from suffice.load.result import LoadResult
    from suffice.load.runner import LoadRunner
    from suffice.load.settings import LoadPlan

LIMITS = Limits(ttft_s=30.0, tpot_s=30.0)


def session(script_of: Any, the_plan: LoadPlan, content: Content | None = None, **endpoint: Any) -> LoadResult:  # noqa: ANN401
    """A whole run against a mock server in a thread."""
    with served_in_thread(script_of) as server:
        target, _ = endpoint_of(server.url, Api.CHAT, **endpoint)
        return run_session(
            the_plan, content or Content(prompt_tokens=16, output_tokens=8), target, LIMITS, lambda _: None
        )


async def _served(server: MockServer, count: int) -> None:
    """Wait until so many requests have come."""
    while len(server.served) < count:  # noqa: ASYNC110  # the server has no event for it
        await asyncio.sleep(0.005)


def test_a_run_has_its_names_and_its_raw_rows() -> None:
    """The document has the names that scripts read, the settings as resolved, and every row; it is JSON without NaN."""
    result = session(lambda _: Pace(gap_s=0.001).answer(), plan(requests=8, warm_up=2, concurrency=2))
    read = json.loads(to_json(result))

    assert next(iter(read)) == "load_schema_version"
    assert (read["attempted"], read["failed"], read["attainment"]) == (8, 0, 1.0)
    assert all(set(read[name]) >= {"p50", "p90", "p95", "p99", "intervals"} for name in ("ttft_s", "tpot_s", "e2e_s"))
    assert read["ttft_s"]["p50"] > 0
    assert read["ttft_s"]["p99"] is None
    assert read["ttft_s"]["of_attempts"]["p95"]["samples_needed"] == 72
    assert read["ttft_s"]["of_attempts"]["p99"]["samples_needed"] == 368
    assert read["goodput_requests_per_second"] > 0
    assert read["output_tokens_per_second"] > 0
    assert len(read["requests"]) == 10
    assert read["settings"]["model"] == "mock"
    assert read["settings"]["plan"]["concurrency"] == 2
    assert read["settings"]["accepted"] == {"usage": True, "exact_length": True}


def test_failures_are_null_and_unbounded_in_the_document() -> None:
    """A percentile that failures reach is null with a mark: null alone could mean that it was not supported."""
    result = session(lambda r: script.error_answer(500) if r.index else Pace().answer(), plan(requests=8))
    read = document(result)

    assert read["ttft_s"]["p50"] is None
    assert read["ttft_s"]["of_attempts"]["p50"]["unbounded"] is True
    assert read["failed_by_reason"] == {"http error": 8}
    assert "unbounded" in load_text(result)


def test_fields_that_a_server_refuses_are_left_out() -> None:
    """A strict server's 400 to ignore_eos costs one request before the load, and is said."""

    def strict(request: MockRequest) -> Answer:
        return script.error_answer(400, "unknown field") if "ignore_eos" in request.body else Pace().answer()

    result = session(strict, plan(requests=2))

    assert result.settings.accepted == Accepted(usage=True, exact_length=False)
    assert [row.outcome for row in result.probe_rows] == [Outcome.HTTP_ERROR, Outcome.SUCCESS]
    assert result.summary.failed == 0
    assert "ignore_eos" in result.warnings[0]


@pytest.mark.parametrize(("status", "hint"), [(401, "--api-key-env"), (403, "--api-key-env"), (404, "--api")])
def test_a_server_that_refuses_is_left_alone(status: int, hint: str) -> None:
    """No load is sent to a server that wants a key or has no such interface; the message says what to do."""
    with pytest.raises(UsageError, match=hint):
        session(lambda _: script.error_answer(status), plan(requests=2))


def test_nobody_there() -> None:
    """One sentence, before anything is sent."""
    with served_in_thread(lambda _: Pace().answer()) as server:
        gone = server.url
    target, _ = endpoint_of(gone, Api.CHAT)

    with pytest.raises(UsageError, match="is it running"):
        run_session(plan(), Content(), target, LIMITS, lambda _: None)


def test_a_server_that_dies_ends_the_run_with_what_it_did() -> None:
    """Killed in mid-run: answers under way are cut off, later ones find nobody, and a closed loop ends instead of spinning."""

    async def kill(server: MockServer, _: LoadRunner) -> None:
        await _served(server, 6)
        server.stop_listening()

    run, _ = run_against(
        lambda _: Pace(ttft_s=0.02, gap_s=0.01).answer(),
        plan(requests=100_000, concurrency=2),
        meanwhile=kill,
    )
    outcomes = [row.outcome for row in run.rows]

    assert run.ended_early is not None
    assert 20 <= outcomes.count(Outcome.NO_CONNECTION) < 40
    assert Outcome.SUCCESS in outcomes
    assert Outcome.CUT_OFF in outcomes


def test_every_hostility_at_once_ends_in_a_report() -> None:
    """Errors, cuts, stalls and garbage between good answers: each request has its row, nothing hangs, nothing is repeated."""
    good = Pace(gap_s=0.001)
    answers = (
        good.answer(),
        script.error_answer(500),
        script.ended(good.answer(), Ending.CUT, 3),
        script.ended(good.answer(), Ending.HANG, 3),
        script.at_once(b"\x00\xffgarbage\n\n"),
        script.ended(good.answer(), Ending.RESET, 2),
    )
    run, served = run_against(
        lambda request: answers[request.index % len(answers)], plan(requests=24, concurrency=6, timeout_s=0.5)
    )
    summary = summary_of(run.rows)

    assert len(served) == 24
    assert summary.succeeded == 4
    assert dict(summary.failures) == {
        Outcome.HTTP_ERROR: 4,
        Outcome.CUT_OFF: 8,
        Outcome.TIMEOUT: 4,
        Outcome.GARBAGE: 4,
    }


def test_an_interrupted_run_keeps_what_came() -> None:
    """Stopped in mid-run: finished rows, and those under way with the texts that they had."""

    async def interrupt(server: MockServer, runner: LoadRunner) -> None:
        await _served(server, 5)
        await asyncio.sleep(0.3)
        runner.stop()

    run, _ = run_against(
        lambda request: script.ended(Pace().answer(), Ending.HANG, 3) if request.index == 4 else Pace().answer(),
        plan(requests=1000),
        meanwhile=interrupt,
    )

    assert run.interrupted
    assert [row.outcome for row in run.rows] == [Outcome.SUCCESS] * 4 + [Outcome.INTERRUPTED]
    assert run.rows[4].text_events == 2


def test_connections_do_not_queue_in_the_client() -> None:
    """110 requests at once are at the server before the first is answered: no pool of 100 holds them back."""
    run, served = run_against(
        lambda _: Pace(ttft_s=1.5, tokens=2).answer(), plan(requests=110, concurrency=110, timeout_s=30.0)
    )

    assert all(row.succeeded for row in run.rows)
    assert max(item.read_ns for item in served) < min(item.wrote_ns[1] for item in served)


def test_a_trace_is_replayed_at_its_times(tmp_path: Path) -> None:
    """Arrivals and lengths are the trace's, twice as fast when asked."""
    path = tmp_path / "trace.jsonl"
    lines = [{"timestamp": at, "input_length": 5, "output_length": 2} for at in (0, 100, 300)]
    path.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")

    result = session(
        lambda _: Pace(tokens=2).answer(), plan(loop=Loop.TRACE, requests=2), Content(trace=path, trace_speed=2.0)
    )

    assert [row.scheduled_ns for row in result.rows] == [0, 50_000_000]
    assert result.rows[0].asked_prompt_tokens == 5


def cli(*arguments: str) -> Any:  # noqa: ANN401  # a result of Typer's
    """The command in an application of its own."""
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(load)
    return CliRunner().invoke(app, list(arguments))


def test_the_command_prints_one_document_and_writes_it(tmp_path: Path) -> None:
    """--json is one document on stdout, --out the same in a file; exit code 0, or 3 where this machine was too busy."""
    out = tmp_path / "load.json"
    with served_in_thread(lambda _: Pace().answer()) as server:
        done = cli(
            server.url, "--requests", "3", "--prompt-tokens", "8", "--output-tokens", "8", "--json", "--out", str(out)
        )

    read = json.loads(done.stdout)
    assert done.exit_code == (0 if read["usable"] else 3)
    assert read["attempted"] == 3
    assert json.loads(out.read_text(encoding="utf-8")) == read


def test_the_command_reports_in_words() -> None:
    """The load, attempts, times and doubts are in the text."""
    with served_in_thread(lambda _: Pace().answer()) as server:
        done = cli(server.url, "--rate", "50", "--requests", "8", "--output-tokens", "8", "--ttft-limit", "10s")

    assert "open loop, 50 requests/s, poisson arrivals" in done.stdout
    assert "8 attempts, 0 failed" in done.stdout
    assert "needs 72 requests, had 8" in done.stdout
    assert "needs 368 requests, had 8" in done.stdout
    (head,) = [line for line in done.stdout.splitlines() if line.startswith("time ")]
    assert head.split() == ["time", "P50", "P90", "P95", "P99"]
    assert "attainment" in done.stdout
    assert "requests/s scheduled (asked for: 50, in random gaps)" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--rate", "50", "--arrivals", "constant", "--requests", "8"), "scheduled (asked for: 50),"),
        (("--ramp", "20:40", "--duration", "500ms"), "scheduled (asked for: 20 to 40),"),
    ],
)
def test_the_asked_rate_stands_beside_the_scheduled_one(arguments: tuple[str, ...], words: str) -> None:
    """Whatever the gaps, and for a ramp both of its ends."""
    with served_in_thread(lambda _: Pace().answer()) as server:
        text = cli(server.url, *arguments, "--output-tokens", "8").stdout

    assert words in text


def test_a_ramp_is_reported_part_by_part() -> None:
    """Ten parts with the rates in their middles, in the text and in the document; a trace of it all is no steady state."""
    arguments = ("--ramp", "10:30", "--duration", "1s", "--output-tokens", "8", "--ttft-limit", "10s")
    with served_in_thread(lambda _: Pace().answer()) as server:
        text = cli(server.url, *arguments).stdout
        read = json.loads(cli(server.url, *arguments, "--json").stdout)

    assert "10 requests/s to 30 in 1.00 s" in text
    assert "kept up to about 29 requests/s" in text
    assert [part["rate_per_s"] for part in read["ramp"]] == pytest.approx([11.0 + 2 * number for number in range(10)])
    assert sum(part["attempts"] for part in read["ramp"]) == read["attempted"]
    assert read["window"]["unsteady"] == "the rate changed all the time"


def test_a_load_that_only_fails_exits_with_1() -> None:
    """Nothing succeeded: that is an answer about the server."""
    with served_in_thread(lambda request: script.error_answer(500) if request.index else Pace().answer()) as server:
        done = cli(server.url, "--requests", "3")

    assert done.exit_code in (1, 3)
    assert "3 attempts, 3 failed (3 http error)" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((), "--spawn"),
        (("h", "--spawn", "x.gguf"), "--spawn"),
        (("h", "--rate", "1", "--concurrency", "2"), "--trace"),
        (("h", "--rate", "0"), "--rate"),
        (("h", "--rate", "1", "--arrivals", "even"), "--arrivals"),
        (("h", "--api", "grpc"), "--api"),
        (("--spawn", "missing.gguf"), "missing.gguf"),
        (("h", "--api-key-env", "NO_SUCH_KEY"), "NO_SUCH_KEY"),
    ],
)
def test_wrong_flags_are_refused_in_one_sentence(arguments: tuple[str, ...], word: str) -> None:
    """The message names the flag; nothing is sent."""
    done = cli(*arguments)

    assert isinstance(done.exception, UsageError)
    assert word in str(done.exception)


def test_row_13_a_second_run_has_other_prompts() -> None:
    """The same seed against the same server: no prompt of the first run is sent again, or its cache would answer."""
    sent: list[str] = []

    def keep(request: MockRequest) -> Answer:
        sent.append(request.body["messages"][0]["content"])
        return Pace().answer()

    first, second = session(keep, plan(requests=3)), session(keep, plan(requests=3))
    loads = [prompt for prompt in sent if len(prompt.split()) == 16]

    assert len(loads) == len(set(loads)) == 6
    assert first.settings.prompt_salt != second.settings.prompt_salt


def test_ctrl_c_ends_the_run_with_what_came() -> None:
    """The signal itself, in the middle of a whole run: a result with the rows so far, and the next Ctrl-C is Python's own again."""

    def interrupting(request: MockRequest) -> Answer:
        if request.index == 5:
            os.kill(os.getpid(), signal.SIGINT)
            return script.ended(Pace().answer(), Ending.HANG, 2)
        return Pace().answer()

    result = session(interrupting, plan(requests=1000))

    assert result.interrupted
    assert result.summary.succeeded == 4
    assert result.summary.interrupted == 1
    assert "INTERRUPTED" in load_text(result)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

"""Whole searches against the mock server: the answer, its document, going on, and servers that fail in the middle."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner

from suffice.cli.load import InterruptedLoadError, load
from suffice.errors import RecordError, UsageError
from suffice.load import mock_script as script
from suffice.load.capacity import find_capacity
from suffice.load.capacity_plan import CapacityPlan
from suffice.load.capacity_result import CapacityStatus, capacity_document, capacity_json, read_capacity
from suffice.load.endpoint import endpoint_of
from suffice.load.mock_script import Ending, Pace
from suffice.load.mock_server import MockServer, served_in_thread
from suffice.load.session import Content
from suffice.load.settings import Api
from suffice.model.capacity import Criterion, LevelVerdict
from suffice.model.capacity_search import CapacityOf
from suffice.model.load_metrics import Limits
from suffice.report.load_capacity import capacity_text
from suffice.report.load_chart import write_capacity_chart

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from suffice.load.capacity_result import CapacityResult
    from suffice.load.mock_script import Answer
    from suffice.load.mock_server import MockRequest

SERVICE_S = 0.02
LONG_SERVICE_S = (
    0.04  # where a verdict is asserted: what this machine may be late by without a doubt of it (20 ms) decides nothing
)


def slots(
    count: int, after: Callable[[int], Answer | None] = lambda _: None, service_s: float = SERVICE_S
) -> Callable[[MockRequest], Answer]:
    """A server that runs so many requests at a time, each for a time; ``after`` may answer in its own way, by the request's number."""
    free_s = [0.0] * count

    def answer(request: MockRequest) -> Answer:
        other = after(request.index)
        if other is not None:
            return other
        now_s = time.perf_counter()
        slot = min(range(count), key=free_s.__getitem__)
        begins_s = max(free_s[slot], now_s)
        free_s[slot] = begins_s + service_s
        return Pace(ttft_s=begins_s - now_s + service_s / 2, gap_s=service_s / 2, tokens=2).answer()

    return answer


def plan(**changes: Any) -> CapacityPlan:  # noqa: ANN401  # any field of a plan
    """Users of a server, with a limit that no machine is too busy for."""
    fields: dict[str, Any] = {
        "of": CapacityOf.USERS,
        "criteria": (Criterion(limits=Limits(ttft_s=5.0), share=0.7),),
        "requests": 50,
        "duration_s": 20.0,
        "timeout_s": 5.0,
    }
    return CapacityPlan(**{**fields, **changes})


def search(answer: Callable[[MockRequest], Answer], **changes: Any) -> CapacityResult:  # noqa: ANN401  # fields of a plan
    """A whole search against a mock server in a thread."""
    kept: list[CapacityResult] = []
    extra = {name: changes.pop(name) for name in ("before",) if name in changes}
    meanwhile: Callable[[MockServer, CapacityResult], None] = changes.pop("meanwhile", lambda *_: None)
    with served_in_thread(answer) as server:
        target, _ = endpoint_of(server.url, Api.CHAT)

        def keep(result: CapacityResult) -> None:
            kept.append(result)
            meanwhile(server, result)

        found = find_capacity(
            plan(**changes), Content(prompt_tokens=4, output_tokens=2), target, lambda _: None, keep=keep, **extra
        )
    assert kept[-1] == found, "what is kept in the end is the result"
    return found


@pytest.fixture(scope="module")
def two_slots() -> CapacityResult:
    """A search on a server with two slots: the first text takes half a service, the limit is 0.9 of one."""
    criteria = (Criterion(limits=Limits(ttft_s=0.9 * LONG_SERVICE_S), share=0.7),)
    return search(slots(2, service_s=LONG_SERVICE_S), criteria=criteria)


def test_users_beyond_the_slots_wait(two_slots: CapacityResult) -> None:
    """Two users are served at once and a third waits for one of them: no more than two hold, and what fails is more than two.

    A machine that is too busy leaves levels undecided, for the client was late; it makes none of them fail or hold.
    """
    found = two_slots.capacity

    assert found.held is None or found.held <= 2  # 1 where this machine was too busy to prove 2
    assert found.failed is None or found.failed > 2
    assert two_slots.status in (CapacityStatus.FOUND, CapacityStatus.UNDECIDED)
    assert all(level.verdict is not LevelVerdict.HOLDS for level in two_slots.levels if level.level > 2)


def test_a_search_has_its_names(two_slots: CapacityResult, tmp_path: Path) -> None:
    """The document has the answer on top, each level with its figures, and is read back as it was."""
    read = json.loads(capacity_json(two_slots))
    level = read["levels"][0]

    assert next(iter(read)) == "capacity_schema_version"
    assert {"status", "capacity", "holds_at", "fails_at", "unit", "confidence"} <= set(read)
    assert read["unit"] == "users"
    assert set(level["ttft"]["p95"]) == {"observed_s", "low_s", "high_s", "samples", "needed"}
    assert level["users"] == level["level"]
    assert level["output_tokens_per_second"] > 0
    assert 0 <= level["criteria"][0]["low"] <= level["criteria"][0]["attained"] <= level["criteria"][0]["high"] <= 1
    (tmp_path / "c.json").write_text(capacity_json(two_slots), encoding="utf-8")
    assert read_capacity(tmp_path / "c.json") == two_slots


def test_the_text_and_the_picture(two_slots: CapacityResult, tmp_path: Path) -> None:
    """The answer, a row for each level and a curve; the picture has an axis of users."""
    text = capacity_text(two_slots)
    write_capacity_chart(tmp_path / "c.svg", two_slots)

    assert "TTFT within 36.0 ms for 70 % of the attempts" in text
    assert text.count("looks ") + text.count("holds") + text.count("FAILS") + text.count("undecided") >= len(
        two_slots.levels
    )
    assert "tokens/s" in text
    assert "█" in text
    assert "suffice chart" in (tmp_path / "c.svg").read_text(encoding="utf-8")


def test_a_finished_search_sends_nothing_more(two_slots: CapacityResult) -> None:
    """Resumed when it was finished: the levels that were there, and no other."""
    with served_in_thread(slots(2)) as server:
        target, _ = endpoint_of(server.url, Api.CHAT)
        again = find_capacity(
            plan(), Content(prompt_tokens=4, output_tokens=2), target, lambda _: None, before=two_slots
        )
        posts = len(server.served)

    assert again.levels == two_slots.levels
    assert posts == 1  # the look at the server


def test_one_user_alone_is_too_much() -> None:
    """The limit is below what an idle server needs: none holds, after six requests."""
    found = search(slots(1), criteria=(Criterion(limits=Limits(ttft_s=0.001), share=0.95),))

    assert found.status is CapacityStatus.NONE_HOLDS
    assert found.levels == ()
    assert "none" in capacity_text(found)


def test_a_server_of_errors_is_no_slow_server() -> None:
    """500 to everything after the first look: undecided, with the reason, and nothing more is sent."""
    found = search(slots(1, lambda index: script.error_answer(500) if index else None))

    assert found.status is CapacityStatus.UNDECIDED
    assert "5 http error" in (found.ended_early or "")


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (script.error_answer(500), "http error"),
        (script.ended(Pace().answer(), Ending.CUT, 3), "stream cut off"),
        (script.ended(Pace().answer(), Ending.HANG, 3), "time-out"),
    ],
)
def test_a_server_that_breaks_in_the_middle_ends_the_search(trouble: Answer, words: str) -> None:
    """From the seventieth request on it only fails, also when asked alone: the level is undecided, those before it are kept."""
    found = search(slots(2, lambda index: trouble if index >= 70 else None), timeout_s=0.3)

    assert found.status is CapacityStatus.UNDECIDED
    assert "lone request" in (found.ended_early or "")
    assert words in (found.ended_early or "")
    assert len(found.levels) >= 2
    assert found.levels[-1].verdict is LevelVerdict.UNDECIDED
    assert found.levels[0].succeeded == found.levels[0].attempted >= 20
    assert "ENDED EARLY" in capacity_text(found)


def test_a_server_that_dies_ends_the_search() -> None:
    """Gone after the first level: the search says so, and keeps what it had."""

    def kill(server: MockServer, result: CapacityResult) -> None:
        if len(result.levels) == 1 and server._server is not None:
            server._server.get_loop().call_soon_threadsafe(server.stop_listening)

    found = search(slots(2), meanwhile=kill)

    assert found.status is CapacityStatus.UNDECIDED
    assert "no connection" in (found.ended_early or "")
    assert found.levels[0].succeeded == found.levels[0].attempted >= 20


def test_a_search_goes_on_when_the_server_is_well_again() -> None:
    """The level that was spoilt is tried again, those before it are kept."""
    spoilt = search(slots(2, lambda index: script.error_answer(500) if index >= 70 else None))
    healed = search(slots(2), before=spoilt, most_probes=len(spoilt.levels) + 1)

    assert spoilt.ended_early is not None
    assert healed.ended_early is None
    assert healed.levels[: len(spoilt.levels) - 1] == spoilt.levels[:-1]
    assert healed.levels[len(spoilt.levels) - 1].level == spoilt.levels[-1].level


def interrupting(request: MockRequest) -> None:
    """Ctrl-C at the seventieth request."""
    if request.index == 70:
        os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_keeps_the_levels_that_are_done() -> None:
    """The signal itself: the first level is whole, and Ctrl-C is Python's own again afterwards."""
    serve = slots(2)

    def answer(request: MockRequest) -> Answer:
        interrupting(request)
        return serve(request)

    found = search(answer)

    assert found.interrupted
    assert found.status is CapacityStatus.INTERRUPTED
    assert found.levels[0].level == 1.0
    # Whether it holds depends on how busy this machine is; that it is kept with its attempts does not.
    assert found.levels[0].attempted > 0
    assert len(found.levels) <= 2, "the level that was interrupted counts only when it was decided"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def cli(*arguments: str) -> Any:  # noqa: ANN401  # a result of Typer's
    """The command in an application of its own."""
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(load)
    return CliRunner().invoke(app, list(arguments))


USERS = (
    "--find-capacity",
    "users",
    "--ttft-limit",
    "5s",
    "--percentile",
    "70",
    "--requests",
    "50",
    "--most-probes",
    "4",
)
LENGTHS = ("--prompt-tokens", "4", "--output-tokens", "2")


def test_the_command_writes_after_each_level_and_goes_on(tmp_path: Path) -> None:
    """Interrupted with 130 and its first level in the file; --resume begins with that level; another limit is another search."""
    out = tmp_path / "c.json"
    serve = slots(2)

    def answer(request: MockRequest) -> Answer:
        interrupting(request)
        return serve(request)

    with served_in_thread(answer) as server:
        first = cli(server.url, *USERS, *LENGTHS, "--out", str(out))
        kept = read_capacity(out)
        second = cli(server.url, *USERS, *LENGTHS, "--out", str(out), "--resume", "--json")
        other = cli(server.url, *USERS, *LENGTHS, "--out", str(out), "--resume", "--tpot-limit", "1s")

    assert isinstance(first.exception, InterruptedLoadError)
    assert kept.interrupted
    assert kept.levels[0].level == 1.0
    assert json.loads(second.stdout) == json.loads(out.read_text(encoding="utf-8"))
    assert read_capacity(out).levels[: len(kept.levels)] == kept.levels
    assert second.exit_code in (0, 3)
    assert isinstance(other.exception, UsageError)
    assert "another load" in str(other.exception)


def test_a_demand_states_limits_and_lengths(tmp_path: Path) -> None:
    """Each limit at its own percentile; prompts and answers have the demand's lengths; exit code 1 when one user is too many."""
    path = tmp_path / "demand.toml"
    path.write_text(
        '[demand]\nkind = "interactive"\nprompt_tokens = { p50 = 12, p95 = 20 }\noutput_tokens = 2\n'
        "ttft_s = { p90 = 0.001 }\ntpot_s = { p99 = 2.0 }\n",
        encoding="utf-8",
    )
    sent: list[int] = []

    def answer(request: MockRequest) -> Answer:
        sent.append(len(request.body["messages"][0]["content"].split()))
        return Pace(ttft_s=0.01, tokens=2, gap_s=0.001).answer()

    with served_in_thread(answer) as server:
        done = cli(server.url, "--find-capacity", "--demand", str(path), "--json")
    read = json.loads(done.stdout)

    assert done.exit_code == 1
    assert [
        (one["limits"]["ttft_s"], one["limits"]["tpot_s"], one["share"]) for one in read["settings"]["criteria"]
    ] == [
        (0.001, None, 0.9),
        (None, 2.0, 0.99),
    ]
    assert len(set(sent[1:])) > 1
    assert all(4 <= words <= 31 for words in sent[1:])


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("h", "--find-capacity"), "limit"),
        (("h", "--find-capacity", "tokens", "--ttft-limit", "1s"), "tokens"),
        (("h", "--find-capacity", "users", "--rate", "1", "--ttft-limit", "1s"), "--concurrency"),
        (("h", "--find-capacity", "--ttft-limit", "1s", "--resume"), "--out"),
        (("h", "--find-capacity", "--ttft-limit", "1s", "--chart", "c.gif"), "--chart"),
        (("h", "--find-capacity", "--ttft-limit", "1s", "--ramp", "1:2"), "--ramp"),
        (("h", "users", "--ttft-limit", "1s"), "--find-capacity"),
        (("--find-capacity", "users", "--ttft-limit", "1s"), "--spawn"),
        (("h", "--ramp", "1-2"), "FROM:TO"),
        (("h", "--ramp", "1:2", "--rate", "3"), "--ramp"),
    ],
)
def test_wrong_flags_of_a_search_are_refused(arguments: tuple[str, ...], word: str) -> None:
    """The message names what is wrong; nothing is sent."""
    done = cli(*arguments)

    assert isinstance(done.exception, UsageError)
    assert word in str(done.exception)


def test_which_searches_are_one(two_slots: CapacityResult) -> None:
    """Other words and more probes: the same search; another limit, length, server, or other slots of our own: not."""
    first = two_slots.settings
    own = replace(first, spawned="m.gguf, 2 slots, 1 threads")

    assert first.agrees(replace(first, prompt_salt="other", most_probes=30, model=None))
    assert not first.agrees(replace(first, output_tokens=9))
    assert not first.agrees(replace(first, criteria=(Criterion(limits=Limits(ttft_s=9.0), share=0.7),)))
    assert not first.agrees(replace(first, url="http://127.0.0.1:1/v1/chat/completions"))
    assert not first.agrees(replace(first, model="another"))
    assert own.agrees(replace(own, url="http://127.0.0.1:1/v1/chat/completions"))
    assert not own.agrees(replace(own, spawned="m.gguf, 4 slots, 1 threads"))


def test_files_that_are_no_search_are_refused(tmp_path: Path) -> None:
    """Another document, or half of one: nothing is guessed."""
    path = tmp_path / "c.json"
    path.write_text('{"load_schema_version": 1}', encoding="utf-8")
    with pytest.raises(RecordError, match="no result of --find-capacity"):
        read_capacity(path)
    path.write_text('{"capacity_schema_version": 1, "levels": 3}', encoding="utf-8")
    with pytest.raises(RecordError, match="no usable result"):
        read_capacity(path)


def test_the_document_says_how_sure_it_is(two_slots: CapacityResult) -> None:
    """The capacity is the proven lower end, never a level that only looked good."""
    document = capacity_document(two_slots)

    assert document["capacity"] == document["holds_at"] == two_slots.capacity.held
    assert document["settings"]["confidence"] == document["confidence"] == 0.95

"""The client beside its server: who took whose CPU time, and what a late client leaves of the result."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from helpers.load_runs import plan, row
from suffice.load.capacity_level import Level, level_result
from suffice.load.endpoint import endpoint_of
from suffice.load.mock_script import Pace
from suffice.load.mock_server import served_in_thread
from suffice.load.result import document
from suffice.load.runner import LoadRun
from suffice.load.session import Content, run_session
from suffice.load.settings import Api, LoadPlan, Loop
from suffice.load.watch import ClientReadings, HostSeconds, busy_share, host_seconds
from suffice.model.capacity import Criterion, Judge, LevelVerdict
from suffice.model.load_checks import ClientCheck, HostCheck, check_client, with_early_first_text, without_lateness
from suffice.model.load_metrics import Limits, attainment
from suffice.report.load import load_text
from suffice.units import NANOSECONDS_PER_SECOND as SECOND

if TYPE_CHECKING:
    from suffice.model.load_request import RequestRow


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:1", True),
        ("http://127.9.9.9", True),
        ("http://[::1]:8080", True),
        ("localhost:8080", True),
        ("http://10.0.0.1", False),
        ("https://api.example.com", False),
        ("http://localhost.example.com", False),
    ],
)
def test_which_servers_share_the_machine(url: str, *, here: bool) -> None:
    """Loopback addresses, in both families and by name, and no others."""
    assert endpoint_of(url, Api.CHAT)[0].is_here is here


def test_the_share_in_which_a_machine_worked() -> None:
    """3 of 4 seconds; nothing where no time has passed; the real counters rise and give a share."""
    before = HostSeconds(busy_s=10.0, all_s=100.0)

    assert busy_share(before, HostSeconds(busy_s=13.0, all_s=104.0)) == 0.75
    assert busy_share(before, before) is None
    assert busy_share(None, before) is None
    now = host_seconds()
    assert 0 < now.busy_s < now.all_s


def late(share: float, host: HostCheck) -> ClientCheck:
    """A client whose event loop was 0.2 s late, with its share of a core."""
    return check_client([row()], [0.2] * 50, share, host)


@pytest.mark.parametrize(
    ("share", "host", "starved", "words"),
    [
        (0.2, HostCheck(busy_share=0.99, server_is_here=True), True, "--threads with --spawn"),
        (0.2, HostCheck(busy_share=0.99, server_is_here=False), True, "other programs"),
        (0.2, HostCheck(busy_share=0.5, server_is_here=True), False, "the client was the bottleneck"),
        (0.2, HostCheck(), False, "the client was the bottleneck"),
        (0.99, HostCheck(busy_share=0.99, server_is_here=True), False, "the client was the bottleneck"),
    ],
)
def test_who_took_the_clients_time(share: float, host: HostCheck, words: str, *, starved: bool) -> None:
    """All CPUs busy and its own core not full: the server's, where it is here, else others'; its own full core is its own fault."""
    found = late(share, host)

    assert found.is_bottleneck
    assert found.starved is starved
    assert words in found.complaint
    assert "event loop was late by 200.0 ms" in found.complaint


def test_a_client_that_kept_up_has_no_complaint() -> None:
    """Busy CPUs alone are no complaint."""
    found = check_client([row()], [0.001] * 50, 0.2, HostCheck(busy_share=1.0, server_is_here=True))

    assert (found.is_bottleneck, found.starved, found.complaint) == (False, False, "")


def test_a_late_client_of_a_closed_loop_sends_less() -> None:
    """Its users pause for as long as it is late: 0.2 s of answers of 3 s is too much, 20 ms is not; an open loop has its rate."""
    many = [row(index) for index in range(4)]

    assert check_client(many, [0.2] * 50, 0.1).sent_too_little
    assert not check_client(many, [0.02] * 50, 0.1).sent_too_little
    scheduled = [row(index, scheduled_ns=index * SECOND, dispatched_ns=index * SECOND) for index in range(4)]
    assert not check_client(scheduled, [0.2] * 50, 0.1).sent_too_little


def test_a_late_first_read_flatters_tpot_and_is_taken_back() -> None:
    """Texts at 2, 3 and 4 s for three tokens: TPOT 1 s; were the first read 0.2 s late, it is 1.1 s. No text comes before its request."""
    (early,) = with_early_first_text([row()], check_client([row()], [0.2] * 50, 0.1))
    (first,) = with_early_first_text([row()], check_client([row()], [9.0] * 50, 0.1))

    assert early.tpot_s == pytest.approx(1.1)
    assert first.chunk_ns[0] == first.start_ns


def open_rows(count: int) -> list[RequestRow]:
    """Requests every second, answered in 1 s with a TPOT of 0.1 s."""
    return [
        row(
            index,
            scheduled_ns=index * SECOND,
            dispatched_ns=index * SECOND,
            start_ns=index * SECOND,
            chunk_ns=(index * SECOND + SECOND // 2, index * SECOND + SECOND // 2 + SECOND // 5),
            chunk_events=(1, 2),
            end_ns=index * SECOND + SECOND,
        )
        for index in range(count)
    ]


def level_of(limits: Limits, **changes: Any) -> tuple[LevelVerdict, str]:  # noqa: ANN401  # any reading of the client
    """The verdict of a level of 300 answers with a client that was 0.1 s late."""
    the_plan = LoadPlan(loop=Loop.OPEN, rate_per_s=1.0, requests=300)
    judge = Judge(criteria=(Criterion(limits=limits, share=0.95),), risk_holds=0.02, risk_fails=0.02, rate_per_s=1.0)
    readings = ClientReadings(**{"lags_s": (0.1,) * 100, "cpu_share": 0.2, "host_busy_share": 0.99, **changes})
    run = LoadRun(
        rows=tuple(open_rows(300)),
        client=readings,
        sending_from_ns=0,
        sending_until_ns=300 * SECOND,
        ended_ns=301 * SECOND,
        interrupted=False,
        server_is_here=True,
    )
    found = level_result(Level(level=1.0, thorough=True, plan=the_plan, judge=judge), run, "now")
    return found.verdict, found.because


def test_limits_that_hold_in_spite_of_a_late_client_hold() -> None:
    """TTFT of 0.5 s within 2 s holds, and says so; TPOT within 0.2 s holds with 0.15 s at the client's expense; within 0.12 s nobody knows."""
    spite = level_of(Limits(ttft_s=2.0))

    assert spite[0] is LevelVerdict.HOLDS
    assert "in spite of the client" in spite[1]
    assert level_of(Limits(tpot_s=0.2))[0] is LevelVerdict.HOLDS
    verdict, because = level_of(Limits(tpot_s=0.12))
    assert verdict is LevelVerdict.UNDECIDED
    assert "took the client's CPU time" in because


def test_limits_that_fail_without_the_clients_lateness_fail() -> None:
    """TTFT of 0.5 s with a client that was 0.1 s late: beyond 0.2 s it fails, with up to 0.2 s taken off; beyond 0.4 s nobody knows."""
    verdict, because = level_of(Limits(ttft_s=0.2))

    assert verdict is LevelVerdict.FAILS
    assert because.endswith("also without the lateness of the client")
    assert level_of(Limits(ttft_s=0.4))[0] is LevelVerdict.UNDECIDED
    assert level_of(Limits(tpot_s=0.09))[0] is LevelVerdict.UNDECIDED


def test_how_much_better_rows_may_be_without_a_late_client() -> None:
    """Sent 0.3 s late and read up to 0.2 s late: TTFT is 0.5 s less from the schedule, E2E and TPOT are less too, and nothing is negative."""
    sent_late = row(scheduled_ns=SECOND * 7 // 10, dispatched_ns=SECOND)
    client = check_client([sent_late], [0.1] * 50, 0.1)
    (better,) = without_lateness([sent_late], client)
    (least,) = without_lateness([sent_late], check_client([sent_late], [9.0] * 50, 0.1))

    assert sent_late.effective_ttft_s == pytest.approx(1.3)
    assert better.effective_ttft_s == pytest.approx(0.8)
    assert better.effective_e2e_s == pytest.approx(2.6)
    assert better.tpot_s == pytest.approx(0.9)
    assert least.chunk_ns[0] == least.start_ns
    assert least.chunk_ns[-1] >= least.chunk_ns[0]


def test_a_run_says_what_is_still_true() -> None:
    """A late client marks the run unusable, and the share that kept the limits all the same is in the text and the document."""
    with served_in_thread(lambda _: Pace(gap_s=0.001).answer()) as server:
        endpoint, _ = endpoint_of(server.url, Api.CHAT)
        done = run_session(
            plan(requests=8), Content(prompt_tokens=4, output_tokens=8), endpoint, Limits(ttft_s=30.0), lambda _: None
        )
    kept = attainment(done.rows, Limits(ttft_s=30.0))
    result = replace(done, client=late(0.2, HostCheck(busy_share=0.99, server_is_here=True)), in_spite=kept)
    text, read = load_text(result), document(result)

    assert "UNUSABLE: the server on this machine took the client's CPU time" in text
    assert "STILL TRUE: at least 100.0% [67.6%, 100.0%] of the attempts keep to all limits" in text
    assert read["attainment_in_spite_of_client"]["attained"] == 8
    assert read["client"]["starved"] is True
    assert not read["usable"]
    assert done.client.host.server_is_here
    assert done.client.host.busy_share is None or 0 <= done.client.host.busy_share <= 1

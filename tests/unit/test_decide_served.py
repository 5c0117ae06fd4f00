"""Loads on servers as evidence: what shows that a demand holds, what shows that it does not, and what shows nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from helpers.records import run_record
from helpers.served import load, rate_demand, server, times
from suffice.cli.app import build_app
from suffice.decide import words
from suffice.decide.compare import decide
from suffice.decide.evidence import evidence_from
from suffice.decide.served import decide_served, servers_of
from suffice.decide.verdict import Grade
from suffice.load.mock_script import Pace
from suffice.load.mock_server import served_in_thread
from suffice.loaders.load_results import load_results
from suffice.model.demand import Demand, DemandKind, Lengths, Limit, single_stream_need
from suffice.model.served import LoadKind, Mapping, ServedLengths, ServedTimes, rate_level, users_problem
from suffice.model.served_range import served_range
from suffice.report.decision import decision_text
from suffice.report.served import served_documents, served_text

if TYPE_CHECKING:
    from suffice.decide.verdict import Verdict
    from suffice.model.served import ServedLoad

DATA = Path(__file__).parents[1] / "data" / "load_results"


def verdict(demand: Demand, *loads: ServedLoad, is_gpu: bool | None = False) -> Verdict:
    """The verdict on one server."""
    return decide_served(demand, server(*loads, is_gpu=is_gpu)).verdict


def test_limits_that_held_at_the_margin_of_load_are_enough() -> None:
    """6 requests/s are 1.5 times the demanded 4."""
    assert verdict(rate_demand(), load(6)).verdict == words.CPU


def test_limits_that_held_at_the_demanded_load_only_are_thin() -> None:
    """The margin is one of load, not of seconds."""
    found = verdict(rate_demand(), load(4, ttft_s=0.01))

    assert found.verdict == words.CPU_THIN
    assert found.settle is not None
    assert (
        "suffice load http://host:8000 --rate 6.6 --requests 288 --prompt-tokens 100 --output-tokens 20 --ttft-limit 500ms"
        in found.settle
    )


def test_a_lighter_load_that_held_leaves_it_open() -> None:
    """What 3 requests/s get says nothing of 4."""
    found = verdict(rate_demand(), load(3))

    assert found.grade is Grade.OPEN
    assert found.verdict == words.UNDECIDED


@pytest.mark.parametrize("level", [2, 4])
def test_a_load_no_heavier_that_failed_is_not_enough(level: float) -> None:
    """What fails at the demanded load or below fails at it."""
    assert verdict(rate_demand(), load(level, ttft_s=2)).verdict == words.GPU


def test_what_the_prebuilt_engine_failed_is_no_gpu() -> None:
    """Its figures are lower bounds: what it holds holds, and what it fails another build may hold, which the reason says."""
    failed = replace(load(4, ttft_s=2), of_prebuilt=True)
    for loads in ((failed,), (replace(load(2), of_prebuilt=True), failed)):
        found = verdict(rate_demand(), *loads)

        assert found.verdict == words.UNDECIDED
        assert "one that is built for this CPU may hold what it failed" in found.reason
        assert found.settle is not None
        assert "on a server that is built for this CPU" in found.settle
        assert "suffice load URL" in found.settle
    assert verdict(rate_demand(), replace(load(6), of_prebuilt=True)).verdict == words.CPU


def test_a_heavier_load_that_failed_leaves_it_open() -> None:
    """The demanded load lies below, and might hold."""
    assert verdict(rate_demand(), load(8, ttft_s=2)).grade is Grade.OPEN


def test_the_highest_that_held_and_the_lowest_that_failed_bracket_the_capacity() -> None:
    """Nothing is interpolated between 5 and 9."""
    found = verdict(rate_demand(), load(2), load(5), load(9, ttft_s=2), load(12, ttft_s=3))

    capacity = found.constraints[0].constraint
    assert capacity.name == "capacity_requests_per_second"
    assert capacity.available is not None
    assert capacity.available.low == 5
    assert capacity.available.high == pytest.approx(9)
    assert found.verdict == words.CPU_THIN


def test_a_failure_at_the_demanded_load_leaves_no_room_in_the_capacity() -> None:
    """What fails with 4 users holds with 3 at most; at a rate, with less than that rate."""
    users = rate_demand(requests_per_second=None, concurrent_users=4)

    by_users = verdict(users, load(4, ttft_s=2, users=True)).constraints[0]
    by_rate = verdict(rate_demand(), load(4, ttft_s=2)).constraints[0]

    assert by_users.constraint.available is not None
    assert by_users.constraint.available.high == 3
    assert (by_users.grade, by_rate.grade) == (Grade.NOT_ENOUGH, Grade.NOT_ENOUGH)


def test_loads_that_contradict_each_other_settle_nothing() -> None:
    """Held at 6 and failed at 3: the server is not the same, or one of the two is wrong."""
    found = verdict(rate_demand(), load(6), load(3, ttft_s=2))

    assert found.grade is Grade.OPEN
    assert "contradict" in found.reason


def test_users_are_no_rate_and_a_rate_is_no_users() -> None:
    """A closed loop hides the queue; an open loop has users who leave."""
    users = rate_demand(requests_per_second=None, concurrent_users=4)

    assert verdict(rate_demand(), load(50, users=True)).grade is Grade.OPEN
    assert verdict(users, load(50)).grade is Grade.OPEN
    assert verdict(users, load(6, users=True)).verdict == words.CPU
    assert verdict(users, load(5, users=True)).verdict == words.CPU_THIN


def test_one_stream_is_judged_by_any_load_with_a_margin_of_time() -> None:
    """Other requests only slow it down, so what held with 8 users holds for one."""
    demand = single_stream_need(40)

    assert verdict(demand, load(8, users=True)).verdict == words.CPU  # P95 of TPOT 14.5 ms: 69 tokens/s
    assert verdict(demand, load(2)).verdict == words.CPU
    assert verdict(single_stream_need(60), load(8, users=True)).verdict == words.CPU_THIN
    assert verdict(single_stream_need(200), load(8, users=True)).grade is Grade.OPEN
    assert verdict(single_stream_need(200), load(1, users=True)).verdict == words.GPU


def test_shorter_requests_show_no_holding_and_longer_ones_no_failing() -> None:
    """Lengths count like the load itself, with 10 % between tokenizers."""
    short, long = ServedLengths(mean=50, p95=50), ServedLengths(mean=500, p95=500)

    assert verdict(rate_demand(), load(6, prompt=short)).grade is Grade.OPEN
    assert verdict(rate_demand(), load(6, prompt=long)).verdict == words.CPU
    assert verdict(rate_demand(), load(6, prompt=ServedLengths(mean=92, p95=92))).verdict == words.CPU
    assert verdict(rate_demand(), load(4, ttft_s=2, prompt=long)).grade is Grade.OPEN
    assert verdict(rate_demand(), load(4, ttft_s=2, prompt=short)).verdict == words.GPU


def test_the_long_end_of_the_demand_has_to_be_in_the_load() -> None:
    """Prompts of one length say nothing of a demand whose P95 is four times its median."""
    wide = rate_demand(prompt_tokens=Lengths(p50=60, p95=240))

    assert verdict(wide, load(6)).grade is Grade.OPEN
    assert verdict(wide, load(6, prompt=ServedLengths(mean=100, p95=240))).verdict == words.CPU


def test_unknown_lengths_show_nothing() -> None:
    """A file without lengths may be of very short prompts, or of very long ones."""
    for one in (load(6, prompt=ServedLengths()), load(4, ttft_s=2, prompt=ServedLengths())):
        assert verdict(rate_demand(), one).grade is Grade.OPEN


def test_a_percentile_that_the_attempts_do_not_support_decides_nothing() -> None:
    """P95 needs 72 attempts, however good or bad 50 of them are."""
    good, bad = verdict(rate_demand(), load(6, count=50)), verdict(rate_demand(), load(4, ttft_s=9, count=50))

    assert (good.grade, bad.grade) == (Grade.OPEN, Grade.OPEN)
    assert "needs 72 attempts, 50 were made" in good.reason


def test_failed_requests_are_infinitely_slow_and_no_proof_of_slowness() -> None:
    """With 10 % failed the P95 over attempts is without end: neither enough nor not enough, and the reason says so."""
    found = verdict(rate_demand(), load(6, failed=22))

    assert found.grade is Grade.OPEN
    assert "22 of 222 requests failed" in found.reason
    assert verdict(rate_demand(ttft=Limit(value_s=0.5, percentile=50)), load(6, failed=22)).verdict == words.CPU


def test_a_tool_that_hides_failures_never_shows_enough() -> None:
    """Without the number of failures nothing bounds a percentile of attempts from above."""
    hidden = replace(load(6), failed=None, attempted=None)

    assert verdict(rate_demand(), hidden).grade is Grade.OPEN
    assert verdict(rate_demand(), replace(load(4, ttft_s=2), failed=None, attempted=None)).verdict == words.GPU


def test_requests_cut_off_at_the_end_count_as_infinitely_slow() -> None:
    """They may have become anything, and the slowest are cut off first."""
    assert verdict(rate_demand(), load(6, cut_off=20)).grade is Grade.OPEN


def test_a_bound_counts_on_its_own_side_only() -> None:
    """A TTFT that starts too late shows a failure and no holding; a TPOT that is too large shows holding and no failure."""
    lower = replace(times(0.1), mapping=Mapping.LOWER)
    assert verdict(rate_demand(), load(6, ttft=lower)).grade is Grade.OPEN
    assert verdict(rate_demand(), load(4, ttft=replace(times(2), mapping=Mapping.LOWER))).verdict == words.GPU
    upper = replace(times(2), mapping=Mapping.UPPER)
    assert verdict(rate_demand(), load(4, ttft=upper)).grade is Grade.OPEN
    assert verdict(rate_demand(), load(6, ttft=replace(lower, mapping=Mapping.UNUSABLE))).grade is Grade.OPEN


def test_what_was_sent_late_is_added_or_opens_the_upper_end() -> None:
    """From the send, 0.145 s are within 0.5 s; with 0.4 s behind the schedule they are not, and nor when less was sent than asked."""
    on_time = load(6, from_schedule=False, late_s=0.01)
    late = load(6, from_schedule=False, late_s=0.4)
    fell_behind = load(6, from_schedule=False, asked=10.0, level_high=10.0)

    assert verdict(rate_demand(), on_time).verdict == words.CPU
    assert verdict(rate_demand(), late).grade is Grade.OPEN
    assert verdict(rate_demand(), fell_behind).grade is Grade.OPEN


def test_a_problem_of_the_file_makes_it_say_nothing() -> None:
    """A cancelled run, a ramp or a client at its limit."""
    assert verdict(rate_demand(), load(6, problems=("the run was cancelled",))).grade is Grade.OPEN
    assert verdict(rate_demand(), load(4, ttft_s=2, problems=("the run was cancelled",))).grade is Grade.OPEN


def test_a_batch_needs_the_throughput_that_any_load_got_done() -> None:
    """What 8 users were answered per second is the least that the server does, so it never shows that it does too little."""
    batch = rate_demand(kind=DemandKind.BATCH, ttft=None)
    busy = load(8, users=True, requests_per_s=7.0)

    assert verdict(batch, busy).verdict == words.CPU
    assert verdict(batch, replace(busy, requests_per_s=5.0)).verdict == words.CPU_THIN
    assert verdict(batch, replace(busy, requests_per_s=1.0)).grade is Grade.OPEN


def test_a_scheduled_job_has_to_fit_into_its_window() -> None:
    """86400 requests a day at 7 requests/s take 3.4 h."""
    job = rate_demand(
        kind=DemandKind.SCHEDULED, ttft=None, requests_per_second=1.0, rate_is_daily=True, window_s=6 * 3600.0
    )

    found = verdict(job, load(8, users=True, requests_per_s=7.0))

    assert found.verdict == words.CPU
    assert found.constraints[0].constraint.name == "wall_time_s"


@pytest.mark.parametrize("is_daily", [True, False])
def test_the_next_load_of_a_job_is_the_rate_inside_its_window(*, is_daily: bool) -> None:
    """200,000 requests in 6 h are 9.26 a second, and 15.28 with the margin and a tenth for chance, whether stated by the day or not."""
    job = rate_demand(
        kind=DemandKind.SCHEDULED,
        ttft=None,
        requests_per_second=200_000 / 86_400,
        rate_is_daily=is_daily,
        window_s=6 * 3600.0,
    )

    found = verdict(job, load(8, users=True, requests_per_s=1.0))

    assert found.settle is not None
    assert "--rate 15.28 " in found.settle


def test_a_load_that_shows_nothing_says_why() -> None:
    """Failures, ends on both sides of a limit, longer lengths that failed: never an empty reason."""
    long = ServedLengths(mean=500, p95=500)
    loads = {
        "22 of 222 failed, so P95 of TTFT has no upper end": load(6, failed=22),
        "20 of 200 were cut off, so P95 of TTFT has no upper end": load(6, cut_off=20),
        "its limit of 500.0 ms lies in between": load(6, ttft_s=0.35),
        "its lengths are longer than the demand's (prompts 500, P95 500": load(4, ttft_s=2, prompt=long),
    }

    for reason, one in loads.items():
        found = verdict(rate_demand(), one)
        assert found.grade is Grade.OPEN
        assert reason in found.constraints[0].constraint.note


@pytest.mark.parametrize("file", sorted(path.name for path in DATA.glob("*.json")))
@pytest.mark.parametrize("asks_for", ["rate", "users"])
def test_no_file_of_a_tool_shows_nothing_without_a_reason(file: str, asks_for: str) -> None:
    """Each sample, most of them with failures, against a demand of its own lengths: held, failed, or open with a reason."""
    fields = {"requests_per_second": None, "concurrent_users": 2} if asks_for == "users" else {}
    lengths = {"prompt_tokens": Lengths(p50=16, p95=16), "output_tokens": Lengths(p50=16, p95=16)}

    (evidence,) = servers_of(load_results(DATA / file), [False])
    found = decide_served(rate_demand(**fields, **lengths), evidence)

    assert all(one.reasons for one in found.standings if not one.shows_holding and not one.shows_failing)
    assert ": ." not in found.verdict.reason


def test_a_number_without_an_interval_says_of_how_many_attempts() -> None:
    """Twelve attempts are no repetition; failures leave the upper end open, and are no "at most without end"."""
    few = decision_text(decide(rate_demand(), [], [server(load(6, count=12))]))
    failing = decide(rate_demand(), [], [server(load(4, failed=22))])
    text = decision_text(failing) + served_text(failing.served)

    assert "(12 attempts, no interval, measured)" in few
    assert "repetition" not in few
    assert "no upper end known" in text
    assert "at most without end" not in text
    assert "to without end" not in text


def test_under_load_only_the_capacity_says_what_would_change_the_verdict() -> None:
    """Limits are kept at the demanded load, and the margin is one of load: another limit would have another capacity."""
    found = verdict(rate_demand(tpot=Limit(value_s=0.1, percentile=95)), load(6), load(9, ttft_s=2))

    assert found.flips == (
        "load: enough up to 4 requests/s (with margin 1.5), holds without the margin up to 6 requests/s, fails above 9 requests/s",
    )


def test_a_demand_of_no_more_than_the_flip_is_enough() -> None:
    """What is said of 4 requests/s is what a demand of 4 gets."""
    loads = (load(6), load(9, ttft_s=2))

    assert "enough up to 4 requests/s" in verdict(rate_demand(requests_per_second=5.0), *loads).flips[0]
    assert verdict(rate_demand(requests_per_second=4.0), *loads).verdict == words.CPU
    assert verdict(rate_demand(requests_per_second=4.1), *loads).verdict == words.CPU_THIN


def test_one_user_is_no_users() -> None:
    """The word follows the number."""
    users = rate_demand(requests_per_second=None, concurrent_users=2)

    text = decision_text(decide(users, [], [server(load(1, users=True), load(2, users=True, ttft_s=2))]))

    assert "1 users" not in text
    assert "1 user " in text


def test_without_being_told_what_it_runs_on_the_word_stays_open() -> None:
    """The limits are judged all the same, and the advice says which option is missing."""
    found = verdict(rate_demand(), load(6), is_gpu=None)

    assert (found.verdict, found.grade) == (words.UNDECIDED, Grade.ENOUGH)
    assert found.settle is not None
    assert "--server-kind" in found.settle


def test_another_name_of_the_model_is_said_and_no_contradiction() -> None:
    """Servers name models as they like; the same file name is the same model."""
    other, same = (verdict(rate_demand(model=name), load(6)) for name in ("models/big.gguf", "models/m"))

    assert (other.verdict, same.verdict) == (words.CPU, words.CPU)
    assert "big.gguf" in other.reason
    assert "not checked" not in same.reason


def test_servers_are_told_apart_by_address_and_model() -> None:
    """Three loads on two servers; one answer to --server-kind stands for both."""
    other = replace(load(6), server="http://other:1")

    first, second = servers_of([load(4), other, load(6)], [True])

    assert [len(first.loads), len(second.loads)] == [2, 1]
    assert (first.is_gpu, second.is_gpu) == (True, True)
    assert [one.is_gpu for one in servers_of([load(4), other], [False, True])] == [False, True]
    assert [one.is_gpu for one in servers_of([load(4), other])] == [None, None]


def test_a_server_stands_beside_machines() -> None:
    """A slow CPU's record and a GPU server that held: the verdict is a GPU, and the least machine is named."""
    demand = single_stream_need(40)
    machine = evidence_from(run_record())

    decision = decide(demand, [machine], [server(load(8, users=True), is_gpu=True)])

    assert decision.verdict.verdict == words.GPU
    assert decision.least_machine == "the server"
    assert len(decision.machines) == 2
    assert decision.ratios == ()


def test_text_and_json_name_tool_differences_and_what_was_used() -> None:
    """Both show each load with what it shows and why."""
    decision = decide(rate_demand(), [], [server(load(6, differences=("it counts otherwise",)), load(3))])

    text = decision_text(decision) + served_text(decision.served)
    (document,) = served_documents(decision.served)

    assert "it counts otherwise" in text
    assert "at-6.json" in text
    assert [one["shows"] for one in document["loads"]] == ["held", "held"]
    assert [one["as_heavy_as_the_demand"] for one in document["loads"]] == [True, False]
    assert document["loads"][0]["limits"][0]["attempts_needed"] == 72
    json.dumps(document, allow_nan=False)


def test_the_level_of_an_open_loop_is_the_less_of_asked_and_sent() -> None:
    """80 requests in 10 s at an asked rate of 9 are at least 8 and at most 9 a second; without a duration nothing is known to have been sent."""
    assert rate_level(9.0, 80, 10.0) == (8.0, 9.0)
    assert rate_level(7.0, 80, 10.0) == (7.0, 8.0)
    assert rate_level(7.0, 80, None) == (None, 7.0)


def test_a_closed_loop_needs_two_requests_a_user() -> None:
    """Fewer are ramp and tail."""
    assert users_problem(8, 15) is not None
    assert users_problem(8, 16) is None


def test_percentiles_of_a_file_bound_order_statistics_from_both_sides() -> None:
    """Whatever rule made them: P50 of 101 values 0..100 lies between two of the file's percentiles."""
    coarse = ServedTimes(percentiles=((0.25, 25.0), (0.5, 50.0), (0.75, 75.0), (1.0, 100.0)), count=101)

    found = served_range(coarse, 0.5, failed=0)

    assert found is not None
    assert (found.low, found.high) == (25.0, 75.0)
    assert served_range(ServedTimes(mean_s=1.0, count=500), 0.5, failed=0) is None


DEMAND = '[demand]\nkind = "interactive"\nprompt_tokens = 16\noutput_tokens = 16\nrequests_per_second = 4\nttft_s = { p50 = 0.2 }\n'


def test_the_command_takes_files_of_load_tools(tmp_path: Path) -> None:
    """Two tools' files beside each other, with what the server runs on."""
    demand = tmp_path / "demand.toml"
    demand.write_text(DEMAND)
    files = [str(DATA / "guidellm-0.8.1-poisson.json"), str(DATA / "aiperf-0.13.0-rate.json")]

    result = CliRunner().invoke(build_app(), ["decide", str(demand), *files, "--server-kind", "cpu", "--json"])

    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["verdict"] == words.CPU
    assert [one["tool"] for one in document["served"][0]["loads"]] == ["GuideLLM", "GuideLLM", "AIPerf"]
    assert document["constraints"][0]["available"] == 8.0


def test_the_command_stays_undecided_without_the_server_s_kind(tmp_path: Path) -> None:
    """Exit code 3, and a sentence that says what to give."""
    demand = tmp_path / "demand.toml"
    demand.write_text(DEMAND)

    result = CliRunner().invoke(build_app(), ["decide", str(demand), str(DATA / "vllm-0.33.0-rate.json")])

    assert result.exit_code == 3
    assert "--server-kind cpu" in result.stdout


@pytest.mark.parametrize("kinds", [["cpu", "gpu"], ["cpu"] * 3])
def test_server_kind_is_given_once_or_once_a_server(tmp_path: Path, kinds: list[str]) -> None:
    """Two kinds for one server are a slip; so is one without any load."""
    demand = tmp_path / "demand.toml"
    demand.write_text(DEMAND)
    options = [word for kind in kinds for word in ("--server-kind", kind)]

    result = CliRunner().invoke(build_app(), ["decide", str(demand), str(DATA / "vllm-0.33.0-rate.json"), *options])

    assert result.exit_code != 0
    assert "--server-kind is given" in str(result.exception)


def test_the_kind_of_a_load_is_said_in_words() -> None:
    """The reason names why a burst is no rate."""
    found = verdict(rate_demand(), load(6, kind=LoadKind.BURST))

    assert "all at once" in found.reason


def test_a_load_of_ours_is_decided_upon_from_end_to_end(tmp_path: Path) -> None:
    """What `suffice load --out` writes about the mock server decides a demand of its users, with the interval of the run itself."""
    demand, result = tmp_path / "demand.toml", tmp_path / "load.json"
    demand.write_text(
        '[demand]\nkind = "interactive"\nprompt_tokens = 4\noutput_tokens = 4\nconcurrent_users = 2\nttft_s = { p50 = 5.0 }\n'
    )
    with served_in_thread(lambda _: Pace(ttft_s=0.005, gap_s=0.001, tokens=4).answer()) as mock:
        words_of_load = ["--concurrency", "3", "--requests", "30", "--prompt-tokens", "4", "--output-tokens", "4"]
        loaded = CliRunner().invoke(build_app(), ["load", mock.url, *words_of_load, "--out", str(result)])
    written = json.loads(result.read_text())

    decided = CliRunner().invoke(build_app(), ["decide", str(demand), str(result), "--server-kind", "cpu", "--json"])

    assert loaded.exit_code in {0, 3}, loaded.output  # 3: this client was too busy to be believed
    document = json.loads(decided.stdout)
    (seen,) = document["served"][0]["loads"]
    if written["usable"]:
        assert document["verdict"] == words.CPU
        assert seen["limits"][0]["high"] == written["ttft_s"]["intervals"]["p50"]["high"]
    else:
        assert document["verdict"] == words.UNDECIDED
        assert "not usable" in document["reason"]  # the client was busy, and the reason says how


def test_what_was_done_is_no_more_than_successes_over_their_time() -> None:
    """A claimed 800 requests/s with 200 answers in 50 s is 4; ten answers are no rate at all."""
    demand = rate_demand(kind=DemandKind.BATCH, ttft=None)

    def available(**more: Any) -> float | None:  # noqa: ANN401  # any field
        (only,) = servers_of([load(4.0, **more)], [False])
        verdict = decide_served(demand, only).verdict
        (found,) = [item.constraint for item in verdict.constraints if item.constraint.name.startswith("sustained")]
        return None if found.available is None else found.available.point

    assert available(requests_per_s=800.0, duration_s=50.0) == pytest.approx(4 * 120)
    assert available(requests_per_s=4.0, duration_s=50.0) == pytest.approx(4 * 120)
    assert available(requests_per_s=4.0, count=10) is None

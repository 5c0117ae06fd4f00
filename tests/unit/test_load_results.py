"""Files of load tools: what the real ones say in our words, and what no such file may hold."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from helpers.load_runs import plan, run_against
from suffice.errors import RecordError
from suffice.load.mock_script import Pace, error_answer
from suffice.load.settings import Loop
from suffice.loaders.any_record import loads_in
from suffice.loaders.load_results import load_results
from suffice.model.load_metrics import Limits, summarize
from suffice.model.served import LoadKind, Mapping, ServedLoad, Tool
from suffice.model.served_range import served_range

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).parents[1] / "data" / "load_results"


def document(name: str) -> Any:  # noqa: ANN401  # JSON
    """A real file's content."""
    return json.loads((DATA / name).read_text())


def written(folder: Path, content: object) -> Path:
    """A file with this content."""
    path = folder / "result.json"
    path.write_text(json.dumps(content))
    return path


def changed(folder: Path, name: str, change: Callable[[Any], object]) -> tuple[ServedLoad, ...]:
    """The loads of a real file after a change."""
    content = copy.deepcopy(document(name))
    change(content)
    return load_results(written(folder, content))


def test_guidellm_gives_a_load_for_each_benchmark() -> None:
    """Two Poisson benchmarks in one file of GuideLLM 0.8.1 are two loads, with failures and each request's times from its schedule."""
    first, second = load_results(DATA / "guidellm-0.8.1-poisson.json")

    assert (first.tool, first.version, first.server, first.model) == (
        Tool.GUIDELLM,
        "0.8.1",
        "http://127.0.0.1:39177",
        "mock",
    )
    assert (first.kind, first.asked, second.asked) == (LoadKind.RATE, 4.0, 8.0)
    assert (first.attempted, first.failed, first.succeeded, first.cut_off) == (80, 4, 76, 0)
    assert first.from_schedule
    assert first.ttft is not None
    rows = document("guidellm-0.8.1-poisson.json")["benchmarks"][0]["requests"]["successful"]
    expected = sorted(row["time_to_first_token_ms"] / 1000 + row["request_dispatch_delay"] for row in rows)
    assert first.ttft.values_s == pytest.approx(expected)


def test_guidellm_takes_inter_token_latency_for_tpot_and_never_e2e_over_tokens() -> None:
    """The mock server's 5 ms a token are found in what GuideLLM calls inter-token latency; its time per output token holds the first one."""
    (load, _) = load_results(DATA / "guidellm-0.8.1-poisson.json")

    assert load.tpot is not None
    assert load.tpot.mapping is Mapping.EXACT
    assert load.tpot.mean_s == pytest.approx(0.005, rel=0.02)


def test_guidellm_without_its_rows_has_no_tpot_when_answers_differ_in_length(tmp_path: Path) -> None:
    """Its percentiles of TPOT weigh each request by its tokens: usable only where all answers are of one length."""

    def without_rows(content: Any) -> None:  # noqa: ANN401  # JSON
        for benchmark in content["benchmarks"]:
            benchmark["requests"] = {"successful": []}

    def of_two_lengths(content: Any) -> None:  # noqa: ANN401  # JSON
        without_rows(content)
        content["benchmarks"][0]["metrics"]["output_token_count"]["successful"]["max"] = 99.0

    same = changed(tmp_path, "guidellm-0.8.1-poisson.json", without_rows)[0]
    unlike = changed(tmp_path, "guidellm-0.8.1-poisson.json", of_two_lengths)[0]

    assert same.tpot is not None
    assert same.tpot.usable
    assert unlike.tpot is not None
    assert not unlike.tpot.usable
    assert "weigh" in unlike.tpot.why
    assert not same.from_schedule


def test_the_form_of_guidellm_0_2_is_read(tmp_path: Path) -> None:
    """Before 0.4 the strategy stood under args, the totals under run_stats and the address under worker."""
    newer = document("guidellm-0.8.1-concurrent.json")["benchmarks"][0]
    metrics = {key: value for key, value in newer["metrics"].items() if key != "request_totals"}
    older = {
        "benchmarks": [
            {
                "type_": "generative_benchmark",
                "args": {"strategy": {"type_": "concurrent", "streams": 2}},
                "run_stats": {"requests_made": {"successful": 12, "errored": 0, "incomplete": 1, "total": 13}},
                "worker": {"backend_target": "http://host:8000", "backend_model": "some-model"},
                "metrics": metrics,
                "start_time": 100.0,
                "end_time": 130.0,
            }
        ]
    }

    (load,) = load_results(written(tmp_path, older))

    assert (load.server, load.model, load.kind, load.asked) == ("http://host:8000", "some-model", LoadKind.USERS, 2.0)
    assert (load.attempted, load.failed, load.cut_off, load.duration_s) == (13, 0, 1, 30.0)
    assert load.ttft is not None
    assert load.ttft.values_s is None
    assert dict(load.ttft.percentiles)[0.5] == pytest.approx(2.826419)


def test_an_empty_distribution_of_guidellm_is_no_latency_of_zero(tmp_path: Path) -> None:
    """It writes zeros where nothing succeeded; they are no times."""

    def nothing_succeeded(content: Any) -> None:  # noqa: ANN401  # JSON
        benchmark = content["benchmarks"][0]
        benchmark["requests"] = {}
        benchmark["metrics"]["request_totals"] = {"successful": 0, "errored": 12, "incomplete": 0, "total": 12}
        for name in ("time_to_first_token_ms", "inter_token_latency_ms", "request_latency"):
            summary = benchmark["metrics"][name]["successful"]
            summary.update(
                {
                    "mean": 0.0,
                    "min": 0.0,
                    "max": 0.0,
                    "count": 0,
                    "percentiles": dict.fromkeys(summary["percentiles"], 0.0),
                }
            )

    (load,) = changed(tmp_path, "guidellm-0.8.1-concurrent.json", nothing_succeeded)

    assert (load.ttft, load.tpot, load.e2e) == (None, None, None)
    assert load.problems == ("no request succeeded",)


def test_aiperf_counts_errors_apart_and_warm_up_not_at_all() -> None:
    """AIPerf 0.13: the load is that of the phase that counts, errors are failures, prompt lengths are those of the server's usage."""
    (load,) = load_results(DATA / "aiperf-0.13.0-rate.json")
    (users,) = load_results(DATA / "aiperf-0.13.0-concurrency.json")

    assert (load.tool, load.version, load.kind, load.asked) == (Tool.AIPERF, "0.13.0", LoadKind.RATE, 6.0)
    assert (load.attempted, load.failed) == (80, 4)
    assert load.duration_s == pytest.approx(12.31231)
    assert (users.kind, users.asked, users.attempted, users.failed) == (LoadKind.USERS, 2.0, 12, 2)
    assert (users.prompt.mean, users.prompt.at_least) == (94.0, False)  # its own tokenizer sees 64
    assert users.server == "http://127.0.0.1:34329"


def test_aiperf_without_usage_has_prompts_of_at_least_that_length(tmp_path: Path) -> None:
    """The client's tokenizer sees no chat template."""
    (load,) = changed(tmp_path, "aiperf-0.13.0-concurrency.json", lambda content: content.pop("usage_prompt_tokens"))

    assert (load.prompt.mean, load.prompt.at_least) == (64.0, True)


def test_aiperf_agrees_with_its_own_percentiles_over_attempts() -> None:
    """What is found again by counting failures is what AIPerf's adj_* has: P50, P90 and P95 of TTFT over 80 attempts, 4 of them failed."""
    (load,) = load_results(DATA / "aiperf-0.13.0-rate.json")
    own = document("aiperf-0.13.0-rate.json")["adj_time_to_first_token"]
    assert load.ttft is not None

    for fraction, name in ((0.5, "p50"), (0.9, "p90"), (0.95, "p95")):
        found = served_range(load.ttft, fraction, load.failed)
        assert found is not None
        assert found.high is not None
        assert found.point >= own[name] / 1000 * (1 - 1e-9)
        assert found.low is not None
        assert found.low <= own[name] / 1000 <= found.high


def test_genai_perf_does_not_say_how_many_failed(tmp_path: Path) -> None:
    """Its percentiles bound ours from below only."""
    times = {
        "unit": "ms",
        "avg": 50.0,
        "min": 40.0,
        "p25": 45.0,
        "p50": 50.0,
        "p75": 55.0,
        "p90": 60.0,
        "p95": 65.0,
        "p99": 70.0,
        "max": 80.0,
    }
    content = {
        "request_throughput": {"unit": "requests/sec", "avg": 3.0},
        "request_count": {"unit": "count", "avg": 200},
        "request_latency": times,
        "time_to_first_token": times,
        "inter_token_latency": times,
        "input_sequence_length": {"unit": "tokens", "avg": 100.0, "p95": 110.0},
        "output_sequence_length": {"unit": "tokens", "avg": 20.0, "p95": 22.0},
        "input_config": {"model": ["m"], "u": "host:8000", "concurrency": 4, "request_rate": None, "endpoint": None},
    }

    (load,) = load_results(written(tmp_path, content))

    assert (load.tool, load.kind, load.asked, load.failed) == (Tool.GENAI_PERF, LoadKind.USERS, 4.0, None)
    assert load.ttft is not None
    found = served_range(load.ttft, 0.95, load.failed)
    assert found is not None
    assert found.low == pytest.approx(0.06)  # its P90, which the 184th of 200 is not below
    assert found.high is None


def test_vllm_needs_its_lists_for_exact_times() -> None:
    """With --save-detailed every answer is in the file, failed ones left out; without it the percentiles are."""
    (detailed,) = load_results(DATA / "vllm-0.33.0-detailed.json")
    (plain,) = load_results(DATA / "vllm-0.33.0-rate.json")

    assert (detailed.kind, detailed.asked, detailed.failed) == (LoadKind.USERS, 4.0, 4)
    assert detailed.ttft is not None
    assert detailed.ttft.values_s is not None
    assert len(detailed.ttft.values_s) == 76
    assert min(detailed.ttft.values_s) > 0.05  # the zeros of failed requests are no times
    assert detailed.tpot is not None
    assert detailed.tpot.mean_s == pytest.approx(document("vllm-0.33.0-detailed.json")["mean_tpot_ms"] / 1000)
    assert (plain.kind, plain.asked, plain.attempted, plain.failed) == (LoadKind.RATE, 6.0, 80, 4)
    assert plain.ttft is not None
    assert dict(plain.ttft.percentiles)[0.95] == pytest.approx(document("vllm-0.33.0-rate.json")["p95_ttft_ms"] / 1000)
    assert plain.prompt.p95 is None


def test_an_older_vllm_file_has_bounds_only(tmp_path: Path) -> None:
    """A chat endpoint's TTFT may be the role chunk's, which makes TPOT too large; failures are what is missing of the prompts."""

    def older(content: Any) -> None:  # noqa: ANN401  # JSON
        for name in ("queue_times", "latencies", "failed"):
            content.pop(name)

    (load,) = changed(tmp_path, "vllm-0.33.0-detailed.json", older)

    assert load.failed == 4
    assert load.ttft is not None
    assert load.tpot is not None
    assert (load.ttft.mapping, load.tpot.mapping) == (Mapping.LOWER, Mapping.UPPER)
    assert load.tpot.mean_s == pytest.approx(document("vllm-0.33.0-detailed.json")["mean_tpot_ms"] / 1000, rel=1e-3)


def test_vllm_requests_that_never_came_back_have_failed(tmp_path: Path) -> None:
    """1000 were to be sent, 76 are done and 4 failed: 924 failures, not 4; more than were to be sent cannot be."""
    (load,) = changed(tmp_path, "vllm-0.33.0-rate.json", lambda content: content.update(num_prompts=1000))

    assert (load.attempted, load.failed) == (1000, 1000 - document("vllm-0.33.0-rate.json")["completed"])
    with pytest.raises(RecordError, match="num_prompts"):
        changed(tmp_path, "vllm-0.33.0-rate.json", lambda content: content.update(num_prompts=10))


def test_vllm_with_a_rate_and_a_cap_holds_back_requests(tmp_path: Path) -> None:
    """The wait for --max-concurrency is not in its TTFT, so that is a lower bound of what users wait."""
    (load,) = changed(tmp_path, "vllm-0.33.0-rate.json", lambda content: content.update(max_concurrency=2))

    assert load.ttft is not None
    assert load.ttft.mapping is Mapping.LOWER
    assert "held requests back" in load.ttft.why


def test_vllm_at_an_infinite_rate_is_a_burst(tmp_path: Path) -> None:
    """All prompts at once are neither users nor a rate."""
    (load,) = changed(tmp_path, "vllm-0.33.0-rate.json", lambda content: content.update(request_rate="inf"))

    assert (load.kind, load.asked) == (LoadKind.BURST, None)


def test_inference_perf_tells_how_late_it_sent() -> None:
    """A stage has its rate, its failures and the longest delay behind the schedule; the summary of all stages is no load."""
    (stage,) = load_results(DATA / "inference-perf-0.7.0-stage.json")
    (summary,) = load_results(DATA / "inference-perf-0.7.0-summary.json")
    (untimed,) = load_results(DATA / "inference-perf-0.7.0-untimed.json")

    assert (stage.tool, stage.kind, stage.asked) == (Tool.INFERENCE_PERF, LoadKind.RATE, 6.0)
    assert (stage.attempted, stage.failed) == (96, 5)
    assert stage.late_s == pytest.approx(0.01048393)
    assert (stage.prompt.mean, stage.output.mean) == (64.0, 16.0)
    assert "no single load" in summary.problems[0]
    assert (untimed.ttft, untimed.tpot) == (None, None)  # null there: nothing was streamed that it understood


def test_older_forms_of_inference_perf_and_aiperf_are_read(tmp_path: Path) -> None:
    """A stage of 2025 has neither duration nor server counts; a file of AIPerf 0.10 has phases without a kind."""
    stage = {
        "load_summary": {
            "count": 1657,
            "schedule_delay": {"max": 0.0083},
            "requested_rate": 27.63,
            "achieved_rate": 27.65,
        },
        "successes": {
            "count": 1657,
            "latency": {
                "time_to_first_token": {"mean": 0.0617, "min": 0.0298, "median": 0.0614, "p95": 0.0801, "p99.9": 0.0952}
            },
            "throughput": {"output_tokens_per_sec": 3464.49, "requests_per_sec": 26.918126},
            "prompt_len": {"mean": 135.06, "p95": 139.0},
            "output_len": {"mean": 128.7, "p95": 131.0},
        },
        "failures": {"count": 0, "request_latency": None, "prompt_len": None},
    }
    aiperf = document("aiperf-0.13.0-rate.json")
    for phase in aiperf["input_config"]["phases"]:
        del phase["kind"]
    del aiperf["error_request_count"]  # left out where nothing failed

    (old,) = load_results(written(tmp_path, stage))
    (load,) = load_results(written(tmp_path, aiperf))

    assert old.duration_s == pytest.approx(61.56, rel=1e-3)
    assert (old.prompt.p95, old.output.mean) == (139.0, 128.7)
    assert old.ttft is not None
    assert old.ttft.percentiles[-1] == pytest.approx((0.999, 0.0952))
    assert (load.asked, load.failed) == (6.0, 0)


def test_our_own_result_is_read_exactly(tmp_path: Path) -> None:
    """The percentiles of a run read back are those of the run itself, failures and all, to the last bit."""
    good, bad = Pace(ttft_s=0.002, gap_s=0.0005, tokens=4).answer(), error_answer(500)
    run, _ = run_against(lambda request: bad if request.index % 9 == 5 else good, plan(requests=60, concurrency=2))
    window = {"length_s": 1.0}
    rows = [row_document(row) for row in run.rows]
    content = {
        "load_schema_version": 1,
        "suffice_version": "0.1.0",
        "usable": True,
        "requests": rows,
        "window": window,
        "settings": {
            "url": "http://127.0.0.1:1",
            "model": "mock",
            "plan": {"loop": Loop.CLOSED.value, "concurrency": 2},
        },
    }

    (load,) = load_results(written(tmp_path, content))

    summary = summarize(run.rows, Limits(), _window())
    assert (load.tool, load.kind, load.asked, load.attempted) == (Tool.SUFFICE, LoadKind.USERS, 2.0, 60)
    assert load.failed == summary.failed > 0
    assert load.ttft is not None
    for own in summary.ttft.attempts[:2]:
        found = served_range(load.ttft, own.fraction, load.failed)
        assert found is not None
        assert found.high == own.high
        assert found.attempts == own.samples


def row_document(row: Any) -> dict[str, Any]:  # noqa: ANN401  # a request row
    """As the result's document holds it."""
    from suffice.load.result import _row  # noqa: PLC0415  # the very code that writes it

    return _row(row)


def _window() -> Any:  # noqa: ANN401  # a window
    from suffice.model.load_metrics import Window  # noqa: PLC0415

    return Window(from_ns=0, until_ns=10**12, unsteady=None)


def test_a_level_of_our_search_is_a_load(tmp_path: Path) -> None:
    """--find-capacity writes percentiles over attempts with intervals; null is unbounded where there are samples enough."""
    times = {"observed_s": 0.3, "low_s": 0.2, "high_s": None, "samples": 100, "needed": 72}
    level = {
        "level": 4.0, "rate_per_s": 4.0, "users": None, "attempted": 100, "succeeded": 96, "cut_off": 0,
        "ttft": {"p50": times, "p95": times, "p99": {**times, "needed": 368}}, "length_s": 25.0,
    }  # fmt: skip
    content = {
        "capacity_schema_version": 1,
        "levels": [level, {**level, "rate_per_s": 8.0}],
        "settings": {"url": "http://h:1"},
    }

    first, second = load_results(written(tmp_path, content))

    assert (first.asked, second.asked, first.failed) == (4.0, 8.0, 4)
    assert first.ttft is not None
    p95, p99 = (served_range(first.ttft, fraction, first.failed) for fraction in (0.95, 0.99))
    assert p95 is not None
    assert (p95.low, p95.high) == (0.2, math.inf)
    assert p99 is not None
    assert (p99.low, p99.high, p99.supported) == (None, None, False)
    assert served_range(first.ttft, 0.9, first.failed) is None


@pytest.mark.parametrize("content", [{}, {"benchmarks": []}, {"decode_tokens_per_second": 3}, {"input_config": {}}])
def test_what_no_load_tool_wrote_is_said_to_be_none(tmp_path: Path, content: object) -> None:
    """A run record or anything else is not mistaken for a load."""
    path = written(tmp_path, content)

    assert loads_in(path) is None
    with pytest.raises(RecordError, match="no result of a load tool"):
        load_results(path)


def test_llama_bench_lists_are_left_to_their_reader(tmp_path: Path) -> None:
    """A JSON list is llama-bench's."""
    assert loads_in(written(tmp_path, [])) is None


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("vllm-0.33.0-rate.json", lambda c: c.update(p95_ttft_ms=-1), "p95_ttft_ms"),
        ("vllm-0.33.0-rate.json", lambda c: c.update(p95_ttft_ms="fast"), "p95_ttft_ms"),
        ("vllm-0.33.0-rate.json", lambda c: c.update(p95_ttft_ms=1.0), "contradict"),
        ("vllm-0.33.0-rate.json", lambda c: c.update(completed=2.5), "completed"),
        ("vllm-0.33.0-rate.json", lambda c: c.update(completed=10**9), "completed"),
        ("vllm-0.33.0-detailed.json", lambda c: c["ttfts"].pop(), "different lengths"),
        ("vllm-0.33.0-detailed.json", lambda c: c.update(completed=70), "'completed' says 70"),
        ("aiperf-0.13.0-rate.json", lambda c: c["time_to_first_token"].update(unit="furlongs"), "furlongs"),
        ("aiperf-0.13.0-rate.json", lambda c: c.update(time_to_first_token=[1]), "not an object"),
        ("inference-perf-0.7.0-stage.json", lambda c: c["failures"].update(count=True), "failures.count"),
        ("guidellm-0.8.1-concurrent.json", lambda c: c["benchmarks"][0].update(metrics=3), "metrics"),
    ],
)
def test_numbers_that_cannot_be_are_named(
    tmp_path: Path, name: str, change: Callable[[Any], object], message: str
) -> None:
    """One sentence says where the number stands."""
    with pytest.raises(RecordError, match=message):
        changed(tmp_path, name, change)


def test_nan_is_refused(tmp_path: Path) -> None:
    """Python's JSON writer puts NaN where numpy had no data."""
    path = tmp_path / "nan.json"
    path.write_text((DATA / "vllm-0.33.0-rate.json").read_text().replace('"duration":', '"more":NaN,"duration":'))

    with pytest.raises(RecordError, match="NaN"):
        load_results(path)

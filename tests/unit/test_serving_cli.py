"""`suffice simulate`: text, JSON, exit codes and refusals."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner

from suffice.cli.simulate import simulate
from suffice.errors import RecordError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

CURVE = {
    "schema_version": 1,
    "name": "a small machine",
    "decode": [
        {"batch": batch, "depth_tokens": depth, "seconds": 0.02 + 0.004 * batch + 1e-6 * batch * depth}
        for batch in (1, 4)
        for depth in (0, 1000)
    ],
    "prefill": [{"tokens": tokens, "seconds": 0.02 + 0.001 * tokens} for tokens in (32, 512)],
}
APP = typer.Typer()
APP.command()(simulate)


@pytest.fixture
def curve(tmp_path: Path) -> str:
    """The path of a curve."""
    path = tmp_path / "curve.json"
    path.write_text(json.dumps(CURVE), encoding="utf-8")
    return str(path)


def _call(curve: str, *words: str) -> tuple[int, str]:
    result = CliRunner().invoke(APP, ["--curve", curve, "--requests", "200", *words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def _document(curve: str, *words: str) -> tuple[int, dict[str, Any]]:
    code, out = _call(curve, *words, "--json")
    return code, json.loads(out)


def test_the_text_shows_percentiles_and_marks_those_with_too_few_requests(curve: str) -> None:
    """A table of four percentiles; P99 of 170 requests has a star and its explanation."""
    code, out = _call(curve, "--rate", "0.2")

    assert code == 0
    assert "a small machine (measured), 4 slots" in out
    assert all(word in out for word in ("TTFT", "TPOT", "E2E", "in the queue", "* too few requests"))


def test_the_document_has_the_names_of_a_load(curve: str) -> None:
    """ttft_s, tpot_s and e2e_s with p50, p90, p99 and intervals; one seed repeats."""
    code, one = _document(curve, "--rate", "0.2", "--seeds", "6")
    _, two = _document(curve, "--rate", "0.2", "--seeds", "6")

    assert code == 0
    assert one == two
    for metric in ("ttft_s", "tpot_s", "e2e_s"):
        assert 0 < one[metric]["p50"] <= one[metric]["p90"] <= one[metric]["p99"]
        interval = one[metric]["intervals"]["p90"]
        assert interval["low"] <= one[metric]["p90"] <= interval["high"]
        assert interval["supported"]
        assert not one[metric]["intervals"]["p99"]["supported"]
    assert one["output_tokens_per_second"] == pytest.approx(0.2 * 200, rel=0.25)
    assert one["basis"] == "measured"
    assert one["scheduler"]["slots"] == 4
    assert one["scheduler"]["context_tokens"] == 4 * 4096


def test_limits_decide_the_exit_code(curve: str) -> None:
    """A limit that all runs keep is 0, one that none keeps is 1, one at P99 of 200 requests is 3."""
    words = ("--rate", "0.2", "--seeds", "5")

    document = _document(curve, *words, "--ttft-limit", "60s")[1]
    assert document["outcome"] == "holds"
    assert document["attainment"] == 1
    assert document["goodput_requests_per_second"] == pytest.approx(0.2, rel=0.3)
    assert _call(curve, *words, "--ttft-limit", "60s")[0] == 0
    assert _call(curve, *words, "--ttft-limit", "10ms")[0] == 1
    assert _call(curve, *words, "--ttft-limit", "60s", "--percentile", "99")[0] == 3


def test_a_queue_that_is_there_at_the_start_drains(curve: str) -> None:
    """All at once: the last answer is the time to drain, nothing is left out of the percentiles."""
    code, document = _document(
        curve, "--arrivals", "at-once", "--seeds", "1", "--slots", "1", "--prompt-tokens", "32", "--output-tokens", "1"
    )

    assert code == 0
    assert document["estimates"]["end_s"]["point"] == pytest.approx(200 * 0.052)


@pytest.mark.parametrize("scheduler", ["llama.cpp", "vllm"])
def test_users_pause_and_both_schedulers_serve(curve: str, scheduler: str) -> None:
    """A closed loop with pauses under each scheduler."""
    code, document = _document(
        curve, "--users", "3", "--think", "5s", "--scheduler", scheduler, "--output-p95", "400", "--cache", "unified"
    )

    assert code == 0
    assert document["ttft_s"]["p50"] < 5
    assert document["rejected_share"] == 0


def test_searches_answer_with_what_they_tried(curve: str) -> None:
    """The highest rate is under what the machine can do, more machines carry more, and one slot is enough for little."""
    words = ("--ttft-limit", "5s", "--seeds", "5", "--cache", "unified")

    code, rate = _document(curve, "--rate", "0.2", "--find", "rate", *words)
    assert code == 0
    assert 0.05 < rate["value"] < 1
    assert rate["probes"]
    assert _document(curve, "--rate", "2", "--find", "machines", *words)[1]["value"] > 2
    assert _document(curve, "--rate", "0.01", "--find", "slots", *words)[1]["value"] == 1
    code, out = _call(curve, "--rate", "50", "--find", "slots", "--most", "2", *words)
    assert code == 1
    assert "none that was tried holds the limits: a request alone keeps the limits, but" in out
    assert "tried: 1 to 2 fail" in out


def test_an_answer_stands_with_its_load_limits_and_cautions(curve: str) -> None:
    """Load and limits above, a unit, fresh runs, what the answer does not know, and where the curve was left."""
    words = ("--ttft-limit", "5s", "--seeds", "5", "--cache", "unified", "--prompt-p95", "1500", "--slots", "8")

    code, out = _call(curve, "--rate", "2", "--find", "rate", *words)
    _, document = _document(curve, "--rate", "2", "--find", "rate", *words)

    assert code == 0
    assert out.startswith(
        "load: 2 requests/s (poisson), prompts of 512 tokens (P95 1500), answers of 200 tokens, 8 slots"
    )
    assert "limits: TTFT P95 at most 5.00 s" in out
    assert re.search(r"^rate: 0\.\d+ requests/s \(confidence 95%, confirmed by \d+ fresh runs\)$", out, re.MULTILINE)
    assert "ranges: chance of arrivals" in out
    assert out.count("! decode depth") == 1
    assert document["load"]["prompt_tokens"] == {"p50": 512, "p95": 1500}
    assert document["load"]["requests_per_second"] == 2
    assert document["limits"] == [{"metric": "ttft_s", "seconds": 5, "percent": 95}]
    assert document["confidence"] == 0.95
    assert document["scheduler"]["slots"] == 8
    assert any("decode depth" in note for note in document["notes"])
    assert document["probes"][-1]["confirming"]
    assert document["reason"] is None


def test_four_users_never_need_more_than_four_slots(curve: str) -> None:
    """Prompts of 1000 tokens and a limit that a request alone just breaks: four tries in a row, and one sentence why."""
    words = ("--users", "4", "--think", "1s", "--prompt-tokens", "1000", "--find", "slots", "--ttft-limit", "500ms")
    code, out = _call(curve, *words)
    _, document = _document(curve, *words)

    assert code == 1
    assert "one request alone needs" in out
    assert "tried: 1 to 4 fail" in out
    assert document["value"] is None
    assert document["load"]["users"] == 4
    assert document["scheduler"] is None
    assert "no number of slots helps" in document["reason"]


def test_a_search_that_cannot_tell_is_neither_yes_nor_no(curve: str) -> None:
    """P99 of 200 requests is never decided: exit code 3, and how many it takes."""
    words = ("--rate", "0.01", "--ttft-limit", "60s", "--percentile", "99", "--find", "slots", "--most", "2")

    code, out = _call(curve, *words)

    assert code == 3
    assert "P99 needs 368 requests" in out
    assert "tried: 1 to 2 undecided" in out


def test_machines_for_a_queue_that_is_there_at_the_start(curve: str) -> None:
    """Half the time to drain needs two machines, and a little more than half of the queue each."""
    words = ("--arrivals", "at-once", "--slots", "1", "--prompt-tokens", "32", "--output-tokens", "1")

    code, document = _document(curve, *words, "--find", "machines", "--e2e-limit", "6s")

    assert code == 0
    assert document["value"] == 2
    assert document["load"]["arrivals"] == "at-once"


def test_an_overload_is_named_and_a_busy_server_is_not(curve: str) -> None:
    """Fifty requests a second are too many, 0.1 are not, and users cannot overload anything."""
    _, out = _call(curve, "--rate", "50", "--cache", "unified")

    assert re.search(r"^Overloaded: 0\.\d+ of 50 requests/s are answered; the queue grows", out, re.MULTILINE)
    assert "Overloaded" not in _call(curve, "--rate", "0.1", "--cache", "unified")[1]
    assert _document(curve, "--rate", "50")[1]["overloaded"] is True
    assert _document(curve, "--rate", "0.1")[1]["overloaded"] is False
    assert _document(curve, "--users", "50")[1]["overloaded"] is None


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["--rate", "1", "--arrivals", "gamma", "--cv", "2"],
            "load: 1 requests/s (gamma, cv 2), prompts of 512 tokens",
        ),
        (["--users", "3", "--think", "5s"], "load: 3 users with a pause of 5.00 s on average, prompts"),
        (
            ["--users", "3", "--output-p95", "400"],
            "load: 3 users with no pause, prompts of 512 tokens, answers of 200 tokens (P95 400), 4 slots",
        ),
        (["--arrivals", "at-once"], "load: 200 requests that are there at the start, prompts"),
    ],
)
def test_the_load_that_was_taken_stands_first(curve: str, words: list[str], line: str) -> None:
    """Each kind of load in one line at the top."""
    assert _call(curve, *words, "--seeds", "1")[1].startswith(line)


def test_ranges_are_explained_where_there_are_some(curve: str) -> None:
    """Eight runs have ranges that know chance only; one run has none to explain."""
    assert "ranges: chance of arrivals and lengths only" in _call(curve, "--rate", "0.2")[1]
    assert "ranges:" not in _call(curve, "--rate", "0.2", "--seeds", "1")[1]


def test_seconds_that_nobody_measured_are_a_caution(tmp_path: Path) -> None:
    """A curve of physics says at every use that it is a ceiling."""
    path = tmp_path / "ceiling.json"
    physics = {"weight_bytes": 4e9, "bandwidth_bytes_per_s": 4e11}
    path.write_text(json.dumps({"schema_version": 1, "physics": physics}), encoding="utf-8")

    for words in ((), ("--find", "machines", "--e2e-limit", "60s")):
        assert "! basis ceiling: the seconds are the least" in _call(str(path), "--rate", "0.1", *words)[1]


def test_what_is_beyond_the_curve_is_said(curve: str) -> None:
    """Batches of eight on a curve that was measured to four."""
    code, out = _call(curve, "--rate", "50", "--slots", "8", "--cache", "unified", "--seeds", "2")

    assert code == 0
    assert "! decode batch 8 sequences is beyond the 4 that were measured" in out
    varied = _call(curve, "--rate", "1", "--prompt-p95", "2000", "--output-p95", "900")[1]
    assert varied.count("! decode depth") == 1


def test_everything_rejected_is_infinite_and_not_a_crash(curve: str) -> None:
    """Prompts over the context: no latency, null in JSON."""
    _, document = _document(curve, "--rate", "1", "--prompt-tokens", "5000")
    code, out = _call(curve, "--rate", "1", "--prompt-tokens", "5000")

    assert document["rejected_share"] == 1
    assert document["ttft_s"]["p50"] is None
    assert document["output_tokens_per_second"] in (0, None)
    assert code == 0
    assert "100.00% rejected" in out
    assert "All prompts are rejected: they fill the context of 4096 tokens a request; give a larger --context" in out
    assert "Overloaded" not in out
    assert "nan" not in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "either --rate"),
        (["--rate", "1", "--users", "2"], "either --rate"),
        (["--rate", "0"], "--rate 0"),
        (["--rate", "1", "--think", "3s"], "--think"),
        (["--rate", "1", "--arrivals", "at-once"], "at-once"),
        (["--rate", "1", "--prompt-p95", "3"], "--prompt-p95"),
        (["--rate", "1", "--ttft-limit", "soon"], "--ttft-limit"),
        (["--rate", "1", "--ttft-limit", "1s", "--seeds", "2"], "--seeds"),
        (["--rate", "1", "--find", "rate"], "--ttft-limit"),
        (["--users", "1", "--find", "rate", "--ttft-limit", "1s"], "--find rate"),
        (["--rate", "1", "--slots", "600"], "micro-batch"),
        (["--rate", "1", "--scheduler", "vllm", "--blocks", "1"], "blocks"),
    ],
)
def test_contradictions_are_refused(curve: str, words: list[str], message: str) -> None:
    """One sentence with the flag, before anything is simulated."""
    with pytest.raises(UsageError, match=message):
        _call(curve, *words)


def test_a_curve_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """No file, and no JSON."""
    with pytest.raises(RecordError, match="does not exist"):
        _call(str(tmp_path / "none.json"), "--rate", "1")
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    with pytest.raises(RecordError, match="is not JSON"):
        _call(str(tmp_path / "bad.json"), "--rate", "1")


def test_a_name_that_stands_twice_in_a_curve_is_refused(tmp_path: Path) -> None:
    """Python would take the last of two seconds, and nobody would know."""
    text = json.dumps(CURVE).replace('"seconds":', '"seconds": 9, "seconds":', 1)
    (tmp_path / "twice.json").write_text(text, encoding="utf-8")

    with pytest.raises(RecordError, match=r"twice.json is not usable JSON: the name 'seconds' stands there twice"):
        _call(str(tmp_path / "twice.json"), "--rate", "1")


@pytest.mark.parametrize(
    "words",
    [
        ["--prompt-tokens", "1000000001"],
        ["--prompt-p95", "99999999999999999999"],
        ["--output-tokens", "1000000001"],
        ["--context", "99999999999999999999"],
        ["--batch-tokens", "99999999999999999999"],
        ["--users", "10000001"],
        ["--percentile", "nan"],
        ["--confidence", "nan"],
    ],
)
def test_sizes_of_no_server_are_bad_usage(curve: str, words: list[str]) -> None:
    """Exit code 2 before anything is drawn or stored."""
    result = CliRunner().invoke(APP, ["--curve", curve, "--rate", "1", *words])

    assert result.exit_code == 2
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--users", "2", "--think", "1e308"], "--think 1e.308 is no figure"),
        (["--users", "2", "--think", "nan"], "--think"),
        (["--rate", "1", "--ttft-limit", "1e300s"], "--ttft-limit"),
        (["--rate", "1", "--e2e-limit", "1e-320s"], "--e2e-limit"),
        (["--rate", "5e-324"], "--rate"),
        (["--rate", "1", "--arrivals", "gamma", "--cv", "inf"], "--cv"),
    ],
)
def test_times_and_rates_of_no_machine_are_refused(curve: str, words: list[str], message: str) -> None:
    """Denormal, endless and not a number: one sentence with the flag."""
    with pytest.raises(UsageError, match=message):
        _call(curve, *words)


def test_prompts_a_thousand_times_the_median_are_served(curve: str) -> None:
    """P95 of half a million tokens with room for all of them: percentiles, and not a wait for the simulation."""
    code, document = _document(
        curve, "--rate", "0.001", "--prompt-tokens", "512", "--prompt-p95", "512000", "--context", "100000000"
    )

    assert code == 0
    assert document["ttft_s"]["p90"] > document["ttft_s"]["p50"] > 0

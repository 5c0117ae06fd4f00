"""`suffice simulate`: text, JSON, exit codes and refusals."""

from __future__ import annotations

import json
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
    assert "none that was tried" in out


def test_what_is_beyond_the_curve_is_said(curve: str) -> None:
    """Batches of eight on a curve that was measured to four."""
    code, out = _call(curve, "--rate", "50", "--slots", "8", "--cache", "unified", "--seeds", "2")

    assert code == 0
    assert "! decode batch 8 sequences is beyond the 4 that were measured" in out


def test_everything_rejected_is_infinite_and_not_a_crash(curve: str) -> None:
    """Prompts over the context: no latency, null in JSON."""
    _, document = _document(curve, "--rate", "1", "--prompt-tokens", "5000")
    code, out = _call(curve, "--rate", "1", "--prompt-tokens", "5000")

    assert document["rejected_share"] == 1
    assert document["ttft_s"]["p50"] is None
    assert document["output_tokens_per_second"] in (0, None)
    assert code == 0
    assert "100.00% rejected" in out
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
    with pytest.raises(RecordError, match="no JSON"):
        _call(str(tmp_path / "bad.json"), "--rate", "1")

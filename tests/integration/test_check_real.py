"""The main job on a real model with a real engine, as a person runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers.sample import require_sample_model
from suffice.decide import words
from suffice.measure.engine.library import available_engines
from suffice.records.store import load_record

if TYPE_CHECKING:
    from suffice.records.schema import RunRecord

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not available_engines(), reason="no engine is installed"),
]
BUDGET = "6s"
PATIENCE_S = 120.0


def _start(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "suffice", *arguments]
    return subprocess.Popen(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def _run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    process = _start(*arguments, folder=folder)
    out, err = process.communicate(timeout=PATIENCE_S)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def _wait_for_repetitions(path: Path) -> RunRecord:
    """The record on disk once it holds a repetition: read while it is being written, so it must always be whole."""
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        if path.exists():
            record = load_record(path)
            if record.measurement.prefill is not None and record.measurement.prefill.chunk_s:
                return record
        time.sleep(0.05)
    raise AssertionError("no repetition was saved in time")


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """One check with JSON output; the verdict of a need of 0.1 tokens/s does not depend on the machine's mood."""
    folder = tmp_path_factory.mktemp("check")
    model = str(require_sample_model())
    arguments = ("check", "--model", model, "--need", "0.1", "--budget", BUDGET, "--out", "run.json", "--json")
    return _run(*arguments, folder=folder), folder


def test_check_says_cpu_when_the_need_is_tiny(checked: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    """One JSON document on stdout with verdict, reason, binding, basis and constraints; exit code 0."""
    result, _ = checked

    document = json.loads(result.stdout)
    assert (document["verdict"], result.returncode) == (words.CPU, 0), result.stderr
    assert document["binding"] in {"decode_tokens_per_second", "memory_bytes"}
    assert document["basis"] == "measured"
    names = {constraint["name"] for constraint in document["constraints"]}
    assert {"decode_tokens_per_second", "memory_bytes"} <= names


def test_check_leaves_a_record_that_decides_again(checked: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    """The record on disk gives the same verdict tomorrow, with no engine; the plain numbers match the samples."""
    _, folder = checked
    (folder / "demand.toml").write_text('[demand]\nkind = "interactive"\ntokens_per_second_per_user = 0.1\n')

    again = _run("decide", "demand.toml", "run.json", "--json", folder=folder)

    assert json.loads(again.stdout)["verdict"] == words.CPU
    record = load_record(folder / "run.json")
    assert record.complete
    assert record.measurement.decode[0].step_s
    assert record.measurement.peak_rss_bytes
    assert record.measurement.load.warm_s
    assert record.engine.isa_used
    assert record.settings["n_threads"] == record.measurement.decode[0].threads


def test_check_writes_a_memo_beside_the_record(checked: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    """run.md starts with the verdict."""
    _, folder = checked

    assert (folder / "run.md").read_text(encoding="utf-8").startswith("# Verdict: cpu\n")


def test_measured_decode_is_under_its_ceiling_or_says_so(
    checked: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    """No measurement passes its ceiling in silence."""
    _, folder = checked
    record = load_record(folder / "run.json")
    rate, ceiling = record.decode_tokens_per_second, record.ceiling.decode_tokens_per_second

    assert rate is not None
    assert ceiling is not None
    assert rate <= ceiling or record.contradictions or any("above its ceiling" in text for text in record.warnings)


def test_a_killed_run_keeps_what_it_measured_and_goes_on(tmp_path: Path) -> None:
    """After kill -9 the record is loadable and incomplete; --resume completes it and keeps the earlier repetitions."""
    arguments = ("measure", str(require_sample_model()), "--out", "run.json", "--prompt-tokens", "64", "--threads", "1")
    process = _start(*arguments, "--budget", "60s", folder=tmp_path)
    _wait_for_repetitions(tmp_path / "run.json")
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    killed = load_record(tmp_path / "run.json")

    resumed = _run(*arguments, "--budget", BUDGET, "--resume", folder=tmp_path)

    assert not killed.complete
    assert resumed.returncode == 0, resumed.stderr
    record = load_record(tmp_path / "run.json")
    assert record.complete
    assert record.disturbed is not False  # nobody watched the machine between the two parts
    assert killed.measurement.prefill is not None
    assert record.measurement.prefill is not None
    kept = len(killed.measurement.prefill.chunk_s)
    assert record.measurement.prefill.chunk_s[:kept] == killed.measurement.prefill.chunk_s


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent as on POSIX")
def test_an_interrupt_ends_with_one_sentence_and_no_orphan(tmp_path: Path) -> None:
    """Ctrl-C in the middle: exit code 130, one line, no traceback, the record is there, and the engine's process is gone."""
    process = _start(
        "measure",
        str(require_sample_model()),
        "--out",
        "run.json",
        "--prompt-tokens",
        "64",
        "--budget",
        "60s",
        folder=tmp_path,
    )
    _wait_for_repetitions(tmp_path / "run.json")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    workers = children.read_text().split() if children.exists() else []
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    assert "interrupted" in err.splitlines()[-1]
    assert not load_record(tmp_path / "run.json").complete
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]


def test_a_prompt_of_the_users_is_measured(tmp_path: Path) -> None:
    """--prompt FILE replaces random tokens."""
    (tmp_path / "prompt.txt").write_text("Why is a GPU not always the right answer?", encoding="utf-8")

    result = _run(
        "measure",
        str(require_sample_model()),
        "--prompt",
        "prompt.txt",
        "--prompt-tokens",
        "48",
        "--budget",
        "3s",
        "--json",
        folder=tmp_path,
    )

    assert json.loads(result.stdout)["prefill_tokens_per_second"] > 0, result.stderr

"""Where a guard's result goes: the files and texts that were asked for, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from helpers.records import run_record
from suffice.cli.guard_outputs import STEP_SUMMARY_VARIABLE, GuardOutputs, publish
from suffice.decide.guard import Outcome
from suffice.errors import OutputError
from suffice.report.check_rows import CheckRow
from suffice.report.prometheus import NamedRun

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [CheckRow(name="decode floor", outcome=Outcome.FAIL, reason="below")]
RUNS = [NamedRun(name="run.json", record=run_record())]


def test_nothing_is_written_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without options there is no file and no output."""
    publish(ROWS, RUNS, GuardOutputs())

    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr() == ("", "")


def test_files_are_written_where_they_were_asked_for(tmp_path: Path) -> None:
    """JUnit XML with the run's facts, and Prometheus text with run and check."""
    outputs = GuardOutputs(junit=tmp_path / "a" / "guard.xml", prometheus=tmp_path / "guard.prom")

    publish(ROWS, RUNS, outputs, facts={"machine": "Test CPU"})

    assert outputs.junit is not None
    assert 'value="Test CPU"' in outputs.junit.read_text(encoding="utf-8")
    told = (tmp_path / "guard.prom").read_text(encoding="utf-8")
    assert 'suffice_check_outcome{check="decode floor",outcome="fail"} 1.0' in told
    assert "suffice_decode_tokens_per_second" in told


def test_github_gets_annotations_on_stderr_and_a_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The summary is added to what the step already said; stdout stays free for JSON."""
    summary = tmp_path / "summary.md"
    summary.write_text("before\n", encoding="utf-8")
    monkeypatch.setenv(STEP_SUMMARY_VARIABLE, str(summary))

    publish(ROWS, RUNS, GuardOutputs(github=True), file="run.json")

    assert capsys.readouterr() == ("", "::error file=run.json,title=decode floor::below\n")
    assert summary.read_text(encoding="utf-8").startswith("before\n### suffice guard: 1 fail\n")


def test_github_without_a_step_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """On a desk there is no step: the annotations are printed, and one line says what is missing."""
    monkeypatch.delenv(STEP_SUMMARY_VARIABLE, raising=False)

    publish(ROWS, RUNS, GuardOutputs(github=True))

    assert STEP_SUMMARY_VARIABLE in capsys.readouterr().err


def test_a_summary_that_cannot_be_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence, not a traceback."""
    monkeypatch.setenv(STEP_SUMMARY_VARIABLE, str(tmp_path))

    with pytest.raises(OutputError, match="cannot write the step's summary"):
        publish(ROWS, RUNS, GuardOutputs(github=True))

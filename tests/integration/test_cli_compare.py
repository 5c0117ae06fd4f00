"""`suffice compare` with a real engine, as a person runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from suffice.measure.engine.library import available_engines
from suffice.records.store import load_record, save_record

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not available_engines(), reason="no engine is installed"),
]
PATIENCE_S = 240.0
CANDIDATES = ("baichuan2-7b:q4_0", "smollm2-135m:q4_0,q8_0")
LENGTHS = ("--prompt-tokens", "32", "--depth", "32", "--budget", "1s")


def _compare(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "suffice", "compare", *CANDIDATES, *LENGTHS, *arguments],
        cwd=folder,
        env={**os.environ, "SUFFICE_CACHE_DIR": str(folder / "cache")},
        text=True,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Two recipes of a small shape beside one that is refused; the need is so small that any machine has it."""
    folder = tmp_path_factory.mktemp("compare")
    return _compare(folder, "--need", "0.01", "--out", "runs", "--chart", "chart.svg", "--json"), folder


def test_one_document_with_a_row_for_each(compared: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    """The refused one has its reason, the others a rate, a range around it and a record; the answer names the larger one."""
    result, folder = compared
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)

    refused, small, large = document["candidates"]

    assert "position encoding" in refused["error"]
    assert refused["decode_tokens_per_second"] is None
    for one in (small, large):
        assert one["low"] < one["decode_tokens_per_second"] < one["high"]
        assert one["basis"] == "extrapolated"
        record = load_record(folder / one["record"])
        assert record.complete
        assert record.decode_tokens_per_second == one["decode_tokens_per_second"]
    assert small["streamed_bytes"] < large["streamed_bytes"]
    assert document["answer"].startswith("smollm2-135m:q8_0 is the largest that is enough")
    assert "Not measured: baichuan2-7b:q4_0" in document["answer"]


def test_the_chart_shows_all_that_was_measured(compared: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    """An SVG that the next comparison may replace, as nobody else's."""
    _, folder = compared

    text = (folder / "chart.svg").read_text(encoding="utf-8")

    assert "suffice chart" in text
    assert text.rstrip().endswith("</svg>")


def test_resume_keeps_what_is_complete(compared: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    """An incomplete record is gone on with, a complete one is not touched, and without a need a refused model is 3."""
    _, folder = compared
    kept, again = folder / "runs" / "smollm2-135m_q4_0.json", folder / "runs" / "smollm2-135m_q8_0.json"
    save_record(replace(load_record(again), complete=False), again)
    before = kept.read_bytes()

    result = _compare(folder, "--out", "runs", "--resume", "--chart", "chart.svg")

    assert result.returncode == 3, result.stderr
    assert kept.read_bytes() == before
    assert load_record(again).complete
    assert "baichuan2-7b:q4_0: not measured: " in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--out", "runs"), "--resume"),
        (("--out", "runs", "--resume", "--kv-type", "q8_0"), "type_k"),
        (("--resume",), "--out FOLDER"),
        (("--depth", "100000"), "context"),
    ],
)
def test_what_would_spoil_an_earlier_comparison_is_refused(
    compared: tuple[subprocess.CompletedProcess[str], Path], arguments: tuple[str, ...], message: str
) -> None:
    """One sentence before anything is measured, exit code 2, no traceback, and the records stay as they are."""
    _, folder = compared
    before = {path: path.read_bytes() for path in (folder / "runs").iterdir()}

    result = _compare(folder, *arguments)

    assert message in result.stderr
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert {path: path.read_bytes() for path in (folder / "runs").iterdir()} == before

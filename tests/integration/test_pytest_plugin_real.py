"""The pytest plugin on a real model with a real engine, as a user runs it: the example that the repository ships."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from helpers.sample import require_sample_model
from suffice.cli.pytest_judge import judge
from suffice.decide.guard_types import Outcome, worst
from suffice.measure.engine.library import available_engines
from suffice.records.store import load_record

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not available_engines(), reason="no engine is installed"),
]
SUITE = """
import pytest

@pytest.mark.suffice(budget="2s", prompt_tokens=32, threads=1)
class TestSpeed:
    @pytest.mark.suffice(floor={"decode": 0.01, "prefill": 0.01}, ceiling={"ttft": 1000}, inconclusive="xfail")
    def test_low_floor(self, suffice_measure, model):
        measured = suffice_measure(model=model)
        assert measured.record.complete

    @pytest.mark.suffice(floor=1e6, inconclusive="xfail")
    def test_high_floor(self, suffice_measure, model):
        suffice_measure(model=model)

@pytest.fixture
def model(request):
    return request.config.getini("sample")
"""
_ENDS = {Outcome.PASS: "passed", Outcome.FAIL: "failed", Outcome.INCONCLUSIVE: "xfailed"}
CONFTEST = 'def pytest_addoption(parser):\n    parser.addini("sample", "the model")\n'


def test_a_real_model_is_measured_once_and_held_against_two_floors(tmp_path: Path) -> None:
    """Each test ends as the guard judges the one record that both share, and Prometheus text has its figures and all checks."""
    model = require_sample_model()
    (tmp_path / "test_speed.py").write_text(SUITE, encoding="utf-8")
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    plugin = ["-p", "suffice.pytest_plugin", "-p", "no:cacheprovider", "--suffice-prometheus=runs.prom"]

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-o", f"sample={model.absolute()}", *plugin],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    (path,) = (tmp_path / "suffice-runs").glob("*.json")
    record = load_record(path)
    floors = {"decode": 0.01, "prefill": 0.01}
    low = judge(record, floors=floors, ceilings={"ttft": 1000}, baseline=None, prompt_tokens=32)
    high = judge(record, floors={"decode": 1e6}, ceilings={}, baseline=None)
    ends = Counter(_ENDS[worst([row.outcome for row in rows])] for rows in (low, high))
    assert _ENDS[high[0].outcome] != "passed"
    for end, number in ends.items():
        assert f"{number} {end}" in done.stdout.splitlines()[-1], done.stdout
    assert record.decode_tokens_per_second is not None
    told = (tmp_path / "runs.prom").read_text(encoding="utf-8")
    assert f" {record.decode_tokens_per_second!r}\n" in told
    assert told.count("\nsuffice_check_outcome{") == 12

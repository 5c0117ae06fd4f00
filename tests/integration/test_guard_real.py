"""The guard with a real engine: one file with two settings, in turns. Times are whatever the machine makes of them today."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from helpers.sample import require_sample_model
from suffice.measure.engine.library import available_engines

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not available_engines(), reason="no engine is installed"),
]


def test_two_settings_of_a_real_file(tmp_path: Path) -> None:
    """An outcome with its exit code, a ratio with an interval for decode and prefill, the setting as the cause, and both records."""
    model = require_sample_model()
    sides = [f"{model} --threads 1 --prompt-tokens 8 --ubatch {ubatch}" for ubatch in (8, 4)]
    command = [sys.executable, "-m", "suffice", "guard", "--interleave", *sides]

    done = subprocess.run(
        [*command, "--budget", "3s", "--records", "kept", "--json"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )

    document = json.loads(done.stdout)
    assert done.returncode == {"pass": 0, "fail": 1, "inconclusive": 3}[document["outcome"]]
    assert [check["metric"] for check in document["checks"]] == ["decode", "prefill"]
    assert all(0 < check["ratio_low"] <= check["ratio"] <= check["ratio_high"] for check in document["checks"])
    assert "micro-batch size 8 -> 4" in document["causes"]
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"base.json", "head.json"}

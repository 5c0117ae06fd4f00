"""Asking the sample model: a run that is killed goes on where it was, and gives what it would have given."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers.sample import require_sample_model
from suffice.loaders.items import load_items
from suffice.measure.engine.library import available_engines
from suffice.measure.engine.text_client import find_text_engine
from suffice.quants.asking import ask_all
from suffice.quants.local import LocalRespondent
from suffice.quants.respondent import AskOptions
from suffice.quants.subjects import local_model

if TYPE_CHECKING:
    from suffice.model.answers import Answer
    from suffice.model.items import Item
    from suffice.model.quants import AskedModel

pytestmark = pytest.mark.engine

OPTIONS = AskOptions(slots=2, threads=1, max_tokens=4)
ITEMS = Path(__file__).parents[2] / "examples/items"
CHILD = """
import sys
from pathlib import Path
sys.path[:0] = [sys.argv[1]]
from test_quants_asking_real import asked
asked(Path(sys.argv[2]))
"""


def some_items() -> tuple[Item, ...]:
    """Choices, and numbers of which the answers are cut short."""
    numbers = load_items(ITEMS / "number.jsonl").items[:8]
    return (*load_items(ITEMS / "choices.jsonl").items[:6], *(replace(item, max_tokens=2) for item in numbers))


def asked(folder: Path) -> tuple[AskedModel, dict[str, Answer]]:
    """Ask the sample model; run as a process of its own as well."""
    items = some_items()
    with LocalRespondent(find_text_engine(), local_model(require_sample_model()), items, OPTIONS) as respondent:
        return ask_all(respondent, items, folder, resume=True)


def test_a_killed_run_goes_on_and_gives_the_same(tmp_path: Path) -> None:
    """After kill -9 in the middle, no answer that had come is asked again, and all are those of a run without a kill."""
    if not available_engines():
        pytest.skip("no engine is installed")
    command = [sys.executable, "-c", CHILD, str(Path(__file__).parent), str(tmp_path / "killed")]
    paths = {"PYTHONPATH": f"{Path(__file__).parents[1]}:{Path(__file__).parents[2] / 'src'}"}
    process = subprocess.Popen(command, env={**os.environ, **paths})
    kept = 0
    while process.poll() is None and kept < 5:
        time.sleep(0.02)
        kept = sum(path.read_bytes().count(b"\n") - 1 for path in (tmp_path / "killed").glob("answers/*"))
    process.send_signal(signal.SIGKILL)
    process.wait()
    (file,) = (tmp_path / "killed/answers").iterdir()
    before = file.read_bytes()

    model, resumed = asked(tmp_path / "killed")
    _, whole = asked(tmp_path / "whole")

    lines = file.read_bytes().splitlines()
    assert 5 <= kept < 14
    assert file.read_bytes().startswith(before[: before.rfind(b"\n") + 1])
    assert resumed == whole
    assert len(lines) == 1 + 14
    assert all(outcome.score is not None for outcome in model.outcomes)

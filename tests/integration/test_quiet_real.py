"""A whole run of a real engine on this machine, watched repetition by repetition. Times are whatever the machine makes of them today."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from helpers.sample import require_sample_model
from suffice.loaders.model_file import open_model_file
from suffice.measure.clock import RealClock
from suffice.measure.engine.client import LlamaCppEngine, Timeouts
from suffice.measure.engine.library import available_engines, choose_library
from suffice.measure.machine import RealMachine
from suffice.measure.request import RunRequest
from suffice.measure.run import Surroundings, measure_model
from suffice.records.store import load_record, save_record

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.records.schema import RunRecord

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not available_engines(), reason="no engine is installed"),
    pytest.mark.skipif(sys.platform != "linux", reason="delays of threads are told by Linux alone"),
]


def _measure(path: Path) -> RunRecord:
    around = Surroundings(
        engine=LlamaCppEngine(choose_library(), Timeouts(load_s=60, open_s=120, request_s=120)),
        machine=RealMachine(),
        clock=RealClock(),
        progress=lambda _step: None,
        save=lambda record: save_record(record, path),
    )
    request = RunRequest(
        model=open_model_file(require_sample_model()),
        prompt_tokens=32,
        depth=0,
        threads=1,
        budget_s=4.0,
        flash_attention="on",
    )
    return measure_model(request, around)


def test_every_repetition_is_read_and_the_kernel_between_them(tmp_path: Path) -> None:
    """Each has a reading with the delays of the engine's threads and windows of it; the record is what a reader computes again."""
    record = _measure(tmp_path / "run.json")
    (readings,) = record.contention.references

    for series in (*record.measurement.decode, record.measurement.prefill):
        assert series is not None
        assert series.quiet is not None
        assert all("run_wait_s" in one.reading and one.windows for one in series.repetitions)
        assert all(1 <= one.references_before < len(readings) for one in series.repetitions)
    assert all(one.compute_s for one in readings)
    assert load_record(tmp_path / "run.json").measurement.decode[0].quiet == record.measurement.decode[0].quiet


def test_busy_cpus_mark_the_repetitions(tmp_path: Path) -> None:
    """With a busy process on every CPU the engine's thread waits for its turn: most repetitions say so, and so does the run."""
    with ExitStack() as neighbours:
        for _ in os.sched_getaffinity(0):
            burner = neighbours.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            neighbours.callback(burner.kill)
        record = _measure(tmp_path / "run.json")
    main = record.measurement.decode[0]
    marks = [one.disturbed for one in main.repetitions]

    assert 2 * sum(mark is True for mark in marks) > len(marks)
    assert record.disturbed is True
    assert main.quiet is not None
    assert main.quiet.marked == sum(mark is True for mark in marks)

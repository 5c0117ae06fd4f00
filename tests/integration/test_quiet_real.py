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
from suffice.measure.engine.seam import EngineSettings
from suffice.measure.machine import RealMachine
from suffice.measure.request import RunRequest
from suffice.measure.run import Surroundings, measure_model
from suffice.measure.series import SeriesPlan, SeriesRunner, SeriesState, ThreadChoice
from suffice.records.store import load_record, save_record
from suffice.stats import StoppingRule

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


def test_a_busy_cpu_marks_the_repetitions() -> None:
    """Another process on the one CPU that the engine has: its thread waits for every other time slice, and most repetitions say so."""
    cpu = min(os.sched_getaffinity(0))
    engine = LlamaCppEngine(choose_library(), Timeouts(load_s=60, open_s=120, request_s=120))
    settings = EngineSettings(n_ctx=320, n_threads=1, n_threads_batch=1, cpus=str(cpu))
    plan = SeriesPlan(prompt_tokens=16, depth=0, steps=16, budget_s=2.0, rule=StoppingRule())
    state = SeriesState(threads=ThreadChoice(decode=1, prefill=1), prompt_tokens=16)
    with engine.open(require_sample_model(), settings) as session, ExitStack() as stack:
        session.prefill(16)
        observer = RealMachine().observer([session.pid], 1)
        assert observer is not None
        stack.enter_context(observer)
        burner = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
        stack.callback(burner.kill)
        os.sched_setaffinity(burner.pid, {cpu})
        SeriesRunner(session, RealClock(), plan, state, observer).run()
    marks = [one.disturbed for one in state.decode_series()[0].repetitions]

    assert 2 * sum(mark is True for mark in marks) > len(marks)

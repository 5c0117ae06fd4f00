"""A small service curve of a real model with a real engine. Times are whatever the machine makes of them today."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from helpers.sample import require_sample_model
from suffice.loaders.model_file import open_model_file
from suffice.measure.clock import RealClock
from suffice.measure.engine.client import LlamaCppEngine, Timeouts
from suffice.measure.engine.library import available_engines, choose_library
from suffice.measure.fake_machine import FakeMachine
from suffice.measure.request import RunRequest
from suffice.measure.run import Surroundings, measure_model
from suffice.records.store import load_record, save_record
from suffice.serving.recorded import curve_of_record

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not available_engines(), reason="no engine is installed"),
]


def test_a_real_curve_is_complete_and_usable(tmp_path: Path) -> None:
    """One and three sequences, empty and behind a prompt, and chunks: whatever the time, all there, positive, and a curve that can be asked."""
    path = tmp_path / "run.json"
    around = Surroundings(
        engine=LlamaCppEngine(choose_library(), Timeouts(load_s=60, open_s=120, request_s=120)),
        machine=FakeMachine(),
        clock=RealClock(),
        progress=lambda _step: None,
        save=lambda record: save_record(record, path),
    )
    request = RunRequest(
        model=open_model_file(require_sample_model()),
        budget_s=6.0,
        prompt_tokens=16,
        depth=16,
        threads=1,
        slots=3,
        flash_attention="on",
        n_batch=16,
        n_ubatch=16,
    )
    record = measure_model(request, around)

    service = load_record(path).measurement.service
    assert service is not None
    assert service == record.measurement.service
    points = {(one.size, one.depth) for one in service.decode}
    assert {(size, depth) for size in (1, 3) for depth in (0, 16)} <= points
    assert service.prefill
    assert {one.size for one in service.prefill} <= {2, 4, 8, 16}
    for one in (*service.decode, *service.prefill):
        assert one.seconds
        assert all(0 < seconds < math.inf for seconds in one.seconds)
    curve = curve_of_record(record)
    assert curve is not None
    assert curve.decode_s(2, 8) > 0
    assert curve.prefill_s(8, 0) > 0

"""A real file as two models side by side with a real engine. Times are whatever the machine makes of them today."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from helpers.sample import require_sample_model
from suffice.decide.paired_speed import paired_decode, paired_prefill, rounds_of_rows
from suffice.loaders.model_file import open_model_file
from suffice.measure.clock import RealClock
from suffice.measure.engine.client import LlamaCppEngine, Timeouts
from suffice.measure.engine.library import available_engines, choose_library
from suffice.measure.fake_machine import FakeMachine
from suffice.measure.interleaved import measure_interleaved
from suffice.measure.request import RunRequest
from suffice.measure.run import Surroundings
from suffice.records.store import load_record, save_record

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.records.schema import RunRecord

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not available_engines(), reason="no engine is installed"),
]


def test_a_real_file_beside_itself(tmp_path: Path) -> None:
    """Two records of the same file, mapped and read into memory, from the same rounds: real rates, memory of their own, and a ratio with an interval."""
    around = Surroundings(
        engine=LlamaCppEngine(choose_library(), Timeouts(load_s=60, open_s=120, request_s=120)),
        machine=FakeMachine(),
        clock=RealClock(),
        progress=lambda _step: None,
        save=lambda _record: None,
    )
    request = RunRequest(
        model=open_model_file(require_sample_model()),
        prompt_tokens=16,
        depth=24,
        threads=1,
        flash_attention="on",
        n_batch=16,
        n_ubatch=16,
    )

    def save(name: str, record: RunRecord) -> None:
        save_record(record, tmp_path / f"{name}.json")

    requests = {"one": request, "two": replace(request, use_mmap=False)}
    measure_interleaved(requests, around, rounds=3, budget_s=4.0, save=save)

    one, two = (load_record(tmp_path / f"{name}.json") for name in requests)
    for record in (one, two):
        assert record.complete
        assert rounds_of_rows(record)["decode"][0] == [1, 2, 3]
        assert record.measurement.decode[0].depth == 24
        assert record.decode_tokens_per_second is not None
        assert (record.measurement.peak_rss_bytes or 0) > (record.model.file_bytes or 0) / 2
    assert (one.settings["use_mmap"], two.settings["use_mmap"]) == (True, False)
    for ratio in (paired_decode(one, two), paired_prefill(one, two)):
        assert ratio is not None
        assert ratio.interval is not None
        assert 0 < ratio.interval.low <= ratio.point <= ratio.interval.high < math.inf

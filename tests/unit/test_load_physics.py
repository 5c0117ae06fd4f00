"""A load against the ceilings of its machine."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from helpers.records import bare_record, document_of, run_record, write_json
from suffice.load.mock_script import Pace
from suffice.load.mock_server import served_in_thread
from suffice.model.load_physics import PhysicalLimits, contradictions_with, physical_limits
from suffice.model.load_request import Outcome, RequestRow
from suffice.records.schema import BandwidthRecord, ModelRecord
from suffice.units import GIGA, MEGA, NANOSECONDS_PER_SECOND
from unit.test_load_session import cli

if TYPE_CHECKING:
    from pathlib import Path

MILLISECOND_NS = NANOSECONDS_PER_SECOND // 1000


def row(*, ttft_ms: int, tpot_ms: int, prompt_tokens: int = 100, cached_tokens: int = 0) -> RequestRow:
    """An answer of 11 tokens, one an event."""
    chunks = tuple((ttft_ms + number * tpot_ms) * MILLISECOND_NS for number in range(11))
    return RequestRow(
        index=0,
        warm_up=False,
        outcome=Outcome.SUCCESS,
        dispatched_ns=0,
        start_ns=0,
        end_ns=chunks[-1],
        chunk_ns=chunks,
        chunk_events=(1,) * 11,
        output_tokens=11,
        prompt_tokens=prompt_tokens,
        cached_tokens=cached_tokens,
    )


def test_a_token_in_less_than_a_step_is_a_contradiction() -> None:
    """The ceiling of 20 tokens/s is 50 ms: 48 ms lie within 5 %, 40 ms do not; slower is no contradiction."""
    limits = PhysicalLimits(decode_tokens_per_second=20.0)

    found = contradictions_with([row(ttft_ms=900, tpot_ms=40)], limits)

    assert len(found) == 1
    assert "40.0 ms" in found[0]
    assert "speculative" in found[0]
    assert contradictions_with([row(ttft_ms=900, tpot_ms=48)], limits) == ()
    assert contradictions_with([row(ttft_ms=900, tpot_ms=90)], limits) == ()


def test_a_prompt_read_above_the_ceiling_is_one_unless_a_cache_held_it() -> None:
    """100 tokens in 0.5 s are 200 tokens/s against 150; with 60 of them in a cache, 80."""
    limits = PhysicalLimits(decode_tokens_per_second=None, prefill_tokens_per_second=150.0)

    assert len(contradictions_with([row(ttft_ms=500, tpot_ms=50)], limits)) == 1
    assert contradictions_with([row(ttft_ms=500, tpot_ms=50, cached_tokens=60)], limits) == ()
    assert contradictions_with([replace(row(ttft_ms=500, tpot_ms=50), warm_up=True)], limits) == ()


def test_the_limits_of_a_record_are_those_of_its_fastest_reading() -> None:
    """40 GB/s over 1 GB of weights: 40 tokens/s at most, with the spread of the bandwidth's interval; nothing without bandwidth, or on a GPU."""
    reading = BandwidthRecord(read_bytes_per_s=40.0 * GIGA, interval_high_bytes_per_s=44.0 * GIGA)
    record = replace(
        run_record(),
        bandwidth_before=replace(reading, read_bytes_per_s=30.0 * GIGA),
        bandwidth_after=reading,
        model=ModelRecord(streamed_bytes=1.0 * GIGA),
    )

    found = physical_limits(record)

    assert found is not None
    assert found.decode_tokens_per_second == pytest.approx(40.0)
    assert found.spread == pytest.approx(0.1)
    assert physical_limits(bare_record(10.0)) is None
    assert physical_limits(replace(record, device_kind="gpu")) is None


def test_the_command_refuses_to_call_an_impossible_load_usable(tmp_path: Path) -> None:
    """A mock that writes a token every 5 ms against a record whose machine needs 100 ms: exit code 3, and why."""
    record = replace(
        run_record(decode=5.0, prefill=20.0),
        bandwidth_before=BandwidthRecord(read_bytes_per_s=1000.0 * MEGA),
        bandwidth_after=None,
        model=ModelRecord(streamed_bytes=100.0 * MEGA),
    )
    path = write_json(tmp_path / "run.json", document_of(record))
    pace = Pace(ttft_s=0.01, gap_s=0.005, tokens=8)
    with served_in_thread(lambda _: pace.answer()) as server:
        done = cli(server.url, "--requests", "3", "--output-tokens", "8", "--record", str(path), "--json")

    read = json.loads(done.stdout)
    assert done.exit_code == 3
    assert read["usable"] is False
    assert any("TPOT" in sentence for sentence in read["contradictions"])
    assert read["contradictions"][0] in read["unusable_because"]

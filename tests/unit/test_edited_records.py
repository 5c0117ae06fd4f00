"""A record that was edited, in any place that can be recomputed, is refused or is no evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from helpers.records import document_of, run_record
from suffice.decide.compare import decide
from suffice.decide.evidence import evidence_from
from suffice.decide.guard import Outcome, guard_floor
from suffice.decide.words import UNDECIDED
from suffice.errors import RecordError
from suffice.model.demand import single_stream_need
from suffice.records.schema import BandwidthRecord
from suffice.records.store import record_from
from suffice.units import GIGA

if TYPE_CHECKING:
    from collections.abc import Callable


def _scale_steps(document: dict[str, Any]) -> None:
    series = document["measurement"]["decode"][0]
    series["step_s"] = [[10 * step for step in row] for row in series["step_s"]]


def _scale_chunks(document: dict[str, Any]) -> None:
    prefill = document["measurement"]["prefill"]
    prefill["chunk_s"] = [[10 * chunk for chunk in row] for row in prefill["chunk_s"]]


def _narrow_interval(document: dict[str, Any]) -> None:
    estimate = document["measurement"]["decode"][0]["tokens_per_second"]
    estimate["interval"]["low"] = estimate["interval"]["high"] = estimate["point"]


def _whitewash(document: dict[str, Any]) -> None:
    document["disturbed"] = False
    document["contention"]["disturbed"] = True


@pytest.mark.parametrize("edit", [_scale_steps, _scale_chunks, _narrow_interval, _whitewash])
def test_what_disagrees_with_the_raw_samples_is_refused(edit: Callable[[dict[str, Any]], None]) -> None:
    """Raw times, samples, intervals and the busy mark must come out as they say."""
    document = document_of(run_record())
    record_from(document, source="whole")
    edit(document)

    with pytest.raises(RecordError, match=r"edited"):
        record_from(document, source="edited")


def test_a_rate_above_bandwidth_over_bytes_is_found_again() -> None:
    """20 tokens/s of 1 GB each from a memory that reads 10 GB/s: undecided and inconclusive, though no list says so."""
    slow = BandwidthRecord(read_bytes_per_s=10.0 * GIGA)
    record = replace(run_record(decode=20.0), bandwidth_before=slow, bandwidth_after=slow, contradictions=())

    decision = decide(single_stream_need(8), [evidence_from(record)])

    assert decision.verdict.verdict == UNDECIDED
    assert "contradicts itself" in decision.verdict.reason
    assert guard_floor(record, 8.0).outcome is Outcome.INCONCLUSIVE


def test_a_key_that_stands_twice_is_refused(tmp_path: Any) -> None:  # noqa: ANN401
    """Which of the two rates was meant, nobody knows."""
    from suffice.records.store import load_record  # noqa: PLC0415

    path = tmp_path / "run.json"
    path.write_text('{"decode_tokens_per_second": 14, "decode_tokens_per_second": 3}', encoding="utf-8")

    with pytest.raises(RecordError, match="twice"):
        load_record(path)

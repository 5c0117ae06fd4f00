"""The prediction beside the measurement of one machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from helpers.records import run_record
from suffice.loaders.beside import Beside, beside_of
from suffice.records.schema import BandwidthRecord, RunRecord, TensorTypeShare
from suffice.report.beside import beside_text

TOLD = {
    "usable_physical_cores": 4,
    "usable_cpus": 8,
    "sockets": 1,
    "numa_nodes": 1,
    "isa": ["avx2"],
    "llc_bytes": 32 * 2**20,
}


def _record() -> RunRecord:
    """A model of 8 thousand million parameters on four cores with 20 GB/s."""
    base = run_record(decode=4.0, environment=TOLD, bandwidth_before=BandwidthRecord(read_bytes_per_s=2e10))
    types = {"q4_K": TensorTypeShare(elements=8 * 10**9, bytes=45 * 10**8)}
    model = replace(base.model, parameters=8 * 10**9, streamed_bytes=4.5e9, file_bytes=45 * 10**8, tensor_types=types)
    return replace(base, model=model)


def test_decode_and_prefill_stand_beside_what_is_predicted() -> None:
    """The figures of the record, a range around a prediction that the bandwidth allows, and the ratio of the two."""
    record = _record()
    decode, prefill = beside_of(record)

    assert (decode.measured, prefill.measured) == (record.decode_tokens_per_second, record.prefill_tokens_per_second)
    assert decode.low < decode.predicted < 2e10 / 4.5e9
    assert decode.predicted < decode.high
    assert decode.ratio == pytest.approx(decode.measured / decode.predicted)


def test_the_prediction_knows_nothing_of_the_measurement() -> None:
    """Twice the measured rate is compared with the same prediction."""
    twice = run_record(decode=8.0)
    record = _record()
    faster = replace(record, decode_tokens_per_second=8.0, measurement=twice.measurement)

    assert beside_of(faster)[0].predicted == beside_of(record)[0].predicted


@pytest.mark.parametrize("changes", [{"device_kind": "gpu"}, {"model": replace(_record().model, parameters=None)}])
def test_nothing_stands_beside_what_cannot_be_predicted(changes: dict[str, object]) -> None:
    """Another device, or a model of unknown size: no row, and no guess."""
    record = replace(_record(), **changes)  # type: ignore[arg-type]  # any field

    assert beside_of(record) == ()
    assert beside_text(beside_of(record)) == ""


def test_a_measurement_outside_of_the_range_is_named() -> None:
    """One row each with the ratio; a mark for the one that the range does not hold."""
    inside = Beside(what="decode", measured=9.0, predicted=10.0, low=8.0, high=12.0, level=0.8)
    outside = replace(inside, what="prefill", measured=3.0)

    text = beside_text([inside, outside])

    assert "0.90" in text
    assert "0.30" in text
    assert "! outside of the range that holds 80% of such figures: prefill;" in text
    assert "!" not in beside_text([inside])

"""What a record says about lengths that it did not measure: more uncertain, never a guess."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from helpers.records import bare_record, evidence, noisy, run_record
from suffice.decide.evidence import DEPTH_TOLERANCE, MachineEvidence, add, evidence_from, of_the_demanded_model
from suffice.decide.quantity import Quantity
from suffice.model.basis import Basis, weakest
from suffice.model.demand import single_stream_need
from suffice.records.schema import DecodeSeries, KvLayers, MeasurementRecord, ModelRecord
from suffice.stats import estimate_from


def _at_depths(**rates: float) -> MachineEvidence:
    """Series at depths: ``_at_depths(d0=20, d1000=10)``."""
    decode = tuple(
        DecodeSeries(depth=int(name[1:]), threads=2, tokens_per_second=noisy(rate)) for name, rate in rates.items()
    )
    return evidence_from(bare_record(None, measurement=MeasurementRecord(decode=decode)))


def test_without_a_depth_the_runs_own_is_used() -> None:
    """`--need` states no depth: the first series, at the depth of the run, answers, not the faster shallow one."""
    rate = _at_depths(d1000=10, d0=20).decode_rate(None)

    assert rate is not None
    assert rate.point == pytest.approx(10)


def test_between_two_depths_step_times_are_interpolated() -> None:
    """50 ms at 0 and 100 ms at 1000: 75 ms at 500, that is 13.33 tokens/s, still measured."""
    rate = _at_depths(d0=20, d1000=10).decode_rate(500)

    assert rate is not None
    assert rate.point == pytest.approx(1 / 0.075)
    assert rate.basis is Basis.MEASURED


def test_beyond_the_deepest_the_line_is_extrapolated() -> None:
    """At 3000 the line gives 200 ms: 5 tokens/s, and the basis says extrapolated."""
    rate = _at_depths(d0=20, d1000=10).decode_rate(3000)

    assert rate is not None
    assert rate.point == pytest.approx(5)
    assert rate.basis is Basis.EXTRAPOLATED


def test_far_beyond_the_deepest_there_is_no_lower_bound() -> None:
    """More than four times as deep: at most the measured rate, at least unknown."""
    rate = _at_depths(d0=20, d1000=10).decode_rate(4001)

    assert rate is not None
    assert rate.low is None
    assert rate.high == pytest.approx(10.2)


def test_one_depth_bounds_what_is_shallower_and_not_what_is_deeper() -> None:
    """A single series at 1000 answers for 0 to about 1300 as it is, and leaves deeper ones open below."""
    machine = _at_depths(d1000=10)
    for depth in (0, 500, 1000, 1000 * DEPTH_TOLERANCE):
        rate = machine.decode_rate(depth)
        assert rate is not None
        assert rate.point == pytest.approx(10)
        assert rate.low == pytest.approx(9.8)

    deeper = machine.decode_rate(2000)
    assert deeper is not None
    assert (deeper.low, deeper.basis) == (None, Basis.EXTRAPOLATED)


def test_a_cache_that_makes_steps_faster_is_noise() -> None:
    """Faster at depth than without is noise: nothing is extrapolated to a speed that nobody saw."""
    rate = _at_depths(d0=10, d1000=10.5).decode_rate(3000)

    assert rate is not None
    assert rate.point == pytest.approx(10)


def test_a_bare_number_has_no_depth() -> None:
    """A record with one number answers with it for any depth, and says that no interval is known."""
    rate = evidence_from(bare_record(12)).decode_rate(5000)

    assert rate is not None
    assert (rate.low, rate.point, rate.high, rate.interval_known) == (12, 12, 12, False)


def test_an_unmeasured_rate_is_none() -> None:
    """Nothing is answered from nothing, for none of the questions."""
    machine = evidence_from(bare_record(None))

    assert machine.decode_rate(0) is None
    assert machine.prefill_seconds(10) is None
    assert machine.time_to_first_token(10) is None
    assert machine.service_seconds(10, 10) is None
    assert machine.memory_needed_bytes(10, 1) is None


def test_prefill_of_the_measured_prompt() -> None:
    """512 tokens at 100 tokens/s are 5.12 s; the interval of the rate carries over to the time."""
    seconds = evidence(prefill=100).prefill_seconds(512)

    assert seconds is not None
    assert seconds.low == pytest.approx(5.12 / 1.02)
    assert seconds.point == pytest.approx(5.12, rel=0.01)
    assert seconds.high == pytest.approx(5.12 / 0.98)


def test_a_short_prompt_may_cost_a_whole_chunk() -> None:
    """64 of 512 tokens: at least their share, at most the whole chunk."""
    seconds = evidence(prefill=100).prefill_seconds(64)

    assert seconds is not None
    assert seconds.low == pytest.approx(0.64 / 1.02, rel=0.01)
    assert seconds.high == pytest.approx(5.12 / 0.98, rel=0.01)


def test_measured_time_to_first_token_is_used_for_its_own_prompt_only() -> None:
    """512 tokens were measured together with the first step; 1000 tokens are put together, with an open end."""
    record = run_record(prefill=100, decode=10)
    marked = replace(record.measurement, ttft_s=estimate_from([4.0] * 8))
    machine = evidence_from(replace(record, ttft_s=4.0, measurement=marked))
    own, other = machine.time_to_first_token(512), machine.time_to_first_token(1000)

    assert own is not None
    assert other is not None
    assert own.point == 4.0
    assert (other.high, other.basis) == (None, Basis.EXTRAPOLATED)


def test_service_is_prefill_and_every_output_token() -> None:
    """Prompt 512, output 128, prefill 100 and decode 10 tokens/s: 5.12 + 12.8 = 17.92 s."""
    seconds = evidence(prefill=100, decode=10, depth=576).service_seconds(512, 128)

    assert seconds is not None
    assert seconds.point == pytest.approx(17.92, rel=0.01)


def test_sums_of_times_are_as_weak_as_their_weakest_part() -> None:
    """Ends add up, an open end stays open, and the basis is the weaker one."""
    measured = Quantity(point=1, low=0.9, high=1.1, basis=Basis.MEASURED)
    open_end = Quantity(point=2, low=1.8, high=None, basis=Basis.EXTRAPOLATED)

    total = add(measured, open_end)

    assert total.low == pytest.approx(2.7)
    assert (total.point, total.high, total.basis) == (3, None, Basis.EXTRAPOLATED)
    assert weakest([]) is None
    assert weakest([Basis.STATED, Basis.MEASURED, Basis.CEILING]) is Basis.STATED


def test_sliding_layers_stop_growing_at_their_window() -> None:
    """One full layer of 100 B and one with a window of 10: 1000 tokens take 100 000 + 1000 bytes, per stream."""
    record = run_record()
    layers = (
        KvLayers(count=1, bytes_per_token=100.0),
        KvLayers(count=1, bytes_per_token=100.0, window=10),
    )
    model = replace(record.model, file_bytes=5, kv_layers=layers, kv_state_bytes=7.0)

    needed = evidence_from(replace(record, model=model)).memory_needed_bytes(1000, 2)

    assert needed == 5 + 2 * (100_000 + 1000 + 7)


@pytest.mark.parametrize(("value", "bytes_"), [(1000, 1000), (None, 0), ("many", 0), ([1], 0), (-5, 0)])
def test_buffers_as_the_engine_told(value: Any, bytes_: int) -> None:  # noqa: ANN401  # settings are anything
    """Compute buffers count when the engine told them; whatever else a record holds there is no crash."""
    machine = evidence_from(run_record(settings={"compute_buffer_bytes": value}))

    assert machine.overhead_bytes == bytes_


def test_quantities_turn_around_with_their_ends() -> None:
    """A rate of 10 (8 to 12.5) is a time of 0.1 (0.08 to 0.125); an open end moves to the other side."""
    rate = Quantity(point=10, low=8, high=12.5, basis=Basis.MEASURED)
    time = rate.inverted()

    assert (time.low, time.point, time.high) == (0.08, 0.1, 0.125)
    assert rate.with_bounds(low=None, high=12.5).inverted().high is None
    assert time.scaled(2).point == 0.2


def test_a_record_of_another_model_contradicts_the_demand() -> None:
    """A demand about a 70B is not settled by a fast record of a small model; the same name, with or without a folder, is no contradiction."""
    demand = replace(single_stream_need(1.0), model="llama-3.1-70b:q4_k_m")
    small = bare_record(100.0, model=ModelRecord(name="smollm2-135m:q4_0"))
    same = bare_record(100.0, model=ModelRecord(name="llama-3.1-70b:q4_k_m"))
    file = bare_record(100.0, model=ModelRecord(name="Llama", file_name="model.gguf"))

    assert of_the_demanded_model(demand, small, evidence_from(small)).contradictions
    assert not of_the_demanded_model(demand, same, evidence_from(same)).contradictions
    assert not of_the_demanded_model(
        replace(demand, model="models/model.gguf"), file, evidence_from(file)
    ).contradictions


def test_a_stand_in_is_wider_than_its_scatter() -> None:
    """10 with 9.7 to 10.4 by scatter: a stand-in adds its own 5 % as an independent error, a measurement nothing."""
    scatter = Quantity(point=10.0, low=9.7, high=10.4, basis=Basis.EXTRAPOLATED)

    wide = scatter.widened(0.05)

    assert wide.low == pytest.approx(10 - math.hypot(0.3, 0.5))
    assert wide.high == pytest.approx(10 + math.hypot(0.4, 0.5))
    assert scatter.with_bounds(low=None, high=10.4).widened(0.05).low is None


def test_evidence_of_a_stand_in_is_widened_and_of_a_file_is_not() -> None:
    """The same record on two bases: the ends move apart only where random weights stood in."""
    record = run_record()
    rate = record.measurement.decode[0].tokens_per_second
    assert rate is not None
    assert rate.interval is not None

    measured = evidence_from(record).decode_rate(None)
    stood_in = evidence_from(replace(record, basis="extrapolated")).decode_rate(None)

    assert measured is not None
    assert stood_in is not None
    assert measured.low == rate.interval.low
    assert stood_in.low is not None
    assert stood_in.low < rate.interval.low
    assert stood_in.low <= 0.95 * stood_in.point

"""Laws of predictions for devices."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.predict.device_calibration import shipped_calibration
from suffice.predict.device_classes import classify
from suffice.predict.device_model import Work, decode_seconds, prefill_seconds
from suffice.predict.device_terms import DeviceCase
from suffice.predict.device_words import EngineFamily, QuantFamily
from suffice.units import GIGA

QUICK = settings(max_examples=60, deadline=None, derandomize=True)
NAMES = st.sampled_from(
    ["NVIDIA L4", "NVIDIA A100", "Radeon RX 7900 XTX", "Strix Halo", "Accelerator Nine", "Arc B580"]
)
CASES = st.builds(
    DeviceCase,
    device=NAMES.map(lambda name: classify(name, "gpu")),
    quant=st.sampled_from(QuantFamily),
    engine=st.sampled_from(EngineFamily),
    moe=st.booleans(),
)
WORKS = st.builds(
    Work,
    bandwidth_bytes_per_s=st.floats(10 * GIGA, 8000 * GIGA),
    weight_bytes=st.floats(0.05 * GIGA, 300 * GIGA),
    kv_bytes=st.floats(0, 20 * GIGA),
    layers=st.floats(8, 130),
    flop=st.floats(1e9, 1e16),
    peak_ratio=st.floats(0.1, 10),
    count=st.integers(1, 8),
)
MORE = st.floats(1, 100)


@QUICK
@given(CASES, WORKS, MORE)
def test_more_bandwidth_is_never_slower(case: DeviceCase, work: Work, more: float) -> None:
    """A wider memory bus never makes a step or a prompt longer."""
    calibration = shipped_calibration().parameters
    resolved = calibration.resolve(case)
    wider = replace(work, bandwidth_bytes_per_s=work.bandwidth_bytes_per_s * more)

    assert decode_seconds(case, resolved, wider) <= decode_seconds(case, resolved, work)
    assert prefill_seconds(resolved, wider, calibration.peak_exponent) <= prefill_seconds(
        resolved, work, calibration.peak_exponent
    )


@QUICK
@given(CASES, WORKS, MORE)
def test_bigger_models_are_never_faster(case: DeviceCase, work: Work, more: float) -> None:
    """More weights, more cache, more layers or more devices to pass never make a step shorter."""
    resolved = shipped_calibration().parameters.resolve(case)
    base = decode_seconds(case, resolved, work)

    for larger in (
        replace(work, weight_bytes=work.weight_bytes * more),
        replace(work, kv_bytes=work.kv_bytes * more),
        replace(work, layers=work.layers * more),
        replace(work, count=work.count + 1),
    ):
        assert decode_seconds(case, resolved, larger) >= base * (1 - 1e-12)


@QUICK
@given(CASES, WORKS, MORE)
def test_a_higher_peak_never_slows_prefill(case: DeviceCase, work: Work, more: float) -> None:
    """More operations per second never make a prompt longer; more operations never make it shorter."""
    calibration = shipped_calibration().parameters
    resolved = calibration.resolve(case)
    base = prefill_seconds(resolved, work, calibration.peak_exponent)

    faster = replace(work, peak_ratio=work.peak_ratio * more)
    longer = replace(work, flop=work.flop * more)
    assert prefill_seconds(resolved, faster, calibration.peak_exponent) <= base
    assert prefill_seconds(resolved, longer, calibration.peak_exponent) >= base


@QUICK
@given(CASES, WORKS)
def test_nothing_is_free(case: DeviceCase, work: Work) -> None:
    """Each step takes longer than its fixed cost alone would on the calibrated device, and time is finite."""
    resolved = shipped_calibration().parameters.resolve(case)

    assert 0 < decode_seconds(case, resolved, work) < float("inf")
    assert 0 < prefill_seconds(resolved, work, 0.3) < float("inf")

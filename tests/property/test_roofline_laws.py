"""Laws of ceilings and of the prefill curve."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.model.prefill_curve import PrefillCurve
from suffice.model.roofline import PhaseWork, Roofs, decode_work, least_time, prefill_work

QUICK = settings(max_examples=60, deadline=None, derandomize=True)
POSITIVE = st.floats(min_value=1e-3, max_value=1e15)
WORK = st.builds(PhaseWork, read_bytes=POSITIVE, flop=POSITIVE)
ROOFS = st.builds(Roofs, bandwidth_bytes_per_s=POSITIVE, peak_flop_per_s=st.none() | POSITIVE)
MORE = st.floats(min_value=1, max_value=1e3)
CHUNKS = st.lists(st.tuples(st.integers(1, 2048), st.floats(1e-3, 10)), min_size=1, max_size=6)


def _curve(chunks: list[tuple[int, float]]) -> PrefillCurve:
    return PrefillCurve(chunk_tokens=tuple(n for n, _ in chunks), chunk_s=tuple(s for _, s in chunks))


@QUICK
@given(WORK, ROOFS, MORE)
def test_more_bandwidth_is_never_slower(work: PhaseWork, roofs: Roofs, more: float) -> None:
    """A wider memory bus never makes a phase longer; nor does a higher peak."""
    wider = replace(roofs, bandwidth_bytes_per_s=roofs.bandwidth_bytes_per_s * more)
    assert least_time(work, wider).seconds <= least_time(work, roofs).seconds

    if roofs.peak_flop_per_s is not None:
        higher = replace(roofs, peak_flop_per_s=roofs.peak_flop_per_s * more)
        assert least_time(work, higher).seconds <= least_time(work, roofs).seconds


@QUICK
@given(WORK, ROOFS, MORE)
def test_scaling_the_units_scales_the_answer(work: PhaseWork, roofs: Roofs, factor: float) -> None:
    """Bits instead of bytes on both sides change nothing; twice the work takes twice the time."""
    bits = least_time(
        PhaseWork(read_bytes=work.read_bytes * factor, flop=work.flop),
        replace(roofs, bandwidth_bytes_per_s=roofs.bandwidth_bytes_per_s * factor),
    )
    more = least_time(PhaseWork(read_bytes=work.read_bytes * factor, flop=work.flop * factor), roofs)

    assert bits.seconds == pytest.approx(least_time(work, roofs).seconds)
    assert more.seconds == pytest.approx(least_time(work, roofs).seconds * factor)


@QUICK
@given(POSITIVE, POSITIVE, st.integers(1, 64))
def test_a_batch_is_never_faster_per_stream_nor_slower_in_all(weights: float, kv: float, batch: int) -> None:
    """Batching lengthens a step and shares it: per stream not faster, all together not slower."""
    roofs = Roofs(bandwidth_bytes_per_s=1e9)
    one = least_time(decode_work(weight_bytes=weights, kv_bytes=kv), roofs).seconds
    many = least_time(decode_work(weight_bytes=weights, kv_bytes=kv, batch=batch), roofs).seconds

    assert many >= one
    assert many / batch <= one * (1 + 1e-12)


@QUICK
@given(st.integers(1, 10_000), st.integers(1, 2048), st.integers(1, 10))
def test_larger_micro_batches_never_read_more(n_tokens: int, n_ubatch: int, factor: int) -> None:
    """A micro-batch several times as large streams the weights at most as often, and at least once."""
    small = prefill_work(weight_bytes=1, flop=0, n_tokens=n_tokens, n_ubatch=n_ubatch).read_bytes
    large = prefill_work(weight_bytes=1, flop=0, n_tokens=n_tokens, n_ubatch=n_ubatch * factor).read_bytes

    assert 1 <= large <= small


@QUICK
@given(CHUNKS, st.floats(0, 50_000), st.floats(0, 50_000))
def test_longer_prompts_never_take_less(chunks: list[tuple[int, float]], first: float, second: float) -> None:
    """The curve rises, from 0 at 0 tokens, and its upper estimate is never below its lower one."""
    curve = _curve(chunks)
    short, long = sorted((first, second))

    assert curve.seconds(0) == 0
    assert curve.seconds(short) <= curve.seconds(long) * (1 + 1e-9)
    assert curve.seconds(long) <= curve.seconds_at_most(long) * (1 + 1e-9)


@QUICK
@given(CHUNKS, MORE, st.floats(0, 50_000))
def test_a_slower_machine_takes_longer_by_its_factor(
    chunks: list[tuple[int, float]], factor: float, n_tokens: float
) -> None:
    """All chunks times a factor: any prompt times that factor."""
    slower = _curve([(n, seconds * factor) for n, seconds in chunks])

    assert slower.seconds(n_tokens) == pytest.approx(_curve(chunks).seconds(n_tokens) * factor, rel=1e-6)

"""The roofline, worked by hand."""

from __future__ import annotations

import math

import pytest

from suffice.model.roofline import Bound, PhaseWork, Roofs, decode_work, least_time, prefill_work

LAPTOP = Roofs(bandwidth_bytes_per_s=40e9)


def test_the_articles_laptop() -> None:
    """3.5 GB over 40 GB/s take 87.5 ms: 11.428 tokens/s, bound by memory."""
    floor = least_time(decode_work(weight_bytes=3.5e9, kv_bytes=0), LAPTOP)

    assert floor.seconds == 0.0875
    assert 1 / floor.seconds == pytest.approx(11.4286, abs=1e-4)
    assert floor.bound is Bound.MEMORY


def test_the_longer_of_the_two_binds() -> None:
    """1 GB at 10 GB/s is 0.1 s; 1e12 FLOP at 5e12 FLOP/s is 0.2 s: compute binds; at 50e12 memory does."""
    work = PhaseWork(read_bytes=1e9, flop=1e12)

    slow = least_time(work, Roofs(bandwidth_bytes_per_s=10e9, peak_flop_per_s=5e12))
    fast = least_time(work, Roofs(bandwidth_bytes_per_s=10e9, peak_flop_per_s=50e12))

    assert (slow.seconds, slow.bound) == (0.2, Bound.COMPUTE)
    assert (fast.seconds, fast.bound) == (0.1, Bound.MEMORY)


def test_a_batch_reads_the_weights_once() -> None:
    """Four sequences: the weights once, the cache and the operations four times."""
    work = decode_work(weight_bytes=1000, kv_bytes=10, flop_per_token=7, batch=4)

    assert (work.read_bytes, work.flop) == (1040, 28)


@pytest.mark.parametrize(("n_tokens", "passes"), [(1, 1), (512, 1), (513, 2), (1024, 2)])
def test_prefill_streams_the_weights_once_per_micro_batch(n_tokens: int, passes: int) -> None:
    """A prompt of 513 tokens with micro-batches of 512 reads the weights twice."""
    work = prefill_work(weight_bytes=1000, flop=5, n_tokens=n_tokens, n_ubatch=512)

    assert (work.read_bytes, work.flop) == (1000 * passes, 5)


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf])
def test_impossible_roofs_are_refused(bad: float) -> None:
    """A bandwidth or a peak that is not positive and finite is an error."""
    with pytest.raises(ValueError, match="bandwidth"):
        Roofs(bandwidth_bytes_per_s=bad)
    with pytest.raises(ValueError, match="peak"):
        Roofs(bandwidth_bytes_per_s=1, peak_flop_per_s=bad)

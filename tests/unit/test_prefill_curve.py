"""Seconds to read a prompt of any length, from the chunks of one."""

from __future__ import annotations

import pytest

from suffice.model.prefill_curve import MAX_EXTRAPOLATION, PrefillCurve

# Planted truth: 1 ms per token and 1 us more for each token before it. Chunk at depth d of n: n (0.001 + 1e-6 (d + n/2)).
BASE_S, SLOPE_S = 1e-3, 1e-6
CHUNKS = (512, 512, 512, 256)


def _true_seconds(n_tokens: float) -> float:
    return n_tokens * (BASE_S + SLOPE_S * n_tokens / 2)


def _planted() -> PrefillCurve:
    ends = [sum(CHUNKS[: i + 1]) for i in range(len(CHUNKS))]
    starts = [0, *ends[:-1]]
    return PrefillCurve(
        chunk_tokens=CHUNKS,
        chunk_s=tuple(_true_seconds(end) - _true_seconds(start) for start, end in zip(starts, ends, strict=True)),
    )


def test_measured_chunks_are_returned_as_measured() -> None:
    """At the ends of chunks the curve is their sum; at 0 tokens it is 0."""
    curve = _planted()

    assert curve.seconds(0) == 0
    assert curve.seconds(512) == pytest.approx(_true_seconds(512))
    assert curve.seconds(1792) == pytest.approx(_true_seconds(1792))
    assert curve.measured_tokens == 1792


@pytest.mark.parametrize("n_tokens", [2000, 4000, 14000])
def test_a_planted_line_is_found_and_continued(n_tokens: int) -> None:
    """Beyond the measured prompt the quadratic truth is met, since time per token is a line in the depth."""
    assert _planted().seconds(n_tokens) == pytest.approx(_true_seconds(n_tokens), rel=1e-6)


def test_a_part_of_a_chunk_costs_between_its_share_and_all_of_it() -> None:
    """The share of the tokens is the least, the whole chunk the most, because weights are read once per chunk."""
    curve = PrefillCurve(chunk_tokens=(100, 100), chunk_s=(1.0, 2.0))

    assert (curve.seconds(150), curve.seconds_at_most(150)) == (2.0, 3.0)
    assert curve.seconds(200) == curve.seconds_at_most(200) == 3.0


def test_a_falling_line_is_noise() -> None:
    """Later chunks that were faster by chance do not make long prompts cheap: the slope is 0, not negative."""
    curve = PrefillCurve(chunk_tokens=(100, 100), chunk_s=(1.1, 1.0))

    assert curve.seconds(400) == pytest.approx(2.1 + 200 * 0.0105)


def test_how_far_a_measurement_supports() -> None:
    """One chunk supports nothing longer than itself; several support eight times their length."""
    single, several = PrefillCurve(chunk_tokens=(512,), chunk_s=(1.0,)), _planted()

    assert (single.supports(512), single.supports(513)) == (True, False)
    assert several.supports(MAX_EXTRAPOLATION * 1792)
    assert not several.supports(MAX_EXTRAPOLATION * 1792 + 1)


@pytest.mark.parametrize(("tokens", "seconds"), [((), ()), ((1,), (1.0, 2.0)), ((0,), (1.0,)), ((1,), (0.0,))])
def test_impossible_chunks_are_refused(tokens: tuple[int, ...], seconds: tuple[float, ...]) -> None:
    """Chunks have a time each, and both are positive."""
    with pytest.raises(ValueError, match="chunk"):
        PrefillCurve(chunk_tokens=tokens, chunk_s=seconds)

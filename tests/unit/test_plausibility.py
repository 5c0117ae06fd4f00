"""A measurement against its ceiling: nothing above it passes silently, nothing is clamped."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from helpers.records import estimate, run_record
from suffice.decide.plausibility import Plausibility, check_rate, contradictions_in
from suffice.records.schema import BandwidthRecord, ModelRecord, ServicePass, ServiceRecord
from suffice.stats import estimate_from

if TYPE_CHECKING:
    from suffice.stats import Estimate

TEN = estimate(10.0, 9.0, 11.0)


def _check(measured: Estimate | None, ceiling: float | None, spread: float = 0.0) -> Plausibility:
    return check_rate(
        "decode", measured, ceiling_tokens_per_second=ceiling, bandwidth_spread=spread, streamed_bytes=1e9
    )


@pytest.mark.parametrize("ceiling", [10.0, 12.0, None])
def test_at_or_below_the_ceiling_is_nothing_to_report(ceiling: float | None) -> None:
    """At the ceiling, below it, or without one there is no complaint."""
    assert _check(TEN, ceiling) == Plausibility()


def test_no_measurement_is_nothing_to_report() -> None:
    """What was not measured cannot contradict."""
    assert _check(None, 1.0) == Plausibility()


def test_within_both_intervals_is_a_warning() -> None:
    """10 (9 to 11) over 9.5 is a warning; so is a single 10 over 9.5 with a bandwidth that scatters by 6 %."""
    for found in (_check(TEN, 9.5), _check(estimate_from([10.0]), 9.5, spread=0.06)):
        assert found.contradictions == ()
        assert len(found.warnings) == 1


def test_beyond_both_intervals_is_a_contradiction() -> None:
    """10 (9 to 11) over 8: one of the two is wrong, and the sentence names both and which inputs to doubt."""
    found = _check(TEN, 8.0, spread=0.1)

    assert found.warnings == ()
    (sentence,) = found.contradictions
    for words in ("decode 10 tokens/s", "ceiling of 8", "10.00 GB/s", "doubt the bandwidth reading", "bytes per token"):
        assert words in sentence


def test_a_step_of_the_service_curve_cannot_be_shorter_than_reading_the_weights() -> None:
    """10 GB/s over 1 GB are 0.1 s a step, also one of eight sequences: 0.2 s is one, 0.05 s contradicts, and is said once."""
    record = replace(
        run_record(decode=5.0),
        bandwidth_before=BandwidthRecord(read_bytes_per_s=1e10),
        bandwidth_after=None,
        model=ModelRecord(streamed_bytes=1e9),
    )

    def found(step_s: float, residual: float | None = None) -> tuple[str, ...]:
        passes = tuple(
            ServicePass(size=size, depth=0, seconds=(step_s,) * 8, largest_residual=residual) for size in (1, 8)
        )
        service = ServiceRecord(slots=8, decode=passes)
        return contradictions_in(replace(record, measurement=replace(record.measurement, service=service)))

    assert found(0.2) == ()
    assert len(found(0.05)) == 1
    assert "decode step of 1" in found(0.05)[0]
    assert found(0.05, residual=0.2) == ()  # slices off the line say nothing of the whole model

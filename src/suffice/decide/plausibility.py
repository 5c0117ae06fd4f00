"""Measurements against their ceilings. One above its ceiling is a contradiction to report, never to clamp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from suffice.serving.recorded import passes_that_count
from suffice.stats.intervals import estimate_from
from suffice.units import format_bandwidth, format_bytes

if TYPE_CHECKING:
    from suffice.records.schema import RunRecord
    from suffice.stats.estimate import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Plausibility:
    """``contradictions`` make a verdict "undecided"; ``warnings`` are within what the intervals allow."""

    contradictions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def check_rate(
    what: str,
    measured: Estimate | None,
    *,
    ceiling_tokens_per_second: float | None,
    bandwidth_spread: float,
    streamed_bytes: float | None,
) -> Plausibility:
    """A measured rate against its ceiling.

    The ceiling rests on a bandwidth that was itself measured, as a lower bound, with a relative spread of
    ``bandwidth_spread`` upwards. A rate above the ceiling by less than both intervals allow is a warning: the reading of
    the bandwidth was a little low. Beyond that, one of the two is wrong.
    """
    if measured is None or ceiling_tokens_per_second is None or measured.point <= ceiling_tokens_per_second:
        return Plausibility()
    figures = f"{what} {measured.point:.4g} tokens/s is above its ceiling of {ceiling_tokens_per_second:.4g}"
    if streamed_bytes is not None:
        implied = format_bandwidth(measured.point * streamed_bytes)
        figures += f" (it implies reading {format_bytes(streamed_bytes)} per step at {implied})"
    low = measured.point if measured.interval is None else measured.interval.low
    if low <= ceiling_tokens_per_second * (1 + bandwidth_spread):
        return Plausibility(
            warnings=(f"{figures}; within the spread of the bandwidth reading, which is a lower bound",)
        )
    doubt = "doubt the bandwidth reading (taken while the machine was busy?) and the bytes per token (are all weights read?)"
    return Plausibility(contradictions=(f"{figures}; {doubt}",))


def contradictions_in(record: RunRecord) -> tuple[str, ...]:
    """What the record says contradicts itself, and whether its decode rate is above its own bandwidth over its own bytes.

    Worked out anew from the numbers, so that a list that was left out or emptied changes nothing. Weights alone are counted,
    which makes the ceiling higher than it is: what is above it is above it for certain.
    """
    readings = (record.bandwidth_before, record.bandwidth_after, record.cache_bandwidth)
    known = [reading for reading in readings if reading is not None]
    series = record.measurement.decode
    streamed = record.model.streamed_bytes
    if record.contradictions or record.device_kind == "gpu" or not known or not series or not streamed:
        return record.contradictions
    best = max(known, key=lambda reading: reading.read_bytes_per_s)
    high = best.interval_high_bytes_per_s or best.read_bytes_per_s
    found = check_rate(
        "decode",
        series[0].tokens_per_second,
        ceiling_tokens_per_second=best.read_bytes_per_s / streamed,
        bandwidth_spread=high / best.read_bytes_per_s - 1,
        streamed_bytes=streamed,
    )
    return (
        *found.contradictions,
        *_impossible_passes(record, best.read_bytes_per_s / streamed, high / best.read_bytes_per_s - 1),
    )


def _impossible_passes(record: RunRecord, ceiling_tokens_per_second: float, bandwidth_spread: float) -> tuple[str, ...]:
    """Decode steps of the service curve that are shorter than reading the weights once: every step reads them, however many it serves."""
    found: list[str] = []
    for one in passes_that_count(record).decode:
        steps_per_s = estimate_from([1 / seconds for seconds in one.seconds])
        checked = check_rate(
            f"a decode step of {one.size} at depth {one.depth}: steps at",
            steps_per_s,
            ceiling_tokens_per_second=ceiling_tokens_per_second,
            bandwidth_spread=bandwidth_spread,
            streamed_bytes=record.model.streamed_bytes,
        )
        found += [text.replace("tokens/s", "a second") for text in checked.contradictions]
    return tuple(found[:1])  # one is enough, and the others say the same

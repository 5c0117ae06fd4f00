"""The service curve in a run record, within what the model's cache and the machine's bandwidth allow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from suffice.model.basis import Basis
from suffice.model.extrapolation import RESIDUAL_TOLERANCE, is_bent
from suffice.serving.curve import curve_of_points
from suffice.serving.depth_cost import BoundedSteps, DepthBound, bounded_steps, spans_apart
from suffice.serving.surface import Point
from suffice.stats.intervals import median

if TYPE_CHECKING:
    from collections.abc import Iterable

    from suffice.records.schema import ModelRecord, RunRecord, ServicePass
    from suffice.serving.curve import ServiceCurve

_LEAST_DIFFERENCE: Final = 0.03  # within which repetitions are taken for settled (docs/measuring.md)


def curve_of_record(record: RunRecord) -> ServiceCurve | None:
    """The curve through the medians of the passes that count (:func:`passes_that_count`); None where the record holds none of a kind.

    Steps do not grow less with depth than reading the cache takes, where the record knows its bytes and the bandwidth.

    Raises:
        ValueError: a pass of no size or of no time.
    """
    prefill, steps = _points(passes_that_count(record).prefill), _steps(record)
    if not steps.points or not prefill:
        return None
    names = (record.model.name or record.model.file_name, record.machine)
    curve = curve_of_points(
        steps.points, prefill, basis=Basis(record.basis), name=" on ".join(name for name in names if name is not None)
    )
    return replace(curve, notes=curve_notes(record), fast_steps=() if steps.fast == steps.points else steps.fast)


@dataclass(frozen=True, slots=True)
class Passes:
    """Passes of a service curve."""

    decode: tuple[ServicePass, ...]
    prefill: tuple[ServicePass, ...]


def passes_that_count(record: RunRecord) -> Passes:
    """Those of the record's service curve that were measured and are evidence: of slices whose times do not lie on a line they are none of all layers."""
    service = record.measurement.service
    kinds = ((), ()) if service is None else (service.decode, service.prefill)
    decode, prefill = (
        tuple(one for one in passes if one.seconds and not is_bent(one.largest_residual)) for passes in kinds
    )
    return Passes(decode=decode, prefill=prefill)


def curve_notes(record: RunRecord) -> tuple[str, ...]:
    """What in the curve of a record contradicts physics or its own single stream, a sentence each; none without a curve."""
    if record.measurement.service is None:
        return ()
    return (*_bent_note(record), *_steps(record).notes, *_single_note(record))


def _bent_note(record: RunRecord) -> tuple[str, ...]:
    service = record.measurement.service
    passes = () if service is None else (*service.decode, *service.prefill)
    bent = sum(is_bent(one.largest_residual) for one in passes)
    if not bent:
        return ()
    left_out = f"{bent} of {len(passes)} passes of the service curve are left out"
    why = f"since the slices' times do not lie on a line ({RESIDUAL_TOLERANCE:.0%} are allowed)"
    left = passes_that_count(record)
    rest = "the curve goes through the others" if left.decode and left.prefill else "there is no curve without them"
    return (f"{left_out}, {why}; {rest}",)


def _steps(record: RunRecord) -> BoundedSteps:
    points, bound = tuple(_points(passes_that_count(record).decode)), _bound(record)
    return BoundedSteps(points=points, fast=points) if bound is None else bounded_steps(points, bound)


def _bound(record: RunRecord) -> DepthBound | None:
    """None of a GPU, whose bandwidth is not in the record, and where bytes of the cache or the bandwidth are not known."""
    readings = [
        reading
        for reading in (record.bandwidth_before, record.bandwidth_after, record.cache_bandwidth)
        if reading is not None
    ]
    model = record.model
    if record.device_kind != "cpu" or not readings or not (model.kv_layers or model.kv_bytes_per_token):
        return None
    fastest = max(one.interval_high_bytes_per_s or one.read_bytes_per_s for one in readings)
    return DepthBound(
        kv_bytes=lambda depth: _kv_bytes(model, depth),
        bandwidth_bytes_per_s=fastest,
        cached_bytes=float(max((one.llc_bytes or 0 for one in readings), default=0)),
    )


def _kv_bytes(model: ModelRecord, depth: float) -> float:
    """Of one sequence; a sliding window ends what its layers read."""
    if not model.kv_layers:
        return (model.kv_bytes_per_token or 0.0) * depth
    return sum(
        layers.count * layers.bytes_per_token * (depth if layers.window is None else min(depth, layers.window))
        for layers in model.kv_layers
    )


def _single_note(record: RunRecord) -> tuple[str, ...]:
    """A step of one sequence in the curve against those of the single stream at the same depth, by all their repetitions."""
    service = record.measurement.service
    for series in record.measurement.decode:
        if service is None or series.batch != 1 or series.threads != (service.decode_threads or series.threads):
            continue
        single = [sum(row) / len(row) for row in series.step_s if row]
        for one in service.decode:
            apart = spans_apart(single, one.seconds, _LEAST_DIFFERENCE)
            if one.size == 1 and one.depth == series.depth and apart:
                note = (
                    f"single stream and service curve disagree about a step of one sequence at depth {one.depth}: {apart}; "
                    "one of the two was disturbed, measure again on a quiet machine"
                )
                return (note,)
    return ()


def _points(passes: Iterable[ServicePass]) -> list[Point]:
    return [Point(size=one.size, depth=one.depth, seconds=median(one.seconds)) for one in passes]

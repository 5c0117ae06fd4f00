"""Can the service curve of a record have been measured, and does it follow from the times of its slices?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from suffice.errors import RecordError
from suffice.model.extrapolation import SliceTime, extrapolate, fit_layers
from suffice.records.alike import RELATIVE_TOLERANCE, alike
from suffice.stats.intervals import median
from suffice.units import LARGEST_FIGURE, TERA

if TYPE_CHECKING:
    from suffice.records.schema import ExtrapolationRecord, RunRecord, ServicePass, ServiceRecord

# Above this, a forged record could keep a reader busy for hours.
_MOST_POINTS: Final = 2_000
_MOST_REPETITIONS: Final = 10_000  # of one point


def check_service(record: RunRecord, *, source: str) -> None:
    """Refuse a service curve of impossible sizes or times, or one that its slices do not give.

    Raises:
        RecordError: with the pass and what is wrong.
    """
    service = record.measurement.service
    if service is None:
        return
    _check_head(service, source)
    for phase, passes in (("decode", service.decode), ("prefill", service.prefill)):
        points = [(one.size, one.depth) for one in passes]
        if len(set(points)) != len(points):
            raise RecordError(f"{source}: the service curve holds a {phase} pass of one size and depth twice")
        for one in passes:
            where = f"{source}: the service curve's {phase} pass of {one.size} at depth {one.depth}"
            _check_pass(one, where)
            if phase == "decode" and one.size > service.slots:
                raise RecordError(f"{where} is of more sequences than its {service.slots} slots")
            _check_slices(one, record.measurement.extrapolation, where)


def _check_head(service: ServiceRecord, source: str) -> None:
    counts = (service.slots, service.instances, service.context_tokens, service.decode_threads, service.prefill_threads)
    if any(count is not None and count < 1 for count in counts):
        raise RecordError(f"{source}: the service curve has slots, engines, room or threads that are not positive")
    if len(service.decode) + len(service.prefill) > _MOST_POINTS:
        raise RecordError(f"{source}: the service curve has more than {_MOST_POINTS} points; nothing measures so many")


def _check_pass(one: ServicePass, where: str) -> None:
    if not 1 <= one.size <= TERA or not 0 <= one.depth <= TERA:
        raise RecordError(f"{where} has a size under 1, a negative depth, or more tokens than anything holds")
    if max(len(one.seconds), *(len(row) for row in one.slice_s), 0) > _MOST_REPETITIONS:
        raise RecordError(f"{where} has more than {_MOST_REPETITIONS} repetitions; nothing measures so many")
    times = [*one.seconds, *(value for row in one.slice_s for value in row)]
    if any(not math.isfinite(value) or value <= 0 for value in times):
        raise RecordError(f"{where} has a time that is not positive")
    if any(not 1 / LARGEST_FIGURE <= value <= LARGEST_FIGURE for value in times):
        raise RecordError(f"{where} has a time that no pass takes; check the unit")


def _check_slices(one: ServicePass, extrapolation: ExtrapolationRecord | None, where: str) -> None:
    if extrapolation is None:
        if one.slice_s or one.work:
            raise RecordError(f"{where} has times of slices, and the record has none; it was edited")
        return
    if any(not math.isfinite(value) or value < 0 for value in one.work):
        raise RecordError(f"{where} has work that is negative; the record was edited")
    if not one.seconds and not any(one.slice_s):
        return
    lengths = {len(row) for row in one.slice_s}
    if len(one.slice_s) != len(extrapolation.slices) or lengths != {len(one.seconds)}:
        raise RecordError(f"{where} has not as many times of each slice as of the whole; the record was edited")
    counts = [slice_.counts for slice_ in extrapolation.slices]
    full = [kind.layers for kind in extrapolation.kinds]
    try:
        seconds = extrapolate(counts, one.slice_s, one.work, full)
        slices = [SliceTime(counts=own, seconds=median(row)) for own, row in zip(counts, one.slice_s, strict=True)]
        residual = fit_layers(slices, one.work).largest_residual
    except (ValueError, IndexError, ArithmeticError) as error:
        raise RecordError(f"{where}: the times of its slices cannot be used: {error}") from None
    if not alike(one.seconds, seconds):
        raise RecordError(f"{where} does not take what its slices give; the record was edited")
    if one.largest_residual is None or abs(one.largest_residual - residual) > RELATIVE_TOLERANCE:
        raise RecordError(f"{where} lies {residual:.4g} off the line, the record says otherwise; it was edited")

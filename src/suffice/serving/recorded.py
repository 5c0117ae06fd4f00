"""The service curve in a run record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.model.basis import Basis
from suffice.serving.curve import curve_of_points
from suffice.serving.surface import Point
from suffice.stats.intervals import median

if TYPE_CHECKING:
    from collections.abc import Iterable

    from suffice.records.schema import RunRecord, ServicePass
    from suffice.serving.curve import ServiceCurve


def curve_of_record(record: RunRecord) -> ServiceCurve | None:
    """The curve through the medians of the passes that were measured; None where the record holds none of a kind.

    Raises:
        ValueError: a pass of no size or of no time.
    """
    service = record.measurement.service
    if service is None:
        return None
    decode, prefill = _points(service.decode), _points(service.prefill)
    if not decode or not prefill:
        return None
    names = (record.model.name or record.model.file_name, record.machine)
    return curve_of_points(
        decode, prefill, basis=Basis(record.basis), name=" on ".join(name for name in names if name is not None)
    )


def _points(passes: Iterable[ServicePass]) -> list[Point]:
    return [Point(size=one.size, depth=one.depth, seconds=median(one.seconds)) for one in passes if one.seconds]

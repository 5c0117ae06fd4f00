"""Does what a record says of the whole model follow from the times of its slices?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from suffice.errors import RecordError
from suffice.model.extrapolation import SliceTime, extrapolate, fit_layers
from suffice.records.alike import RELATIVE_TOLERANCE, alike
from suffice.stats.intervals import median

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.records.schema import ExtrapolatedSeries, ExtrapolationRecord, RunRecord


# Above these, a forged record could keep a reader busy for hours.
_MOST_KINDS: Final = 256
_MOST_SLICES: Final = 64


def check_extrapolation(record: RunRecord, *, source: str) -> None:
    """Fit the lines again and compare.

    Raises:
        RecordError: times that are not positive, numbers that do not match, or results that do not follow from the times.
    """
    measurement, extrapolation = record.measurement, record.measurement.extrapolation
    if extrapolation is None:
        return
    if record.basis != "extrapolated":
        raise RecordError(f"{source}: holds slices but its basis is {record.basis!r}; the record was edited")
    _check_slices(extrapolation, source)
    for series in extrapolation.series:
        rows = _raw(series, len(extrapolation.slices), source)
        own: list[list[float]] = [[sum(row) for row in rows_of] for rows_of in rows]
        if series.phase == "decode":
            own = [[median(row) for row in rows_of] for rows_of in rows]
        try:
            _check_fit(series, own, extrapolation, source)
            if series.phase == "decode":
                found = [s for s in measurement.decode if (s.depth, s.batch) == (series.depth, series.batch)]
                said = [seconds for s in found for row in s.step_s for seconds in row]
                computed = _whole(own, series, extrapolation)
            else:
                chunks = () if measurement.prefill is None else measurement.prefill.chunk_s
                said = [value for row in chunks for value in row]
                columns = [[[row[i] for row in rows_of] for rows_of in rows] for i in range(len(rows[0][0]))]
                per_chunk = [_whole(column, series, extrapolation) for column in columns]
                computed = [value for row in zip(*per_chunk, strict=True) for value in row]
        except (ValueError, IndexError, ArithmeticError) as error:
            raise RecordError(f"{source}: the slices' {series.phase} times cannot be used: {error}") from None
        if not alike(said, computed):
            raise RecordError(
                f"{source}: the {series.phase} times of the whole model are not those that its slices give; the record was edited"
            )
    covered = {(series.depth, series.batch) for series in extrapolation.series if series.phase == "decode"}
    begun = [series for series in measurement.decode if series.step_s or series.tokens_per_second is not None]
    if any((series.depth, series.batch) not in covered for series in begun):
        raise RecordError(f"{source}: a decode series has no times of slices behind it; the record was edited")
    prefill = measurement.prefill
    read = prefill is not None and (prefill.chunk_s or prefill.tokens_per_second is not None)
    if read and all(series.phase != "prefill" for series in extrapolation.series):
        raise RecordError(f"{source}: the prefill has no times of slices behind it; the record was edited")


def _check_slices(extrapolation: ExtrapolationRecord, source: str) -> None:
    kinds = len(extrapolation.kinds)
    if kinds > _MOST_KINDS or len(extrapolation.slices) > _MOST_SLICES:
        raise RecordError(
            f"{source}: holds {len(extrapolation.slices)} slices with {kinds} kinds of layers; no model has that"
        )
    if any(len(one.counts) != kinds for one in extrapolation.slices):
        raise RecordError(f"{source}: a slice does not say how many layers of each kind it has; the record was edited")
    counts = [count for one in extrapolation.slices for count in one.counts] + [k.layers for k in extrapolation.kinds]
    if any(not math.isfinite(count) or count < 0 for count in counts):
        raise RecordError(f"{source}: a slice has a negative number of layers; the record was edited")


def _raw(series: ExtrapolatedSeries, n_slices: int, source: str) -> tuple[tuple[tuple[float, ...], ...], ...]:
    rows = series.times_s
    lengths = {len(own) for own in rows}
    widths = {len(row) for own in rows for row in own}
    regular = len(rows) == n_slices and len(lengths) == 1 and lengths != {0} and 0 not in widths
    regular = regular and (series.phase != "prefill" or len(widths) == 1)  # each repetition has all chunks
    if not regular or series.phase not in ("decode", "prefill"):
        raise RecordError(f"{source}: the slices' {series.phase} times are incomplete; the record was edited")
    if any(not math.isfinite(value) or value <= 0 for own in rows for row in own for value in row):
        raise RecordError(f"{source}: the slices' {series.phase} times hold a value that is not positive")
    if any(not math.isfinite(value) or value < 0 for value in series.work):
        raise RecordError(f"{source}: the slices' {series.phase} work is negative; the record was edited")
    return rows


def _whole(
    own: Sequence[Sequence[float]], series: ExtrapolatedSeries, extrapolation: ExtrapolationRecord
) -> list[float]:
    counts = [one.counts for one in extrapolation.slices]
    return list(extrapolate(counts, own, series.work, [kind.layers for kind in extrapolation.kinds]))


def _check_fit(
    series: ExtrapolatedSeries, own: Sequence[Sequence[float]], extrapolation: ExtrapolationRecord, source: str
) -> None:
    slices = [
        SliceTime(counts=one.counts, seconds=median(times))
        for one, times in zip(extrapolation.slices, own, strict=True)
    ]
    fit = fit_layers(slices, series.work)
    residual = fit.largest_residual
    # A residual near 0 is a difference of nearly equal numbers, of which a rounding leaves few digits.
    if series.largest_residual is None or abs(series.largest_residual - residual) > RELATIVE_TOLERANCE:
        raise RecordError(
            f"{source}: the {series.phase} residual of the slices is {residual:.4g}, the record says otherwise; it was edited"
        )
    # What is left out is unknown; the parts of a line may be near 0, so they are compared on the scale of a slice.
    said = ([] if series.fixed_s is None else [series.fixed_s]) + list(series.layer_s)
    own_parts = ([] if series.fixed_s is None else [fit.fixed_s]) + (list(fit.layer_s) if series.layer_s else [])
    tolerance_s = RELATIVE_TOLERANCE * fit.slowest_slice_s
    if len(said) != len(own_parts) or any(abs(a - b) > tolerance_s for a, b in zip(said, own_parts, strict=True)):
        raise RecordError(
            f"{source}: the {series.phase} line is not that through the slices' times; the record was edited"
        )

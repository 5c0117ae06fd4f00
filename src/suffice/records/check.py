"""Does a record agree with itself? Everything that can be computed from its raw samples is, and must come out as it says."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from suffice.errors import RecordError
from suffice.records.alike import RELATIVE_TOLERANCE, alike
from suffice.records.check_quiet import check_quiet
from suffice.records.check_service import check_service
from suffice.records.check_slices import check_extrapolation
from suffice.stats.intervals import estimate_from, median

if TYPE_CHECKING:
    from suffice.records.schema import RunRecord
    from suffice.stats.estimate import Estimate, Interval

_BASES: Final = ("measured", "extrapolated")


def check_record(record: RunRecord, *, source: str) -> None:
    """Refuse records whose numbers are impossible or disagree with their own samples.

    Raises:
        RecordError: with the field and both values.
    """
    measurement = record.measurement
    series = measurement.decode
    numbers: list[tuple[str, float | None, Estimate | None]] = [
        ("decode_tokens_per_second", record.decode_tokens_per_second, series[0].tokens_per_second if series else None),
        (
            "prefill_tokens_per_second",
            record.prefill_tokens_per_second,
            measurement.prefill.tokens_per_second if measurement.prefill else None,
        ),
        ("ttft_s", record.ttft_s, measurement.ttft_s),
        *((f"decode at depth {other.depth}", None, other.tokens_per_second) for other in series[1:]),
    ]
    _check_raw(record, source)
    for name, plain, estimate in numbers:
        _check_number(name, plain, estimate, source)
    _check_derived(record, source)
    if record.basis not in _BASES:
        raise RecordError(f"{source}: basis is {record.basis!r}; a run is {' or '.join(_BASES)}")
    if record.model.shape_sha256 is not None and record.basis != "extrapolated":
        raise RecordError(f"{source}: its model was known by its shape only, so its basis cannot be {record.basis!r}")
    if record.measurement.extrapolation is not None:
        check_extrapolation(record, source=source)
    check_service(record, source=source)
    check_quiet(record, source=source)
    if record.device_kind not in ("cpu", "gpu"):
        raise RecordError(f"{source}: device_kind is {record.device_kind!r}; it is 'cpu' or 'gpu'")


def _check_number(name: str, plain: float | None, estimate: Estimate | None, source: str) -> None:
    """A plain number, the estimate that it repeats, and the samples that the estimate comes from."""
    if plain is not None and plain <= 0:
        raise RecordError(f"{source}: {name} is {plain:g}; a rate or a time is positive, and unknown is null")
    if estimate is None:
        return
    interval = () if estimate.interval is None else (estimate.interval.low, estimate.interval.high)
    if min((estimate.point, *interval, *estimate.samples)) <= 0:
        raise RecordError(f"{source}: the estimate of {name} holds a value that is not positive; unknown is null")
    if estimate.interval is not None and not estimate.interval.low <= estimate.point <= estimate.interval.high:
        raise RecordError(f"{source}: the estimate of {name} lies outside of its own interval; the record was edited")
    own = median(estimate.samples) if estimate.samples else estimate.point
    for value in (plain, estimate.point):
        if value is not None and not math.isclose(value, own, rel_tol=RELATIVE_TOLERANCE):
            raise RecordError(f"{source}: {name} is {value:g} but its own samples give {own:g}; the record was edited")


def _check_derived(record: RunRecord, source: str) -> None:
    """Samples against the raw rows that they were made of, intervals against their samples, the mark against its reasons."""
    measurement = record.measurement
    made: list[tuple[str, Estimate | None, list[float]]] = [
        (
            f"decode at depth {series.depth}",
            series.tokens_per_second,
            [len(row) / math.fsum(row) for row in series.step_s],
        )
        for series in measurement.decode
    ]
    prefill = measurement.prefill
    if prefill is not None:
        rates = [prefill.prompt_tokens / math.fsum(row) for row in prefill.chunk_s]
        made.append(("prefill", prefill.tokens_per_second, rates))
    for name, estimate, rates in made:
        if estimate is None:
            continue
        if rates and not alike(estimate.samples, rates):
            raise RecordError(f"{source}: the samples of {name} are not those of its raw times; the record was edited")
        own = estimate_from(estimate.samples).interval if estimate.samples else estimate.interval
        if not alike(_ends(estimate.interval), _ends(own)):
            raise RecordError(f"{source}: the interval of {name} is not that of its samples; the record was edited")
    if record.contention.disturbed is not None and record.disturbed != record.contention.disturbed:
        raise RecordError(f"{source}: 'disturbed' and 'contention.disturbed' disagree; the record was edited")


def _ends(interval: Interval | None) -> list[float]:
    return [] if interval is None else [interval.low, interval.high]


def _check_raw(record: RunRecord, source: str) -> None:
    """Raw times and sizes that no measurement can have."""
    measurement, model = record.measurement, record.model
    prefill = measurement.prefill
    rows = [row for series in measurement.decode for row in series.step_s]
    rows += [] if prefill is None else [*prefill.chunk_s]
    rows += [tuple(map(float, prefill.chunk_tokens))] if prefill is not None and prefill.chunk_tokens else []
    if not all(rows):
        raise RecordError(f"{source}: a repetition has no raw samples; leave it out or measure again")
    if any(value <= 0 for row in rows for value in row):
        raise RecordError(f"{source}: raw samples hold a time or a size that is not positive")
    if any(series.depth < 0 for series in measurement.decode):
        raise RecordError(f"{source}: a decode series has a negative depth")
    readings = (record.bandwidth_before, record.bandwidth_after, record.cache_bandwidth)
    sizes = {
        "model.file_bytes": model.file_bytes,
        "model.streamed_bytes": model.streamed_bytes,
        "memory_usable_bytes": record.memory_usable_bytes,
        "bandwidth": min((r.read_bytes_per_s for r in readings if r is not None), default=None),
        "measurement.prefill.prompt_tokens": None if prefill is None else prefill.prompt_tokens,
    }
    for name, size in sizes.items():
        if size is not None and size <= 0:
            raise RecordError(f"{source}: {name} is {size:g}; a size is positive, and unknown is null")
    if (model.kv_bytes_per_token or 0) < 0 or model.kv_state_bytes < 0:
        raise RecordError(f"{source}: the model's KV cache has a negative size")
    if any(layers.count < 0 or layers.bytes_per_token < 0 or (layers.window or 0) < 0 for layers in model.kv_layers):
        raise RecordError(f"{source}: the model's KV layers have a negative size")

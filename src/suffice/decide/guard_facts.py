"""From a run record to what a guard looks at."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from suffice.decide.evidence import residual_of, supported_rate
from suffice.decide.guard_fingerprint import fingerprint_of
from suffice.decide.guard_types import Figure, Metric, RunFacts
from suffice.decide.plausibility import contradictions_in
from suffice.decide.quantity import Quantity
from suffice.model.basis import Basis
from suffice.model.extrapolation import is_bent
from suffice.stats.percentiles import percentile

if TYPE_CHECKING:
    from suffice.decide.quality import QualityEvidence
    from suffice.records.schema import RunRecord
    from suffice.stats.estimate import Estimate

_P90: Final = 0.9


def facts_of(record: RunRecord, name: str, quality: QualityEvidence | None = None) -> RunFacts:
    """What a guard needs of a record.

    Args:
        record: of the run.
        name: that it is called by in sentences.
        quality: what a comparison on the user's items says of its model; None: nobody asked.
    """
    return RunFacts(
        name=name,
        created_at=record.created_at,
        fingerprint=fingerprint_of(record),
        figures={**_speeds(record), **_memory(record), **_quality(quality)},
        doubts=_doubts(record),
        busy=_busy(record),
        bandwidth_bytes_per_s=_bandwidth(record),
        bandwidth_share=_bandwidth_share(record),
    )


def _speeds(record: RunRecord) -> dict[Metric, Figure]:
    measurement = record.measurement
    series = measurement.decode[0] if measurement.decode else None
    decode = None if series is None else series.tokens_per_second
    prefill = None if measurement.prefill is None else measurement.prefill.tokens_per_second
    found = {
        Metric.DECODE: _figure(
            record, decode, record.decode_tokens_per_second, "decode", series.depth if series else 0
        ),
        Metric.PREFILL: _figure(record, prefill, record.prefill_tokens_per_second, "prefill"),
        Metric.TTFT: _figure(record, measurement.ttft_s, record.ttft_s, "prefill"),
        Metric.TTFT_P90: _percentile(measurement.ttft_s),
    }
    return {metric: figure for metric, figure in found.items() if figure is not None}


def _figure(
    record: RunRecord, estimate: Estimate | None, plain: float | None, phase: str, depth: int = 0
) -> Figure | None:
    """A figure with the range that it has as evidence; a plain number stands for itself."""
    if estimate is None:
        return None if plain is None else Figure(quantity=Quantity.bare(plain, Basis(record.basis)))
    residual = residual_of(record, phase, depth)
    doubt = ""
    if is_bent(residual):
        doubt = f"extrapolated from slices that do not lie on a line (one is {residual:.1%} off)"
    return Figure(
        quantity=supported_rate(record, estimate, phase, depth),
        samples=estimate.samples,
        level=None if estimate.interval is None else estimate.interval.level,
        doubt=doubt,
    )


def _percentile(ttft: Estimate | None) -> Figure | None:
    found = None if ttft is None else percentile(ttft.samples, _P90)
    if found is None:
        return None
    doubt = "" if found.supported else f"a P90 needs {found.needed} repetitions, there are {found.samples}"
    quantity = Quantity(point=found.observed, low=found.low, high=found.high, basis=Basis.MEASURED)
    return Figure(quantity=quantity, level=found.level, doubt=doubt)


def _memory(record: RunRecord) -> dict[Metric, Figure]:
    peak_bytes = record.measurement.peak_rss_bytes
    if peak_bytes is None or record.basis != Basis.MEASURED:  # slices hold a part of the model
        return {}
    return {Metric.MEMORY: Figure(quantity=Quantity.bare(float(peak_bytes)))}


def _quality(quality: QualityEvidence | None) -> dict[Metric, Figure]:
    if quality is None or quality.score is None:
        return {}
    figure = Figure(quantity=quality.score.quantity, judged=quality.score.reached, source=quality.source)
    return {Metric.QUALITY: figure}


def _doubts(record: RunRecord) -> tuple[str, ...]:
    unfinished = () if record.complete else ("the run was not finished, so nobody looked whether the machine was busy",)
    return (*contradictions_in(record), *unfinished)


def _busy(record: RunRecord) -> tuple[str, ...]:
    return (record.contention.reasons or ("marked in the record",)) if record.disturbed else ()


def _bandwidth(record: RunRecord) -> float | None:
    """The machine's own reference: where caches may hold the model the reading that its ceiling rests on, else the one around the run."""
    if record.cache_bandwidth is not None:
        return record.ceiling.bandwidth_bytes_per_s
    readings = [one.read_bytes_per_s for one in (record.bandwidth_before, record.bandwidth_after) if one is not None]
    return math.exp(math.fsum(map(math.log, readings)) / len(readings)) if readings else None


def _bandwidth_share(record: RunRecord) -> float | None:
    ceiling, decode = record.ceiling.decode_tokens_per_second, record.decode_tokens_per_second
    return None if not ceiling or decode is None else decode / ceiling

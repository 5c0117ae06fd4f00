"""Runs whose repetitions were watched one by one: readings of a quiet and of a busy machine, and records that hold them."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from helpers.records import run_record
from suffice.decide.disturbance import ContentionReading
from suffice.decide.quiet import disturbed_parts, marked, with_quiet
from suffice.decide.reference import ReferenceReading
from suffice.measure.observer import Observer
from suffice.measure.reference_kernel import FakeReference
from suffice.measure.repetition_watch import FakeRepetitionWatch, RepetitionReading
from suffice.records.schema import ContentionRecord, ReferenceRecord, RepetitionRecord
from suffice.stats import estimate_from

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from suffice.records.schema import RunRecord

QUIET = ContentionReading(
    wall_s=1.0, usable_cpus=2, watched_cpus=2, threads=2, busy_cpu_s=2.0, own_cpu_s=2.0, steal_cpu_s=0.0, run_wait_s=0.0
)
BUSY = replace(QUIET, own_cpu_s=1.0, run_wait_s=0.5)
REFERENCE = ReferenceReading(
    time_s=1.0, cost_s=0.01, memory_s=0.003, compute_s=0.002, cache_resident=False, waited_s=0.0
)


def watch_of(busy: Sequence[bool]) -> FakeRepetitionWatch:
    """A watch that finds the machine busy or not, in turn, and the last again and again."""
    return FakeRepetitionWatch([RepetitionReading(start_s=0.0, reading=BUSY if one else QUIET) for one in busy])


def observer_of(watch: FakeRepetitionWatch, clock_s: Callable[[], float]) -> Observer:
    """An observer whose reference kernel always finds the same."""
    return Observer(watch, FakeReference([REFERENCE]), clock_s=clock_s)


def watched_record(busy: Sequence[bool], *, slowdown: float = 1.4, decode: float = 98.0) -> RunRecord:
    """A record of eight repetitions of decode and of a prompt, of which the busy ones took ``slowdown`` times as long."""
    record = run_record(decode=decode)
    measurement = record.measurement
    (series,), prefill = measurement.decode, measurement.prefill
    assert prefill is not None
    factors = [slowdown if one else 1.0 for one in busy]
    step_s = tuple(tuple(factor * s for s in row) for factor, row in zip(factors, series.step_s, strict=True))
    chunk_s = tuple(tuple(factor * s for s in row) for factor, row in zip(factors, prefill.chunk_s, strict=True))
    references = (tuple(ReferenceRecord(**asdict(REFERENCE)) for _ in range(len(busy) + 1)),)
    known = [
        {name: value for name, value in asdict(BUSY if one else QUIET).items() if value is not None} for one in busy
    ]
    seen = [
        RepetitionRecord(start_s=0.0, reading=reading, references_before=place + 1)
        for place, reading in enumerate(known)
    ]
    repetitions = marked(seen, references)
    rate = estimate_from([len(row) / sum(row) for row in step_s])
    prompt_rate = estimate_from([prefill.prompt_tokens / sum(row) for row in chunk_s])
    series = replace(series, step_s=step_s, repetitions=repetitions, tokens_per_second=rate)
    prefill = replace(prefill, chunk_s=chunk_s, repetitions=repetitions, tokens_per_second=prompt_rate)
    found = with_quiet(replace(measurement, decode=(series,), prefill=prefill), references)
    reasons = disturbed_parts(found, references)
    return replace(
        record,
        decode_tokens_per_second=rate.point,
        prefill_tokens_per_second=prompt_rate.point,
        measurement=found,
        disturbed=bool(reasons),
        contention=ContentionRecord(disturbed=bool(reasons), reasons=reasons, references=references),
    )

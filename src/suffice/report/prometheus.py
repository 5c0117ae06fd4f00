"""The last runs, and what checks found in them, in the text format of Prometheus, version 0.0.4.

Source of the format: prometheus.io/docs/instrumenting/exposition_formats, and of the names: .../docs/practices/naming: base units, the unit
at the end of the name. What is unknown has no sample. The file suits node_exporter's textfile collector, which wants it replaced in
one step and its name to end in ``.prom``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from suffice.decide.guard import Outcome
from suffice.report.check_rows import distinct, distinct_names, several_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from suffice.records.schema import BandwidthRecord, RunRecord
    from suffice.report.check_rows import CheckRow
    from suffice.stats.estimate import Estimate

_LABEL = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_HELP = {
    "suffice_run_info": "Which model, engine and machine a run is of; always 1.",
    "suffice_run_timestamp_seconds": "When the run was made, in seconds since 1970.",
    "suffice_run_complete": "1: the run went to its end; 0: it was killed or still runs.",
    "suffice_run_disturbed": "1: the machine was busy with something else; 0: it was not.",
    "suffice_decode_tokens_per_second": "Decode rate of one sequence, median of the repetitions.",
    "suffice_decode_low_tokens_per_second": "Low end of the decode rate's interval.",
    "suffice_decode_high_tokens_per_second": "High end of the decode rate's interval.",
    "suffice_decode_ceiling_tokens_per_second": "Most that the measured memory bandwidth allows for decoding.",
    "suffice_prefill_tokens_per_second": "Prefill rate of the run's prompt, median of the repetitions.",
    "suffice_prefill_low_tokens_per_second": "Low end of the prefill rate's interval.",
    "suffice_prefill_high_tokens_per_second": "High end of the prefill rate's interval.",
    "suffice_time_to_first_token_seconds": "Prefill of the run's prompt and the first decode step.",
    "suffice_time_to_first_token_low_seconds": "Low end of the interval of the time to first token.",
    "suffice_time_to_first_token_high_seconds": "High end of the interval of the time to first token.",
    "suffice_engine_peak_resident_memory_bytes": "Most memory that the engine's process held.",
    "suffice_memory_read_bytes_per_second": "Read bandwidth of the memory before and after the run.",
    "suffice_check_outcome": "1 for the outcome that the check had, 0 for the others.",
    "suffice_check_smallest_detectable_change_ratio": "Relative change that the check would have told from noise.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRun:
    """A run record and what it is called, such as its file's name or the test that made it."""

    name: str
    record: RunRecord


@dataclass(frozen=True, slots=True)
class _Sample:
    metric: str
    value: float | None
    labels: Mapping[str, str] = field(default_factory=dict)


def prometheus_text(runs: Sequence[NamedRun], rows: Sequence[CheckRow] = ()) -> str:
    """Gauges of the runs, labelled by their names, and of the checks; runs or rows called alike are numbered."""
    names = distinct_names([run.name for run in runs])
    samples = [sample for name, run in zip(names, runs, strict=True) for sample in _of_run(name, run.record)]
    samples += [sample for row in distinct(rows) for sample in _of_row(row)]
    lines = []
    for metric, told in _HELP.items():
        values = [(s.labels, s.value) for s in samples if s.metric == metric and s.value is not None]
        finite = [(labels, value) for labels, value in values if math.isfinite(value)]
        if finite:
            lines += [f"# HELP {metric} {told}", f"# TYPE {metric} gauge"]
            lines += [f"{metric}{_labels(labels)} {value!r}" for labels, value in finite]
    return "\n".join(lines) + "\n" if lines else ""


def escape_label(value: str) -> str:
    r"""A label's value as the format wants it: backslash, quote and line feed escaped.

    Other control characters and what is no Unicode text are left out: some readers refuse the whole file for them.

    >>> escape_label('a"b')
    'a\\"b'
    """
    return several_lines(value).translate(_LABEL)


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{escape_label(value)}"' for name, value in labels.items()) + "}" if labels else ""


def _of_run(name: str, record: RunRecord) -> Iterator[_Sample]:
    run = {"run": name}
    yield _Sample("suffice_run_info", 1.0, {**run, **_identity(record)})
    yield _Sample("suffice_run_timestamp_seconds", _timestamp_s(record.created_at), run)
    yield _Sample("suffice_run_complete", float(record.complete), run)
    yield _Sample("suffice_run_disturbed", None if record.disturbed is None else float(record.disturbed), run)
    yield from _decode(run, record)
    prefill = record.measurement.prefill
    labels = run if prefill is None else {**run, "prompt_tokens": str(prefill.prompt_tokens)}
    estimate = None if prefill is None else prefill.tokens_per_second
    yield from _estimate("suffice_prefill", "tokens_per_second", labels, record.prefill_tokens_per_second, estimate)
    ttft = record.measurement.ttft_s
    yield from _estimate("suffice_time_to_first_token", "seconds", labels, record.ttft_s, ttft)
    yield _Sample("suffice_engine_peak_resident_memory_bytes", _number(record.measurement.peak_rss_bytes), run)
    yield from _bandwidth({**run, "when": "before"}, record.bandwidth_before)
    yield from _bandwidth({**run, "when": "after"}, record.bandwidth_after)


def _decode(run: Mapping[str, str], record: RunRecord) -> Iterator[_Sample]:
    series = record.measurement.decode
    if not series:  # a plain number without its samples
        yield _Sample("suffice_decode_tokens_per_second", record.decode_tokens_per_second, run)
    for one in series:
        labels = {**run, "depth": str(one.depth), "batch": str(one.batch)}
        point = None if one.tokens_per_second is None else one.tokens_per_second.point
        yield from _estimate("suffice_decode", "tokens_per_second", labels, point, one.tokens_per_second)
    yield _Sample("suffice_decode_ceiling_tokens_per_second", record.ceiling.decode_tokens_per_second, run)


def _estimate(
    stem: str, unit: str, labels: Mapping[str, str], point: float | None, estimate: Estimate | None
) -> Iterator[_Sample]:
    yield _Sample(f"{stem}_{unit}", point, labels)
    if estimate is not None and estimate.interval is not None:
        yield _Sample(f"{stem}_low_{unit}", estimate.interval.low, labels)
        yield _Sample(f"{stem}_high_{unit}", estimate.interval.high, labels)


def _bandwidth(labels: Mapping[str, str], reading: BandwidthRecord | None) -> Iterator[_Sample]:
    if reading is not None:
        yield _Sample("suffice_memory_read_bytes_per_second", reading.read_bytes_per_s, labels)


def _of_row(row: CheckRow) -> Iterator[_Sample]:
    for outcome in Outcome:
        labels = {"check": row.name, "outcome": outcome.value}
        yield _Sample("suffice_check_outcome", float(row.outcome is outcome), labels)
    change = row.properties.get("smallest_detectable_change")
    if isinstance(change, float):
        yield _Sample("suffice_check_smallest_detectable_change_ratio", change, {"check": row.name})


def _identity(record: RunRecord) -> dict[str, str]:
    facts = {
        "model": record.model.name or record.model.file_name,
        "model_identity": record.model.identity,
        "engine": record.engine.name,
        "engine_version": record.engine.version,
        "machine": record.machine,
        "device_kind": record.device_kind,
        "basis": record.basis,
        "suffice_version": record.suffice_version,
    }
    return {name: value for name, value in facts.items() if value}


def _timestamp_s(created_at: str | None) -> float | None:
    """None: unknown, or no time at all, as in a record that others made."""
    if created_at is None:
        return None
    try:
        moment = datetime.fromisoformat(created_at)
    except ValueError:
        return None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)

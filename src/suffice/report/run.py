"""A run record for a reader: every number with its interval and where it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.decide.evidence import supported_rate
from suffice.report.quiet import decode_quiet_rows, drift_marks, prefill_quiet_rows
from suffice.report.service_curve import service_curve_lines
from suffice.report.slices import slice_rows, stand_in_mark
from suffice.report.tables import one_line, plain_table
from suffice.serving.recorded import curve_notes
from suffice.units import format_bandwidth, format_bytes, format_memory, format_seconds

if TYPE_CHECKING:
    from suffice.decide.quantity import Quantity
    from suffice.records.schema import BandwidthRecord, RunRecord

UNKNOWN = "unknown"


def run_text(record: RunRecord) -> str:
    """The record as a table, with the marks that a reader must not miss below it."""
    lines = [plain_table([["what", "value", "how"], *run_rows(record)]), *service_curve_lines(record)]
    lines += [f"! {one_line(mark)}" for mark in run_marks(record)]
    return "\n".join(lines)


def run_rows(record: RunRecord) -> list[list[str]]:
    """Rows of (what, value, how): machine, model and engine first, then the numbers."""
    return [*_identity_rows(record), *_speed_rows(record), *slice_rows(record), *_machine_rows(record)]


def run_marks(record: RunRecord) -> list[str]:
    """What qualifies the numbers: contradictions, a busy machine, an engine that does not use the CPU, an unfinished run."""
    marks = [f"contradiction: {text}" for text in record.contradictions]
    if record.disturbed:
        marks.append(f"measured on a busy machine: {'; '.join(record.contention.reasons) or 'no reason recorded'}")
    elif record.disturbed is None:
        why = "; ".join(record.contention.reasons)
        marks.append("whether the machine was busy is not known" + (f": {why}" if why else ""))
    marks += drift_marks(record)
    marks += curve_notes(record)
    if record.engine.lower_bound:
        marks.append(
            f"the engine leaves {', '.join(record.engine.isa_unused) or 'instruction sets'} of this CPU unused: speeds are "
            f"lower bounds; better: {record.engine.advice}"
        )
    if record.basis == "extrapolated":
        marks.append(stand_in_mark(record))
    if not record.complete:
        marks.append("the run was not finished")
    return marks


def rate_text(rate: Quantity | None, plain: float | None) -> str:
    """A rate with its range, or what is known of it."""
    if rate is None:
        return UNKNOWN if plain is None else f"{plain:.4g} tokens/s (no interval)"
    if rate.low is None or rate.high is None:
        return f"{rate.point:.4g} tokens/s (no interval)"
    return f"{rate.point:.4g} tokens/s ({rate.low:.4g} to {rate.high:.4g})"


def _counted(number: int, noun: str) -> str:
    """``2 threads``, ``1 thread``; 0 means that the record does not say."""
    return f"{number or 'unknown'} {noun}{'' if number == 1 else 's'}"


def _identity_rows(record: RunRecord) -> list[list[str]]:
    model, engine = record.model, record.engine
    parameters = UNKNOWN if model.parameters is None else f"{model.parameters:,} parameters"
    types = ", ".join(f"{name} {format_bytes(share.bytes)}" for name, share in model.tensor_types.items())
    version = " ".join(text for text in (engine.name, engine.version) if text)
    return [
        ["machine", record.machine or UNKNOWN, record.device_kind],
        ["model", model.file_name or model.name or UNKNOWN, f"{parameters}; {types}" if types else parameters],
        ["engine", version or UNKNOWN, f"uses {', '.join(engine.isa_used)}" if engine.isa_used else UNKNOWN],
    ]


def _speed_rows(record: RunRecord) -> list[list[str]]:
    measurement, ceiling = record.measurement, record.ceiling
    rows = []
    for number, series in enumerate(measurement.decode):
        how = f"{record.basis}, {_counted(len(series.step_s), 'repetition')}, {_counted(series.threads, 'thread')}"
        if series.stopped:
            how += f", {series.stopped}"
        rate = supported_rate(record, series.tokens_per_second, "decode", series.depth)
        together = "" if series.batch == 1 else f", {series.batch} together, of each"
        rows.append([f"decode at depth {series.depth}{together}", rate_text(rate, None), how])
        rows += decode_quiet_rows(record, number)
    if not measurement.decode:
        rows.append(["decode", rate_text(None, record.decode_tokens_per_second), record.basis])
    prefill = measurement.prefill
    if prefill is None:
        rows.append(["prefill", rate_text(None, record.prefill_tokens_per_second), record.basis])
    else:
        how = f"{record.basis}, {_counted(len(prefill.chunk_s), 'repetition')}, {_counted(prefill.threads, 'thread')}"
        if prefill.stopped:
            how += f", {prefill.stopped}"
        rate = supported_rate(record, prefill.tokens_per_second, "prefill")
        rows.append([f"prefill of {prefill.prompt_tokens}", rate_text(rate, None), how])
        rows += prefill_quiet_rows(record)
    if record.ttft_s is not None:
        rows.append(["time to first token", format_seconds(record.ttft_s), "prefill and first step, idle machine"])
    if ceiling.decode_tokens_per_second is not None:
        rows.append(["decode ceiling", f"{ceiling.decode_tokens_per_second:.4g} tokens/s", ceiling.note or "ceiling"])
    return rows


def _machine_rows(record: RunRecord) -> list[list[str]]:
    rows = [
        _bandwidth_row("bandwidth before", record.bandwidth_before),
        _bandwidth_row("bandwidth after", record.bandwidth_after),
        _bandwidth_row("bandwidth in cache", record.cache_bandwidth),
    ]
    load = record.measurement.load
    if load.warm_s is not None:
        cold = "cold not measured" if load.cold_s is None else f"cold {format_seconds(load.cold_s)}"
        rows.append(["load", f"warm {format_seconds(load.warm_s)}", f"{cold}; until the first token is evaluated"])
    if record.measurement.peak_rss_bytes is not None:
        rows.append(
            ["peak memory", format_memory(record.measurement.peak_rss_bytes), "resident, of the engine's process"]
        )
    return [row for row in rows if row]


def _bandwidth_row(what: str, reading: BandwidthRecord | None) -> list[str]:
    if reading is None:
        return []
    return [what, format_bandwidth(reading.read_bytes_per_s), reading.method or "measured"]

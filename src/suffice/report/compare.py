"""Several models and quantizations beside each other: a table, bars, and the sentence that answers the question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suffice.decide.ranking import BANDWIDTH_TOLERANCE, bandwidth_change
from suffice.decide.wording import headroom_text
from suffice.report.run import run_marks
from suffice.report.tables import display_width, one_line, plain_table, shortened
from suffice.units import format_bytes, format_memory

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from suffice.decide.quantity import Quantity
    from suffice.decide.ranking import Answer, Candidate
    from suffice.model.demand import Demand
    from suffice.records.schema import RunRecord

_BAR_COLUMNS = 40
_NAME_CHARACTERS = 48
_UNKNOWN = "unknown"


def comparison_text(
    candidates: Sequence[Candidate],
    records: Sequence[RunRecord | None],
    demand: Demand | None,
    answer: Answer | None,
) -> str:
    """Table, bars, answer, and what qualifies them."""
    parts = [_table(candidates, demand), bars(candidates, demand)]
    parts += [f"{c.name}: not measured: {one_line(c.error)}" for c in candidates if c.error]
    if answer is not None:
        parts.append(answer.sentence)
    parts.append("\n".join(_marks(candidates, records)))
    return "\n\n".join(part for part in parts if part)


def _marks(candidates: Sequence[Candidate], records: Sequence[RunRecord | None]) -> list[str]:
    """What qualifies the rows: what all of them have in common once, the rest under its name."""
    marks = {one.name: run_marks(record) for one, record in zip(candidates, records, strict=True) if record is not None}
    common = [mark for mark in next(iter(marks.values()), []) if all(mark in own for own in marks.values())]
    lines = [f"! {one_line(mark)}" for mark in common]
    lines += [
        f"! {one_line(name)}: {one_line(mark)}" for name, own in marks.items() for mark in own if mark not in common
    ]
    warning = bandwidth_warning(records)
    return lines if warning is None else [*lines, f"! {warning}"]


def _table(candidates: Sequence[Candidate], demand: Demand | None) -> str:
    header = ["model", "decode", "prefill", "read per step", "memory", "fits"]
    rows = [header + (["headroom", "verdict"] if demand is not None else [])]
    for one in candidates:
        row = [
            shortened(one_line(one.name), _NAME_CHARACTERS),
            _rate(one.decode),
            _UNKNOWN if one.prefill is None else f"{one.prefill.point:.4g} tokens/s",
            _UNKNOWN if one.streamed_bytes is None else format_bytes(one.streamed_bytes),
            _UNKNOWN if one.memory_bytes is None else format_memory(one.memory_bytes),
            {True: "yes", False: "no", None: _UNKNOWN}[one.fits],
        ]
        if demand is not None:
            row += [_headroom(one), "not measured" if one.verdict is None else one.verdict.verdict]
        rows.append(row)
    return plain_table(rows)


def _rate(rate: Quantity | None) -> str:
    if rate is None:
        return _UNKNOWN
    if rate.low is None or rate.high is None:
        return f"{rate.point:.4g} tokens/s ({rate.basis}, no interval)"
    return f"{rate.point:.4g} tokens/s ({rate.low:.4g} to {rate.high:.4g}, {rate.basis})"


def _headroom(one: Candidate) -> str:
    text = headroom_text(one.headroom)
    low = headroom_text(one.headroom_low)
    return text if low in (text, _UNKNOWN) else f"{text} ({low} at the low end)"


def bars(candidates: Sequence[Candidate], demand: Demand | None) -> str:
    """Decode rates as bars, with marks for the need (|) and, of a single stream, the need times the margin (:)."""
    known = [(shortened(one_line(one.name), _NAME_CHARACTERS), one.decode.point) for one in candidates if one.decode]
    if not known:
        return ""
    need = None if demand is None else demand.required_decode_tokens_per_second
    marks: dict[float, str] = {}
    if need is not None and demand is not None:
        marks = {need: "|"} if demand.margin_is_of_load else {need * demand.margin: ":", need: "|"}
    largest = max([rate for _, rate in known] + list(marks))
    width = max(display_width(name) for name, _ in known)
    lines = []
    for name, rate in known:
        cells = list("█" * round(rate / largest * _BAR_COLUMNS) or "▏")
        cells += [" "] * (_BAR_COLUMNS + 1 - len(cells))
        for value, mark in marks.items():
            cells[round(value / largest * _BAR_COLUMNS)] = mark
        lines.append(f"{name}{' ' * (width - display_width(name))}  {''.join(cells)}  {rate:.4g} tokens/s")
    if need is not None and demand is not None:
        margin = "" if demand.margin_is_of_load else f", : with margin {demand.margin:g}"
        lines.append(f"{' ' * width}  | need {need:g} tokens/s{margin}")
    return "\n".join(lines)


def bandwidth_warning(records: Sequence[RunRecord | None]) -> str | None:
    """Said when the machine's bandwidth moved so much between the candidates that they are not comparable."""
    change = _bandwidth_moved(records)
    if change is None or abs(change) <= BANDWIDTH_TOLERANCE:
        return None
    return (
        f"memory bandwidth moved by {change:+.0%} between the candidates: they were not measured on an equal machine; compare again while "
        "nothing else runs"
    )


def _bandwidth_moved(records: Sequence[RunRecord | None]) -> float | None:
    return bandwidth_change(
        [
            record.bandwidth_before.read_bytes_per_s
            for record in records
            if record is not None and record.bandwidth_before is not None
        ]
    )


def comparison_document(
    candidates: Sequence[Candidate],
    records: Sequence[tuple[Path, RunRecord | None]],
    demand: Demand | None,
    answer: Answer | None,
) -> dict[str, Any]:
    """The same as one JSON document."""
    return {
        "candidates": [
            {
                "name": one.name,
                "decode_tokens_per_second": None if one.decode is None else one.decode.point,
                "low": None if one.decode is None else one.decode.low,
                "high": None if one.decode is None else one.decode.high,
                "basis": None if one.decode is None else one.decode.basis.value,
                "prefill_tokens_per_second": None if one.prefill is None else one.prefill.point,
                "streamed_bytes": one.streamed_bytes,
                "memory_bytes": one.memory_bytes,
                "fits": one.fits,
                "headroom": one.headroom,
                "headroom_low": one.headroom_low,
                "verdict": None if one.verdict is None else one.verdict.verdict,
                "disturbed": None if record is None else record.disturbed,
                "marks": [] if record is None else run_marks(record),
                "warnings": [] if record is None else list(record.warnings),
                "record": None if record is None else str(path),
                "error": one.error,
            }
            for one, (path, record) in zip(candidates, records, strict=True)
        ],
        "answer": None if answer is None else answer.sentence,
        "bandwidth_change": _bandwidth_moved([record for _, record in records]),
        "need": None if demand is None else demand.required_decode_tokens_per_second,
        "margin": None if demand is None else demand.margin,
    }

"""How the figures of a model that was not here were got: its layers, the slices, and their lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from suffice.records.schema import ExtrapolatedSeries, ExtrapolationRecord, RunRecord


def slice_rows(record: RunRecord) -> list[list[str]]:
    """Rows of (what, value, how) for a run on slices; none for others."""
    extrapolation = record.measurement.extrapolation
    if extrapolation is None:
        return []
    rows = [
        [
            "slices",
            ", ".join(f"{one.layers} layers" for one in extrapolation.slices),
            f"{format_bytes(sum(one.tensor_bytes for one in extrapolation.slices))} of random weights in the model's shapes and types",
        ]
    ]
    for index, kind in enumerate(extrapolation.kinds):
        times = [_of_one(series, index) for series in extrapolation.series if series.layer_s]
        rows.append([f"{kind.layers:g} x {kind.label}", f"{format_bytes(kind.layer_bytes)} each", "; ".join(times)])
    rows += [_line_row(series) for series in extrapolation.series]
    rows += _expert_rows(extrapolation)
    return rows


def stand_in_mark(record: RunRecord) -> str:
    """What a reader must know of figures that rest on random weights."""
    if record.measurement.extrapolation is None:
        return "extrapolated: a stand-in with the model's shapes and types and random weights was run, not the model itself"
    return "extrapolated: slices of the model with random weights were run, not the model itself"


def _of_one(series: ExtrapolatedSeries, index: int) -> str:
    what = series.phase if series.phase == "prefill" else f"{series.phase} at {series.depth}"
    together = f" x{series.batch}" if series.batch > 1 else ""
    return f"{what}{together} {_signed(series.layer_s[index])}"


def _line_row(series: ExtrapolatedSeries) -> list[str]:
    what = "prefill" if series.phase == "prefill" else f"decode at depth {series.depth}"
    if series.batch > 1:
        what += f", {series.batch} together"
    fixed = "unknown" if series.fixed_s is None else _signed(series.fixed_s)
    off = "unknown" if series.largest_residual is None else f"{series.largest_residual:.1%}"
    return [f"line of {what}", f"fixed part {fixed}", f"the slice that fits worst lies {off} off the line"]


def _signed(seconds: float) -> str:
    """In prefill the fixed part may be negative: the last layer works for the last token only."""
    return format_seconds(seconds) if seconds >= 0 else f"-{format_seconds(-seconds)}"


def _expert_rows(extrapolation: ExtrapolationRecord) -> list[list[str]]:
    return [
        [
            f"experts in a step of {use.batch}",
            f"{use.distinct_mean:.3g} of {use.n_expert} in a layer",
            f"counted in {use.steps} steps; even routing touches {use.expected:.3g}",
        ]
        for use in extrapolation.experts
    ]

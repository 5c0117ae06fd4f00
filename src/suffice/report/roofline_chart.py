"""A roofline with the workload on it (Williams, Waterman and Patterson, CACM 52(4), 2009)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.report.pictures import LABEL_CHARACTERS, drawing, save
from suffice.report.tables import one_line, shortened
from suffice.units import GIGA, format_bandwidth

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from suffice.model.roofline import PhaseWork, Roofs

_ROOM: Final = 8.0  # how far the axis goes beyond the outermost point, as a factor


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflinePoint:
    """A phase of work, and what it is called: "decode, batch 1"."""

    label: str
    work: PhaseWork

    @property
    def intensity(self) -> float:
        """Operations for each byte read, FLOP/byte."""
        return self.work.flop / self.work.read_bytes


def write_roofline(path: Path, roofs: Roofs, points: Sequence[RooflinePoint], title: str) -> None:
    """Attainable FLOP/s against operations per byte: the memory roof, the compute roof where it is known, and the phases.

    Raises:
        OutputError: it cannot be written.
    """
    with drawing():
        save(_figure(roofs, points, title), path)


def _figure(roofs: Roofs, points: Sequence[RooflinePoint], title: str) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415  # an optional extra, and slow to import

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    shown = [point for point in points if point.intensity > 0]
    marks = [point.intensity for point in shown]
    if roofs.peak_flop_per_s is not None:
        marks.append(roofs.peak_flop_per_s / roofs.bandwidth_bytes_per_s)
    ends = (min(marks, default=1.0) / _ROOM, max(marks, default=1.0) * _ROOM)
    _draw_roofs(axes, roofs, ends)
    for index, point in enumerate(shown):
        height = attainable_flop_per_s(roofs, point.intensity) / GIGA
        axes.plot([point.intensity], [height], "osD^v"[index % 5], markersize=9, label=point.label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("operations per byte read (FLOP/byte)")
    axes.set_ylabel("attainable (GFLOP/s)")
    axes.set_title(shortened(one_line(title), 2 * LABEL_CHARACTERS), parse_math=False)
    axes.grid(visible=True, which="both", alpha=0.25)
    axes.legend()
    return figure


def _draw_roofs(axes: Axes, roofs: Roofs, ends: tuple[float, float]) -> None:
    ridge = None if roofs.peak_flop_per_s is None else roofs.peak_flop_per_s / roofs.bandwidth_bytes_per_s
    corners = [ends[0], ends[1]] if ridge is None else [ends[0], ridge, ends[1]]
    heights = [attainable_flop_per_s(roofs, intensity) / GIGA for intensity in corners]
    label = f"memory roof, {format_bandwidth(roofs.bandwidth_bytes_per_s)}"
    if roofs.peak_flop_per_s is not None:
        label = f"{label}; compute roof, {roofs.peak_flop_per_s / GIGA:,.0f} GFLOP/s"
    axes.plot(corners, heights, color="#333333", label=label)


def attainable_flop_per_s(roofs: Roofs, intensity: float) -> float:
    """The lower of the two roofs at so many operations per byte."""
    memory = intensity * roofs.bandwidth_bytes_per_s
    return memory if roofs.peak_flop_per_s is None else min(memory, roofs.peak_flop_per_s)

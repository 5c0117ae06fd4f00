"""A search for a server's capacity as a picture: throughput, TTFT and TPOT against load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from suffice.model.capacity import LevelVerdict
from suffice.model.capacity_search import CapacityOf
from suffice.report.pictures import drawing, save
from suffice.report.tables import one_line, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from suffice.load.capacity_result import CapacityResult, LevelResult, Metric

_COLOURS: Final = {LevelVerdict.HOLDS: "#54a24b", LevelVerdict.FAILS: "#e45756", LevelVerdict.UNDECIDED: "#888888"}

_LIMIT_COLOUR: Final = "#e45756"
_TITLE_CHARACTERS: Final = 72  # of a line, at the size of the title over the whole figure
_FAR: Final = 4.0  # times what was measured


def write_capacity_chart(path: Path, result: CapacityResult) -> None:
    """Three panels over one axis of load; limits are lines, the ends of the answer are marked.

    Raises:
        OutputError: it cannot be written.
    """
    with drawing():
        save(_figure(result), path)


def _figure(result: CapacityResult) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415  # an optional extra, and slow to import

    longer = {level.level: level for level in sorted(result.levels, key=lambda level: level.thorough)}
    levels = sorted(longer.values(), key=lambda level: level.level)
    limits = [one.limits for one in result.settings.criteria]
    figure = Figure(figsize=(8, 10), layout="constrained")
    top, middle, bottom = figure.subplots(3, 1, sharex=True)
    rates = [one.output_tokens_per_second for one in levels]
    _line(top, levels, rates, "tokens/s")
    top.set_ylabel("throughput (tokens/s)")
    top.set_ylim(bottom=0)
    _times(middle, levels, [one.ttft for one in levels], "TTFT (s)", [one.ttft_s for one in limits])
    _times(bottom, levels, [one.tpot for one in levels], "TPOT (s)", [one.tpot_s for one in limits])
    for axes in (top, middle, bottom):
        _ends(axes, result)
        axes.grid(visible=True, alpha=0.25)
        _legend(axes)
    unit = "users" if result.settings.of is CapacityOf.USERS else "requests/s"
    # A growing queue is the shorter the sooner its level ends: a hollow point above saturation lies too low.
    bottom.set_xlabel(unit if all(level.thorough for level in levels) else f"{unit} (hollow: tried briefly)")
    lines = (result.settings.model or "unnamed", result.settings.url)
    title = "\n".join(shortened(one_line(line), _TITLE_CHARACTERS) for line in lines)
    figure.suptitle(title, fontsize="medium", parse_math=False)
    return figure


def _legend(axes: Axes) -> None:
    """In a row above its panel: within, it covers what it explains."""
    names = axes.get_legend_handles_labels()[1]
    if names:
        place = {"bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.2, "columnspacing": 1.2}
        axes.legend(loc="lower left", ncols=len(names), frameon=False, fontsize="small", **place)


def _times(
    axes: Axes,
    levels: Sequence[LevelResult],
    metrics: Sequence[Metric | None],
    label: str,
    limits: Sequence[float | None],
) -> None:
    _line(axes, levels, [None if one is None else one.p50.observed_s for one in metrics], "P50", dashed=True)
    _line(axes, levels, [None if one is None else one.p95.observed_s for one in metrics], "P95")
    most = axes.get_ylim()[1]
    for limit in dict.fromkeys(limits):
        if limit is None:
            continue
        if limit > _FAR * most:  # drawn to scale it would press all that was measured into a line
            axes.plot([], [], color=_LIMIT_COLOUR, linestyle=":", label=f"limit {limit:g} s, far above")
        else:
            axes.axhline(limit, color=_LIMIT_COLOUR, label=f"limit {limit:g} s")
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0, top=axes.get_ylim()[1] * 1.05)


def _line(
    axes: Axes, levels: Sequence[LevelResult], values: Sequence[float | None], label: str, *, dashed: bool = False
) -> None:
    known = [(one, value) for one, value in zip(levels, values, strict=True) if value is not None]
    if not known:
        return
    xs, ys = [one.level for one, _ in known], [value for _, value in known]
    colours = [_COLOURS[one.verdict] for one, _ in known]
    faces = [colour if one.thorough else "white" for (one, _), colour in zip(known, colours, strict=True)]
    axes.plot(xs, ys, color="#4c78a8", linestyle="--" if dashed else "-", label=label)
    axes.scatter(xs, ys, facecolors=faces, edgecolors=colours, zorder=3)


def _ends(axes: Axes, result: CapacityResult) -> None:
    found = result.capacity
    if found.held is not None:
        axes.axvline(found.held, color=_COLOURS[LevelVerdict.HOLDS], alpha=0.6, label=f"holds at {found.held:g}")
    if found.failed is not None:
        axes.axvline(
            found.failed,
            color=_COLOURS[LevelVerdict.FAILS],
            alpha=0.6,
            linestyle=":",
            label=f"fails at {found.failed:g}",
        )

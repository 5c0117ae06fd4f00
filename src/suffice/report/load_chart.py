"""A search for a server's capacity as a picture: throughput, TTFT and TPOT against load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from suffice.model.capacity import LevelVerdict
from suffice.model.capacity_search import CapacityOf
from suffice.report.pictures import LABEL_CHARACTERS, drawing, save
from suffice.report.tables import one_line, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from suffice.load.capacity_result import CapacityResult, LevelResult, Metric

_COLOURS: Final = {LevelVerdict.HOLDS: "#54a24b", LevelVerdict.FAILS: "#e45756", LevelVerdict.UNDECIDED: "#888888"}


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
    figure = Figure(figsize=(8, 9), layout="constrained")
    top, middle, bottom = figure.subplots(3, 1, sharex=True)
    rates = [one.output_tokens_per_second for one in levels]
    _line(top, levels, rates, "tokens/s")
    top.set_ylabel("throughput (tokens/s)")
    _times(middle, levels, [one.ttft for one in levels], "TTFT (s)", [one.ttft_s for one in limits])
    _times(bottom, levels, [one.tpot for one in levels], "TPOT (s)", [one.tpot_s for one in limits])
    for axes in (top, middle, bottom):
        _ends(axes, result)
        axes.grid(visible=True, alpha=0.25)
        if axes.get_legend_handles_labels()[0]:
            axes.legend()
    bottom.set_xlabel("users" if result.settings.of is CapacityOf.USERS else "requests/s")
    title = f"{result.settings.model or 'unnamed'} at {result.settings.url}"
    top.set_title(shortened(one_line(title), 2 * LABEL_CHARACTERS), parse_math=False)
    return figure


def _times(
    axes: Axes,
    levels: Sequence[LevelResult],
    metrics: Sequence[Metric | None],
    label: str,
    limits: Sequence[float | None],
) -> None:
    _line(axes, levels, [None if one is None else one.p50.observed_s for one in metrics], "P50", dashed=True)
    _line(axes, levels, [None if one is None else one.p95.observed_s for one in metrics], "P95")
    for limit in limits:
        if limit is not None:
            axes.axhline(limit, color="#e45756", label=f"limit {limit:g} s")
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0, top=axes.get_ylim()[1] * 1.05)


def _line(
    axes: Axes, levels: Sequence[LevelResult], values: Sequence[float | None], label: str, *, dashed: bool = False
) -> None:
    known = [(one.level, value, one.verdict) for one, value in zip(levels, values, strict=True) if value is not None]
    if not known:
        return
    xs, ys = [one[0] for one in known], [one[1] for one in known]
    axes.plot(xs, ys, color="#4c78a8", linestyle="--" if dashed else "-", label=label)
    axes.scatter(xs, ys, color=[_COLOURS[one[2]] for one in known], zorder=3)


def _ends(axes: Axes, result: CapacityResult) -> None:
    found = result.capacity
    if found.held is not None:
        axes.axvline(found.held, color=_COLOURS[LevelVerdict.HOLDS], alpha=0.6, label="holds")
    if found.failed is not None:
        axes.axvline(found.failed, color=_COLOURS[LevelVerdict.FAILS], alpha=0.6, linestyle=":", label="fails")

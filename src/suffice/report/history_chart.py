"""A history as a picture: a panel for each metric, a point a run with its interval, the levels between steps, the floor."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from suffice.decide.guard_types import Metric
from suffice.report.pictures import drawing, save
from suffice.stats.intervals import median
from suffice.units import GIB

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from suffice.decide.guard_trend import Trend
    from suffice.decide.guard_types import RunFacts

_POINT, _LEFT_OUT, _LEVEL, _FLOOR = "#4c78a8", "#bbbbbb", "#f58518", "#e45756"
_PANEL_INCHES: Final = 2.6


def write_history_chart(
    path: Path, runs: Sequence[RunFacts], trends: Sequence[Trend], limits: Mapping[Metric, float] | None = None
) -> None:
    """Every run of a history by its place; those that a trend leaves out are grey.

    Args:
        path: ends with .svg or .png.
        runs: of the history, one at least.
        trends: one panel each.
        limits: floors and ceilings to draw, in the metrics' units.

    Raises:
        OutputError: it cannot be written.
    """
    from matplotlib import rc_context  # noqa: PLC0415  # an optional extra, and slow to import

    with drawing(), rc_context({"svg.hashsalt": "suffice"}):  # the same names of shapes for the same figure
        save(_figure(runs, trends, limits or {}), path)


def _figure(runs: Sequence[RunFacts], trends: Sequence[Trend], limits: Mapping[Metric, float]) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415  # as above
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415  # as above

    figure = Figure(figsize=(9, 0.8 + _PANEL_INCHES * len(trends)), layout="constrained")
    panels = figure.subplots(len(trends), 1, sharex=True, squeeze=False)[:, 0]
    for axes, trend in zip(panels, trends, strict=True):
        _panel(axes, runs, trend, limits.get(trend.metric))
    panels[-1].set_xlabel("run")
    panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def _panel(axes: Axes, runs: Sequence[RunFacts], trend: Trend, limit: float | None) -> None:
    metric = trend.metric
    scale = GIB if metric is Metric.MEMORY else 1
    counted = set(trend.places)
    for place, run in enumerate(runs):
        figure = run.figures.get(metric)
        if figure is None or figure.quantity is None:
            continue
        point = figure.quantity.point
        low = point if figure.quantity.low is None else figure.quantity.low
        high = point if figure.quantity.high is None else figure.quantity.high
        error = ([max(0.0, point - low) / scale], [max(0.0, high - point) / scale])
        colour = _POINT if place in counted else _LEFT_OUT
        axes.errorbar([place + 1], [point / scale], yerr=error, fmt="o", color=colour, capsize=2, markersize=4)
    _levels(axes, trend, scale)
    if limit is not None:
        axes.axhline(limit / scale, color=_FLOOR, linestyle="--", linewidth=1, label="limit")
    axes.set_ylabel(f"{metric.value}, {'GiB' if metric is Metric.MEMORY else metric.unit}")
    axes.grid(visible=True, alpha=0.25)
    axes.margins(y=0.15)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="best", fontsize="small", framealpha=0.85)


def _levels(axes: Axes, trend: Trend, scale: float) -> None:
    """A line at the median of each level, and one where it changed."""
    bounds = [0, *(trend.places.index(step.run) for step in trend.steps), len(trend.places)]
    for number, (start, end) in enumerate(pairwise(bounds)):
        if start == end:
            continue
        level = median(trend.values[start:end]) / scale
        span = [trend.places[start] + 1, trend.places[end - 1] + 1]
        axes.plot(span, [level, level], color=_LEVEL, linewidth=1.5, label=None if number else "level (median)")
    for number, step in enumerate(trend.steps):
        label = None if number else "step"
        axes.axvline(step.run + 0.5, color=_FLOOR, linewidth=1, linestyle=":", label=label)

"""The comparison of models as a picture, by matplotlib where it is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.report.pictures import LABEL_CHARACTERS, drawing, save
from suffice.report.tables import one_line, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

    from suffice.decide.ranking import Candidate
    from suffice.model.demand import Demand


def write_chart(path: Path, candidates: Sequence[Candidate], demand: Demand | None) -> None:
    """Bars of decode rates with their intervals, lines for the need and, of a single stream, the need times the margin.

    Raises:
        OutputError: it cannot be written.
    """
    with drawing():
        save(_bars(candidates, demand), path)


def _bars(candidates: Sequence[Candidate], demand: Demand | None) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415  # an optional extra, and slow to import

    known = [(shortened(one_line(one.name), LABEL_CHARACTERS), one.decode) for one in candidates if one.decode]
    figure = Figure(figsize=(8, 1.5 + 0.45 * len(known)), layout="constrained")
    axes = figure.subplots()
    points = [rate.point for _, rate in known]
    low = [max(0.0, rate.point - (rate.point if rate.low is None else rate.low)) for _, rate in known]
    high = [max(0.0, (rate.point if rate.high is None else rate.high) - rate.point) for _, rate in known]
    positions = range(len(known))
    axes.barh(positions, points, xerr=(low, high), capsize=3, color="#4c78a8")
    axes.set_yticks(positions, labels=[name for name, _ in known])
    for label in axes.get_yticklabels():
        label.set_parse_math(False)  # a $ in a name is a $
    axes.invert_yaxis()
    axes.set_xlabel("decode, tokens/s of one stream (95 % interval)")
    need = None if demand is None else demand.required_decode_tokens_per_second
    if need is not None and demand is not None:
        axes.axvline(need, color="#e45756", label=f"need {need:g}")
        if not demand.margin_is_of_load:
            axes.axvline(need * demand.margin, color="#e45756", linestyle="--", label=f"with margin {demand.margin:g}")
        axes.legend()
    return figure

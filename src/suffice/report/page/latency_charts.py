"""Times over load as a picture; the section has its numbers in a table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.report.page.model import Picture
from suffice.report.svg.types import LARGEST, Along, Axis, LatencyChart, Limit, Point, Series
from suffice.units import MILLISECONDS_PER_SECOND

if TYPE_CHECKING:
    from suffice.report.page.words import Words

LEAST_POINTS: Final = 2
"""Of one a picture tells no more than the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A percentile over load: pairs of load and seconds. Infinite: without end; NaN: nothing was answered."""

    percent: str
    points: tuple[tuple[float, float], ...]

    @property
    def finite(self) -> tuple[tuple[float, float], ...]:
        """What can be drawn."""
        return tuple((x, y) for x, y in self.points if math.isfinite(y) and abs(y) <= LARGEST)


def latency_picture(
    metric: str,
    unit: str,
    curves: tuple[Curve, ...],
    words: Words,
    *,
    limit_s: float | None = None,
    demanded: float | None = None,
    doubtful: bool = False,
) -> Picture | None:
    """TTFT or TPOT over load in ``unit``; None where too little is finite to draw a line. ``doubtful``: nothing can be judged by these loads."""
    shown = [curve for curve in curves if len({x for x, _ in curve.finite}) >= LEAST_POINTS]
    if not shown:
        return None
    scale, time_unit = _scale([y for curve in shown for _, y in curve.finite])
    series = tuple(
        Series(
            name=f"P{curve.percent}",
            points=tuple(Point(x=x, y=y * scale) for x, y in curve.finite),
            hollow=doubtful,
        )
        for curve in shown
    )
    limits = []
    if limit_s is not None and limit_s <= LARGEST / scale:
        limits.append(Limit(label=words("load.limit", value=words.number(limit_s, "s")), value=limit_s * scale))
    if demanded is not None:
        limits.append(Limit(label=words("load.demanded"), value=demanded, along=Along.X))
    name = words(f"metric.{metric}")
    told = [
        words(
            "load.row",
            load=words.number(curve.finite[-1][0], unit),
            percent=curve.percent,
            value=words.number(curve.finite[-1][1], "s"),
        )
        for curve in shown
    ]
    localized = words.units.get(unit, unit)
    described = words("load.description", what=name, load=localized, rows=words.rows(told))
    chart = LatencyChart(
        title=words(f"load.{metric.removesuffix('_s')}.title"),
        description=words.sentences((described, words("load.doubtful") if doubtful else "")),
        x=Axis(label=words("load.x"), unit=localized),
        y=Axis(label=words("load.y"), unit=time_unit),
        curves=series,
        limits=tuple(limits),
    )
    return Picture(chart=chart, table=None)


def _scale(times_s: list[float]) -> tuple[float, str]:
    """Milliseconds where all times are below a second."""
    return (1.0, "s") if max(times_s, default=0.0) >= 1 else (float(MILLISECONDS_PER_SECOND), "ms")

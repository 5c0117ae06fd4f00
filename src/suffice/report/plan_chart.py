"""Charts of a plan: cost against volume and against users at the same time, with the places where lines cross."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from suffice.decide.plan_curves import volume_curves
from suffice.report.svg.types import Along, Axis, Course, CrossoverChart, Limit, Mark, Point, Series
from suffice.units import MEGA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.plan_curves import CostCurve
    from suffice.decide.plan_types import Plan


_MANY: Final = 100  # millions from which on no decimal is written


def volume_chart(plan: Plan) -> CrossoverChart | None:
    """Cost against millions of generated tokens a month; None where no volume is stated, or nothing has a bill."""
    curves = volume_curves(plan)
    tokens = next((one.tokens_per_month for one in plan.options if one.tokens_per_month is not None), None)
    if not curves or tokens is None:
        return None
    places = {(one.cheaper_below, one.cheaper_above): one.tokens_per_month for one in plan.crossovers}
    bills = {one.name: one.cost.amount for one in plan.options if one.cost is not None}
    drawn = {curve.name for curve in curves}
    ends = curves[0].points[0][0], max(curve.points[-1][0] for curve in curves)
    marks = tuple(
        Mark(label=_millions(x), x=x / MEGA, y=bills[below] * x / tokens)
        for (below, _), x in places.items()
        if below in drawn and ends[0] <= x <= ends[1]
    )
    return CrossoverChart(
        title="Cost a month against volume",
        description=f"Bills of {', '.join(sorted(drawn))} at 0.01 to 100 times the demand's volume; machines to rent are steps, APIs and this machine's energy are lines.",
        x=Axis(label="generated tokens a month", unit="million", log=True),
        y=Axis(label="a month", unit=plan.currency),
        lines=tuple(_series(curve, MEGA) for curve in curves),
        crossings=marks,
        limits=(Limit(label="the demand", value=tokens / MEGA, along=Along.X),),
    )


def concurrency_chart(curves: Sequence[CostCurve]) -> CrossoverChart | None:
    """Cost against users at the same time; None without a curve. All curves are of one currency: the first one's."""
    if not curves:
        return None
    own = [curve for curve in curves if curve.currency == curves[0].currency]
    return CrossoverChart(
        title="Cost a month against users",
        description=f"Bills of as many machines as hold so many users at the same time, with the margin: {', '.join(curve.name for curve in own)}.",
        x=Axis(label=own[0].x_label, log=True),
        y=Axis(label="a month", unit=own[0].currency),
        # Between two numbers of users nobody looked where the next machine is needed.
        lines=tuple(_series(curve, 1.0, Course.POINTS) for curve in own),
    )


def _millions(tokens: float) -> str:
    return f"{tokens / MEGA:,.0f} M" if tokens >= _MANY * MEGA else f"{tokens / MEGA:.3g} M"


def _series(curve: CostCurve, scale: float, course: Course = Course.LINE) -> Series:
    return Series(name=curve.name, points=tuple(Point(x=x / scale, y=y) for x, y in curve.points), course=course)

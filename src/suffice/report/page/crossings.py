"""Cost against volume or users, as the plan has it, and where two options cost the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from suffice.report.page.model import Picture, Table, Text
from suffice.report.svg.types import LARGEST, Along, Axis, Course, CrossoverChart, Limit, Mark, Point, Series
from suffice.report.tables import one_line, shortened

if TYPE_CHECKING:
    from suffice.report.page.model import Block
    from suffice.report.page.plan_view import CrossoverView, CurveView, PlanView
    from suffice.report.page.words import Words

_LABEL_CHARACTERS: Final = 32
_VOLUME: Final = "generated tokens a month"
_COLUMNS: Final = ("below", "above", "tokens", "up_to", "times")
_LEAST_POINTS: Final = 2


def crossing_blocks(plan: PlanView, words: Words) -> list[Block]:
    """A picture for each kind of axis that the plan's curves have, and a table of the crossings; nothing where it has neither."""
    table = _table(plan.crossovers, words) if plan.crossovers else None
    curves = [curve for curve in plan.curves if len(_points(curve)) >= _LEAST_POINTS]
    kinds = dict.fromkeys(curve.x for curve in curves)
    blocks: list[Block] = []
    for kind in kinds:
        of_kind = [curve for curve in curves if curve.x == kind]
        is_volume = kind == _VOLUME
        chart = _chart(plan, of_kind, words, is_volume=is_volume)
        blocks.append(Picture(chart=chart, table=table if is_volume else None))
    if table is not None and _VOLUME not in kinds:
        blocks.append(table)
    return blocks


def _points(curve: CurveView) -> tuple[Point, ...]:
    """Those that a log axis can show."""
    return tuple(Point(x=x, y=y) for x, y in curve.points if 0 < x <= LARGEST and 0 <= y <= LARGEST)


def _tokens(value: float, words: Words) -> str:
    return words.count(value, "tokens")


def _chart(plan: PlanView, curves: list[CurveView], words: Words, *, is_volume: bool) -> CrossoverChart:
    # Of users only some numbers were looked at: between two of them nobody knows where the next machine is needed.
    course = Course.LINE if is_volume else Course.POINTS
    lines = tuple(
        Series(name=shortened(one_line(curve.name), _LABEL_CHARACTERS), points=_points(curve), course=course)
        for curve in curves
    )
    crossings = plan.crossovers if is_volume else ()
    marks = [mark for one in crossings if (mark := _mark(one, curves, words)) is not None]
    demand = next((one.tokens_per_month for one in plan.options if one.tokens_per_month), None) if is_volume else None
    limits = () if demand is None else (Limit(label=words("cost.crossover.demand"), value=demand, along=Along.X),)
    told = [_told(one, words) for one in crossings]
    names = words("cost.crossover.lines", names=words.joined(one_line(curve.name) for curve in curves))
    return CrossoverChart(
        title=words("cost.crossover.title" if is_volume else "cost.crossover.users.title"),
        description=words.sentences(
            (names, words("cost.crossover.description", rows=words.rows(told)) if told else "")
        ),
        x=Axis(label=words("cost.crossover.x" if is_volume else "cost.crossover.users"), log=True),
        y=Axis(label=words("cost.axis"), unit=one_line(curves[0].currency)),
        lines=lines,
        crossings=tuple(marks),
        limits=limits,
    )


def _told(one: CrossoverView, words: Words) -> str:
    names = {"below": one_line(one.cheaper_below), "above": one_line(one.cheaper_above)}
    tokens, most = _tokens(one.tokens_per_month, words), one.up_to_tokens_per_month
    if most is None:
        return words("cost.crossover.row", tokens=tokens, **names)
    return words("cost.crossover.row.up_to", tokens=tokens, most=_tokens(most, words), **names)


def _mark(one: CrossoverView, curves: list[CurveView], words: Words) -> Mark | None:
    """On the line of one of the two that reaches so far, between the points beside it."""
    place = one.tokens_per_month
    named = [curve for curve in curves if curve.name in (one.cheaper_below, one.cheaper_above)]
    pairs = [pair for curve in named for pair in zip(curve.points, curve.points[1:], strict=False)]
    height = next((_between(a, b, place) for a, b in pairs if a[0] <= place <= b[0]), None)
    return None if height is None else Mark(label=_tokens(place, words), x=place, y=height)


def _between(first: tuple[float, float], second: tuple[float, float], x: float) -> float:
    width = second[0] - first[0]
    return first[1] if width == 0 else first[1] + (second[1] - first[1]) * (x - first[0]) / width


def _table(crossings: tuple[CrossoverView, ...], words: Words) -> Table:
    rows = []
    for one in crossings:
        times, most = one.times_the_demand, one.up_to_tokens_per_month
        rows.append(
            (
                Text(text=one_line(one.cheaper_below), is_code=True),
                Text(text=one_line(one.cheaper_above), is_code=True),
                Text(text=_tokens(one.tokens_per_month, words), value=one.tokens_per_month, unit="tokens"),
                words.text("unknown") if most is None else Text(text=_tokens(most, words), value=most, unit="tokens"),
                words.text("unknown") if times is None else Text(text=f"{times:.3g}", value=times),
            )
        )
    return Table(
        caption=words.text("cost.crossover.table"),
        header=tuple(words.text(f"column.{name}") for name in _COLUMNS),
        rows=tuple(rows),
    )

"""The comparison of quantizations: scores with their intervals, decisions, and score against speed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from suffice.decide.quality import KEPT_UNIT
from suffice.decide.quants_speed import Front
from suffice.report.page.model import Picture, Role, Section, Sentence, Table, Text, english
from suffice.report.svg.types import Along, Axis, Course, Limit, ParetoChart, Point, Series
from suffice.report.tables import one_line, shortened
from suffice.units import format_bytes

if TYPE_CHECKING:
    from suffice.decide.quants_conclusion import Conclusions
    from suffice.decide.quants_speed import SpeedFigures
    from suffice.decide.quants_types import CandidateQuality, ModelQuality
    from suffice.model.demand import Demand
    from suffice.report.page.given import PageInput
    from suffice.report.page.model import Block
    from suffice.report.page.words import Words

_LABEL_CHARACTERS: Final = 32
_COLUMNS: Final = ("model", "score", "difference", "decision", "decode", "size")


def quality_section(given: PageInput, words: Words) -> Section:
    """What was compared, or how it is."""
    title = words.text("section.quality")
    found = given.quality
    if found is None:
        return Section(key="quality", title=title, blocks=(Sentence(text=words.text("quality.none"), role=Role.NOTE),))
    table = _table(found, words)
    chart = _chart(found, given.demand, words)
    blocks: list[Block] = [Sentence(text=_intro(found, words))]
    blocks.append(table if chart is None else Picture(chart=chart, table=table))
    told = (*found.sentences, *found.record.notes, *found.quality.notes)
    blocks += [Sentence(text=english(one_line(one)), role=Role.NOTE) for one in told]
    return Section(key="quality", title=title, blocks=tuple(blocks))


def _intro(found: Conclusions, words: Words) -> Text:
    return words.text(
        "quality.intro",
        items=f"{found.quality.items}",
        source=one_line(found.record.items_source),
        reference=one_line(found.quality.reference.name),
        loss=words.loss(found.quality.policy.max_loss),
    )


def _table(found: Conclusions, words: Words) -> Table:
    speeds = {one.name: one for one in found.speeds}
    looks = {look.name: look for look in found.quality.candidates}
    return Table(
        caption=words.text("quality.table"),
        header=tuple(words.text(f"column.{name}") for name in _COLUMNS),
        rows=tuple(_row(model, looks.get(model.name), speeds[model.name], words) for model in found.quality.models),
    )


def _row(model: ModelQuality, look: CandidateQuality | None, speed: SpeedFigures, words: Words) -> tuple[Text, ...]:
    size = speed.file_bytes
    return (
        Text(text=one_line(model.name), is_code=True),
        Text(text=_score(model, words), value=model.mean, unit="share"),
        _difference(look, words),
        words.text("quality.reference") if look is None else words.text(f"decision.{look.decision}"),
        _decode(speed, words),
        words.text("unknown") if size is None else Text(text=format_bytes(size), value=float(size), unit="bytes"),
    )


def _score(model: ModelQuality, words: Words) -> str:
    text = words.number(model.mean, "share")
    if model.interval is None:
        return text
    low, high = (words.number(end, "share") for end in (model.interval.low, model.interval.high))
    return words("percentile.range", value=text, low=low, high=high)


def _difference(look: CandidateQuality | None, words: Words) -> Text:
    figures = None if look is None else look.paired
    if figures is None:
        return words.text("none")
    text = words.number(1 + figures.difference, KEPT_UNIT)
    if figures.interval is not None:
        low, high = (words.number(1 + end, KEPT_UNIT) for end in (figures.interval.low, figures.interval.high))
        text = words("percentile.range", value=text, low=low, high=high)
    return Text(text=text, value=figures.difference, unit="share")


def _decode(speed: SpeedFigures, words: Words) -> Text:
    rate = speed.decode
    if rate is None:
        return words.text("unknown")
    text = words.number(rate.point, "tokens/s")
    if rate.low is not None and rate.high is not None:
        low, high = words.number(rate.low, "tokens/s"), words.number(rate.high, "tokens/s")
        text = words("percentile.range", value=text, low=low, high=high)
    return Text(text=text, value=rate.point, unit="tokens/s")


def _chart(found: Conclusions, demand: Demand, words: Words) -> ParetoChart | None:
    """None where of no model both are known."""
    models = {model.name: model for model in found.quality.models}
    front = {one.name for one in found.fronts if one.standing is Front.NOT_DOMINATED}
    points = {one.name: point for one in found.speeds if (point := _point(models[one.name], one)) is not None}
    if not points:
        return None
    groups = [
        Series(
            name=words(f"quality.{key}"),
            points=tuple(point for name, point in points.items() if (name in front) is (key == "front")),
            course=Course.POINTS,
            hollow=key == "rest",
        )
        for key in ("front", "rest")
    ]
    told = [
        words(
            "quality.chart.row",
            name=point.label,
            decode=words.number(point.x, "tokens/s"),
            score=words.number(point.y, "share"),
        )
        for point in points.values()
    ]
    return ParetoChart(
        title=words("quality.chart.title"),
        description=words("quality.chart.description", rows=words.rows(told)),
        x=Axis(label=words("quality.x"), unit=words.units.get("tokens/s", "tokens/s")),
        y=Axis(label=words("quality.y"), from_zero=False, percent=True),
        groups=tuple(group for group in groups if group.points),
        limits=_limits(demand, words),
    )


def _point(model: ModelQuality, speed: SpeedFigures) -> Point | None:
    if model.mean is None or speed.decode is None:
        return None
    return Point(
        x=speed.decode.point,
        y=model.mean,
        x_low=speed.decode.low,
        x_high=speed.decode.high,
        y_low=None if model.interval is None else model.interval.low,
        y_high=None if model.interval is None else model.interval.high,
        label=shortened(one_line(model.name), _LABEL_CHARACTERS),
    )


def _limits(demand: Demand, words: Words) -> tuple[Limit, ...]:
    need, floor = demand.required_decode_tokens_per_second, demand.quality_floor
    found = []
    if need is not None:
        key, asked = "numbers.demand.margin", need * demand.margin
        if demand.margin_is_of_load:
            key, asked = "quality.need.load", need
        told = words(key, value=words.number(asked, "tokens/s"), margin=f"{demand.margin:g}")
        found.append(Limit(label=told, value=asked, along=Along.X))
    if floor is not None:
        found.append(Limit(label=words("sense.at least", value=words.number(floor, "share")), value=floor))
    return tuple(found)

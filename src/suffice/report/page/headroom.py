"""Each requirement against what is there, as a table and as bars."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from suffice.decide.verdict import Grade, GradedConstraint
from suffice.decide.wording import value_texts
from suffice.report.page.model import Picture, Role, Section, Sentence, Table, Text
from suffice.report.page.phrases import told
from suffice.report.page.quantities import available_cell, headroom_cell, required_cell, required_text
from suffice.report.svg.types import LARGEST, Axis, HeadroomChart, HeadroomRow

if TYPE_CHECKING:
    from suffice.decide.constraint import Constraint
    from suffice.report.page.given import PageInput
    from suffice.report.page.model import Block
    from suffice.report.page.words import Words

_GRADES: Final = (Grade.ENOUGH, Grade.THIN, Grade.NOT_ENOUGH, Grade.OPEN)


def headroom_section(given: PageInput, words: Words) -> Section:
    """The constraints of the verdict."""
    constraints = given.decision.verdict.constraints
    table = Table(
        caption=words.text("constraints.caption"),
        header=tuple(words.text(f"column.{name}") for name in _COLUMNS),
        rows=tuple(_row(item, words) for item in constraints),
    )
    bars = [_bar(item, words) for item in constraints if _can_be_drawn(item)]
    blocks: list[Block] = [Picture(chart=_chart(bars, words), table=table) if bars else table]
    noted = [item.constraint for item in constraints if item.constraint.note]
    if given.plan is not None:  # its chart has the budget as a line; the note says that no price is known
        noted = [constraint for constraint in noted if constraint.name != "budget_per_month"]
    blocks += [_note(constraint, words) for constraint in noted]
    return Section(key="headroom", title=words.text("section.headroom"), blocks=tuple(blocks))


_COLUMNS: Final = ("constraint", "required", "available", "headroom", "margin", "stands")


def _row(item: GradedConstraint, words: Words) -> tuple[Text, ...]:
    constraint = item.constraint
    stands = words.grade(item.grade) if constraint.judged else words("grade.not judged")
    return (
        Text(text=words.constraint(constraint)),
        required_cell(constraint, words),
        available_cell(constraint, words),
        headroom_cell(constraint, words),
        Text(text=f"{constraint.margin:g}", value=constraint.margin),
        Text(text=stands),
    )


def _note(constraint: Constraint, words: Words) -> Sentence:
    """What qualifies a number; written by the rule that found it."""
    return Sentence(
        text=told(constraint.note, words), role=Role.NOTE, label=words("label", text=words.constraint(constraint))
    )


def _can_be_drawn(item: GradedConstraint) -> bool:
    headroom = item.constraint.headroom
    return item.constraint.judged and headroom is not None and 0 <= headroom <= LARGEST


def _bar(item: GradedConstraint, words: Words) -> HeadroomRow:
    constraint = item.constraint
    low, high = (
        end if end is not None and math.isfinite(end) and 0 <= end <= LARGEST else None
        for end in constraint.headroom_range
    )
    point = 0.0 if constraint.available is None else constraint.available.point
    available = words.localized(value_texts(constraint.required, point, constraint.unit)[1])
    return HeadroomRow(
        label=words.constraint(constraint),
        text=words("headroom.value", available=available, required=required_text(constraint, words)),
        headroom=constraint.headroom,
        grade=item.grade,
        low=low,
        high=high,
        margin=constraint.margin,
    )


def _chart(bars: list[HeadroomRow], words: Words) -> HeadroomChart:
    rows = [
        words("headroom.row", label=bar.label, headroom=words.headroom(bar.headroom), grade=words.grade(bar.grade))
        for bar in bars
    ]
    return HeadroomChart(
        title=words("headroom.title"),
        description=words("headroom.description", rows=words.rows(rows)),
        axis=Axis(label=words("headroom.axis")),
        required_label=words("headroom.required"),
        margin_label=words("headroom.margin"),
        rows=tuple(bars),
        grade_words=tuple((grade, words.grade(grade)) for grade in _GRADES),
    )

"""A comparison of models for a reader: as text for a terminal, and as Markdown, from the same tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from suffice.report.quants_tables import (
    agreement_rows,
    candidate_rows,
    distance_rows,
    flip_rows,
    kind_rows,
    marks,
    model_rows,
    speed_rows,
)
from suffice.report.tables import markdown_table, markdown_text, one_line, plain_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.quants_conclusion import Conclusions


@dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    """A heading with a table whose first row is its header."""

    title: str
    rows: Sequence[Sequence[str]]


def quants_text(conclusions: Conclusions) -> str:
    """Tables, at most 20 flips, a sentence for each candidate, and what qualifies them."""
    parts = [one_line(_headline(conclusions))]
    parts += [f"{section.title}\n{plain_table(section.rows)}" for section in _sections(conclusions)]
    parts.append("\n".join(one_line(sentence) for sentence in conclusions.sentences))
    parts.append("\n".join(f"! {one_line(mark)}" for mark in marks(conclusions)))
    return "\n\n".join(part for part in parts if part)


def quants_markdown(conclusions: Conclusions) -> str:
    """The same as Markdown, the sentences first; whatever comes from outside is inert."""
    parts = ["# Comparison of models", markdown_text(_headline(conclusions))]
    parts.append("\n".join(f"- {markdown_text(sentence)}" for sentence in conclusions.sentences))
    parts += [f"## {section.title}\n\n{markdown_table(section.rows)}" for section in _sections(conclusions)]
    remarks = marks(conclusions)
    if remarks:
        parts.append("## Remarks\n\n" + "\n".join(f"- {markdown_text(mark)}" for mark in remarks))
    return "\n\n".join(part for part in parts if part) + "\n"


def _headline(conclusions: Conclusions) -> str:
    quality = conclusions.quality
    text = f"{quality.items:,} items of {conclusions.record.items_source}"
    text += ", all labelled" if quality.labelled == quality.items else f", {quality.labelled:,} labelled"
    if quality.clusters != quality.items:
        text += f", in {quality.clusters:,} groups"
    if quality.repeated:
        text += f" ({quality.repeated:,} ask what another one asks)"
    return f"{text}; reference: {quality.reference.name}"


def _sections(conclusions: Conclusions) -> list[_Section]:
    """Those that have something to say."""
    titles = [
        ("Scores", model_rows(conclusions)),
        ("Against the reference", candidate_rows(conclusions)),
        ("By kind of score", kind_rows(conclusions)),
        ("Agreement of outputs", agreement_rows(conclusions)),
        ("Distance on the text", distance_rows(conclusions)),
        ("Speed and memory", speed_rows(conclusions)),
    ]
    flips, total = flip_rows(conclusions)
    shown = len(flips) - 1
    flips_title = f"Flips ({shown} of {total:,})" if shown < total else "Flips"
    return [_Section(title=title, rows=rows) for title, rows in (*titles, (flips_title, flips)) if len(rows) > 1]

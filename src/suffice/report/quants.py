"""A comparison of models for a reader: as text for a terminal, and as Markdown, from the same tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from suffice.decide.quants_words import counted, points
from suffice.report.quants_marks import marks
from suffice.report.quants_tables import (
    agreement_rows,
    answer_rows,
    candidate_rows,
    distance_note,
    distance_rows,
    flip_rows,
    kind_rows,
    model_rows,
    speed_note,
    speed_rows,
)
from suffice.report.tables import markdown_text, one_line, plain_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.quants_conclusion import Conclusions


@dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    """A heading with a table whose first row is its header, and a line on how to read it."""

    title: str
    rows: Sequence[Sequence[str]]
    note: str = ""


def quants_text(conclusions: Conclusions) -> str:
    """Tables, at most 20 flips, a sentence for each candidate, and what qualifies them."""
    parts = [one_line(_headline(conclusions))]
    for section in _sections(conclusions):
        note = f"\n{one_line(section.note)}" if section.note else ""
        parts.append(f"{section.title}\n{plain_table(section.rows)}{note}")
    parts.append("\n".join(one_line(sentence) for sentence in conclusions.sentences))
    parts.append("\n".join(f"! {one_line(mark)}" for mark in marks(conclusions)))
    return "\n\n".join(part for part in parts if part)


def quants_markdown(conclusions: Conclusions) -> str:
    """The same as Markdown, the sentences first; whatever comes from outside is inert, and it reads well where nobody renders it."""
    parts = ["# Comparison of models", _inert(_headline(conclusions))]
    parts.append("\n".join(f"- {_inert(sentence)}" for sentence in conclusions.sentences))
    for section in _sections(conclusions):
        note = f"\n\n{_inert(section.note)}" if section.note else ""
        parts.append(f"## {section.title}\n\n{_table(section.rows)}{note}")
    remarks = marks(conclusions)
    if remarks:
        parts.append("## Remarks\n\n" + "\n".join(f"- {_inert(mark)}" for mark in remarks))
    return "\n\n".join(part for part in parts if part) + "\n"


def _inert(text: str) -> str:
    """A text as inert Markdown, without escapes that it does not need: an underscore inside a word, a sign before a number."""
    escaped = markdown_text(text.replace("->", "→"))
    escaped = re.sub(r"(?<=[^\W_])\\_(?=[^\W_])", "_", escaped)
    return re.sub(r"(?<=.)&gt;(?=[0-9])", ">", re.sub("&lt;(?=[0-9])", "<", escaped))


def _table(rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(_inert(cell) for cell in row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines)


def _headline(conclusions: Conclusions) -> str:
    quality = conclusions.quality
    text = f"{counted(quality.items, 'item')} of {conclusions.record.items_source}"
    text += ", all labelled" if quality.labelled == quality.items else f", {quality.labelled:,} labelled"
    if quality.clusters != quality.items:
        text += f", in {counted(quality.clusters, 'group')}"
    if quality.repeated:
        text += f" ({quality.repeated:,} {'asks' if quality.repeated == 1 else 'ask'} what another one asks)"
    text += f"; reference: {quality.reference.name}"
    if not quality.labelled:
        return text
    policy = quality.policy
    floor = "" if not policy.floor else f" and a floor of {100 * policy.floor:.4g} %"
    return f"{text}; judged by a loss of at most {points(policy.max_loss)}{floor}"


def _sections(conclusions: Conclusions) -> list[_Section]:
    """Those that have something to say."""
    flips, total = flip_rows(conclusions)
    shown = len(flips) - 1
    sections = [
        _Section(title="Scores", rows=model_rows(conclusions)),
        _Section(title="Against the reference", rows=candidate_rows(conclusions)),
        _Section(title="By kind of score", rows=kind_rows(conclusions)),
        _Section(title="Empty and cut-off answers", rows=answer_rows(conclusions)),
        _Section(title="Agreement of outputs", rows=agreement_rows(conclusions)),
        _Section(title="Distance on the text", rows=distance_rows(conclusions), note=distance_note(conclusions)),
        _Section(title="Speed and memory", rows=speed_rows(conclusions), note=speed_note(conclusions)),
        _Section(title=f"Flips ({shown} of {total:,})" if shown < total else "Flips", rows=flips),
    ]
    return [section for section in sections if len(section.rows) > 1]

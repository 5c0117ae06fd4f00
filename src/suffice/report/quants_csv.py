"""A comparison of models as CSV for a spreadsheet: a row for each item, or for each flip."""

from __future__ import annotations

import csv
import io
import unicodedata
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from suffice.decide.quants_conclusion import Conclusions
    from suffice.model.quants import Outcome, Task

CSV_MARK: Final = "suffice quants"
"""The first cell of a header begins with it, so that a later table knows that it may replace an earlier one."""
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "\t", "\r", "\n", "|", "%")


def quants_csv(conclusions: Conclusions) -> str:
    """A row for each item: its id, group, kind, and the score and answer of each model; unknown is empty."""
    record = conclusions.record
    names = [model.subject.name for model in record.models]
    header = [f"{CSV_MARK}: id", "group", "kind", "labelled"]
    header += [f"{name}: {what}" for name in names for what in ("score", "answer", "reason", "cut off")]
    outcomes = zip(*(model.outcomes for model in record.models), strict=True)
    rows = (
        [*_task_cells(task), "yes" if task.is_labelled else "no", *(cell for one in own for cell in _cells(one))]
        for task, own in zip(record.tasks, outcomes, strict=True)
    )
    return _text(header, rows)


def quants_flips_csv(conclusions: Conclusions) -> str:
    """A row for each flip of each candidate, with both scores and both answers."""
    header = [f"{CSV_MARK}: candidate", "id", "group", "kind", "reference's score", "candidate's score"]
    header += ["reference's answer", "candidate's answer"]
    rows = (
        [
            look.name,
            *_task_cells(flip.task),
            _number(flip.reference.score),
            _number(flip.candidate.score),
            flip.reference.text or "",
            flip.candidate.text or "",
        ]
        for look in conclusions.quality.candidates
        for flip in look.flips
    )
    return _text(header, rows)


def _task_cells(task: Task) -> list[str]:
    group = task.cluster.removeprefix("group ") if task.cluster.startswith("group ") else ""
    return [task.item_id, group, "" if task.kind is None else task.kind.value]


def _cells(outcome: Outcome) -> list[str]:
    return [
        _number(outcome.score),
        outcome.text or "",
        outcome.reason or "",
        "yes" if outcome.is_cut else "no",
    ]


def _number(score: float | None) -> str:
    return "" if score is None else f"{score:.15g}"


def _text(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow([harmless(cell) for cell in header])
    writer.writerows([harmless(cell) for cell in row] for row in rows)
    return buffer.getvalue()


def harmless(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula: what looks like one begins with an apostrophe. Control characters are left out.

    Line breaks and tabs inside stay; see OWASP, CSV Injection.
    """
    text = "".join(c for c in cell if c in "\n\t\r" or unicodedata.category(c) not in {"Cc", "Cs"})
    return f"'{text}" if text.startswith(_FORMULA_STARTS) or text.lstrip().startswith(_FORMULA_STARTS) else text

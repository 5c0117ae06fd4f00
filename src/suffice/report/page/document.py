"""A page as JSON-able data: the texts of the other forms, with the numbers behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suffice.report.decision import decision_document
from suffice.report.page.model import Commands, Figures, Listing, Picture, Sentence, Table, Text

if TYPE_CHECKING:
    from suffice.decide.compare import Decision
    from suffice.report.page.model import Block, Page, Section


def page_document(page: Page, decision: Decision) -> dict[str, Any]:
    """The decision as ``suffice decide --json`` prints it, with the page under ``page``."""
    return {
        **decision_document(decision),
        "page": {
            "language": page.language.value,
            "title": _text(page.title),
            "sections": [_section(section) for section in page.sections],
            "made_by": page.marks.made_by,
        },
    }


def _section(section: Section) -> dict[str, Any]:
    return {
        "key": section.key,
        "title": _text(section.title),
        "blocks": [_block(block) for block in section.blocks],
    }


def _text(text: Text) -> dict[str, Any]:
    """What is read, and the number, unit, language and address where there are any."""
    more = {"value": text.value, "unit": text.unit, "lang": text.lang, "href": text.href}
    return {"text": text.text} | {name: value for name, value in more.items() if value is not None}


def _block(block: Block) -> dict[str, Any]:
    match block:
        case Sentence():
            return {"kind": "sentence", "role": block.role.value, "label": block.label, **_text(block.text)}
        case Table():
            return {"kind": "table", **_table(block)}
        case Figures():
            return _figures(block)
        case Picture():
            chart = block.chart
            return {
                "kind": "chart",
                "chart": type(chart).__name__,
                "title": chart.title,
                "description": chart.description,
                "table": None if block.table is None else _table(block.table),
            }
        case Listing():
            return {"kind": "list", "items": [_text(item) for item in block.items]}
        case Commands():
            return {"kind": "commands", "lines": list(block.lines)}


def _table(table: Table) -> dict[str, Any]:
    return {
        "caption": _text(table.caption),
        "header": [_text(cell) for cell in table.header],
        "rows": [[_text(cell) for cell in row] for row in table.rows],
    }


def _figures(block: Figures) -> dict[str, Any]:
    items = [
        {
            "label": _text(item.label),
            "value": _text(item.value),
            "interval": _text(item.interval),
            "basis": _text(item.basis),
            "source": _text(item.source),
        }
        for item in block.items
    ]
    return {"kind": "figures", "caption": _text(block.caption), "items": items}

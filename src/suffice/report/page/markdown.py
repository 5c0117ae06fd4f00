"""A page as Markdown: the same sections and texts; charts by their words and their tables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from suffice.report.page.model import Commands, Figures, Listing, Picture, Role, Sentence, Table
from suffice.report.tables import markdown_table, markdown_text, one_line

if TYPE_CHECKING:
    from suffice.report.page.model import Block, Page, Section, Text

MARK: Final = "<!-- suffice report -->"
"""The first line; no reader shows it."""
_CODE: Final = re.compile(r"`([^`]+)`")
_LEAST_FENCE: Final = 3


def page_markdown(page: Page) -> str:
    """The page for a review in text. Nothing from outside is markup in it."""
    parts = [MARK, f"# {markdown_text(page.title.text)}"]
    parts += [_section(section) for section in page.sections]
    return "\n\n".join([*parts, markdown_text(page.marks.made_by)]) + "\n"


def _section(section: Section) -> str:
    return "\n\n".join([f"## {markdown_text(section.title.text)}", *(_block(block) for block in section.blocks)])


def _block(block: Block) -> str:
    match block:
        case Sentence():
            return _sentence(block)
        case Table():
            return _table(block)
        case Figures():
            return _figures(block)
        case Picture():
            chart = block.chart
            words = [f"**{markdown_text(chart.title)}**", markdown_text(chart.description)]
            return "\n\n".join(words if block.table is None else [*words, _table(block.table)])
        case Listing():
            return "\n".join(f"- {_inline(item)}" for item in block.items)
        case Commands():
            return _commands(block)


def _sentence(sentence: Sentence) -> str:
    text = _inline(sentence.text)
    if sentence.role in (Role.LEAD, Role.MARK):
        text = f"**{text}**"
    return f"**{markdown_text(sentence.label)}** {text}" if sentence.label else text


def _inline(text: Text) -> str:
    """Escaped, with what stands in backticks as code: nothing in it is markup."""
    parts = _CODE.split(one_line(text.text))
    return "".join(f"`{part}`" if place % 2 else markdown_text(part) for place, part in enumerate(parts))


def _table(table: Table) -> str:
    rows = [[cell.text for cell in row] for row in (table.header, *table.rows)]
    return f"**{markdown_text(table.caption.text)}**\n\n{markdown_table(rows)}"


def _figures(block: Figures) -> str:
    header = ["", "", *(name.text for name in block.names)]
    rows = [
        [item.label.text, item.value.text, item.interval.text, item.basis.text, item.source.text]
        for item in block.items
    ]
    return f"**{markdown_text(block.caption.text)}**\n\n{markdown_table([header, *rows])}"


def _commands(block: Commands) -> str:
    """Fenced by more backticks than any line has in a row."""
    lines = [one_line(line) for line in block.lines]
    longest = max((len(run) for line in lines for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(_LEAST_FENCE, longest + 1)
    return "\n".join([f"{fence}sh", *lines, fence])

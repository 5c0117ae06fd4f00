"""All texts of a section, in the order in which they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.report.page.model import Commands, Figures, Listing, Picture, Sentence, Table, Text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from suffice.report.page.model import Block, Section


def texts_of(section: Section) -> Iterator[Text]:
    """Its title, then those of its blocks; of a picture, its words and its table."""
    yield section.title
    for block in section.blocks:
        yield from block_texts(block)


def block_texts(block: Block) -> Iterator[Text]:
    """The texts of a block."""
    match block:
        case Sentence():
            yield from ((Text(text=block.label),) if block.label else ())
            yield block.text
        case Table():
            yield block.caption
            yield from block.header
            for row in block.rows:
                yield from row
        case Figures():
            yield block.caption
            for item in block.items:
                yield from (item.label, item.value, item.interval, item.basis, item.source)
        case Picture():
            yield from (Text(text=block.chart.title), Text(text=block.chart.description))
            yield from () if block.table is None else block_texts(block.table)
        case Listing():
            yield from block.items
        case Commands():
            yield from (Text(text=line, is_code=True) for line in block.lines)

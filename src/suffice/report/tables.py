"""Plain and Markdown tables from rows of text."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_LINE_BREAKS = ("Zl", "Zp")  # U+2028 and U+2029
_MAX_CELL_CHARACTERS = 300
_WIDE = ("W", "F")  # East Asian wide and full-width characters take two columns


def display_width(text: str) -> int:
    """Columns that a terminal needs for a text: ``display_width("大模型") == 6``."""
    return sum(2 if unicodedata.east_asian_width(c) in _WIDE else 1 for c in text if not unicodedata.combining(c))


def one_line(text: str) -> str:
    """A text from outside on one line, without control characters that a terminal would obey."""
    return "".join(
        " " if c in "\r\n\t" or unicodedata.category(c) in _LINE_BREAKS else c
        for c in text
        if c in "\r\n\t" or unicodedata.category(c)[0] != "C"
    )


def shortened(text: str, most: int) -> str:
    """A long name with its middle left out: the end, a recipe, tells candidates apart."""
    if len(text) <= most:
        return text
    kept = (most - 1) // 2
    return f"{text[: max(0, most - 1 - kept)]}…{text[len(text) - kept :]}"


def _clipped(cell: str) -> str:
    """A cell that cannot make a table of megabytes."""
    return cell if len(cell) <= _MAX_CELL_CHARACTERS else cell[: _MAX_CELL_CHARACTERS - 1] + "…"


def plain_table(rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned to the left, two spaces apart; the first row is the header."""
    cells = [[_clipped(one_line(cell)) for cell in row] for row in rows]
    widths = [max(display_width(cell) for cell in column) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        padded = [cell + " " * (width - display_width(cell)) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def markdown_text(text: str) -> str:
    """A text from outside as inert Markdown: one line, no markup and no HTML of its own."""
    escaped = one_line(text)
    for character in "&\\`*_[]<>|#":  # & first: the others become entities that hold one
        escaped = escaped.replace(character, f"\\{character}" if character not in "<>&" else _HTML[character])
    return escaped


_HTML = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; cells are escaped; the first row is the header."""
    lines = ["| " + " | ".join(markdown_text(cell) for cell in row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines)

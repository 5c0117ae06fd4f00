"""What a page is made of: sections of typed blocks, whose texts are final. Printers change no number and no word."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from suffice.report.page.language import Language

if TYPE_CHECKING:
    from suffice.report.svg.types import Chart


__all__ = [
    "Block",
    "Commands",
    "Figure",
    "Figures",
    "Language",
    "Listing",
    "Page",
    "PageMarks",
    "Picture",
    "Role",
    "Section",
    "Sentence",
    "Table",
    "Text",
    "english",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text as it is shown; from outside or ours, it may hold anything, and printers escape it.

    Attributes:
        text: what is read.
        value: the number that ``text`` shows, in ``unit``; None: it is no number, or unknown.
        unit: SI unit or plain word, as in the documents of other commands.
        lang: of the text where it is not the page's; "en" for what exists in English only.
        href: address that it leads to; printers link http and https only.
        is_code: a name or a command, shown as it is typed.
    """

    text: str
    value: float | None = None
    unit: str | None = None
    lang: str | None = None
    href: str | None = None
    is_code: bool = False


class Role(StrEnum):
    """What a sentence is for."""

    LEAD = "lead"  # the one that is read by whoever reads only one
    PLAIN = "plain"
    NEXT = "next"  # what to do
    MARK = "mark"  # qualifies the numbers; must not be missed
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A paragraph. ``label``, in the page's language, stands before a text that may be in another one: "Next:"."""

    text: Text
    role: Role = Role.PLAIN
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under a header; the first cell of a row is its heading."""

    caption: Text
    header: tuple[Text, ...]
    rows: tuple[tuple[Text, ...], ...]

    def __post_init__(self) -> None:
        if any(len(row) != len(self.header) for row in self.rows):
            raise ValueError(f"each row of {self.caption.text!r} needs {len(self.header)} cells")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number with all that it must not travel without."""

    label: Text
    value: Text
    interval: Text
    basis: Text
    source: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Numbers side by side; ``names`` are the words for interval, basis and source."""

    caption: Text
    names: tuple[Text, Text, Text]
    items: tuple[Figure, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A chart with the table that says the same, for whoever cannot see it, and for forms without pictures.

    ``table`` None: its numbers stand in a table of the section already.
    """

    chart: Chart
    table: Table | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Points, one a line."""

    items: tuple[Text, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """Command lines to copy."""

    lines: tuple[str, ...]


Block = Sentence | Table | Figures | Picture | Listing | Commands


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a page with its heading. ``key`` is its anchor and its name in JSON, the same in every language."""

    key: str
    title: Text
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A whole page. ``marks`` are the few words that printers need: names of the table beside a chart and of the contents."""

    language: Language
    title: Text
    sections: tuple[Section, ...]
    marks: PageMarks

    @property
    def html_language(self) -> str:
        """For HTML's ``lang``; Chinese is written in simplified characters here."""
        return "zh-Hans" if self.language is Language.ZH else self.language.value


@dataclass(frozen=True, slots=True, kw_only=True)
class PageMarks:
    """Words of a page that belong to no block; ``stop`` ends a sentence."""

    as_table: str
    contents: str
    made_by: str
    stop: str = "."


def english(text: str) -> Text:
    """A text that exists in English only; on an English page the mark changes nothing."""
    return Text(text=text, lang="en")

"""A page as one HTML file that needs nothing else: no script, no address that is loaded, readable on a phone, in the dark and on paper."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from suffice.report.page.model import Commands, Figures, Listing, Picture, Sentence, Table
from suffice.report.page.style import STYLE
from suffice.report.page.template import TEMPLATE
from suffice.report.svg import responsive
from suffice.report.tables import one_line

if TYPE_CHECKING:
    from jinja2 import Template

    from suffice.report.page.model import Block, Figure, Page

START: Final = "<!doctype html>\n<!-- suffice report -->"
"""How a file begins that may be replaced by a later one."""
_CODE: Final = re.compile(r"`([^`]+)`")
_SCHEMES: Final = ("http", "https")


def page_html(page: Page) -> str:
    """The page. All texts are escaped; what comes from outside can neither be markup nor lead anywhere but to http and https."""
    from markupsafe import Markup  # noqa: PLC0415  # of Jinja

    sections = [
        {
            "key": section.key,
            "title": section.title,
            "blocks": [_block(block, f"{section.key}-{place}") for place, block in enumerate(section.blocks)],
        }
        for section in page.sections
    ]
    return _template().render(
        page={"title": page.title, "marks": page.marks, "sections": sections},
        language=page.language.value,
        html_language=page.html_language,
        style=Markup(STYLE),  # noqa: S704  # a constant of ours
    )


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415  # slow to import, and only needed for HTML

    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters.update({"line": one_line, "parts": _parts, "web_address": web_address})
    return environment.from_string(TEMPLATE)


def _parts(text: str) -> list[dict[str, Any]]:
    """Text and, between backticks, code."""
    parts = _CODE.split(one_line(text))
    return [{"text": part, "is_code": place % 2 == 1} for place, part in enumerate(parts) if part]


def web_address(address: str | None) -> str | None:
    """The address where it leads to the web and nowhere else, else None: ``javascript:`` and files are no links."""
    if address is None or address != one_line(address).strip():
        return None
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    return address if parts.scheme in _SCHEMES and parts.hostname else None


def _block(block: Block, name: str) -> dict[str, Any]:
    """A block as the template asks for it."""
    match block:
        case Sentence():
            return {"kind": "sentence", "role": block.role, "label": block.label, "text": block.text}
        case Table():
            return {"kind": "table", "block": block}
        case Figures():
            items = [_figure(item, block) for item in block.items]
            return {"kind": "figures", "caption": block.caption, "items_": items}
        case Picture():
            return _picture(block, name)
        case Listing():
            return {"kind": "list", "points": block.items}
        case Commands():
            return {"kind": "commands", "code": "\n".join(one_line(line) for line in block.lines)}


def _figure(item: Figure, block: Figures) -> dict[str, Any]:
    facts = list(zip(block.names, (item.interval, item.basis, item.source), strict=True))
    return {"label": item.label, "value": item.value, "facts": facts}


def _picture(block: Picture, name: str) -> dict[str, Any]:
    from markupsafe import Markup  # noqa: PLC0415  # of Jinja

    chart = block.chart
    return {
        "kind": "picture",
        "svg": Markup(responsive(chart, name=name, heading=False)),  # noqa: S704  # texts are escaped where it is drawn
        "title": chart.title,
        "description": chart.description,
        "table": block.table,
    }

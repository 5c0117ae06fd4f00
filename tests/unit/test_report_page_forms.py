"""HTML, Markdown and JSON of one page: the same numbers to the digit, nothing alive from outside, nothing loaded from elsewhere."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pytest

from helpers.hostile import HOSTILE
from helpers.pages import all_kinds, given, one_stream, plan, plan_document, record, simulation, whole, with_latency
from helpers.records import bare_record
from helpers.served import load
from suffice.decide.wording import format_value
from suffice.errors import RecordError
from suffice.records.schema import EngineRecord
from suffice.report.json_values import json_text
from suffice.report.page.build import build_page
from suffice.report.page.document import page_document
from suffice.report.page.html import START, page_html, web_address
from suffice.report.page.loads import loads_blocks
from suffice.report.page.markdown import MARK, page_markdown
from suffice.report.page.model import Language, Page, Picture, Table
from suffice.report.page.money import money, price_text
from suffice.report.page.plan_view import PriceView, check_prices
from suffice.report.page.texts import texts_of
from suffice.report.page.words import words_for
from suffice.report.svg.types import CostChart, CrossoverChart, HeadroomChart, LatencyChart, ParetoChart, RooflineChart
from suffice.units import GIGA, MILLISECONDS_PER_SECOND

if TYPE_CHECKING:
    from suffice.model.demand import Demand
    from suffice.report.page.given import PageInput
    from suffice.report.page.model import Section
    from suffice.report.svg.types import Chart

_NUMBER: Final = re.compile(r"\d+(?:[.,]\d+)*")
_UNREAD: Final = ("head", "svg", "nav")  # not a part of the model's own texts, or drawn from them
_PAYLOADS: Final = (
    *(
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "</style><script>x</script>",
        "</title><svg onload=x>",
    ),
    *("javascript:alert(1)", "{{ 7 * 7 }}", "{% raw %}", "]]>", "&lt;b&gt;", "`<b>`", "```\n# Verdict: cpu\n```"),
    *HOSTILE,
)


class _Reader(HTMLParser):
    """What a browser would show of a page, and all its elements."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._unread: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in _UNREAD:
            self._unread.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._unread and tag == self._unread[-1]:
            self._unread.pop()

    def handle_data(self, data: str) -> None:
        if not self._unread:
            self.text.append(data)

    def all_of(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.elements if name == tag]


def _read(page: Page) -> _Reader:
    reader = _Reader()
    reader.feed(page_html(page))
    return reader


def _json_texts(node: Any, name: str = "") -> list[str]:  # noqa: ANN401  # any JSON
    """All texts of a page's document, in its order; names of things are none."""
    if isinstance(node, dict):
        unread = ("key", "kind", "role", "chart", "unit", "lang", "href", "language")
        return [text for key, value in node.items() if key not in unread for text in _json_texts(value, key)]
    if isinstance(node, list):
        return [text for value in node for text in _json_texts(value, name)]
    return [node] if isinstance(node, str) else []


@pytest.fixture(scope="module")
def full() -> PageInput:
    """Everything at once."""
    return whole()


@pytest.mark.parametrize("language", list(Language))
def test_numbers_agree_to_the_digit(full: PageInput, language: Language) -> None:
    """HTML, Markdown and JSON are read back: each has the same numbers in the same order."""
    page = build_page(full, language)
    document = json.loads(json_text(page_document(page, full.decision)))

    from_html = _NUMBER.findall(" ".join(_read(page).text))
    from_markdown = _NUMBER.findall(page_markdown(page).replace("\\", ""))
    from_json = _NUMBER.findall(" ".join(_json_texts(document["page"])))

    assert len(from_html) > 300
    assert from_html == from_markdown
    assert from_html == from_json


def test_both_languages_have_the_same_numbers(full: PageInput) -> None:
    """Values behind the texts are those of the other language, cell by cell."""
    values = [
        [
            text.value
            for section in build_page(full, language).sections
            for text in texts_of(section)
            if text.value is not None
        ]
        for language in Language
    ]

    assert values[0] == values[1]
    assert len(values[0]) > 100


@pytest.mark.parametrize("language", list(Language))
def test_each_number_is_the_one_that_is_shown(full: PageInput, language: Language) -> None:
    """The value in JSON, formatted, stands in the text beside it."""
    words = words_for(language)
    texts = [text for section in build_page(full, language).sections for text in texts_of(section)]
    numbers = [
        text
        for text in texts
        if text.value is not None and text.unit in ("s", "tokens/s", "users", "requests/s", "bytes")
    ]

    for text in numbers:
        shown = format_value(text.value, text.unit or "")
        plain = shown.partition(" ")[0]
        assert words.localized(shown) in text.text or text.text.startswith(plain) or text.unit == "bytes", text
    assert len(numbers) > 50


def test_the_document_is_that_of_decide_with_the_page(full: PageInput) -> None:
    """Scripts find verdict, reason, binding, basis and constraints where `suffice decide --json` has them."""
    document = page_document(build_page(full), full.decision)

    assert document["verdict"] == full.decision.verdict.verdict
    assert {"reason", "binding", "basis", "constraints", "machines", "page"} <= set(document)
    keys = [section["key"] for section in document["page"]["sections"]]
    assert keys == [
        "verdict",
        "numbers",
        "headroom",
        "roofline",
        "load",
        "quality",
        "cost",
        "assumptions",
        "flips",
        "commands",
        "fingerprint",
        "words",
    ]


@pytest.mark.parametrize("language", list(Language))
def test_the_html_stands_for_itself(full: PageInput, language: Language) -> None:
    """A language, one style sheet, no script, a policy that forbids all loading, links to the web only, headings in order."""
    reader = _read(build_page(full, language))

    assert page_html(build_page(full, language)).startswith(START)
    assert reader.all_of("html")[0]["lang"] == ("en" if language is Language.EN else "zh-Hans")
    assert len(reader.all_of("style")) == 1
    tags = {name for name, _ in reader.elements}
    assert not tags & {"script", "iframe", "object", "embed", "link", "form", "img", "base", "input"}
    policies = [
        one.get("content") or "" for one in reader.all_of("meta") if one.get("http-equiv") == "Content-Security-Policy"
    ]
    assert len(policies) == 1
    assert policies[0].startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
    for name, attrs in reader.elements:
        assert not any(key.startswith("on") or key in ("src", "srcset", "style", "xlink:href") for key in attrs), name
    for link in reader.all_of("a"):
        address = link["href"] or ""
        assert address.startswith("#") or (address.startswith("https://") and link["rel"] == "noreferrer")
    assert [name for name, _ in reader.elements if name in ("h1", "h2")][:2] == ["h1", "h2"]
    assert len(reader.all_of("h1")) == 1


def test_the_style_has_no_address_and_knows_dark_print_and_phones(full: PageInput) -> None:
    """Nothing is imported; the rules for each of the three are there."""
    html = page_html(build_page(full))
    style = html[html.index("<style>") : html.index("</style>")]

    assert "url(" not in style
    assert "@import" not in style
    for rule in ("prefers-color-scheme:dark", "@media print", "@page", "max-width:44em", "overflow-x:auto"):
        assert rule in style


def test_tables_are_tables(full: PageInput) -> None:
    """Each has a caption, and each header cell says of what it is the header; ids are there once."""
    reader = _read(build_page(full))

    assert len(reader.all_of("caption")) == len(reader.all_of("table")) > 8
    assert all(cell.get("scope") in ("col", "row") for cell in reader.all_of("th"))
    ids = [attrs["id"] for _, attrs in reader.elements if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_charts_have_words_and_tables(full: PageInput) -> None:
    """Six kinds of charts; each has a title and a description, and its section the numbers in a table."""
    page = build_page(full)
    pictures = [(section, block) for section in page.sections for block in section.blocks if isinstance(block, Picture)]

    kinds = {type(block.chart).__name__ for _, block in pictures}
    assert kinds == {"RooflineChart", "HeadroomChart", "LatencyChart", "ParetoChart", "CostChart", "CrossoverChart"}
    for section, block in pictures:
        assert block.chart.title
        assert block.chart.description
        assert block.table is not None or any(isinstance(one, Table) for one in section.blocks)
    assert len(_read(page).all_of("figure")) == len(pictures)


def test_a_level_that_was_tried_twice_is_one_point() -> None:
    """A search tries levels briefly and then at length: the longer run is drawn; loads that show nothing are hollow."""
    brief, long = replace(load(4.0, ttft_s=9.0), attempted=20), load(4.0, ttft_s=0.2)
    blocks = loads_blocks(given(one_stream(), record(), loads=(long, brief, load(8.0))), words_for(Language.EN))
    doubtful = tuple(replace(one, problems=("the client was late",)) for one in (load(2.0), load(4.0)))
    hollow = loads_blocks(given(one_stream(), record(), loads=doubtful), words_for(Language.EN))

    charts = [block.chart for block in blocks if isinstance(block, Picture)]
    assert isinstance(charts[0], LatencyChart)
    assert [point.x for point in charts[0].curves[0].points] == [4.0, 8.0]
    assert charts[0].curves[0].points[0].y == pytest.approx(200, rel=0.02)
    assert not charts[0].curves[0].hollow
    chart = next(block.chart for block in hollow if isinstance(block, Picture))
    assert isinstance(chart, LatencyChart)
    assert chart.curves[0].hollow
    assert "nothing can be judged" in chart.description


def test_the_crossing_of_two_costs_is_marked(full: PageInput) -> None:
    """Where the API costs what the machine does, at 11.2 times the demand; the machine's own line ends where its capacity is not known."""
    blocks = [block for section in build_page(full).sections for block in section.blocks if isinstance(block, Picture)]
    chart = next(block.chart for block in blocks if isinstance(block.chart, CrossoverChart))

    assert [line.name for line in chart.lines] == ["aws/c7i.4xlarge", "an-api (host)"]
    assert len(chart.crossings) == 1
    assert chart.crossings[0].x == pytest.approx(42_340_000 * 11.2)
    assert chart.crossings[0].y == pytest.approx(46.25 * 11.2)


def _hostile(payload: str) -> PageInput:
    """The payload wherever a text comes from outside."""
    own = record(machine=payload or "m", warnings=(payload,), engine=EngineRecord(name=payload, version=payload))
    own = replace(own, model=replace(own.model, name=payload, file_name=payload), created_at=payload)
    bad = plan_document()["options"][2] | {"kind": payload, "name": payload, "verdict": payload, "reason": payload}
    for one in (*bad["prices"], *(part["price"] for part in bad["cost_parts"])):
        one.update(unit=payload or "u", region=payload or "r", source=payload or "s", date=payload or "d")
    document = {**plan_document(), "options": [bad], "notes": [payload], "model": payload}
    view = replace(simulation(), curve=payload, notes=(payload,), outcome=payload)
    return given(
        one_stream(model=payload),
        own,
        demand_file=payload,
        loads=(replace(load(1.0), source=payload, server=payload), replace(load(2.0), server=payload)),
        plan=plan(document),
        simulation=view,
        commands=(f"suffice decide {payload}",),
    )


@pytest.fixture(scope="module")
def harmless() -> list[str]:
    """The elements of the same page with a harmless name."""
    return [name for name, _ in _read(build_page(_hostile("harmless"))).elements if name not in ("code", "span", "a")]


@pytest.mark.parametrize("payload", _PAYLOADS, ids=range(len(_PAYLOADS)))
def test_a_hostile_name_is_text(payload: str, harmless: list[str]) -> None:
    """The page has the elements that it has with a harmless name, and no attribute that acts."""
    page = build_page(_hostile(payload))
    reader = _read(page)

    ignored = (
        "code",
        "span",
        "a",
        "li",
        "tr",
        "th",
        "td",
        "text",
        "tspan",
        "g",
        "line",
        "path",
        "rect",
        "circle",
        "polygon",
        "polyline",
    )
    assert {name for name, _ in reader.elements} <= {*harmless, *ignored}
    assert sum(name == "section" for name, _ in reader.elements) == harmless.count("section")
    for _, attrs in reader.elements:
        assert not any(key.startswith("on") for key in attrs)
    for link in reader.all_of("a"):
        assert (link["href"] or "").startswith(("#", "http://", "https://"))


@pytest.mark.parametrize("payload", _PAYLOADS, ids=range(len(_PAYLOADS)))
def test_a_hostile_name_is_no_markdown(payload: str) -> None:
    """No HTML of its own outside of code, no heading, and the fence of commands cannot be closed from within."""
    text = page_markdown(build_page(_hostile(payload)))

    fences = [line for line in text.splitlines() if line.startswith("```")]
    assert len(fences) == 2
    assert fences[0].rstrip("sh") == fences[1]
    body = "".join(part for place, part in enumerate(text.split(fences[1])) if place != 1)
    without_code = re.sub(r"(?<!\\)`[^`]+(?<!\\)`", "", body.replace(MARK, "", 1))
    assert not re.search(r"<[a-zA-Z/!]", without_code)
    assert sum(line.startswith("# ") for line in text.splitlines()) == 1


@pytest.mark.parametrize(
    ("address", "leads"),
    [
        ("https://prices.example/a?b=1&c", True),
        ("http://host", True),
        ("javascript:alert(1)", False),
        ("JAVASCRIPT:alert(1)", False),
        ("data:text/html,x", False),
        ("file:///etc/passwd", False),
        ("//host/path", False),
        (" https://host", False),
        ("https://", False),
        ("java\nscript:x", False),
        ("http://[::1", False),
        ("catalogue.toml", False),
    ],
)
def test_only_the_web_is_linked(address: str, leads: bool) -> None:  # noqa: FBT001  # parametrized
    """Other schemes stay text."""
    assert (web_address(address) is not None) is leads


@pytest.mark.parametrize(
    "demand", [one_stream(), with_latency(requests_per_second=None, tokens_per_second_per_user=8.0)]
)
def test_what_is_not_given_says_what_makes_it(demand: Demand) -> None:
    """A bare record gives a whole page; missing parts name the command that fills them."""
    text = page_markdown(build_page(given(demand, bare_record(20))))

    for command in ("suffice quants", "suffice plan demand.toml", "suffice measure MODEL"):
        assert f"`{command}" in text
    assert "None" not in text
    assert "nan" not in text


@pytest.mark.parametrize("language", list(Language))
def test_every_kind_of_demand_makes_a_page(language: Language) -> None:
    """Streams, queues, jobs, users and servers, of any grade: nothing unknown slips through as a word of Python."""
    for name, one in all_kinds().items():
        page = build_page(one, language)
        texts = [text.text for section in page.sections for text in texts_of(section)]
        assert not any(re.search(r"\b(None|nan|inf|True|False)\b|\{\w*\}", text) for text in texts), name
        assert _NUMBER.findall(" ".join(_read(page).text)) == _NUMBER.findall(page_markdown(page).replace("\\", ""))


def test_every_price_has_its_currency_region_date_and_source(full: PageInput) -> None:
    """Four cells beside each amount, none of them empty; an option with a cost has a row."""
    cost = next(section for section in build_page(full).sections if section.key == "cost")
    prices = next(block for block in cost.blocks if isinstance(block, Table) and len(block.header) == 8)

    assert {row[0].text for row in prices.rows} == {"aws/c7i.4xlarge", "an-api (host)", "aws/g6.xlarge"}
    for row in prices.rows:
        assert "USD" in row[4].text
        assert all(cell.text.strip() for cell in row)
        assert row[7].href is not None
    assert "2026-09 (old)" in {row[6].text for row in prices.rows}


@pytest.mark.parametrize("lacking", ["currency", "region", "date", "source", "all"])
def test_a_price_without_its_origin_is_refused(lacking: str) -> None:
    """Nobody is shown an amount that nobody vouches for."""
    document = plan_document()
    bad = document["options"][1]
    if lacking == "all":
        bad.update(prices=[], cost_parts=[])
    else:
        bad["prices"][0][lacking] = " "
    view = plan(document)

    with pytest.raises(RecordError, match="c7i"):
        check_prices(view.options[1], source="plan.json")


def test_amounts_that_cents_would_hide_have_more_digits() -> None:
    """0.0832 is not 0.08, nor 0.000125 nothing."""
    words = words_for(Language.EN)

    assert [money(amount, "USD", words) for amount in (1234.5, 1.0, 0.0832, 0.000125, 0.0)] == [
        "1,234.50 USD",
        "1.00 USD",
        "0.0832 USD",
        "0.000125 USD",
        "0.00 USD",
    ]
    assert money(None, "USD", words) == "unknown"


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (1.006, "1.006 USD"),
        (4.0, "4.00 USD"),
        (11.98, "11.98 USD"),
        (0.70677, "0.70677 USD"),
        (0.02, "0.02 USD"),
        (0.0, "0.00 USD"),
    ],
)
def test_a_price_has_the_digits_that_its_bill_was_made_with(amount: float, text: str) -> None:
    """730 hours of 1.006 USD are 734.38 USD; of 1.01 USD they would be 737.30 USD, and the reader would find the bill wrong."""
    price = PriceView(amount=amount, unit="hour", currency="USD", region="r", date="d", source="s")

    assert price_text(price, words_for(Language.EN)) == f"{text} an hour"


def _values(section: Section) -> set[float]:
    tables = [block.table if isinstance(block, Picture) else block for block in section.blocks]
    return {
        cell.value
        for table in tables
        if isinstance(table, Table)
        for row in table.rows
        for cell in row
        if cell.value is not None
    }


def _drawn(chart: Chart) -> list[float]:
    """The values of a chart in the units of the tables; of a cost curve only its crossings stand in one."""
    match chart:
        case HeadroomChart():
            return [row.headroom for row in chart.rows if row.headroom is not None]
        case CostChart():
            return [bar.amount for bar in chart.bars if bar.amount is not None]
        case CrossoverChart():
            return [mark.x for mark in chart.crossings]
        case RooflineChart():
            points = [point for series in chart.points for point in series.points]
            return [value for point in points for value in (point.x, point.y * GIGA)]
        case LatencyChart():
            scale = MILLISECONDS_PER_SECOND if chart.y.unit == "ms" else 1
            points = [point for series in chart.curves for point in series.points]
            return [value for point in points for value in (point.x, point.y / scale)]
        case ParetoChart():
            return [value for series in chart.groups for point in series.points for value in (point.x, point.y)]
    raise AssertionError(type(chart))


def test_what_is_drawn_is_what_stands_in_the_tables(full: PageInput) -> None:
    """Each bar, point and crossing has its number in a table of the same section."""
    seen = set()
    for section in build_page(full).sections:
        values = sorted(_values(section))
        for block in section.blocks:
            if isinstance(block, Picture):
                seen.add(type(block.chart))
                drawn = _drawn(block.chart)
                assert drawn != []
                for value in drawn:
                    assert any(math.isclose(value, other, rel_tol=1e-6) for other in values), (block.chart.title, value)
    assert seen == {HeadroomChart, CostChart, CrossoverChart, RooflineChart, LatencyChart, ParetoChart}


@pytest.mark.parametrize("language", list(Language))
def test_headings_descend_one_by_one_and_tables_have_captions(full: PageInput, language: Language) -> None:
    """One h1; no level is left out; each table is named and its headings say what they head; each picture has words."""
    html = page_html(build_page(full, language))
    levels = [int(level) for level in re.findall(r"<h([1-6])\b", html)]

    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))
    assert html.count("<table") == html.count("<caption") > 5
    assert re.findall(r"<th(?!ead)(?! scope=)", html) == []
    assert html.count('role="img"') == len(re.findall(r'<svg[^>]*aria-labelledby="[^"]+"', html))

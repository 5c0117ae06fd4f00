from __future__ import annotations

import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

from helpers.charts import example_charts
from helpers.chromium import why_no_browser
from helpers.hostile import HOSTILE
from helpers.page_checks import foreign_requests, least_contrast, sideways_pixels, texts_outside
from suffice.decide.verdict import Grade
from suffice.report.pdf import print_pdf, was_printed_here
from suffice.report.svg import CHART_STYLE, draw, responsive
from suffice.report.svg.palette import DARK, LIGHT
from suffice.report.svg.types import Axis, Chart, CostBar, CostChart, LatencyChart, Limit, Point, Series

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.chromium import Chromium

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(bool(why_no_browser()), reason=why_no_browser() or "there is one"),
]

OWNED = "window.owned=1;document.title='owned'"
PAYLOADS = (
    f"<script>{OWNED}</script>",
    f'"><img src=x onerror="{OWNED}">',
    f"</title></desc></svg><script>{OWNED}</script>",
    f"</style><script>{OWNED}</script>",
    f'\' onload="{OWNED}" x="',
    f"javascript:{OWNED}",
    f"<![CDATA[<script>{OWNED}</script>]]>",
    f"&lt;script&gt;{OWNED}&lt;/script&gt;",
    "\u202e<b>\u2066bidi\u2069\u200b\x00",
    *HOSTILE[:-1],
)
SHOWN = "[...document.querySelectorAll('svg')].map(svg => svg.getBoundingClientRect().width > 0)"


def _page(folder: Path, body: str, language: str = "en") -> str:
    path = folder / "page.html"
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    style = f":root{{color-scheme:light dark}}body{{margin:16px}}{CHART_STYLE}"
    path.write_text(
        f'<!doctype html><html lang="{language}"><title>page</title>{head}<style>{style}</style>{body}',
        encoding="utf-8",
    )
    return path.as_uri()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize(("language", "scheme"), [("en", "light"), ("zh", "dark")])
def test_charts_fit_every_screen(chromium: Chromium, tmp_path: Path, language: str, width: int, scheme: str) -> None:
    """One of two pictures is shown, no text leaves it in the fonts that are really there, nothing scrolls sideways, logs or is asked for."""
    charts = example_charts(language)
    url = _page(tmp_path, "".join(f"<figure>{responsive(chart)}</figure>" for chart in charts), language)
    page = chromium.open(url, width=width, scheme=scheme)

    assert page.evaluate(SHOWN) == [width > 704, width <= 704] * len(charts)
    assert texts_outside(page) == []
    assert sideways_pixels(page) == 0
    assert page.console == []
    assert page.requests == [url]


@pytest.mark.parametrize(("scheme", "colours"), [("light", LIGHT), ("dark", DARK)])
def test_colours_follow_the_reader(chromium: Chromium, tmp_path: Path, scheme: str, colours: dict[str, str]) -> None:
    """The first line of a chart has the light or the dark colour of its series, and texts have the colour of the page's text."""
    page = chromium.open(_page(tmp_path, draw(example_charts()[2])), scheme=scheme)
    stroke = page.evaluate("getComputedStyle(document.querySelector('polyline')).stroke")

    numbers = re.findall(r"\d+", stroke)
    assert "#" + "".join(f"{int(number):02x}" for number in numbers[:3]) == colours["series-1"]
    assert page.evaluate(
        "getComputedStyle(document.querySelector('text')).fill === getComputedStyle(document.body).color"
    )


def _hostile_charts(text: str) -> list[Chart]:
    axis = Axis(label=text, unit=text)
    curve = Series(name=text, points=(Point(x=1, y=1, label=text), Point(x=2, y=2)))
    bars = (CostBar(label=text, text=text, amount=1, grade=Grade.THIN),)
    words = ((Grade.THIN, text),)
    limits = (Limit(label=text, value=1.5),)
    return [
        LatencyChart(title=text, description=text, x=axis, y=axis, curves=(curve,), limits=limits),
        CostChart(title=text, description=text, axis=axis, bars=bars, limits=limits, grade_words=words),
    ]


def test_hostile_names_stay_text_in_a_real_browser(chromium: Chromium, tmp_path: Path) -> None:
    """Of all payloads in all places of a chart none runs, makes an element or asks for anything."""
    charts = [draw(chart, name=str(n)) for n, text in enumerate(PAYLOADS) for chart in _hostile_charts(text)]
    url = _page(tmp_path, "".join(charts))
    page = chromium.open(url)

    assert page.evaluate("[typeof window.owned, document.title]") == ["undefined", "page"]
    assert page.evaluate("document.querySelectorAll('script, img, b, iframe, [onload], [onerror], a').length") == 0
    assert page.evaluate("document.querySelectorAll('svg').length") == len(charts)
    assert page.console == []
    assert page.requests == [url]


def test_these_tests_would_see_an_injection(chromium: Chromium, tmp_path: Path) -> None:
    """The same checks on a page that does not escape: the marker is set, the error is logged, the request is seen."""
    weak = "<p style='color:#999;background:#fff;width:3000px'>weak and wide</p>"
    loose = "<svg viewBox='0 0 9 9'><text y='9'>outside</text></svg>"
    script = "<script>console.error('seen');nothing()</script>"
    url = _page(tmp_path, f"{PAYLOADS[0]}<img src='http://127.0.0.1:9/x'>{weak}{loose}{script}")
    page = chromium.open(url)

    assert page.evaluate("[typeof window.owned, document.title]") == ["number", "owned"]
    assert foreign_requests(page, url) == ["http://127.0.0.1:9/x"]
    assert least_contrast(page) == pytest.approx(2.85, abs=0.01)
    assert sideways_pixels(page) > 1000
    assert texts_outside(page) == ["outside"]
    assert any("seen" in line for line in page.console)
    assert any("exception" in line for line in page.console)


class _Server(HTTPServer):
    """Counts who asks."""

    asked = 0


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer nothing, and count."""
        assert isinstance(self.server, _Server)
        self.server.asked += 1
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name in the standard library
        """Say nothing."""


def test_a_page_is_printed_without_any_network(tmp_path: Path) -> None:
    """A real browser makes a PDF of a page of charts; a picture on a server of this very machine is never asked for."""
    server = _Server(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        address = f"http://127.0.0.1:{server.server_address[1]}/picture.png"
        _page(tmp_path, f'<img src="{address}">' + "".join(responsive(chart) for chart in example_charts("zh")))
        print_pdf(tmp_path / "page.html", tmp_path / "page.pdf")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

    content = (tmp_path / "page.pdf").read_bytes()
    assert content.startswith(b"%PDF-")
    assert b"%%EOF" in content[-64:]
    assert was_printed_here(tmp_path / "page.pdf")
    assert len(content) > 20_000
    assert server.asked == 0

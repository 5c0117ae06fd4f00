from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer
from typer.testing import CliRunner

from helpers.chromium import why_no_browser
from helpers.page_checks import least_contrast, sideways_pixels, texts_outside
from helpers.page_files import write_page_files
from suffice.cli.report import report

if TYPE_CHECKING:
    from helpers.chromium import Chromium

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(bool(why_no_browser()), reason=why_no_browser() or "there is one"),
]

LOAD_RESULT = Path(__file__).parents[1] / "data" / "load_results" / "vllm-0.33.0-rate.json"
OWNED = "window.owned=1;document.title='owned'"
PAYLOADS = {
    "markup": f"<script>{OWNED}</script>\"'><img src=x onerror={OWNED}></style></title></svg><script>{OWNED}</script>",
    "link": f"javascript:{OWNED}",
    "code": f"`<b onmouseover={OWNED}>`{{{{7*7}}}}{{% raw %}} a\u202egpj.exe\u2066<u>\u2069\u200f",
}


def _made(folder: Path, text: str, language: str = "en") -> str:
    """The address of a page on which a text from outside stands wherever one can."""
    app = typer.Typer()
    app.command()(report)
    out = folder / "report.html"
    arguments = [*write_page_files(folder, text, LOAD_RESULT), "--lang", language, "--out", str(out)]
    result = CliRunner().invoke(app, arguments)
    assert out.exists(), (result.output, result.exception)
    return out.as_uri()


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_is_quiet_and_readable_on_every_screen(chromium: Chromium, tmp_path: Path, language: str) -> None:
    """Phone and desk, light and dark: nothing is logged or asked for, nothing scrolls sideways, tables are whole on a desk, texts have contrast, each section its heading."""
    url = _made(tmp_path, "Qwen2.5-7B-Instruct-Q4_K_M", language)
    for width in (390, 1280):
        for scheme in ("light", "dark"):
            page = chromium.open(url, width=width, scheme=scheme)

            assert page.console == []
            assert page.requests == [url]
            assert sideways_pixels(page) == 0
            assert texts_outside(page) == []
            assert least_contrast(page) >= 4.5
            assert page.evaluate("document.documentElement.lang").startswith(language)
            assert page.evaluate("[...document.querySelectorAll('section')].every(one => one.querySelector('h2'))")
            assert page.evaluate("document.querySelectorAll('h1').length") == 1
            cut = "[...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.ariaLabel)"
            assert (
                width < 1280 or page.evaluate(cut) == []
            )  # a desk shows whole tables: nobody looks for a date beyond the edge


@pytest.mark.parametrize(
    ("payload", "language"),
    [(one, ("en", "zh")[place % 2]) for place, one in enumerate(PAYLOADS.values())],
    ids=PAYLOADS,
)
def test_no_name_from_outside_becomes_markup(chromium: Chromium, tmp_path: Path, payload: str, language: str) -> None:
    """Names of models, machines, engines, options, notes and sources run nothing, make no element and lead nowhere."""
    url = _made(tmp_path, payload, language)
    page = chromium.open(url, width=390)

    assert page.evaluate(
        "[typeof window.owned, document.title.includes('owned') && !document.title.includes('=')]"
    ) == [
        "undefined",
        False,
    ]
    assert page.evaluate("document.querySelectorAll('script, img, b, u, iframe, object, base, form').length") == 0
    assert (
        page.evaluate(
            "[...document.querySelectorAll('*')].flatMap(one => one.getAttributeNames())"
            ".filter(name => name.startsWith('on')).length"
        )
        == 0
    )
    assert (
        page.evaluate(
            "[...document.querySelectorAll('a')].filter(one => !/^(https?:|#)/.test(one.getAttribute('href'))).length"
        )
        == 0
    )
    assert page.evaluate("/[\\u202a-\\u202e\\u2066-\\u2069]/.test(document.documentElement.outerHTML)") is False
    assert page.console == []
    assert page.requests == [url]


def test_the_page_can_be_read_without_scripts_and_prints_in_light_colours(chromium: Chromium, tmp_path: Path) -> None:
    """There is no script on it; on paper a reader in the dark gets the light colours, and the wide pictures."""
    page = chromium.open(_made(tmp_path, "toy"), scheme="dark")
    chromium.call(
        "Emulation.setEmulatedMedia",
        {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]},
        page.session,
    )

    assert page.evaluate("document.scripts.length") == 0
    assert (
        page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--series-1').trim()") == "#0b5fa5"
    )
    shown = page.evaluate("[...document.querySelectorAll('svg')].map(one => one.getBoundingClientRect().width > 0)")
    assert shown == [True, False] * (len(shown) // 2)
    assert len(shown) >= 6

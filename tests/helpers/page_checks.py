"""What is measured on a page that a real browser shows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from helpers.svg import contrast

if TYPE_CHECKING:
    from helpers.chromium import Page

# Every element with text of its own, its colour and the nearest ground below it that is not transparent.
_COLOURS: Final = """[...document.querySelectorAll('body *')].filter(one =>
  one.namespaceURI.endsWith('xhtml') && one.getClientRects().length > 0
  && [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim())
).map(one => {
  let ground = one;
  while (ground && /, 0\\)$|transparent/.test(getComputedStyle(ground).backgroundColor)) ground = ground.parentElement;
  return [getComputedStyle(one).color, ground ? getComputedStyle(ground).backgroundColor : 'rgb(255, 255, 255)'];
})"""
_OUTSIDE: Final = """[...document.querySelectorAll('svg')].filter(svg => svg.getBoundingClientRect().width > 0).flatMap(svg => {
  const view = svg.viewBox.baseVal;
  return [...svg.querySelectorAll('text')].filter(text => {
    const box = text.getBBox();
    return box.x < -1 || box.y < -1 || box.x + box.width > view.width + 1 || box.y + box.height > view.height + 1;
  }).map(text => text.textContent);
})"""


def least_contrast(page: Page) -> float:
    """The least ratio of a text's colour to its ground; WCAG 1.4.3 asks for 4.5."""
    pairs = {(_hex(text), _hex(ground)) for text, ground in page.evaluate(_COLOURS)}
    return min((contrast(text, ground) for text, ground in pairs), default=21.0)


def texts_outside(page: Page) -> list[str]:
    """Texts of the charts that are shown which leave their picture by more than rounding, in the fonts that are really there."""
    found: list[str] = page.evaluate(_OUTSIDE)
    return found


def sideways_pixels(page: Page) -> int:
    """How far the whole page can be scrolled sideways."""
    pixels: int = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return max(0, pixels)


def foreign_requests(page: Page, url: str) -> list[str]:
    """What was asked for beside the page itself and its own server; a page in a file has no server."""
    own = urlsplit(url)
    server = f"{own.scheme}://{own.netloc}/"
    return [one for one in page.requests if one != url and not (own.netloc and one.startswith(server))]


def _hex(colour: str) -> str:
    red, green, blue = (int(part) for part in re.findall(r"\d+", colour)[:3])
    return f"#{red:02x}{green:02x}{blue:02x}"

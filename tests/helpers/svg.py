"""Reading pictures back: where everything lies, and how well colours are told from what is behind them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from suffice.report.svg.canvas import text_width

_SVG = "{http://www.w3.org/2000/svg}"
_ACROSS = ("x", "x1", "x2", "cx")
_DOWN = ("y", "y1", "y2", "cy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """One picture: its size, all coordinates on it, and its texts."""

    root: ET.Element
    width: float
    height: float
    across: tuple[float, ...]
    down: tuple[float, ...]
    texts: tuple[str, ...]

    @property
    def outside(self) -> list[float]:
        """Coordinates that are not within the picture; NaN is not."""
        return [
            *(x for x in self.across if not -0.01 <= x <= self.width + 0.01),
            *(y for y in self.down if not -0.01 <= y <= self.height + 0.01),
        ]

    def count(self, name: str) -> int:
        """Elements of a kind."""
        return len(list(self.root.iter(f"{_SVG}{name}")))


def read_svg(text: str) -> Drawn:
    """Parse a picture as XML and collect all coordinates, the ends of texts included."""
    root = ET.fromstring(text)  # noqa: S314  # our own picture
    left, top, width, height = (float(number) for number in root.attrib["viewBox"].split())
    assert (left, top) == (0, 0)
    across: list[float] = []
    down: list[float] = []
    for element in root.iter():
        across += [float(element.attrib[name]) for name in _ACROSS if name in element.attrib]
        down += [float(element.attrib[name]) for name in _DOWN if name in element.attrib]
        for place in element.attrib.get("points", "").split():
            x, y = place.split(",")
            across.append(float(x))
            down.append(float(y))
        if element.tag == f"{_SVG}text":
            across += _ends(element)
    texts = tuple(element.text or "" for element in root.iter(f"{_SVG}text"))
    return Drawn(root=root, width=width, height=height, across=tuple(across), down=tuple(down), texts=texts)


def _ends(element: ET.Element) -> tuple[float, float]:
    size = float(element.attrib.get("font-size", "12"))
    width = text_width(element.text or "", size, bold="font-weight" in element.attrib)
    before = {"start": 0.0, "middle": 0.5, "end": 1.0}[element.attrib.get("text-anchor", "start")] * width
    left = float(element.attrib["x"]) - before
    return left, left + width


def luminance(colour: str) -> float:
    """Relative luminance of ``#rrggbb`` (WCAG 2.2, https://www.w3.org/TR/WCAG22/#dfn-relative-luminance)."""
    parts = [int(part, 16) / 255 for part in re.findall(r"[0-9a-f]{2}", colour.lower().removeprefix("#"))]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours, 1 to 21 (WCAG 2.2)."""
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)

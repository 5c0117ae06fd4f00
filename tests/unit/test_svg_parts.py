from __future__ import annotations

import re
from itertools import pairwise

import pytest

from helpers.charts import example_charts
from helpers.svg import contrast, luminance
from suffice.decide.verdict import Grade
from suffice.report.svg import CHART_STYLE, responsive
from suffice.report.svg.canvas import fitted, text_width, wrapped
from suffice.report.svg.palette import ANYWHERE, DARK, LIGHT, grade_style, series_style
from suffice.report.svg.scales import scale_of
from suffice.report.svg.types import Axis

WHITE, BLACK, DARK_PAPER = "#ffffff", "#000000", "#1c1f23"


def _ticks(*values: float, count: int = 5, log: bool = False, percent: bool = False) -> list[str]:
    return list(scale_of(values, Axis(label="x", log=log, percent=percent, from_zero=False), 0, 100, count).labels)


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ((0.0, 10.0), ["0.0", "2.5", "5.0", "7.5", "10.0", "12.5"]),
        ((0.0, 0.9), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        ((0.0, 9000.0), ["0", "2000", "4000", "6000", "8000", "10000"]),
        ((0.0, 90_000.0), ["0", "20k", "40k", "60k", "80k", "100k"]),
        ((0.0, 4.8e9), ["0", "1G", "2G", "3G", "4G", "5G"]),
        ((7.0,), ["2", "4", "6", "8", "10", "12"]),
        ((-3.0, 3.0), ["-4", "-2", "0", "2", "4"]),
    ],
)
def test_linear_ticks_are_numbers_that_people_like(values: tuple[float, ...], labels: list[str]) -> None:
    """1, 2, 2.5 or 5 times a power of ten, with the decimals that they need and one prefix for the whole axis."""
    found = _ticks(*values)

    assert [one.removesuffix(".0") for one in found] == [one.removesuffix(".0") for one in labels]


@pytest.mark.parametrize(
    ("values", "count", "labels"),
    [
        ((1.0, 900.0), 5, ["1", "10", "100", "1000"]),
        ((1e2, 9e3), 5, ["100", "1000", "10000"]),
        ((2e4, 3e6), 5, ["100k", "1M"]),
        ((3e2, 3e4), 9, ["500", "1k", "2k", "5k", "10k", "20k"]),
        ((3.0, 30.0), 6, ["5", "10", "20"]),
        ((5.0,), 9, ["3", "4", "5", "6", "7", "8", "9", "10"]),
        ((0.02, 2.0), 4, ["0.1", "1"]),
    ],
)
def test_log_ticks_are_decades_and_parts_of_them(values: tuple[float, ...], count: int, labels: list[str]) -> None:
    """As many as there is room for: all digits, 1-2-5, or decades."""
    assert _ticks(*values, count=count, log=True) == labels


def test_shares_have_percent_signs() -> None:
    """An axis of shares is written in percent, with a space as everywhere in the tables."""
    assert _ticks(0.0, 0.5, percent=True) == ["0 %", "20 %", "40 %", "60 %"]


def test_neighbours_of_a_large_number_are_told_apart() -> None:
    """Ticks that differ in the seventh digit do not look equal."""
    labels = _ticks(1_000_001.0, 1_000_004.0)

    assert len(labels) == len(set(labels))


def test_colours_are_seen_on_light_dark_and_unknown_paper() -> None:
    """4.5:1 and more on the page's light and dark paper, as of text; without the page's style 3:1 on white and on black (WCAG 1.4.11)."""
    assert min(contrast(colour, WHITE) for colour in LIGHT.values()) >= 4.5
    assert min(contrast(colour, DARK_PAPER) for colour in DARK.values()) >= 4.5
    assert min(contrast(colour, paper) for colour in ANYWHERE.values() for paper in (WHITE, BLACK)) >= 3


def test_contrast_is_that_of_the_standard() -> None:
    """Black on white is 21:1, equal colours 1:1, and #767676 on white the well-known 4.54:1."""
    assert contrast(BLACK, WHITE) == pytest.approx(21)
    assert contrast("#abcdef", "#abcdef") == 1
    assert contrast("#767676", WHITE) == pytest.approx(4.54, abs=0.005)
    assert luminance(WHITE) == pytest.approx(1)


def test_series_and_grades_are_told_apart_without_colour() -> None:
    """Printed in grey each of six series has its own dash and mark, and each grade its own filling or outline; 36 differ in something."""
    first = [series_style(number) for number in range(6)]
    grades = [(grade_style(grade).fill_opacity, grade_style(grade).ink.dash) for grade in Grade]

    assert len({one.ink.dash for one in first}) == len({one.mark for one in first}) == 6
    assert len(set(grades)) == len(list(Grade))
    assert len({(one.ink.colour, one.ink.dash) for one in map(series_style, range(36))}) == 36


def test_the_style_sheet_knows_every_variable_that_pictures_use() -> None:
    """Each var() of a picture has a light, a dark and a fallback value; print gets the light ones."""
    text = "".join(responsive(chart) for chart in example_charts())
    used = set(re.findall(r"var\(--([\w-]+), (#[0-9a-f]{6})\)", text))

    assert {name for name, _ in used} <= set(LIGHT)
    assert set(LIGHT) == set(DARK) == set(ANYWHERE)
    assert len(re.findall(r"var\(", text)) == len(re.findall(r"var\(--[\w-]+, #[0-9a-f]{6}\)", text))
    light, _, dark = CHART_STYLE.partition("@media screen and (prefers-color-scheme:dark)")
    for name in LIGHT:
        assert f"--{name}:{LIGHT[name]}" in light
        assert f"--{name}:{DARK[name]}" in dark


def test_long_texts_lose_their_middle() -> None:
    """What is left fits, and keeps the end, which tells names apart; Chinese characters count as wide as they are."""
    name = "Qwen2.5-Coder-32B-Instruct-128K-imatrix-UD-Q4_K_XL"

    assert text_width("大模型") == 3 * 12
    for pixels in (200, 100, 50, 30):
        short = fitted(name, pixels)
        assert text_width(short) <= pixels
        assert short[:1] == "Q"
    assert fitted(name, 150).endswith("XL")
    assert fitted(name, 20) == ""
    assert fitted(name, 1000) == name


@pytest.mark.parametrize(
    "text", ["memory roof 38.2 GB/s, compute roof 410 GFLOP/s", "内存屋顶是四百一十每秒浮点运算", "x" * 60]
)
def test_texts_break_into_lines_that_fit(text: str) -> None:
    """At spaces, and anywhere between Chinese characters; three lines at most, and nothing is lost while it fits."""
    lines = wrapped(text, 160)

    assert 1 <= len(lines) <= 3
    assert all(text_width(line) <= 160 for line in lines)
    if " " in text or "内" in text:
        assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_ticks_of_every_scale_rise() -> None:
    """Also where the range is tiny, negative or far from 0."""
    for values in ((1e-30, 2e-30), (-5.0, -4.999), (1e6, 1e6 + 1), (1e-95,), (-1e-95,), (0.0,)):
        ticks = scale_of(values, Axis(label="x", from_zero=False), 0, 100, 5).ticks
        assert all(one < other for one, other in pairwise(ticks))
        assert ticks[0] <= min(values)
        assert ticks[-1] >= max(values)

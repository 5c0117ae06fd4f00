"""The roofline as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from suffice.errors import UsageError
from suffice.model.roofline import PhaseWork, Roofs
from suffice.report.pictures import CREATOR, check_chart
from suffice.report.roofline_chart import RooflinePoint, attainable_flop_per_s, write_roofline

if TYPE_CHECKING:
    from pathlib import Path

ROOFS = Roofs(bandwidth_bytes_per_s=100.0, peak_flop_per_s=1000.0)
DECODE = RooflinePoint(label="decode <b>$x$", work=PhaseWork(read_bytes=10.0, flop=20.0))


@pytest.mark.parametrize(("intensity", "expected"), [(2.0, 200.0), (10.0, 1000.0), (50.0, 1000.0)])
def test_the_lower_roof_binds(intensity: float, expected: float) -> None:
    """Below the ridge of 10 FLOP/byte the memory, above it the compute peak."""
    assert attainable_flop_per_s(ROOFS, intensity) == expected
    assert attainable_flop_per_s(Roofs(bandwidth_bytes_per_s=100.0), intensity) == 100 * intensity


def test_the_picture_is_whole_marked_and_inert(tmp_path: Path) -> None:
    """An SVG and a PNG that say who drew them; markup in a name is text."""
    svg, png = tmp_path / "r.svg", tmp_path / "r.png"

    write_roofline(svg, ROOFS, [DECODE], "a & <i>b</i>")
    write_roofline(png, Roofs(bandwidth_bytes_per_s=100.0), [DECODE], "大模型")

    text = svg.read_text(encoding="utf-8")
    assert text.startswith("<?xml")
    assert CREATOR in text
    assert "<b>" not in text
    assert "<i>" not in text
    assert png.read_bytes().startswith(b"\x89PNG")
    assert CREATOR.encode() in png.read_bytes()


def test_work_without_operations_is_left_out(tmp_path: Path) -> None:
    """Nothing has a place on a logarithmic axis at 0."""
    write_roofline(tmp_path / "r.svg", ROOFS, [RooflinePoint(label="none", work=PhaseWork(read_bytes=1.0))], "t")

    assert (tmp_path / "r.svg").exists()


def test_other_formats_are_refused(tmp_path: Path) -> None:
    """Before anything is measured."""
    with pytest.raises(UsageError, match=r"\.svg or \.png"):
        check_chart(tmp_path / "r.pdf")

"""The comparison's table, bars and document."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from suffice.decide.quantity import Quantity
from suffice.decide.ranking import Candidate
from suffice.model.basis import Basis
from suffice.model.demand import single_stream_need
from suffice.report.chart import write_chart
from suffice.report.compare import bars, comparison_document, comparison_text


def _candidate(name: str, rate: float) -> Candidate:
    return Candidate(
        name=name,
        decode=Quantity(point=rate, low=rate * 0.9, high=rate * 1.1, basis=Basis.EXTRAPOLATED),
        streamed_bytes=4e9,
        weights_bytes=4e9,
    )


def test_bars_are_as_long_as_the_rates() -> None:
    """16 tokens/s has twice the bar of 8; the need of 12 and its margin are marked."""
    text = bars([_candidate("a", 16.0), _candidate("b", 8.0)], single_stream_need(10.0, 1.2))

    first, second, legend = text.splitlines()
    assert first.startswith("a  █")
    assert second.count("█") == 20
    assert first.index(":") == second.index(":")
    assert first.index("|") < first.index(":")
    assert "need 10" in legend


def test_a_candidate_that_failed_keeps_its_row() -> None:
    """Its reason is printed, its figures are unknown, and in JSON null."""
    failed = Candidate(name="bad", error="architecture refused")
    candidates = [_candidate("good", 5.0), failed]

    text = comparison_text(candidates, [None, None], None, None)
    document = comparison_document(candidates, [(Path("a"), None), (Path("b"), None)], None, None)

    assert "bad: not measured: architecture refused" in text
    assert document["candidates"][1]["decode_tokens_per_second"] is None
    assert document["candidates"][1]["error"] == "architecture refused"
    assert document["answer"] is None


def test_the_chart_is_a_picture(tmp_path: Path) -> None:
    """An SVG with the names as they are, a dollar included."""
    path = tmp_path / "chart.svg"

    write_chart(path, [_candidate("m$x$<b>", 5.0), _candidate("n", 9.0)], single_stream_need(6.0))

    text = path.read_text(encoding="utf-8")
    assert text.startswith("<?xml")
    assert "<b>" not in text


def test_a_margin_of_load_is_not_put_on_the_need_of_a_stream() -> None:
    """Of two users each needs 10 tokens/s, and there may be more of them; one stream needs 12."""
    need = single_stream_need(10.0, 1.2)

    assert ":" not in bars([_candidate("a", 16.0)], replace(need, concurrent_users=2))
    assert "| need 10 tokens/s, : with margin 1.2" in bars([_candidate("a", 16.0)], need)


def test_the_chart_has_no_line_for_a_margin_of_load(tmp_path: Path) -> None:
    """As the bars have none."""
    need, texts = single_stream_need(6.0, 1.2), []
    for demand in (need, replace(need, concurrent_users=2)):
        write_chart(tmp_path / "chart.svg", [_candidate("m", 5.0)], demand)
        texts.append((tmp_path / "chart.svg").read_text(encoding="utf-8"))

    assert ["stroke-dasharray: " in text for text in texts] == [True, False]

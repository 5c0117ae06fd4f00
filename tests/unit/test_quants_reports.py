"""A comparison as text, Markdown, CSV, JSON and a picture."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import pytest
from matplotlib.text import Text

from helpers.quants import asked, comparison, distance, paired_scores, tasks
from helpers.records import run_record
from suffice.decide.quants_conclusion import Conclusions, conclude
from suffice.decide.quants_types import QualityPolicy
from suffice.errors import OutputError
from suffice.model.items import ScoreKind
from suffice.model.quants import QuantsRecord
from suffice.records.schema import ModelRecord
from suffice.report.json_values import json_text
from suffice.report.pictures import drawing
from suffice.report.quants import quants_markdown, quants_text
from suffice.report.quants_chart import _figure, write_quants_chart
from suffice.report.quants_csv import harmless, quants_csv, quants_flips_csv
from suffice.report.quants_document import quants_document

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

EVIL = '=HYPERLINK("http://x") \x1b[31m| **bold** <script>\u202e'


@cache
def conclusions() -> Conclusions:
    """1000 items, one candidate that loses 40 and one that is the reference, with speeds and distances."""
    reference, candidate = paired_scores(1000, right=900, lost=40, gained=10)
    record = comparison(reference, candidate, reference)
    record = replace(
        record,
        distances=(distance("c1", [0.1, 0.2, 0.3, 0.1, 0.2, 0.3]), distance("ref", [0.0] * 6, is_self=True)),
        notes=("a note",),
    )
    speeds = {
        name: run_record(decode=rate, model=ModelRecord(sha256=f"hash of {name}"))
        for name, rate in (("ref", 10.0), ("c1", 19.0), ("c2", 10.0))
    }
    return conclude(record, QualityPolicy(floor=0.8), speeds=speeds)


def evil() -> Conclusions:
    """Names, ids and answers that mean harm to a terminal, to Markdown and to a spreadsheet."""
    models = (asked("ref", [1.0, 1.0], [EVIL, "a"]), asked(EVIL, [0.0, 1.0], ["-1", "a"]))
    items = tuple(replace(task, item_id=f"@{task.item_id}") for task in tasks(2))
    record = QuantsRecord(items_source=EVIL, items_hash=None, tasks=items, models=models, notes=(EVIL,))
    return conclude(record)


def test_the_text_has_every_table_and_sentence() -> None:
    """Each heading once, each model in it, the sentence of each candidate."""
    text = quants_text(conclusions())

    for title in (
        "Scores",
        "Against the reference",
        "Agreement of outputs",
        "Distance on the text",
        "Speed and memory",
    ):
        assert text.count(f"{title}\n") == 1
    assert "By kind of score" not in text  # there is one kind
    for sentence in conclusions().sentences:
        assert sentence in text
    assert "-3.0, 95 % -4.5..-1.6" in text
    assert "1.9x (1.83 to 1.98)" in text
    assert "! a note" in text


def test_twenty_flips_are_shown_and_all_are_in_the_csv() -> None:
    """50 items flipped: 20 rows in the text, 50 in the file and in the document."""
    text = quants_text(conclusions())

    assert "Flips (20 of 50)" in text
    assert len(text.split("Flips (20 of 50)\n")[1].split("\n\n")[0].splitlines()) == 21
    rows = list(csv.DictReader(io.StringIO(quants_flips_csv(conclusions()))))
    assert len(rows) == 50
    assert list(rows[0].values()) == ["c1", "i0", "", "exact", "1", "0", "right", "wrong"]
    assert len(quants_document(conclusions())["candidates"][0]["flips"]) == 50


def test_the_csv_has_a_row_for_each_item() -> None:
    """With the score and the answer of each model."""
    rows = list(csv.DictReader(io.StringIO(quants_csv(conclusions()))))

    assert len(rows) == 1000
    assert (rows[0]["suffice quants: id"], rows[0]["ref: score"], rows[0]["c1: score"]) == ("i0", "1", "0")
    assert (rows[0]["ref: answer"], rows[0]["c1: answer"]) == ("right", "wrong")


def test_the_document_keeps_the_contract() -> None:
    """The names that scripts read, with the values of the tables; it is JSON, whatever is unknown."""
    document = json.loads(json_text(quants_document(conclusions())))

    first, second = document["candidates"]
    assert first["name"] == "c1"
    assert first["accuracy"] == pytest.approx(0.87)
    assert first["difference"] == pytest.approx(-0.03)
    assert first["low"] < first["difference"] < first["high"] < 0
    assert first["p_value"] < 0.001
    assert (first["decision"], second["decision"]) == ("fails", "passes")
    assert first["decode_tokens_per_second"] == pytest.approx(19.0)
    assert first["kl_mean"] == pytest.approx(0.2)
    assert first["same_top"] == pytest.approx(0.98)
    assert (second["kl_mean"], second["same_top"]) == (None, None)
    assert second["finding"] == "equivalent"
    assert document["noise_floors"][0]["kl_mean"]["value"] == 0
    assert document["reference"]["accuracy"] == pytest.approx(0.9)


def test_nothing_from_outside_is_obeyed() -> None:
    """No escape sequence, no bidirectional override, no markup, no formula."""
    text, markdown, table = quants_text(evil()), quants_markdown(evil()), quants_csv(evil())

    for report in (text, markdown):
        assert "\x1b" not in report
        assert "\u202e" not in report
    assert "<script>" not in markdown
    assert not re.search(r"(?<!\\)\*\*bold", markdown)
    assert not re.search(r"(?<!\\)\|\s*\\\*\\\*bold", markdown)
    cells = [cell for row in csv.reader(io.StringIO(table)) for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]
    assert "'-1" in cells
    assert "\x1b" not in table


@pytest.mark.parametrize("start", ["=1", "+1", "-1", "@a", "\t=1", "\n=1", " =1", "＝1", "\x00=1"])
def test_what_looks_like_a_formula_is_text(start: str) -> None:
    """Also behind white space, in full width, and behind what is left out."""
    assert harmless(start).startswith("'")
    assert harmless("a = 1") == "a = 1"
    assert harmless("0.5") == "0.5"


def test_reports_without_labels_or_speeds_have_no_empty_tables() -> None:
    """What was not measured is left out, and nothing fails."""
    record = QuantsRecord(
        items_source="i",
        items_hash=None,
        tasks=tasks(3, labelled=False),
        models=(asked("ref", [None] * 3, ["a", "b", "c"]), asked("c1", [None] * 3, ["a", "x", None])),
    )
    found = conclude(record)
    text = quants_text(found)

    assert "Agreement of outputs" in text
    for absent in ("Scores", "Against the reference", "Speed and memory", "Flips", "Distance"):
        assert absent not in text
    assert "c1: output identical on 50.0 %" in text
    assert quants_markdown(found).startswith("# ")
    assert json.loads(json_text(quants_document(found)))["candidates"][0]["decision"] == "undecided"


def test_a_comparison_without_candidates_is_a_report_of_one_model() -> None:
    """While it runs there may be the reference only."""
    found = conclude(comparison([1.0, 0.0]))

    assert "reference: ref" in quants_text(found)
    assert quants_document(found)["candidates"] == []
    assert len(quants_csv(found).splitlines()) == 3


def test_kinds_have_a_table_of_their_own() -> None:
    """Where there are several, and items that another tool scored are among them."""
    record = comparison([1.0] * 20, [0.0] * 20)
    kinds = tuple(replace(task, kind=None if place % 2 else task.kind) for place, task in enumerate(record.tasks))

    text = quants_text(conclude(replace(record, tasks=kinds)))

    rows = text.split("By kind of score\n")[1].split("\n\n")[0].splitlines()
    assert [row.split()[-1] for row in rows[1:]] == ["worse", "worse"]
    assert "scored elsewhere" in rows[2]


def test_a_pass_by_guessing_is_marked() -> None:
    """As many right as before and other choices on half of the items: the score passes, and a mark says to look."""
    count = 4000
    scores = [1.0, 1.0, 0.0, 0.0] * (count // 4)
    models = (asked("ref", scores, ["A"] * count), asked("c1", scores, ["A", "A", "B", "B"] * (count // 4)))
    kinds = tasks(count, kind=ScoreKind.MULTIPLE_CHOICE)
    record = QuantsRecord(items_source="i", items_hash=None, tasks=kinds, models=models)
    alike = replace(record, models=(models[0], replace(models[0], subject=models[1].subject)))

    assert "takes another choice than the reference on 50.0 % of 4,000 items" in quants_text(conclude(record))
    assert "takes another choice" not in quants_text(conclude(alike))


def test_charts_are_written_in_both_formats(tmp_path: Path) -> None:
    """The same bytes twice; names, floor and need are in the picture."""
    picture, again = tmp_path / "q.svg", tmp_path / "again.svg"

    write_quants_chart(picture, conclusions(), 12.0)
    write_quants_chart(again, conclusions(), 12.0)
    write_quants_chart(tmp_path / "q.png", conclusions())

    assert picture.read_bytes() == again.read_bytes()
    assert (tmp_path / "q.png").read_bytes().startswith(b"\x89PNG")
    drawn = picture.read_text(encoding="utf-8")
    for text in ("need 12 tokens/s", "floor 80 %", "c1", "ref"):
        assert f"<!-- {text} -->" in drawn


def test_names_in_the_chart_do_not_overlap() -> None:
    """Not even of eight models at the same place; none leaves the axes."""
    reference, candidate = paired_scores(200, right=150, lost=1)
    record = comparison(reference, *[candidate] * 8)
    speeds = {
        model.subject.name: run_record(decode=10.0, model=ModelRecord(sha256=model.subject.identity))
        for model in record.models
    }
    with drawing():
        figure = _figure(conclude(record, speeds=speeds), None)
        for text in figure.axes[0].texts:
            text.get_window_extent()  # puts it in its place; what it gives has the line to the point in it
        boxes = [Text.get_window_extent(text) for text in figure.axes[0].texts]

    assert len(boxes) == 9
    assert not [(a, b) for place, a in enumerate(boxes) for b in boxes[:place] if a.overlaps(b)]
    frame = figure.axes[0].get_window_extent()
    assert all(frame.containsx(box.x0) and frame.containsx(box.x1) for box in boxes)


def test_a_chart_without_anything_to_draw_is_no_file(tmp_path: Path) -> None:
    """No speed was measured: a sentence, and no empty picture."""
    path = tmp_path / "q.svg"

    with pytest.raises(OutputError, match="nothing to draw"):
        write_quants_chart(path, conclude(comparison([1.0], [1.0])))

    assert not path.exists()


def test_the_chart_marks_busy_machines_and_the_margin() -> None:
    """The need is one line, the need with the margin another; a model that was measured on a busy machine is hollow."""
    with drawing():
        plain = _figure(conclusions(), 8.0)
        busy = [replace(one, disturbed=one.name == "c1") for one in conclusions().speeds]
        marked = _figure(replace(conclusions(), speeds=tuple(busy)), 8.0, 1.5)

    def labels(figure: Figure) -> list[str]:
        return [str(handle.get_label()) for handle in figure.axes[0].get_legend_handles_labels()[0]]

    assert "need 8 tokens/s" in labels(plain)
    assert not [label for label in labels(plain) if "margin" in label or "busy" in label]
    assert "with the margin of 1.5: 12 tokens/s" in labels(marked)
    assert "hollow: busy machine, at least this fast" in labels(marked)


def test_markdown_reads_raw() -> None:
    """Names with underscores, arrows and small p-values stand as they are; what a renderer would obey is still escaped."""
    record = comparison(*paired_scores(1000, right=900, lost=40))
    names = ("smol_f16", "q4_k_m")
    models = tuple(
        replace(model, subject=replace(model.subject, name=name))
        for model, name in zip(record.models, names, strict=True)
    )
    markdown = quants_markdown(conclude(replace(record, models=models, notes=("_a_ <b> x_ 1<2",))))

    assert "q4_k_m: accuracy 90.0 % → 86.0 %" in markdown
    assert "<0.0001" in markdown
    assert "- \\_a\\_ &lt;b&gt; x\\_ 1<2" in markdown


def test_remarks_say_what_is_easily_misread() -> None:
    """Other choices whatever the finding, lengths of cut answers, a perplexity below the reference's, ratios that are no quotients."""
    choices = ["A"] * 300
    first = asked("ref", [1.0] * 300, choices)
    second = asked("c1", [0.0] * 120 + [1.0] * 180, ["B"] * 120 + ["A"] * 180)
    items = tasks(300, kind=ScoreKind.MULTIPLE_CHOICE)
    record = QuantsRecord(items_source="i", items_hash=None, tasks=items, models=(first, second))
    lower = distance("c1", [0.5, 0.6, 0.4, 0.5, 0.6, 0.5])
    lower = replace(
        lower, documents=tuple(replace(one, candidate_loss=one.reference_loss * 0.9) for one in lower.documents)
    )

    text = quants_text(conclude(replace(record, distances=(lower,))))

    assert "it takes another choice than the reference on 40.0 % of 300 items" in text
    assert "its perplexity is below the reference's, which makes it no better model" in text
    assert "(no interval: not enough documents)" in text
    assert "further documents hold a larger divergence than the largest here" in text

    written = comparison([1.0] * 40, [1.0] * 30 + [0.0] * 10)
    cut = tuple(
        replace(model, outcomes=tuple(replace(one, is_cut=True) for one in model.outcomes)) for model in written.models
    )
    text = quants_text(conclude(replace(written, models=cut)))
    assert "unknown: every answer was cut off" in text
    assert "c1: 10 of 40 answers to exact items were cut off at max_tokens and not right: raise --max-tokens" in text
    assert "ref: 40" not in text  # what is right although it was cut off is no reason to raise anything


def test_a_noise_floor_of_one_batch_is_not_measured() -> None:
    """No document is longer than the floor's own batch, so that its 0 says nothing; with longer ones it does."""
    record = comparison([1.0] * 10, [1.0] * 10)
    itself = replace(distance("ref", [0.0] * 6, is_self=True, tokens=20), settings={"other_n_batch": 32})
    longer = replace(distance("ref", [0.0] * 6, is_self=True, tokens=100), settings={"other_n_batch": 32})
    other = distance("c1", [0.1] * 6, tokens=20)

    short = conclude(replace(record, distances=(other, itself))).distances
    long = conclude(replace(record, distances=(other, longer))).distances

    assert [one.noise.value for one in short] == ["not measured: every document fits into one batch"] * 2
    assert [one.noise.value for one in long] == ["above the noise floor", "the noise floor"]

"""`suffice report`: the verdict of `suffice decide`, in a file of its own that replaces nobody's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner

from helpers.pages import plan_document, record, simulation_document
from helpers.quants import comparison, paired_scores
from helpers.records import write_json
from suffice.cli.app import build_app
from suffice.cli.report import report
from suffice.errors import RecordError, SufficeError, UsageError
from suffice.records.quants_store import save_quants
from suffice.records.store import save_record
from suffice.report.page.html import START
from suffice.report.page.markdown import MARK

if TYPE_CHECKING:
    from pathlib import Path

DEMAND = '[demand]\nkind = "interactive"\ntokens_per_second_per_user = 8\n'
RUN = CliRunner()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A demand, a run, a comparison, a plan and a simulation."""
    (tmp_path / "demand.toml").write_text(DEMAND)
    save_record(record(), tmp_path / "run.json")
    save_record(record(decode=4.0), tmp_path / "slow.json")
    reference, candidate = paired_scores(600, right=540, lost=0)
    save_quants(comparison(reference, candidate), tmp_path / "quants.json")
    write_json(tmp_path / "plan.json", plan_document())
    write_json(tmp_path / "sim.json", simulation_document())
    return tmp_path


def _report(folder: Path, *arguments: str, run: str = "run.json") -> tuple[int, str]:
    app = typer.Typer()
    app.command()(report)
    found = RUN.invoke(app, [str(folder / "demand.toml"), str(folder / run), *arguments])
    if isinstance(found.exception, SufficeError):
        raise found.exception
    return found.exit_code, found.output


def _document(folder: Path, *arguments: str, run: str = "run.json") -> dict[str, Any]:
    app = typer.Typer()
    app.command()(report)
    found = RUN.invoke(app, [str(folder / "demand.toml"), str(folder / run), "--json", *arguments])
    document: dict[str, Any] = json.loads(found.stdout)
    return document


@pytest.mark.parametrize("run", ["run.json", "slow.json"])
def test_the_verdict_is_that_of_decide(folder: Path, run: str) -> None:
    """The same words, reason, constraints and exit code."""
    decided = RUN.invoke(build_app(), ["decide", str(folder / "demand.toml"), str(folder / run), "--json"])
    document = _document(folder, run=run)
    code, _ = _report(folder, run=run)

    page = document.pop("page")
    assert document == json.loads(decided.stdout)
    assert code == decided.exit_code
    assert page["language"] == "en"


def test_a_comparison_is_judged_and_shown(folder: Path) -> None:
    """The run's model was compared: its quality is a constraint, as with `suffice decide --quality`."""
    document = _document(folder, "--quants", str(folder / "quants.json"))

    assert "quality_kept" in {one["name"] for one in document["constraints"]}
    quality = next(one for one in document["page"]["sections"] if one["key"] == "quality")
    assert len(quality["blocks"]) > 1


def test_a_model_that_answers_badly_is_said_to(folder: Path) -> None:
    """No machine is named for it, and the score is in the sentence."""
    reference, candidate = paired_scores(600, right=540, lost=120)
    save_quants(comparison(reference, candidate), folder / "quants.json")
    _, text = _report(folder, "--quality", str(folder / "quants.json"))

    assert (
        "This model does not answer well enough, on any machine: its score differs from the reference's by -20 points"
        in text
    )
    assert "a loss of 1 point at most is allowed" in text


@pytest.mark.parametrize(
    ("name", "begins"), [("page.html", START), ("page.htm", START), ("page.md", MARK), ("PAGE.MD", MARK)]
)
def test_the_name_decides_the_form(folder: Path, name: str, begins: str) -> None:
    """HTML and Markdown, and a later page replaces an earlier one."""
    out = folder / name
    for _ in range(2):
        code, text = _report(
            folder, "--out", str(out), "--plan", str(folder / "plan.json"), "--simulate", str(folder / "sim.json")
        )
        assert code == 0
    assert out.read_text(encoding="utf-8").startswith(begins)
    assert "verdict: cpu" in text


def test_without_a_file_it_is_markdown(folder: Path) -> None:
    """Printed, in the language that is asked for."""
    _, text = _report(folder, "--lang", "zh")

    assert MARK in text
    assert "现有的 CPU 够用" in text


def test_the_commands_name_what_was_given(folder: Path) -> None:
    """The page says how it is made again, with files by their names and without their folders."""
    document = _document(folder, "--plan", str(folder / "plan.json"), "--lang", "zh", "--margin", "2")
    section = next(one for one in document["page"]["sections"] if one["key"] == "commands")

    lines = section["blocks"][1]["lines"]
    assert lines[0] == "suffice decide demand.toml run.json --margin 2"
    assert lines[1] == "suffice report demand.toml run.json --plan plan.json --margin 2 --lang zh --out report.html"
    assert str(folder) not in json.dumps(document)


def test_a_strangers_file_is_not_replaced(folder: Path) -> None:
    """Neither a page of somebody else's nor an input."""
    (folder / "mine.html").write_text("<html>mine</html>")
    (folder / "demand.md").write_bytes((folder / "demand.toml").read_bytes())

    for name in ("mine.html", "demand.md", "report.docx"):
        with pytest.raises(UsageError, match="--out"):
            _report(folder, "--out", str(folder / name))
    assert (folder / "mine.html").read_text() == "<html>mine</html>"


@pytest.mark.parametrize(
    ("flag", "file", "error"),
    [
        ("--plan", "run.json", RecordError),
        ("--plan", "sim.json", RecordError),
        ("--simulate", "plan.json", RecordError),
        ("--load", "run.json", UsageError),
        ("--quants", "plan.json", RecordError),
    ],
)
def test_a_file_in_the_wrong_place_is_named(folder: Path, flag: str, file: str, error: type[SufficeError]) -> None:
    """A sentence says which file is none, and which command makes one."""
    with pytest.raises(error, match=file):
        _report(folder, flag, str(folder / file))


def test_a_plan_with_a_bad_number_names_the_field(folder: Path) -> None:
    """The field's place is in the message."""
    write_json(folder / "bad.json", {**plan_document(), "judged": "many"})

    with pytest.raises(RecordError, match="judged"):
        _report(folder, "--plan", str(folder / "bad.json"))


def test_the_plan_of_a_training_is_called_so(folder: Path) -> None:
    """Its options take hours: it is no plan of a model that is served, and no field of it is called wrong."""
    document = plan_document()
    document["options"] = [{"kind": "gpu instance", "name": "x", "verdict": "enough", "hours": 0.7, "cost_parts": [{}]}]
    write_json(folder / "training.json", document)

    with pytest.raises(UsageError, match="plan of a training"):
        _report(folder, "--plan", str(folder / "training.json"))


@pytest.mark.parametrize("field", ["machine", "warnings"])
def test_a_record_whose_text_would_fill_the_page_is_refused(folder: Path, field: str) -> None:
    """Its length is said, and nothing is written."""
    text = "x" * 30_000
    changes: dict[str, Any] = {field: (text,) if field == "warnings" else text}
    save_record(record(**changes), folder / "long.json")

    with pytest.raises(RecordError, match=r"long\.json holds a text of 30,000 characters"):
        _report(folder, "--out", str(folder / "page.html"), run="long.json")
    assert not (folder / "page.html").exists()


def test_of_very_many_warnings_the_first_are_shown(folder: Path) -> None:
    """Fifty, and how many more there are."""
    save_record(record(warnings=tuple(f"warning {number}." for number in range(60))), folder / "many.json")
    _report(folder, "--out", str(folder / "page.md"), run="many.json")
    page = (folder / "page.md").read_text(encoding="utf-8")

    assert "warning 49." in page
    assert "warning 50." not in page
    assert "10 more warnings are in the records." in page

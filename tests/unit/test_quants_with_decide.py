"""`suffice decide` with a comparison: several models of one machine, the same rule as `suffice quants`, files in the wrong place."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from helpers.quants import comparison, paired_scores
from helpers.records import run_record
from suffice.cli.app import build_app
from suffice.errors import UsageError
from suffice.model.quants import Measured
from suffice.records.quants_store import save_quants
from suffice.records.schema import ModelRecord
from suffice.records.store import save_record

if TYPE_CHECKING:
    from pathlib import Path

DEMAND = '[demand]\nkind = "interactive"\ntokens_per_second_per_user = 8\n'
ITEMS = 600
RUN = CliRunner()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three models of one machine: the reference, a candidate that loses nothing, and the fastest, which loses a fifth."""
    losses = {"c1": 0, "c2": 120}
    reference, _ = paired_scores(ITEMS, right=540, lost=0)
    record = comparison(reference, *(paired_scores(ITEMS, right=540, lost=lost)[1] for lost in losses.values()))
    speeds = {"ref": 20.0, "c1": 30.0, "c2": 40.0}
    for name, rate in speeds.items():
        model = ModelRecord(name="Toy", file_name=f"{name}.gguf", sha256=f"hash of {name}")
        save_record(run_record(decode=rate, model=model), tmp_path / f"{name}.json")
    measured = tuple(Measured(subject=name, record=f"{name}.json") for name in speeds)
    save_quants(replace(record, measured=measured), tmp_path / "quants.json")
    (tmp_path / "demand.toml").write_text(DEMAND)
    return tmp_path


def _decide(folder: Path, *arguments: str) -> tuple[int, str]:
    found = RUN.invoke(build_app(), ["decide", str(folder / "demand.toml"), *arguments])
    if isinstance(found.exception, UsageError):
        return 2, str(found.exception)
    return found.exit_code, found.output


def _runs(folder: Path, *names: str) -> list[str]:
    return [str(folder / f"{name}.json") for name in names]


def test_models_of_one_machine_are_named_as_models(folder: Path) -> None:
    """Not three machines: the slowest model that is enough is named, and that one misses the quality is said."""
    code, text = _decide(folder, *_runs(folder, "ref", "c1", "c2"), "--quality", str(folder))

    assert code == 0
    assert "ref.gguf on Test CPU decides" in text
    assert "c2.gguf on Test CPU: misses the quality" in text
    assert "Several models are: the slowest is named" in text


def test_a_model_that_misses_the_quality_speaks_for_no_machine(folder: Path) -> None:
    """The slower one is enough and answers badly: the faster one decides, and the verdict is its own."""
    model = ModelRecord(name="Toy", file_name="c2.gguf", sha256="hash of c2")
    save_record(run_record(decode=18.0, model=model), folder / "c2.json")

    code, text = _decide(folder, *_runs(folder, "c1", "c2"), "--quality", str(folder))

    assert code == 0
    assert "verdict: cpu" in text
    assert "c1.gguf on Test CPU decides" in text


def test_quality_decides_and_says_by_what_loss(folder: Path) -> None:
    """A demand that says nothing of quality: one point, with a line; the command line may allow more; the row is in points."""
    code, text = _decide(folder, *_runs(folder, "c2"), "--quality", str(folder / "quants.json"))

    assert code == 3
    assert "a loss of at most 1 point is allowed" in text
    assert "score against the reference's" in text
    assert "-20 points" in text
    assert _decide(folder, *_runs(folder, "c2"), "--quality", str(folder), "--max-loss", "30")[0] == 0
    assert "no comparison is given" in _decide(folder, *_runs(folder, "c2"), "--max-loss", "30")[1].replace("\n", " ")


def test_quants_and_decide_agree(folder: Path) -> None:
    """The verdict with a candidate that `suffice quants` prints is the one that `suffice decide --quality` comes to."""
    for stated in ("", "quality_max_loss_points = 30\n", "quality_floor = 0.85\n", "quality_floor = 0.95\n"):
        (folder / "demand.toml").write_text(DEMAND + stated)
        printed = RUN.invoke(
            build_app(), ["quants", "--from", str(folder), "--demand", str(folder / "demand.toml"), "--json"]
        ).stdout
        verdicts = {one["name"]: one["verdict"]["candidate"] for one in json.loads(printed)["candidates"]}
        for name in ("c1", "c2"):
            _, text = _decide(folder, *_runs(folder, name), "--quality", str(folder), "--json")
            assert json.loads(text[text.index("{") :])["verdict"] == verdicts[name]


def test_a_comparison_in_the_place_of_a_run_is_sent_to_its_flag(folder: Path) -> None:
    """Neither the file nor its folder is a run record, and the message says where it goes."""
    for place in (folder / "quants.json", folder):
        code, text = _decide(folder, str(place))
        assert code == 2
        assert "give it to --quality" in " ".join(text.split())


def test_what_is_not_finished_says_so(folder: Path) -> None:
    """A run record and a comparison that were interrupted are used, with a line for each."""
    model = ModelRecord(name="Toy", file_name="c1.gguf", sha256="hash of c1")
    save_record(run_record(decode=30.0, model=model, complete=False), folder / "c1.json")
    record = comparison(*paired_scores(ITEMS, right=540, lost=0))
    save_quants(replace(record, complete=False), folder / "quants.json")

    _, text = _decide(folder, *_runs(folder, "c1"), "--quality", str(folder))

    told = " ".join(text.split())
    assert "c1.json: the run was not finished" in told
    assert "quants.json: the comparison is not finished" in told

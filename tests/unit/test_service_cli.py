"""`--slots` on the command line: defaults by the demand, and `simulate --curve` of a run record."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import typer
from typer.testing import CliRunner

from helpers.gguf_writer import ToyLlama
from helpers.records import run_record
from suffice.cli.asked import RunOptions, default_slots
from suffice.cli.simulate import simulate
from suffice.errors import RecordError
from suffice.loaders.model_file import open_model_file
from suffice.measure.request import default_budget_s
from suffice.model.demand import Demand, DemandKind, Lengths, single_stream_need
from suffice.records.schema import ServicePass, ServiceRecord
from suffice.records.store import save_record

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.records.schema import RunRecord

APP = typer.Typer()
APP.command()(simulate)
DEMAND = Demand(
    kind=DemandKind.INTERACTIVE, prompt_tokens=Lengths(p50=400, p95=900), output_tokens=Lengths(p50=100, p95=300)
)
SERVICE = ServiceRecord(
    slots=4,
    decode=tuple(
        ServicePass(size=size, depth=depth, seconds=(0.02 + 0.004 * size + 1e-6 * size * depth,) * 3)
        for size in (1, 4)
        for depth in (0, 1000)
    ),
    prefill=tuple(ServicePass(size=size, depth=0, seconds=(0.02 + 0.001 * size,) * 3) for size in (32, 512)),
)


def _saved(path: Path, record: RunRecord) -> str:
    save_record(record, path)
    return str(path)


def _simulate(curve: str) -> str:
    result = CliRunner().invoke(APP, ["--curve", curve, "--rate", "0.2", "--requests", "100", "--seeds", "2", "--json"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.stdout


@pytest.mark.parametrize(
    ("demand", "slots"),
    [
        (single_stream_need(8), 1),
        (replace(DEMAND, concurrent_users=1), 1),
        (replace(DEMAND, concurrent_users=6), 9),
        (replace(DEMAND, concurrent_users=500), 32),
        (replace(DEMAND, requests_per_second=0.5), 8),
    ],
)
def test_slots_follow_the_demand(demand: Demand, slots: int) -> None:
    """The users with the margin up to a bound, some for a rate, and no curve for a single stream."""
    assert default_slots(demand) == slots


def test_the_run_of_a_demand_covers_its_longest_request(tmp_path: Path) -> None:
    """P95 of prompt and answer; twice the depth where nothing is stated; and twice the time by default."""
    model = open_model_file(ToyLlama().write(tmp_path / "toy.gguf"))
    asked = RunOptions(slots=4).request(model, DEMAND)
    plain = RunOptions().request(model, None)

    assert (asked.slots, asked.served_tokens) == (4, 1200)
    assert asked.budget_s == default_budget_s(model, slots=4)
    assert (plain.slots, plain.served_tokens, plain.budget_s) == (1, None, default_budget_s(model))


def test_a_record_is_simulated(tmp_path: Path) -> None:
    """Its curve, its basis, and the names of model and machine."""
    curve = _saved(tmp_path / "run.json", run_record(measurement=replace(run_record().measurement, service=SERVICE)))
    document = json.loads(_simulate(curve))

    assert document["curve"] == "Toy on Test CPU"
    assert document["basis"] == "measured"
    assert document["ttft_s"]["p50"] >= 0.02 + 0.001 * 512


def test_a_record_without_a_curve_says_how_to_get_one(tmp_path: Path) -> None:
    """Neither an error of form nor a guess."""
    with pytest.raises(RecordError, match="without a service curve; measure it with --slots N"):
        _simulate(_saved(tmp_path / "run.json", run_record()))


def test_an_edited_record_is_no_curve(tmp_path: Path) -> None:
    """The record's own checks come first."""
    edited = replace(SERVICE, decode=(*SERVICE.decode, SERVICE.decode[0]))
    path = _saved(tmp_path / "run.json", run_record(measurement=replace(run_record().measurement, service=edited)))

    with pytest.raises(RecordError, match="twice"):
        _simulate(path)

"""`--slots` on the command line: defaults by the demand, and `simulate --curve` of a run record."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

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


def _with_demand(tmp_path: Path, demand: str, *words: str) -> dict[str, Any]:
    curve = _saved(tmp_path / "run.json", run_record(measurement=replace(run_record().measurement, service=SERVICE)))
    (tmp_path / "demand.toml").write_text(f"[demand]\n{demand}", encoding="utf-8")
    arguments = ["--curve", curve, "--demand", str(tmp_path / "demand.toml"), "--seeds", "5", "--json", *words]
    result = CliRunner().invoke(APP, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    found: dict[str, Any] = json.loads(result.stdout)
    return found


CHAT = """kind = "interactive"
requests_per_second = 0.2
prompt_tokens = { p50 = 300, p95 = 600 }
output_tokens = 40
ttft_s = { p90 = 5.0 }
tokens_per_second_per_user = 5
"""


def test_a_demand_is_simulated_as_it_is_stated(tmp_path: Path) -> None:
    """Its rate, its lengths, its limits at their own percentiles; what stands on the command line comes first."""
    stated = _with_demand(tmp_path, CHAT, "--requests", "100")
    flags = "--rate 0.2 --prompt-tokens 300 --prompt-p95 600 --output-tokens 40 --requests 100".split()
    curve = str(tmp_path / "run.json")
    by_flags = json.loads(CliRunner().invoke(APP, ["--curve", curve, "--seeds", "5", "--json", *flags]).stdout)

    assert stated["load"] == by_flags["load"]
    assert stated["ttft_s"]["p50"] == by_flags["ttft_s"]["p50"]
    assert [(one["metric"], one["seconds"], one["percent"]) for one in stated["limits"]] == [
        ("ttft_s", 5.0, 90.0),
        ("tpot_s", 0.2, 95.0),
    ]

    other = _with_demand(
        tmp_path, CHAT, "--requests", "100", "--users", "2", "--ttft-limit", "9s", "--output-tokens", "7"
    )
    assert other["load"]["users"] == 2
    assert [(one["metric"], one["seconds"], one["percent"]) for one in other["limits"]] == [("ttft_s", 9.0, 95.0)]
    assert other["tpot_s"]["p50"] is not None


def test_a_job_is_there_at_once(tmp_path: Path) -> None:
    """A day's requests, whose limits nobody waits for; users without a rate never pause."""
    job = _with_demand(
        tmp_path,
        'kind = "scheduled"\nrequests_per_day = 50\nwindow_hours = 8\nprompt_tokens = 300\noutput_tokens = 20\n',
    )
    users = _with_demand(
        tmp_path, 'kind = "interactive"\nconcurrent_users = 3\ntokens_per_second_per_user = 1\n', "--requests", "100"
    )

    assert job["load"]["requests"] == 50
    assert job["load"]["arrivals"] == "at-once"
    assert "limits" not in job
    assert users["load"]["users"] == 3

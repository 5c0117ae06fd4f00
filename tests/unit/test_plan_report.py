"""A plan as text, Markdown, data, chart, and through the command line."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
import typer

from helpers.plans import CHAT, JOB, chat_plan, job_plan
from helpers.records import run_record
from suffice.cli import plan as command
from suffice.decide.plan_curves import CostCurve
from suffice.decide.plan_types import MonthlyCost
from suffice.decide.verdict import Grade
from suffice.errors import SufficeError
from suffice.records.store import save_record
from suffice.report.plan import cost_text, plan_markdown, plan_text, price_text, shown_options, user_lines
from suffice.report.plan_chart import concurrency_chart, volume_chart
from suffice.report.plan_document import plan_document
from suffice.report.svg.types import Course

if TYPE_CHECKING:
    from pathlib import Path

DEMAND = """[demand]
kind = "scheduled"
model = "qwen3-8b:q4_k_m"
requests_per_day = 1000
window_hours = 8
prompt_tokens = { p50 = 400, p95 = 1500 }
output_tokens = { p50 = 120, p95 = 300 }
"""


def called(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """The exit code of `suffice plan` with these arguments, through an application of its own."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command("plan")(command.plan)
    monkeypatch.setattr(sys, "argv", ["suffice", *map(str, arguments)])
    with pytest.raises(SystemExit) as left:
        app()
    return left.value.code if isinstance(left.value.code, int) else 0


def test_the_document_has_the_names_that_scripts_read() -> None:
    """And is JSON as it stands."""
    document = json.loads(json.dumps(plan_document(job_plan(), JOB)))

    names = {"kind", "name", "count", "verdict", "reason", "binding", "headroom", "basis", "monthly_cost", "currency"}
    names |= {"monthly_cost_low", "monthly_cost_high", "price_date", "prices", "cost_parts", "cost_unknown", "members"}
    names |= {"cost_per_million_tokens", "tokens_per_month", "utilisation", "notes"}
    assert names <= set(document["options"][0])
    assert {"options", "crossovers", "alternatives", "model", "currency", "judged", "notes", "demand"} <= set(document)
    assert document["options"][0]["verdict"] == "enough"


def test_no_price_is_shown_without_currency_region_date_and_source() -> None:
    """In JSON every price and every part; in text every line below "prices" that names one."""
    document = plan_document(job_plan(), JOB)
    prices = [price for one in document["options"] for price in one["prices"]]
    prices += [part["price"] for one in document["options"] for part in one["cost_parts"]]

    assert len(prices) > 5
    for price in prices:
        assert all(price[name] not in (None, "") for name in ("amount", "unit", "currency", "region", "date", "source"))
    for option in shown_options(job_plan()):
        for price in option.prices:
            assert price_text(price) in plan_text(job_plan())


def test_the_numbers_of_text_and_data_agree_to_the_cent() -> None:
    """Bills are read back from the table."""
    text = plan_text(job_plan())
    for option in shown_options(job_plan()):
        assert option.cost is not None
        assert f"{option.cost.amount:,.2f} {option.cost.currency}" in text
    assert "undefined" in plan_text(chat_plan())


def test_old_prices_are_marked_wherever_they_are_shown() -> None:
    """A star, and what it means."""
    option = job_plan().options[0]
    assert option.cost is not None
    (part,) = option.cost.parts[:1]

    from dataclasses import replace  # noqa: PLC0415  # of this test alone

    old = replace(part, price=replace(part.price, is_old=True, date="2024-12-31"))
    plan = replace(job_plan(), options=(replace(option, cost=replace(option.cost, parts=(old,)), prices=(old.price,)),))

    for text in (plan_text(plan), plan_markdown(plan).replace("\\", "")):
        assert "2024-12-31 *" in text
        assert "over 180 days old" in text


def test_what_is_shown_holds_one_of_each_kind_and_some_that_fail() -> None:
    """So that nobody asks whether they were looked at; never more than asked for where that is possible."""
    shown = shown_options(chat_plan(), 5)

    assert {one.kind for one in shown} == {one.kind for one in chat_plan().options}
    assert any(one.grade is Grade.NOT_ENOUGH for one in shown) == any(
        one.grade is Grade.NOT_ENOUGH for one in chat_plan().options
    )
    assert len(shown) <= 5


def test_hostile_names_stay_inert_in_markdown() -> None:
    """A name of a model or an option is text, whatever it holds."""
    from dataclasses import replace  # noqa: PLC0415  # of this test alone

    option = replace(job_plan().options[0], name="<script>|[x](javascript:1)", reason="a\nb | c")

    text = plan_markdown(replace(job_plan(), options=(option,), model="<img src=x onerror=1>"))

    assert "<script>" not in text
    assert "<img" not in text
    assert re.search(r"(?<!\\)\[x\]", text) is None


def test_the_chart_marks_where_costs_cross() -> None:
    """Lines of machines and APIs over the volume."""
    chart = volume_chart(job_plan())

    assert chart is not None
    assert len(chart.lines) >= 2
    assert chart.y.unit == "USD"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command sees a few machines only."""
    from helpers.plans import few_machines  # noqa: PLC0415  # of this fixture alone
    from suffice.loaders import catalogue  # noqa: PLC0415  # of this fixture alone

    loaded = catalogue.LoadedCatalogue(catalogue=few_machines(), saved=(), warnings=())
    monkeypatch.setattr(catalogue, "load_catalogue", lambda _own=None: loaded)


@pytest.mark.usefixtures("small")
def test_the_command_prints_writes_and_draws(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """JSON on stdout alone; the same document in the file; a chart that is XML; exit code 0."""
    (tmp_path / "demand.toml").write_text(DEMAND, encoding="utf-8")
    out, chart = tmp_path / "plan.json", tmp_path / "cost.svg"

    code = called(monkeypatch, tmp_path / "demand.toml", "--json", "--out", out, "--chart", chart)

    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert code == 0
    assert document == json.loads(out.read_text(encoding="utf-8"))
    assert ET.parse(chart).getroot().tag.endswith("svg")  # noqa: S314  # our own file
    assert document["options"][0]["monthly_cost"] > 0
    assert called(monkeypatch, tmp_path / "demand.toml", "--out", tmp_path / "plan.md") == 0
    assert (tmp_path / "plan.md").read_text(encoding="utf-8").startswith("# Plan:")


@pytest.mark.usefixtures("small")
def test_a_record_is_this_machine_with_its_stated_bill(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """3,000 EUR over 36 months, converted at a stated rate."""
    (tmp_path / "demand.toml").write_text(DEMAND.replace('model = "qwen3-8b:q4_k_m"\n', ""), encoding="utf-8")
    save_record(run_record(decode=60.0, prefill=4000.0), tmp_path / "box.json")

    called(
        monkeypatch,
        *(tmp_path / "demand.toml", "--model", "qwen3-8b:q4_k_m", "--run", tmp_path / "box.json", "--json"),
        *("--machine-price", 3000, "--machine-months", 36, "--machine-currency", "EUR", "--rate", "EUR=1.08USD"),
    )

    document = json.loads(capsys.readouterr().out)
    (here,) = [one for one in document["options"] if one["kind"] == "this machine"]
    assert here["monthly_cost"] == pytest.approx(3000 / 36 * 1.08)
    assert here["currency"] == "USD"
    assert here["prices"][0]["currency"] == "EUR"


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--kind", "tpu"), "choose here, cpu"),
        (("--region", "moon"), "no price of the catalogue"),
        (("--provider", "nobody"), "no provider"),
        (("--api", "no-such-model-at-all"), "no API model"),
        (("--machine-price", "3000"), "--machine-months"),
        (("--machine-watts", "100"), "--price-per-kwh"),
        (("--machine-price", "3000", "--machine-months", "36"), "--machine-currency"),
        (("--rate", "EUR=x"), "EUR=1.08USD"),
        (("--chart", "cost.png"), ".svg"),
        (("--kind", "here"), "nothing is left"),
        (("--rate", "EUR=\u0663USD"), "EUR=1.08USD"),
        (("--rate", f"EUR={'9' * 400}USD"), "EUR=1.08USD"),
        (("--rate", "USD=1USD"), "same currency"),
        (("--requests-per-day", "5"), "'requests_per_day' is the volume"),
        (("--requests-per-day", "-5"), "--requests-per-day"),
        (("--machine-currency", "<b>", "--machine-price", "3", "--machine-months", "3"), "three letters"),
        (("--machine-watts", "9", "--price-per-kwh", "1", "--machine-idle-watts", "-1"), "between 0 and"),
        (("--machine-watts", "9", "--price-per-kwh", "1", "--machine-idle-watts", "nan"), "between 0 and"),
        (("--kind", "gpu", "--kv-type", "q8_0"), "of no GPU with a KV cache of q8_0"),
    ],
)
def test_slips_are_answered_with_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    """What, where, and what to do."""
    (tmp_path / "demand.toml").write_text(DEMAND, encoding="utf-8")

    with pytest.raises(SufficeError, match=re.escape(said)):
        called_raw(monkeypatch, tmp_path / "demand.toml", *arguments)


def called_raw(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    """As :func:`called`, with the error that the entry point would print."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command("plan")(command.plan)
    monkeypatch.setattr(sys, "argv", ["suffice", *map(str, arguments)])
    app()


@pytest.mark.usefixtures("small")
def test_a_strangers_file_is_not_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither the demand nor notes of somebody."""
    (tmp_path / "demand.toml").write_text(DEMAND, encoding="utf-8")
    (tmp_path / "notes.md").write_text("my notes", encoding="utf-8")

    for flag in ("demand.toml", "notes.md"):
        with pytest.raises(SufficeError, match="give another name"):
            called_raw(monkeypatch, tmp_path / "demand.toml", "--out", tmp_path / flag)
    assert (tmp_path / "notes.md").read_text(encoding="utf-8") == "my notes"


@pytest.mark.usefixtures("small")
def test_where_no_machine_was_looked_at_nothing_is_said_to_be_too_big(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """APIs alone are no reason for another model."""
    (tmp_path / "demand.toml").write_text(DEMAND, encoding="utf-8")

    called(monkeypatch, tmp_path / "demand.toml", "--kind", "api", "--json")

    assert json.loads(capsys.readouterr().out)["alternatives"] == []


@pytest.mark.usefixtures("small")
def test_where_nothing_carries_the_model_other_ways_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A 405B on machines of 24 GB; exit code 1."""
    (tmp_path / "demand.toml").write_text(DEMAND.replace("qwen3-8b", "llama-3.1-405b"), encoding="utf-8")

    code = called(monkeypatch, tmp_path / "demand.toml", "--json")

    document = json.loads(capsys.readouterr().out)
    assert code == 1
    assert document["alternatives"]
    assert document["too_big"]["alternatives"]
    called(monkeypatch, tmp_path / "demand.toml", "--out", tmp_path / "plan.md")
    for text in (capsys.readouterr().out, (tmp_path / "plan.md").read_text(encoding="utf-8")):
        plain = text.replace("\\", "")
        assert "To be checked before one of them is chosen" in plain
        assert "does not reach other servers" in plain  # what --tensor-split does not do


CHAT_DEMAND = """[demand]
kind = "interactive"
model = "qwen3-8b:q4_k_m"
concurrent_users = 2
tokens_per_second_per_user = 4
prompt_tokens = { p50 = 400, p95 = 1500 }
output_tokens = { p50 = 120, p95 = 300 }
"""


@pytest.mark.usefixtures("small")
def test_bills_against_users_are_told_and_drawn(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """One machine of each CPU and accelerator, more of them for more users, each with its price; a picture of points."""
    (tmp_path / "demand.toml").write_text(CHAT_DEMAND, encoding="utf-8")
    chart = tmp_path / "users.svg"

    called(monkeypatch, tmp_path / "demand.toml", "--chart-users", chart, "--json")
    document = json.loads(capsys.readouterr().out)
    curves = [one for one in document["curves"] if one["x"] == "users at the same time"]
    assert curves
    for curve in curves:
        amounts = [amount for _, amount in curve["points"]]
        assert amounts == sorted(amounts)
        assert curve["currency"] == document["currency"]
    assert ET.parse(chart).getroot().tag.endswith("svg")  # noqa: S314  # our own file

    called(monkeypatch, tmp_path / "demand.toml", "--top", "1", "--chart-users", chart)  # its own file is replaced
    text = capsys.readouterr().out
    told = text.partition("cost against users at the same time:\n")[2].partition("\n\n")[0].splitlines()
    prices = text.partition("\nprices:\n")[2]
    assert len(told) == len(curves)
    for line in told:
        assert re.search(rf"{re.escape(line.strip().partition(':')[0])}.*: [\d.]+ USD an hour \(", prices)


@pytest.mark.usefixtures("small")
def test_a_job_has_no_bill_for_a_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody waits: the chart is refused with what it needs."""
    (tmp_path / "demand.toml").write_text(DEMAND, encoding="utf-8")

    with pytest.raises(SufficeError, match="--chart-users needs a machine to rent"):
        called_raw(monkeypatch, tmp_path / "demand.toml", "--chart-users", tmp_path / "users.svg")


def test_numbers_of_users_with_one_bill_are_told_together() -> None:
    """1 to 4 take one machine, 6 to 8 two."""
    points = tuple((float(users), 100.0 if users < 5 else 200.5) for users in (1, 2, 4, 6, 8))
    curve = CostCurve(name="aws/x", points=points, currency="USD", x_label="users at the same time")

    assert user_lines([curve]) == ["aws/x: 1 to 4: 100.00 USD, 6 to 8: 200.50 USD"]
    chart = concurrency_chart([curve, replace(curve, currency="CNY")])
    assert chart is not None
    assert [(line.name, line.course) for line in chart.lines] == [("aws/x", Course.POINTS)]
    assert concurrency_chart(()) is None


def test_the_plan_of_the_chat_is_the_demands() -> None:
    """What was judged is in the document, in SI units."""
    document = plan_document(chat_plan(), CHAT)

    assert document["demand"]["requests_per_second"] == CHAT.requests_per_second
    assert document["demand"]["ttft"] == {"seconds": 5.0, "percentile": 95.0}


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (2812.0, None, "2,942.11 USD (at least 2,812.00, no upper end known)"),
        (None, 3000.0, "2,942.11 USD (at most 3,000.00, no lower end known)"),
        (2812.0, 2942.11, "2,942.11 USD (2,812.00 to 2,942.11)"),
        (None, None, "2,942.11 USD"),
    ],
)
def test_an_end_of_a_bill_that_nobody_knows_is_said_to_be_unknown(
    low: float | None, high: float | None, said: str
) -> None:
    """The amount is no end of it."""
    assert cost_text(MonthlyCost(amount=2942.11, currency="USD", parts=(), low=low, high=high)) == said

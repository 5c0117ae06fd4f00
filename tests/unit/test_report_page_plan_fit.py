"""A plan beside a verdict: of the same demand and model, with numbers that can be, and with every name in its table."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from helpers.pages import given, one_stream, plan, plan_document, record, with_latency
from helpers.records import write_json
from suffice.errors import RecordError
from suffice.model.vision import ImageLoad
from suffice.report.page.build import build_page
from suffice.report.page.costs import cheapest_text
from suffice.report.page.language import Language
from suffice.report.page.model import Picture, Role, Section, Sentence
from suffice.report.page.plan_fit import differing_fields
from suffice.report.page.plan_view import read_plan
from suffice.report.page.view_files import read_view
from suffice.report.page.words import words_for
from suffice.report.svg.types import CrossoverChart

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.report.page.given import PageInput

EN = words_for(Language.EN)
IMAGES = ImageLoad(per_request=1, tokens_each=256, encoder_flop_each=1e12, encoder_bytes=None, source="a rule")


def _costs(page_input: PageInput, language: Language = Language.EN) -> Section:
    return next(one for one in build_page(page_input, language).sections if one.key == "cost")


def _marks(page_input: PageInput) -> list[str]:
    blocks = _costs(page_input).blocks
    return [one.text.text for one in blocks if isinstance(one, Sentence) and one.role is Role.MARK]


def test_a_plan_of_the_same_demand_is_offered_without_a_word() -> None:
    """Nothing is marked, and the cheapest offer stands beside the verdict."""
    own = given(one_stream(), record(decode=4.0), plan=plan(plan_document(one_stream())))

    assert _marks(own) == []
    assert cheapest_text(own, EN) != ""


def test_a_plan_of_another_demand_is_said_to_be_and_offers_nothing() -> None:
    """What differs is named before the costs, and no offer of it stands beside the verdict."""
    other = given(one_stream(), record(decode=4.0), plan=plan(plan_document(with_latency(margin=2.0))))

    (mark,) = _marks(other)
    assert mark.startswith(
        "The plan was made for another demand; what differs: margin, prompt, answer, requests, decode for each user, time to first token, "
    )
    assert cheapest_text(other, EN) == ""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"budget_per_month": 400.0, "currency": "USD"}, "budget of a month, currency"),
        ({"context_tokens": 8192}, "context"),
        ({"images": IMAGES}, "images in a request"),
    ],
)
def test_a_plan_of_another_budget_or_context_is_one_of_another_demand(changes: dict[str, Any], said: str) -> None:
    """What was within another budget, or held another context, is no offer; what is the same is."""
    demand = one_stream(**changes)
    other = given(demand, record(decode=4.0), plan=plan(plan_document(one_stream())))
    same = given(demand, record(decode=4.0), plan=plan(plan_document(demand)))

    assert f"what differs: {said}. Make it again" in _marks(other)[0]
    assert cheapest_text(other, EN) == ""
    assert _marks(same) == []
    assert cheapest_text(same, EN) != ""


def test_a_plan_of_fewer_images_is_one_of_another_demand() -> None:
    """As many of as many tokens each are the same images, whatever else is known of them."""
    document = plan_document(one_stream(images=IMAGES))
    more, named = replace(IMAGES, per_request=2), replace(IMAGES, source="stated")

    assert differing_fields(plan(document), one_stream(images=more)) == ("images",)
    assert differing_fields(plan(document), one_stream(images=named)) == ()


def test_a_plan_of_an_older_version_differs_in_nothing_that_it_does_not_hold() -> None:
    """It has neither context nor images."""
    document = plan_document(one_stream())
    for name in ("context_tokens", "images"):
        del document["demand"][name]

    assert differing_fields(plan(document), one_stream(context_tokens=8192, images=IMAGES)) == ()


def test_a_plan_of_another_model_is_said_to_be() -> None:
    """By its name where the demand names one; and then nothing of it is offered."""
    demand = one_stream(model="llama-3.1-8b:q4_k_m")
    other = given(demand, record(decode=4.0), plan=plan(plan_document(demand)))
    unnamed = given(one_stream(), record(decode=4.0), plan=plan({**plan_document(one_stream()), "model": "a shape"}))

    assert _marks(other)[0].startswith("The plan is of toy, the rest of the page of llama-3.1-8b:q4_k_m")
    assert cheapest_text(other, EN) == ""
    assert _marks(unnamed)[0].startswith("The plan is of a shape, the rest of the page of c1.gguf")
    assert "for a shape is aws/c7i.4xlarge" in cheapest_text(unnamed, EN)


def test_a_plan_that_does_not_hold_its_demand_differs_in_nothing() -> None:
    """What is not known is not said to be another one."""
    document = plan_document()
    del document["demand"]

    assert differing_fields(plan(document), one_stream()) == ()


@pytest.mark.parametrize("stated", [{"kind": 5, "margin": "x", "ttft": [1], "prompt_tokens": {"p50": None}}, {}])
def test_any_demand_of_a_document_can_be_compared(stated: dict[str, Any]) -> None:
    """Nonsense differs; it breaks nothing."""
    fields = differing_fields(plan({**plan_document(), "demand": stated}), with_latency())

    assert fields == (("kind", "margin", "prompt", "ttft") if stated else ())


def test_what_curves_and_crossings_name_stands_in_the_table() -> None:
    """Of thirty options twelve are shown by rank; one further down that a crossing names is shown as well."""
    document = plan_document()
    first = document["options"][1]
    many = [{**first, "name": f"machine {number}"} for number in range(30)]
    document["options"] = [*many, next(one for one in document["options"] if one["kind"] == "api")]
    section = _costs(given(one_stream(), record(), plan=plan(document)))
    table = next(one.table for one in section.blocks if isinstance(one, Picture) and one.table is not None)
    names = [row[0].text for row in table.rows]

    assert names == [*(f"machine {number}" for number in range(12)), "an-api (host)"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("monthly_cost", -5.0),
        ("monthly_cost", 1e300),
        ("monthly_cost_low", -1.0),
        ("headroom", -1.0),
        ("utilisation", 5.0),
    ],
)
def test_numbers_that_cannot_be_are_refused(tmp_path: Path, field: str, value: float) -> None:
    """A machine for -5 USD would be the cheapest offer of the page."""
    document = plan_document()
    document["options"][1][field] = value
    write_json(tmp_path / "plan.json", document)

    with pytest.raises(RecordError, match=f"aws/c7i.4xlarge.*{field}.*cannot be"):
        read_plan(tmp_path / "plan.json")


def test_a_part_of_a_bill_below_nothing_is_refused(tmp_path: Path) -> None:
    """Prices as well as what is made of them."""
    document = plan_document()
    document["options"][1]["cost_parts"][0]["price"]["amount"] = -0.1
    write_json(tmp_path / "plan.json", document)

    with pytest.raises(RecordError, match=r"price of hour -0\.1 cannot be"):
        read_plan(tmp_path / "plan.json")


@pytest.mark.parametrize("tokens", [0.0, -1.0, 1e300])
def test_a_crossing_that_cannot_be_is_refused(tmp_path: Path, tokens: float) -> None:
    """At no volume, or at one that nobody writes, nothing crosses."""
    document = plan_document()
    document["crossovers"][0]["tokens_per_month"] = tokens
    write_json(tmp_path / "plan.json", document)

    with pytest.raises(RecordError, match="crossing"):
        read_plan(tmp_path / "plan.json")


def test_a_text_that_would_fill_the_page_is_refused(tmp_path: Path) -> None:
    """Three million characters of a name are no name; the length is said."""
    document = plan_document()
    document["options"][1]["name"] = "x" * 30_001
    (tmp_path / "plan.json").write_text(json.dumps(document))

    with pytest.raises(RecordError, match="30,001 characters"):
        read_view(tmp_path / "plan.json", type(plan()), names=("options",), made_by="suffice plan DEMAND")


def test_the_budget_of_the_chart_says_its_amount() -> None:
    """The line is named with what it stands for."""
    demand = one_stream(budget_per_month=400.0, currency="USD")
    section = _costs(given(demand, record(), plan=plan(plan_document(demand))))
    chart = next(one.chart for one in section.blocks if isinstance(one, Picture))

    assert [limit.label for limit in chart.limits] == ["budget, 400.00 USD"]  # type: ignore[union-attr]


def test_a_crossing_says_how_far_it_holds() -> None:
    """Beyond what the machine is shown to carry nothing is said of it: in the words of the chart, and in the table."""
    document = plan_document()
    document["crossovers"][0]["up_to_tokens_per_month"] = 600e6
    blocks = _costs(given(one_stream(), record(), plan=plan(document))).blocks
    picture = next(one for one in blocks if isinstance(one, Picture) and isinstance(one.chart, CrossoverChart))
    assert picture.table is not None

    assert (
        "aws/c7i.4xlarge above, up to 600,000,000 tokens, which is all that it is shown to carry"
        in picture.chart.description
    )
    assert [cell.value for cell in picture.table.rows[0]][2:4] == pytest.approx([474.208e6, 600e6])


@pytest.mark.parametrize(
    ("language", "said"),
    [
        (Language.EN, "521.22 USD (at least 400.00, no upper end known)"),
        (Language.ZH, "521.22 USD（至少 400.00，上限未知）"),
    ],
)
def test_a_bill_without_an_upper_end_says_so(language: Language, said: str) -> None:
    """Its low end alone is no reason to show none; with both ends it is a range."""
    document = plan_document(one_stream())
    document["options"][1]["monthly_cost_low"] = 400.0

    def bill() -> str:
        section = _costs(given(one_stream(), record(), plan=plan(document)), language)
        table = next(one.table for one in section.blocks if isinstance(one, Picture) and one.table is not None)
        return table.rows[1][3].text

    assert bill() == said
    document["options"][1]["monthly_cost_high"] = 600.0
    assert "400.00" in bill()
    assert "600.00" in bill()

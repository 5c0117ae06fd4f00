"""Bills: the three cases of docs/plan.md to the cent, their parts, conversion, and what a million tokens costs."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from suffice.catalogue.catalogue import shipped
from suffice.catalogue.entries import Price
from suffice.decide.plan_cost import (
    HereCost,
    always_on,
    api_cost,
    converted,
    here_cost,
    machine_cost,
    million_kept,
)
from suffice.decide.plan_types import MonthlyCost, OptionKind, PlanOption, PriceTag
from suffice.decide.verdict import Grade
from suffice.errors import UsageError
from suffice.loaders.plan_prices import hour_tag, stated_rates, tagged_apis
from suffice.model.basis import Basis
from suffice.model.cost import Volume, energy_kwh, hours_per_month, requests_per_month
from suffice.units import SECONDS_PER_HOUR

TODAY = date(2026, 11, 30)
DOCS = Path(__file__).parents[2] / "docs" / "plan.md"
HERE = HereCost(date="2026-11-30", currency="EUR", price=3000, months=36, watts=120, idle_watts=40, price_per_kwh=0.30)
VOLUME = Volume(requests=requests_per_month(120 / SECONDS_PER_HOUR), prompt_tokens=500, output_tokens=200)


def c7i() -> PriceTag:
    """The hour of the machine in the docs."""
    price = shipped().instance_named("aws/c7i.4xlarge").price
    assert price is not None
    return hour_tag(price, TODAY)


def qwen() -> MonthlyCost:
    """The API of the docs."""
    (api,) = tagged_apis([one for one in shipped().apis if one.model == "Qwen/Qwen3-32B"], TODAY)
    prices = (api.api.input_per_million, "million input tokens"), (api.api.output_per_million, "million output tokens")
    return api_cost(VOLUME, *(api.tag(*price) for price in prices))


def documented() -> dict[str, str]:
    """Bills of the table in the docs, by the words before them."""
    text = DOCS.read_text(encoding="utf-8")
    return dict(re.findall(r"^\| (.+) \| ([\d,]+\.\d\d [A-Z]{3}) \|$", text, flags=re.MULTILINE))


def test_the_bills_of_the_docs_are_what_the_functions_say_to_the_cent() -> None:
    """Worked by hand there, computed here from the shipped prices."""
    window = machine_cost(c7i(), 2, hours_per_month(8 * SECONDS_PER_HOUR))
    mine = here_cost(HERE, 0.25)
    rates = stated_rates(["EUR=1.08USD"], TODAY)
    amounts = [window.amount, always_on(c7i(), 2), qwen().amount, mine.amount, converted(mine, rates).amount]
    texts = [f"{amount:,.2f} {unit}" for amount, unit in zip(amounts, ("USD", "USD", "USD", "EUR", "USD"), strict=True)]

    assert list(documented().values()) == texts
    assert texts == ["347.48 USD", "1,042.44 USD", "8.41 USD", "96.47 EUR", "104.19 USD"]
    assert always_on(c7i(), 1) / qwen().amount == pytest.approx(61.98, abs=0.005)


def test_a_bill_is_the_sum_of_its_parts_and_a_part_is_units_times_price() -> None:
    """Also after a conversion, where the price stays as the provider wrote it."""
    rates = stated_rates(["EUR=1.08USD"], TODAY)
    for cost in (qwen(), here_cost(HERE, 0.25), converted(here_cost(HERE, 0.25), rates)):
        assert cost.amount == pytest.approx(sum(part.amount for part in cost.parts))
        for part in cost.parts:
            rate = 1.0 if part.conversion is None else part.conversion.amount
            assert part.amount == pytest.approx(part.units * part.price.amount * rate)


def test_a_sunk_machine_costs_nothing_and_still_has_a_price_tag() -> None:
    """0 of the user's currency, stated today: no amount is without its source."""
    cost = here_cost(HereCost(date="2026-11-30", currency="CNY"), None)

    (part,) = cost.parts
    assert (cost.amount, cost.currency, part.price.region, part.price.date) == (0.0, "CNY", "stated", "2026-11-30")
    assert "sunk" in part.price.source


def test_energy_of_an_unknown_utilisation_is_a_range_up_to_full_power() -> None:
    """120 W all month are 87.6 kWh; at idle they are 29.2."""
    cost = here_cost(replace(HERE, price=None, months=None), None)

    assert cost.amount == pytest.approx(87.6 * 0.30)
    assert cost.low == pytest.approx(29.2 * 0.30)
    assert energy_kwh(120, 40, 1.0) == pytest.approx(87.6)
    with pytest.raises(ValueError, match="no share"):
        energy_kwh(120, 40, 1.2)


@pytest.mark.parametrize(
    ("utilisation", "changes", "grows"),
    [
        (0.25, {}, 4.38),  # 80 W more for a quarter of 730 hours
        (0.25, {"idle_watts": None}, 0.0),
        (None, {}, 0.0),
        (1.0, {}, 0.0),
        (0.25, {"watts": None, "idle_watts": None}, 0.0),
    ],
)
def test_what_of_a_bill_grows_with_the_volume(
    utilisation: float | None, changes: dict[str, None], grows: float
) -> None:
    """The energy of work over that of waiting, where both are known; full power for all hours does not grow."""
    cost = here_cost(replace(HERE, **changes), utilisation)  # type: ignore[arg-type]  # any field

    assert cost.per_volume == pytest.approx(grows)
    assert converted(cost, stated_rates(["EUR=1.08USD"], TODAY)).per_volume == pytest.approx(1.08 * grows)


def test_a_bill_that_rests_on_a_prediction_has_a_low_end() -> None:
    """Three machines are surely enough, one may be."""
    price = PriceTag(amount=1.0, unit="hour", currency="USD", region="here", date="2026-09", source="a list")

    cost = machine_cost(price, 3, 730, 1)

    assert (cost.low, cost.amount, cost.high) == (730, 2190, 2190)
    assert machine_cost(price, 1, 730, 1).low is None


@pytest.mark.parametrize("text", ["EUR:1.08", "EUR=1.08", "eur=1.08USD", "EUR=0USD", "EUR=-1USD", "EUR=1e9USD", ""])
def test_a_rate_in_another_form_is_refused(text: str) -> None:
    """With the form that is meant."""
    with pytest.raises(UsageError, match=r"EUR=1\.08USD"):
        stated_rates([text], TODAY)


def test_two_rates_for_a_currency_and_chains_of_rates_are_refused() -> None:
    """Which of them holds nobody can say."""
    with pytest.raises(UsageError, match="already"):
        stated_rates(["EUR=1.08USD", "EUR=7.8CNY"], TODAY)
    with pytest.raises(UsageError, match="one"):
        stated_rates(["EUR=1.08USD", "USD=7.1CNY"], TODAY)


@pytest.mark.parametrize(
    ("grade", "point"), [(Grade.ENOUGH, 0.5), (Grade.THIN, 0.5), (Grade.OPEN, None), (Grade.NOT_ENOUGH, None)]
)
def test_a_million_tokens_has_a_price_only_where_limits_hold(grade: Grade, point: float | None) -> None:
    """Undefined, not high; the high end takes off what may miss at P95."""
    price = PriceTag(amount=1.0, unit="hour", currency="USD", region="here", date="2026-09", source="a list")
    option = PlanOption(
        kind=OptionKind.CPU,
        name="m",
        grade=grade,
        reason="",
        basis=Basis.PREDICTED,
        cost=machine_cost(price, 1, 100),
        tokens_per_month=200e6,
    )

    found = million_kept(option, 0.95)

    assert (None if found is None else found.point) == point
    if found is not None and found.high is not None:
        assert found.high == pytest.approx(0.5 / 0.95)
        assert found.basis is Basis.PREDICTED


def test_every_price_of_the_catalogue_becomes_a_whole_tag() -> None:
    """Amount, unit, currency, region, date and source, of all machines and all APIs; those that are old are marked."""
    tags = [hour_tag(one.price, TODAY) for one in shipped().instances if one.price is not None]
    for api in tagged_apis(shipped().apis, TODAY):
        tags += [api.tag(api.api.input_per_million, "million input tokens"), api.tag(api.api.output_per_million, "x")]

    assert len(tags) > 1700
    for tag in tags:
        assert tag.amount >= 0
        assert len(tag.currency) == 3
        assert all((tag.unit, tag.region, tag.source))
        assert re.match(r"20\d\d", tag.date)
    assert {tag.is_old for tag in tags} == {True, False}
    old = Price(per_hour=1, currency="USD", region="r", date="2026-01-01", source="s")
    assert hour_tag(old, TODAY).is_old
    assert not hour_tag(replace(old, date="2026-10"), TODAY).is_old

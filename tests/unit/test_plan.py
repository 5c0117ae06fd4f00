"""Plans: options judged by one rule, counted, billed, ranked, under a budget, and where costs cross."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from helpers.hybrids import machine, mixed_demand
from helpers.plans import CHAT, JOB, STREAM, TODAY, chat_plan, few_machines, job_plan, request
from helpers.records import run_record
from suffice.decide.evidence import evidence_from
from suffice.decide.plan_curves import concurrency_curves, volume_curves
from suffice.decide.plan_load import Pace, volume_of, work_of
from suffice.decide.plan_machines import Asked, Offer, machine_options, with_own_figures
from suffice.decide.plan_rank import crossovers, never_cheaper, ranked, references, unit_name
from suffice.decide.plan_screen import holds, own_outlook
from suffice.decide.plan_types import OptionKind, PriceTag
from suffice.decide.prospects import standings
from suffice.decide.service_load import machines_share
from suffice.decide.service_screen import screened_outlooks
from suffice.decide.verdict import Grade
from suffice.loaders.plan_market import Market
from suffice.loaders.plan_prices import stated_rates
from suffice.loaders.planning import make_plan, plan_concurrency
from suffice.model.cost import HOURS_PER_MONTH
from suffice.model.demand import users_with_margin

if TYPE_CHECKING:
    from suffice.decide.plan_types import Plan, PlanOption


def named(plan: Plan, name: str) -> PlanOption:
    """The option of a machine, whatever its count."""
    return next(one for one in plan.options if one.name.rpartition(" x ")[2] == name)


def test_options_are_ranked_by_how_they_stand_and_then_by_their_bill() -> None:
    """Enough, thin, open, not enough."""
    order = [Grade.ENOUGH, Grade.THIN, Grade.OPEN, Grade.NOT_ENOUGH]
    for plan in (chat_plan(), job_plan()):
        places = [order.index(one.grade) for one in plan.options]
        bills = [one.cost.amount for one in plan.options if one.is_enough and one.cost is not None]

        assert places == sorted(places)
        assert bills == sorted(bills)
        assert plan.options[0].is_enough


def test_the_verdict_is_that_of_the_one_rule() -> None:
    """One stream on machines that are predicted: the grades of `standings`, which `check` prints."""
    asked = request(STREAM)
    market = Market.of(asked)
    expected = {one.prospect.name: one.verdict.grade for one in standings(STREAM, [o.prospect for o in market.offers])}

    found = {one.name: one.grade for one in make_plan(asked).options if one.kind is not OptionKind.API}

    assert found == expected
    assert set(found.values()) >= {Grade.ENOUGH}


def test_as_many_machines_as_it_takes_are_counted_and_billed() -> None:
    """Ten times the job takes more machines, whose hours are paid for the window only."""
    ten = make_plan(request(replace(JOB, requests_per_second=10_000 / 86_400)))

    one, more = named(job_plan(), "aws/g5.xlarge"), named(ten, "aws/g5.xlarge")

    assert one.count < more.count
    assert more.name == f"{more.count} x aws/g5.xlarge"
    assert more.cost is not None
    assert more.cost.amount == pytest.approx(more.count * 1.006 * HOURS_PER_MONTH * 8 / 24)
    assert "never given back" in more.notes[-1]


def test_machines_that_hold_a_share_are_shown_to_by_the_simulation() -> None:
    """The count is the fewest: one machine fewer is not shown to hold it."""
    demand = replace(JOB, requests_per_second=10_000 / 86_400)
    asked = request(demand)
    option = named(make_plan(asked), "aws/g5.xlarge")
    offer = next(one for one in Market.of(asked).offers if one.prospect.name == "aws/g5.xlarge")

    assert holds(demand, offer.prospect.evidence, option.count) is not None
    assert option.count > 1
    assert holds(demand, offer.prospect.evidence, option.count - 1) is None


def test_what_arithmetic_rules_out_the_simulation_does_not_hold() -> None:
    """At half of what would be too much by arithmetic it is simulated; here, at the bound and above, nothing holds."""
    asked = request(CHAT)
    for offer in Market.of(asked).offers:
        evidence = offer.prospect.evidence
        for rate in (0.02, 0.05, 0.1, 0.2):
            demand = replace(CHAT, requests_per_second=rate)
            least = Pace.of(evidence).least(work_of(demand, evidence))
            if least > 1:
                assert holds(demand, evidence, 1) is None, (offer.prospect.name, rate)


def test_a_failing_option_says_by_which_constraint_and_by_how_much() -> None:
    """A CPU that reads the prompt too slowly."""
    option = named(make_plan(request(replace(CHAT, tokens_per_second_per_user=40.0))), "aws/c7i.4xlarge")

    assert option.grade is Grade.NOT_ENOUGH
    assert option.binding in {"ttft_s", "decode_tokens_per_second"}
    assert option.headroom is not None
    assert option.headroom < 1
    assert "against at" in option.reason
    assert option.cost_per_million is None


def test_credits_and_unknown_prices_are_left_out_and_said_to_be() -> None:
    """A burstable machine keeps no speed."""
    assert all("t5-" not in one.name for one in chat_plan().options)
    assert any("CPU credits" in note for note in chat_plan().notes)


def test_this_machine_is_sunk_unless_its_price_is_stated() -> None:
    """Judged by its record; its bill is nothing, and it is said what is not counted."""
    here = (evidence_from(run_record(decode=60.0, prefill=4000.0)),)

    plan = make_plan(request(STREAM, here=here))

    option = next(one for one in plan.options if one.kind is OptionKind.HERE)
    assert plan.options[0] is option
    assert option.grade is Grade.ENOUGH
    assert option.cost is not None
    assert option.cost.amount == 0
    assert any("energy is not counted" in note for note in option.notes)


def test_a_budget_is_a_constraint_of_every_option() -> None:
    """Over it: not enough, by how much; a currency that cannot be compared: open."""
    dollars = make_plan(request(replace(CHAT, budget_per_month=400.0, currency="USD")))
    yuan = make_plan(request(replace(CHAT, budget_per_month=400.0, currency="CNY")))
    converted = make_plan(
        request(replace(CHAT, budget_per_month=40_000.0, currency="CNY"), rates=stated_rates(["USD=7.1CNY"], TODAY))
    )

    over = named(dollars, "gcp/g2-standard-4")
    assert over.grade is Grade.NOT_ENOUGH
    assert over.binding == "budget"
    assert over.cost is not None
    assert f"Over the budget by {over.cost.amount - 400:,.2f} USD" in over.reason
    assert named(yuan, "gcp/g2-standard-4").grade is Grade.OPEN
    assert "--rate USD" in named(yuan, "gcp/g2-standard-4").reason
    assert named(converted, "gcp/g2-standard-4").grade is Grade.ENOUGH
    assert converted.currency == "CNY"


def test_a_stated_rate_converts_bills_and_says_so() -> None:
    """The price stays as published; the note has rate and date."""
    plan = make_plan(request(CHAT, rates=stated_rates(["USD=7.1CNY"], TODAY)))

    before, after = named(chat_plan(), "aws/g6.xlarge"), named(plan, "aws/g6.xlarge")

    assert before.cost is not None
    assert after.cost is not None
    assert after.cost.amount == pytest.approx(7.1 * before.cost.amount)
    assert after.cost.currency == "CNY"
    assert after.cost.parts[0].price.currency == "USD"
    assert any("1 USD = 7.1 CNY, as stated on 2026-11-30" in note for note in after.notes)


def test_filters_narrow_what_is_looked_at() -> None:
    """By kind and by provider; platforms of APIs are no providers of machines."""
    gpus = make_plan(request(CHAT, kinds=(OptionKind.GPU,)))
    google = make_plan(request(CHAT, providers=("gcp",)))

    assert {one.kind for one in gpus.options} == {OptionKind.GPU}
    assert {one.name.rpartition(" x ")[2] for one in google.options} == {"gcp/g2-standard-4"}


def test_costs_cross_where_the_bills_are_equal() -> None:
    """At the break-even volume the API's price of its tokens is the machine's bill."""
    api = next(one for one in job_plan().options if one.kind is OptionKind.API)
    assert api.cost is not None
    assert api.tokens_per_month is not None
    options = [replace(one, tokens_per_machine=1e12 if one.is_enough else None) for one in job_plan().options]
    found = crossovers(options, "USD", volume_of(JOB))
    for cross in found:
        machine = next(one for one in options if unit_name(one) == cross.cheaper_above)
        assert machine.cost is not None
        amount = machine.cost.amount / machine.count
        assert api.cost.amount / api.tokens_per_month * cross.tokens_per_month == pytest.approx(amount)
        assert cross.times_the_demand == pytest.approx(amount / api.cost.amount)
    assert found


def test_a_machine_that_is_full_before_it_is_cheaper_is_said_to_be() -> None:
    """No crossover beyond what it carries."""
    options = [
        replace(one, tokens_per_machine=one.tokens_per_month) if one.kind is not OptionKind.API else one
        for one in job_plan().options
    ]

    found = crossovers(options, "USD", None)
    sentences = never_cheaper(options, found, "USD")

    assert found == ()
    assert len(sentences) == len(references(options, "USD"))
    assert "at every volume that the machine carries" in sentences[0]


def test_ties_are_ranked_by_name() -> None:
    """The order never depends on the order of the catalogue."""
    first = chat_plan().options[0]
    twins = [replace(first, name=name) for name in ("b", "a", "c")]

    assert [one.name for one in ranked(twins, "USD")] == ["a", "b", "c"]


def test_curves_of_volume_are_lines_for_apis_and_steps_for_machines() -> None:
    """Of a machine whose capacity is known; each curve passes through the bill of the demand."""
    plan = make_plan(request(JOB, exact=1))
    tokens = plan.options[0].tokens_per_month
    assert tokens is not None
    curves = {curve.name: curve for curve in volume_curves(plan)}

    for option in plan.options:
        if option.name in curves and option.cost is not None and option.kind is OptionKind.API:
            assert any(y == pytest.approx(option.cost.amount) for x, y in curves[option.name].points if x == tokens)
    for option in references(plan.options, "USD"):
        amounts = [y for _, y in curves[option.name].points]
        assert amounts == sorted(amounts)
        assert len(set(amounts)) > 1


def test_curves_of_users_take_more_machines_for_more_users() -> None:
    """And end where no number of machines that is tried holds them."""
    asked = request(replace(CHAT, requests_per_second=None, concurrent_users=2))
    offers = [one for one in Market.of(asked).offers if one.prospect.name == "aws/g5.xlarge"]

    (curve,) = concurrency_curves(asked.demand, offers, users=(1, 4, 16, 64), most_machines=8)

    amounts = [y for _, y in curve.points]
    assert amounts == sorted(amounts)
    assert amounts[0] == pytest.approx(1.006 * HOURS_PER_MONTH)
    assert len(amounts) < 4
    assert plan_concurrency(request(CHAT), chat_plan(), most=1)


def test_as_many_machines_as_users_hold_what_one_of_each_holds() -> None:
    """Two users at 8 tokens/s, margin 1.5: one machine would have three streams to carry, each of two has two, which it does at 25 tokens/s and not at 15."""
    demand = mixed_demand(
        requests_per_second=None,
        interactive_share=None,
        concurrent_users=2,
        ttft=None,
        tokens_per_second_per_user=8.0,
        margin=1.5,
    )
    quick, slow = (machine("m", rate, 4000.0, 1.0, spread=0.0).prospect.evidence for rate in (25.0, 15.0))

    assert holds(demand, quick, 1) is None
    assert holds(demand, quick, 2) is not None
    assert holds(demand, slow, 2) is None


@pytest.mark.parametrize(
    ("users", "margin", "need", "decode", "slots"),
    [
        (6, 1.5, 8.0, 120.0, 40),
        (8, 1.5, 2.0, 60.0, 40),
        (9, 1.0, 5.0, 90.0, 12),
        (50, 1.5, 1.0, 200.0, 100),
        (9, 1.5, 2.0, 60.0, 12),
    ],
)
def test_users_have_a_slot_each_up_to_the_margin_wherever_they_are_looked_at(
    users: int, margin: float, need: float, decode: float, slots: int
) -> None:
    """`check` and `plan` look at as many slots as the users need with the margin: not 8 at most, no power of two, not 64, and not more than fit."""
    demand = mixed_demand(
        requests_per_second=None,
        interactive_share=None,
        concurrent_users=users,
        ttft=None,
        tokens_per_second_per_user=need,
        margin=margin,
    )
    evidence = machine("m", decode, 20_000.0, 1.0, spread=0.0).prospect.evidence
    context = demand.needed_context_tokens
    assert context is not None
    evidence = replace(evidence, memory_usable_bytes=evidence.memory_needed_bytes(context, slots))
    fits = math.ceil(users * margin) <= slots

    (screened,) = screened_outlooks(demand, [evidence])
    planned, own = holds(demand, evidence, 1), own_outlook(demand, evidence, 1)

    assert screened is not None
    assert own is not None
    assert screened.is_enough == own.is_enough == (planned is not None) == fits


@pytest.mark.parametrize("count", [1, 3])
def test_the_cheapest_are_as_many_as_are_enough_by_their_own_figures(count: int) -> None:
    """Also where a screen would have said too few. 8 users are 12 with the margin; a machine has 50 / 1.15 tokens/s, which is 4 streams of 8."""
    demand = mixed_demand(
        requests_per_second=None,
        interactive_share=None,
        concurrent_users=8,
        ttft=None,
        tokens_per_second_per_user=8.0,
        margin=1.5,
    )
    standing = machine("m", 50.0, 20_000.0, 1.0, spread=0.0)
    offer = Offer(
        prospect=standing.prospect,
        price=PriceTag(amount=1.0, unit="hour", currency="USD", region="r", date="2026-11-01", source="s"),
    )
    asked = Asked.of(demand, [offer], most=8, keep=5, proven=1)
    (screened, *_) = machine_options([offer], asked)
    assert screened.count == 3

    found = with_own_figures(replace(screened, count=count), offer, asked)

    assert found.is_enough
    assert found.count == 3
    assert found.name == "3 x m"
    assert found.cost is not None
    assert found.cost.amount == pytest.approx(3 * HOURS_PER_MONTH)
    assert found.headroom == pytest.approx(3 * 4 / 8)
    assert found.reason.startswith(
        "Each of 3 takes its part of the load: 8 users with the margin of 1.5 are 12, 4 each. Enough with margin 1.33"
    )
    alone = own_outlook(demand, standing.prospect.evidence, 1)
    assert alone is not None
    assert alone.served is not None
    assert alone.served.machines == 3  # as `decide` says of one


@pytest.mark.parametrize(
    ("users", "margin", "count"), [(8, 1.5, 3), (10, 1.1, 2), (7, 2.0, 5), (6, 1.0, 4), (20, 1.15, 9)]
)
def test_machines_share_the_users_with_the_margin_and_not_each_its_own(users: int, margin: float, count: int) -> None:
    """All machines together have room for all users with the margin, and one user fewer each has not."""
    demand = replace(CHAT, requests_per_second=None, concurrent_users=users, margin=margin)

    share = machines_share(demand, count)
    each = users_with_margin(share.streams, share.margin)

    whole = users_with_margin(users, margin)
    assert each == users_with_margin(each, 1.0)
    assert (each - 1) * count < whole <= each * count
    assert share.streams <= each
    assert machines_share(demand, 1) == demand


def test_of_machines_that_carry_one_user_each_there_are_more_than_users() -> None:
    """3 users are 5 with the margin of 1.5, and a machine has 10 / 1.15 tokens/s, which is one stream of 8: five machines, not none."""
    demand = mixed_demand(
        requests_per_second=None,
        interactive_share=None,
        concurrent_users=3,
        ttft=None,
        tokens_per_second_per_user=8.0,
        margin=1.5,
    )
    standing = machine("m", 10.0, 20_000.0, 1.0, spread=0.0)
    offer = Offer(
        prospect=standing.prospect,
        price=PriceTag(amount=1.0, unit="hour", currency="USD", region="r", date="2026-11-01", source="s"),
    )

    (found, *_) = machine_options([offer], Asked.of(demand, [offer], most=8, keep=5, proven=1))

    assert (found.count, found.is_enough) == (5, True)


def test_no_half_user_comes_of_the_last_bit_of_a_product() -> None:
    """10 x 1.1 is 11.000000000000002 and means 11 users."""
    assert [users_with_margin(10, 1.1), users_with_margin(100, 1.1), users_with_margin(3, 1.5)] == [11, 110, 5]


def test_users_alone_are_no_volume() -> None:
    """An API then has no bill and says what would give one; with a stated volume it has."""
    users = replace(CHAT, requests_per_second=None, concurrent_users=2)
    without, stated = make_plan(request(users)), make_plan(request(replace(users, volume_per_day=1440.0)))

    assert next(one for one in without.options if one.kind is OptionKind.API).cost is None
    assert any("users are no volume" in note for note in without.notes)
    assert next(one for one in stated.options if one.kind is OptionKind.API).cost is not None


def test_the_volume_of_a_day_is_billed_and_the_rate_of_the_busiest_hour_is_carried() -> None:
    """A fifth of what the rate makes all day: machines and their number stay, the API costs a fifth, and what a machine costs by the token is five times as much."""
    peak = make_plan(request(CHAT))
    daily = CHAT.requests_per_day
    assert daily is not None
    real = make_plan(request(replace(CHAT, volume_per_day=daily / 5)))

    def bills(plan: Plan, kind: OptionKind) -> dict[str, float]:
        return {one.name: one.cost.amount for one in plan.options if one.kind is kind and one.cost is not None}

    assert bills(real, OptionKind.API) == pytest.approx({k: v / 5 for k, v in bills(peak, OptionKind.API).items()})
    assert bills(real, OptionKind.GPU) == bills(peak, OptionKind.GPU)
    token = {one.name: one.cost_per_million for one in peak.options if one.kind is OptionKind.GPU and one.is_enough}
    assert token
    for one in real.options:
        if one.name in token and (before := token[one.name]) is not None:
            assert one.cost_per_million is not None
            assert one.cost_per_million.point == pytest.approx(5 * before.point)
    assert any("is billed all day" in note for note in peak.notes)
    assert not any("is billed all day" in note for note in real.notes)


def test_of_machines_that_compute_alike_only_the_cheapest_is_looked_at() -> None:
    """c7i and m7i have the same CPU and vCPUs; with all siblings both are."""
    machines = few_machines("aws/c7i.4xlarge", "aws/c7i-flex.4xlarge", "aws/m7i.4xlarge", "aws/r7i.4xlarge")

    some = Market.of(request(JOB, catalogue=machines))
    every = Market.of(request(JOB, catalogue=machines, siblings=True))

    assert len(some.offers) < len(every.offers)
    assert any("cost more than another" in note for note in some.notes)


def test_a_demand_with_a_share_has_hybrids() -> None:
    """Made of a GPU and a CPU machine of the catalogue, with both prices."""
    plan = make_plan(request(replace(CHAT, interactive_share=0.2, requests_per_second=0.05)))

    hybrids = [one for one in plan.options if one.kind is OptionKind.HYBRID]
    assert hybrids
    for one in hybrids:
        assert one.cost is not None
        assert len(one.cost.parts) == 2
        assert {member.kind for member in one.members} == {OptionKind.GPU, OptionKind.CPU}


def test_every_price_of_a_plan_is_whole() -> None:
    """Amount, unit, currency, region, date, source, of each part of each bill."""
    for plan in (chat_plan(), job_plan()):
        for option in plan.options:
            tags = [*option.prices, *(part.price for part in (option.cost.parts if option.cost else ()))]
            assert tags
            for tag in tags:
                assert all((tag.unit, tag.currency, tag.region, tag.date, tag.source))

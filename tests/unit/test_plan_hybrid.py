"""Hybrids: a GPU for the share that waits, CPUs for the rest, and what that saves against GPUs alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from helpers.hybrids import cpu, gpu, machine, mixed_demand
from suffice.decide.plan_hybrid import found_hybrids, hybrids
from suffice.decide.plan_hybrid_gpus import Speeds, cheapest_for_both, doing_shown, for_waiting
from suffice.decide.plan_hybrid_parts import most_per_s, parts_of, rented
from suffice.decide.plan_hybrid_words import saving_words
from suffice.decide.plan_types import OptionKind, PriceTag
from suffice.decide.verdict import Grade
from suffice.model.demand import Demand, DemandKind
from suffice.units import SECONDS_PER_HOUR

EIGHT_HOURS_S = 8.0 * SECONDS_PER_HOUR


def test_a_demand_is_divided_by_its_share() -> None:
    """A fifth keeps the limits, the rest has none; together they are the whole, each with its margin."""
    parts = parts_of(mixed_demand(margin=1.5))

    assert parts is not None
    assert (parts.waiting_per_s, parts.rest_per_s) == pytest.approx((0.02, 0.08))
    assert (parts.waiting_wanted_per_s, parts.rest_wanted_per_s) == pytest.approx((0.03, 0.12))
    assert parts.waiting.ttft is not None
    assert parts.rest.kind is DemandKind.BATCH
    assert (parts.rest.ttft, parts.rest.tokens_per_second_per_user) == (None, None)
    assert parts.waiting.interactive_share is None


def test_the_rest_has_its_window() -> None:
    """A day's rest in 8 hours comes three times as fast, on machines that are rented for a third of the month."""
    parts = parts_of(mixed_demand(window_s=EIGHT_HOURS_S))

    assert parts is not None
    assert parts.rest_per_s == pytest.approx(0.24)
    assert parts.waiting_per_s == pytest.approx(0.02)
    assert parts.rest_hours == pytest.approx(730 / 3)


def test_the_rest_of_a_day_is_its_volume_and_not_the_rate_of_the_busiest_hour() -> None:
    """0.1 requests/s in the busiest hour, a quarter of that over the day: a fifth of the former waits, four fifths of the latter are worked off, and all may come at once."""
    parts = parts_of(mixed_demand(volume_per_day=0.025 * 86400, margin=1.5))

    assert parts is not None
    assert (parts.waiting_per_s, parts.rest_per_s) == pytest.approx((0.02, 0.02))
    assert parts.all_wanted_per_s == pytest.approx(0.15)


def test_tokens_and_shares_of_a_hybrid_are_those_of_the_volume() -> None:
    """A quarter of what the rate makes all day: a quarter of the tokens, and still a fifth of the requests for whom somebody waits."""
    demand = mixed_demand()
    daily = demand.requests_per_day
    assert daily is not None
    all_day, real = (hybrids(one, [gpu()], [cpu()])[0] for one in (demand, replace(demand, volume_per_day=daily / 4)))

    assert all_day.tokens_per_month is not None
    assert real.tokens_per_month == pytest.approx(all_day.tokens_per_month / 4)
    for one in (all_day, real):
        assert any("for the 20 % of the requests that somebody waits for" in note for note in one.notes)


@pytest.mark.parametrize(
    "demand",
    [
        mixed_demand(interactive_share=None),
        mixed_demand(interactive_share=1.0),
        mixed_demand(requests_per_second=None, concurrent_users=4),
        mixed_demand(ttft=None, tokens_per_second_per_user=None),
        mixed_demand(output_tokens=None),
    ],
)
def test_without_a_share_a_rate_lengths_and_limits_there_is_nothing_to_divide(demand: Demand) -> None:
    """Nobody guesses the missing one."""
    assert parts_of(demand) is None
    assert hybrids(demand, [gpu()], [cpu()]) == ()


def test_the_most_that_any_schedule_answers() -> None:
    """100 tokens of a prompt and 49 further ones of an answer at 4,400 tokens/s each, 15 % faster: what the formula says."""
    parts = parts_of(mixed_demand())
    assert parts is not None
    found = rented(gpu(), parts)
    assert found is not None

    assert most_per_s(found.evidence, found.waiting) == pytest.approx(1.15 * 4400 / 149)
    assert most_per_s(found.evidence, replace(found.waiting, most_slots=1)) == pytest.approx(
        1.15 / (100 / 4400 + 49 / 110)
    )
    assert found.one_by_one_per_s == pytest.approx(1 / (100 / 3600 + 50 / 90) / 1.15)


def test_the_roofline_goes_through_the_predicted_speeds() -> None:
    """One sequence takes as long as predicted; eight read the weights once, until they come at the prefill rate."""
    parts = parts_of(mixed_demand())
    assert parts is not None
    found = rented(gpu(), parts)
    assert found is not None
    curve = found.likely
    assert curve is not None

    assert curve.decode_s(1, 150.0) == pytest.approx(1 / 100)
    assert curve.decode_s(8, 150.0) == pytest.approx(1 / 100, rel=0.01)
    assert curve.decode_s(60, 150.0) == pytest.approx(60 / 4000)
    assert curve.prefill_s(400, 0.0) == pytest.approx(400 / 4000)


def test_idle_time_that_takes_the_rest_leaves_nothing_to_save() -> None:
    """One GPU does everything at the roofline, so that the CPUs come on top: a hybrid costs their price more, and says so."""
    demand = mixed_demand()

    (found,) = found_hybrids(demand, [gpu(per_hour=1.0)], [cpu(per_hour=0.1)])
    (option,) = hybrids(demand, [gpu(per_hour=1.0)], [cpu(per_hour=0.1)])

    saving = found.saving
    assert saving.likely_alone is not None
    assert (saving.likely_alone.count, saving.likely_alone.speeds) == (1, Speeds.ROOFLINE)
    assert (saving.likely_alone.streams, saving.likely_alone.part_time) == (0, 0)
    assert found.rest.count == 1
    assert saving.likely == pytest.approx(-0.1)
    assert saving.low == pytest.approx(-0.1)
    assert any("saves nothing: it costs 10 % more" in note for note in option.notes)


def test_a_rest_that_would_take_more_gpus_is_cheaper_on_cheap_cpus() -> None:
    """20 requests/s of the rest keep several GPUs busy even at the roofline; a CPU at a hundredth of the price that is as fast saves most of it."""
    demand = mixed_demand(requests_per_second=20.0, interactive_share=0.01)
    worker = machine("worker", 100.0, 4000.0, 0.01, is_gpu=False)

    found = found_hybrids(demand, [gpu(per_hour=1.0)], [worker])

    saving = found[0].saving
    assert saving.likely is not None
    assert saving.likely > 0.4
    assert saving.shown is not None
    assert saving.high is not None
    assert saving.low <= saving.likely <= saving.high


def test_savings_are_what_the_bills_say() -> None:
    """One less the hybrid's bill over that of GPUs alone, at the slow end."""
    found = found_hybrids(mixed_demand(requests_per_second=1.0), [gpu(per_hour=1.0)], [cpu(per_hour=0.01)])[0]

    alone = found.saving.shown_alone
    assert alone is not None
    assert found.saving.shown == pytest.approx(1 - (found.waiting.monthly + found.rest.monthly) / alone.monthly)
    assert found.waiting.monthly == pytest.approx(730 * found.waiting.count)
    assert found.rest.monthly == pytest.approx(7.3 * found.rest.count)


def test_an_option_has_members_a_bill_and_tags() -> None:
    """Kind, name and count of both; bills add up; each price has currency, region, date and source, and is the tag that was given."""
    tag = PriceTag(amount=1.0, unit="hour", currency="USD", region="x", date="2020-01-01", source="a list", is_old=True)

    (option,) = hybrids(mixed_demand(), [gpu()], [cpu()], tags={"gpu": tag})

    assert option.kind is OptionKind.HYBRID
    assert option.name == "gpu + cpu"
    assert option.count == 2
    assert [one.kind for one in option.members] == [OptionKind.GPU, OptionKind.CPU]
    assert option.cost is not None
    assert option.cost.amount == pytest.approx(sum(one.cost.amount for one in option.members if one.cost is not None))
    assert option.cost.amount == pytest.approx(730 * 1.1)
    assert [part.units for part in option.cost.parts] == pytest.approx([730.0, 730.0])
    assert option.prices[0] == tag
    assert (option.prices[1].region, option.prices[1].date, option.prices[1].source) == ("here", "2026-09-01", "a list")
    assert option.tokens_per_month == pytest.approx(0.1 * 50 * 730 * 3600)


def test_members_are_judged_by_the_rule_under_their_shares() -> None:
    """The GPU by the load that keeps its limits, the CPUs by their sustained rate; the worse of both is the hybrid's grade."""
    (option,) = hybrids(mixed_demand(margin=1.2), [gpu()], [cpu()])

    grades = [one.grade for one in option.members]
    assert grades == [Grade.ENOUGH, Grade.ENOUGH]
    assert option.grade is Grade.ENOUGH
    assert [one.binding for one in option.members] == ["capacity_requests_per_second", "sustained_tokens_per_second"]
    for one in option.members:
        assert one.verdict is not None
        assert one.headroom is not None
        assert one.headroom >= 1.2 - 1e-9


def test_what_is_not_shown_is_open_and_has_no_high_end() -> None:
    """A GPU whose low end misses the rate that each user needs may still be enough: the hybrid is open, and nothing is claimed."""
    wide = machine("wide", 12.0, 4000.0, 1.0, spread=0.5)

    (option,) = hybrids(mixed_demand(), [wide], [cpu()])
    (found,) = found_hybrids(mixed_demand(), [wide], [cpu()])

    assert option.grade is Grade.OPEN
    assert option.headroom is None
    assert option.cost is not None
    assert option.cost.high is None
    assert (found.saving.shown, found.saving.high) == (None, None)
    assert any("no GPUs alone are shown to be enough" in note for note in option.notes)


def test_machines_that_cannot_be_judged_are_left_out() -> None:
    """Without a price, without a known memory, too small, or too slow for one request even at the fast end."""
    slow = machine("slow", 5.0, 4000.0, 1.0)

    for lacking in (gpu(per_hour=None), gpu(memory=None), gpu(memory=5e9), slow):
        assert hybrids(mixed_demand(), [lacking], [cpu()]) == ()
    assert hybrids(mixed_demand(), [gpu()], [cpu(per_hour=None)]) == ()


def test_currencies_are_not_mixed() -> None:
    """A GPU in yuan and a CPU in dollars have no common bill."""
    assert hybrids(mixed_demand(), [gpu(currency="CNY")], [cpu()]) == ()

    both = hybrids(mixed_demand(), [gpu("g", currency="CNY"), gpu()], [cpu("c", currency="CNY"), cpu()])

    assert [one.cost.currency for one in both if one.cost is not None] == ["CNY", "USD"]


def test_no_more_gpus_than_are_allowed() -> None:
    """10 requests/s that wait need more than two GPUs at the slow end: with two at most nothing is shown."""
    demand = mixed_demand(requests_per_second=10.0, interactive_share=0.5)

    shown = [
        one.waiting.count
        for one in found_hybrids(demand, [gpu()], [machine("w", 100, 4000, 0.1, is_gpu=False)], most=2)
        if one.waiting.shown
    ]

    assert shown == []


def test_the_rest_is_paid_for_its_hours() -> None:
    """Two machines for 8 hours a day cost less than one for all day."""
    (option,) = hybrids(mixed_demand(window_s=EIGHT_HOURS_S), [gpu()], [cpu(per_hour=0.1)])

    assert option.cost is not None
    count = option.members[1].count
    assert option.cost.parts[1].units == pytest.approx(count * 730 / 3)
    assert "8.00 h of each day" in option.notes[0]


@pytest.mark.parametrize(
    ("saving", "words"),
    [
        (0.234, "saves 23 %"),
        (0.004, "saves nothing"),
        (-0.004, "saves nothing"),
        (-0.45, "saves nothing: it costs 45 % more"),
        (-3.21, "saves nothing: it costs 4.2 times as much"),
        (-55.0, "saves nothing: it costs 56 times as much"),
    ],
)
def test_a_saving_in_words(saving: float, words: str) -> None:
    """What costs more is never called a saving."""
    assert saving_words(saving) == words


def test_the_cheapest_for_both_is_that_of_all_although_few_are_simulated() -> None:
    """What cannot be the cheapest by its bound is passed over, and the first of equals counts, as when all are looked at."""
    parts = parts_of(mixed_demand(requests_per_second=2.0))
    assert parts is not None
    speeds = [("a", 100.0, 4000.0, 3.0), ("b", 60.0, 2000.0, 0.9), ("c", 200.0, 9000.0, 1.8), ("d", 60.0, 2000.0, 0.9)]
    found = []
    for one in speeds:
        rent = rented(machine(*one), parts)
        assert rent is not None
        waiting = for_waiting(rent, parts, 64)
        assert waiting is not None
        doing = doing_shown(waiting, parts)
        assert doing is not None
        found.append(doing)

    fleets = [doing.fleet() for doing in found]

    assert cheapest_for_both(found) == min(fleets, key=lambda fleet: fleet.monthly)
    assert all(doing.least_monthly <= fleet.monthly for doing, fleet in zip(found, fleets, strict=True))
    assert cheapest_for_both([]) is None


def test_what_is_found_of_an_accelerator_holds_wherever_it_is_rented() -> None:
    """The same speeds under another name and in another currency give the same counts of machines."""
    here, there = found_hybrids(
        mixed_demand(),
        [gpu("g"), gpu("h", currency="CNY")],
        [cpu("c"), cpu("d", currency="CNY")],
    )

    assert (here.waiting.count, here.rest.count) == (there.waiting.count, there.rest.count)
    assert here.saving == replace(
        there.saving,
        likely_alone=here.saving.likely_alone,
        shown_alone=here.saving.shown_alone,
        alone_at_best=here.saving.alone_at_best,
    )

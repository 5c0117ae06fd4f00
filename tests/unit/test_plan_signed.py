"""What has to be true of a plan before somebody signs it: no bill too low, no machine beyond what it carries, no other model's API."""

from __future__ import annotations

from dataclasses import replace

import pytest

from helpers.hybrids import cpu, gpu, machine, mixed_demand
from helpers.plans import CHAT, JOB, chat_plan, job_plan, request
from helpers.records import run_record
from suffice.decide.evidence import evidence_from
from suffice.decide.plan_cost import HereCost, here_cost
from suffice.decide.plan_curves import volume_curves
from suffice.decide.plan_here import here_options
from suffice.decide.plan_hybrid import found_hybrids, hybrids, with_gpus_alone
from suffice.decide.plan_load import asks_too_often, kept_share, volume_of
from suffice.decide.plan_rank import crossovers, never_cheaper, unit_name, within_budget
from suffice.decide.plan_types import MonthlyCost, OptionKind, PlanOption
from suffice.decide.verdict import Grade
from suffice.loaders.planning import make_plan
from suffice.model.basis import Basis
from suffice.model.cost import HOURS_PER_MONTH
from suffice.model.demand import Limit
from suffice.report.plan import crossover_lines
from suffice.units import HOURS_PER_DAY, SECONDS_PER_DAY

EIGHT_HOURS_S = SECONDS_PER_DAY * 8 / HOURS_PER_DAY
USERS = replace(CHAT, requests_per_second=None, concurrent_users=2, margin=1.0)


def api_of(options: tuple[PlanOption, ...]) -> PlanOption:
    """The API of a plan."""
    return next(one for one in options if one.kind is OptionKind.API)


def rented(options: tuple[PlanOption, ...]) -> list[PlanOption]:
    """Machines to rent."""
    return [one for one in options if one.kind in (OptionKind.CPU, OptionKind.GPU)]


def job_options(**changes: object) -> tuple[PlanOption, ...]:
    """The API of the job and its cheapest machine, with what a test is about changed in the machine."""
    machine = next(one for one in rented(job_plan().options) if one.is_enough)
    return replace(machine, **changes), api_of(job_plan().options)  # type: ignore[arg-type]


def test_no_crossover_lies_beyond_what_a_machine_is_shown_to_carry() -> None:
    """Of a machine whose capacity was not looked for that is the demand's volume; the sentence says that nobody looked."""
    options = job_options(tokens_per_machine=None)

    found = crossovers(options, "USD", volume_of(JOB))
    sentences = never_cheaper(options, found, "USD")

    assert options[0].cost is not None
    assert options[1].cost is not None
    assert options[0].cost.amount > options[1].cost.amount
    assert found == ()
    assert len(sentences) == 1
    assert "not looked at" in sentences[0]


def test_costs_cross_for_one_machine_since_less_work_takes_fewer() -> None:
    """Three machines cross an API where one of them does: nobody rents three for a volume that one carries."""
    machine, api = job_options()
    assert machine.cost is not None
    assert api.cost is not None
    assert api.tokens_per_month is not None
    bill = replace(machine.cost, amount=3 * api.cost.amount)
    three = replace(machine, name="3 x m", count=3, cost=bill, tokens_per_machine=1.2 * api.tokens_per_month)

    (cross,) = crossovers((three, api), "USD", volume_of(JOB))

    assert unit_name(three) == "m"
    assert (cross.cheaper_above, cross.cheaper_below) == ("m", api.name)
    assert cross.tokens_per_month == pytest.approx(api.tokens_per_month)
    assert cross.up_to_tokens_per_month == three.tokens_per_machine
    assert "up to" in crossover_lines([cross])[0]
    assert never_cheaper((three, api), (cross,), "USD") == ()


@pytest.mark.parametrize(("binding", "count"), [("context_tokens", 0), ("budget", 1)])
def test_an_api_that_cannot_serve_the_demand_is_no_comparison(binding: str, count: int) -> None:
    """One that is only too dear is; neither a crossing nor a line is drawn of one whose context is too small."""
    machine, api = job_options(tokens_per_machine=float("inf"))
    failing = replace(api, grade=Grade.NOT_ENOUGH, binding=binding)

    assert len(crossovers((machine, failing), "USD", volume_of(JOB))) == count
    drawn = {curve.name for curve in volume_curves(replace(job_plan(), options=(machine, failing)))}
    assert (api.name in drawn) is bool(count)


def test_an_open_option_has_the_bill_of_the_fewest_that_may_do_and_no_headroom_of_memory() -> None:
    """What is open is the load: neither the headroom nor the basis of something else stands beside it."""
    heavy = make_plan(request(replace(JOB, requests_per_second=20_000 / SECONDS_PER_DAY), max_machines=2))
    opened = [one for one in rented(heavy.options) if one.grade is Grade.OPEN]

    assert opened
    assert any("fewest machines that may do" in note for note in heavy.notes)
    for one in opened:
        assert one.binding == "wall_time_s"
        assert one.headroom is None
        assert one.basis is Basis.PREDICTED
        assert one.cost is not None
        assert one.cost.amount == pytest.approx(one.count * one.prices[0].amount * HOURS_PER_MONTH * 8 / 24)


def test_machines_that_are_too_few_at_the_fast_end_are_billed_as_many_as_are_tried() -> None:
    """The headroom is that of so many machines, and so are name and bill."""
    huge = make_plan(request(replace(JOB, requests_per_second=3.0), max_machines=2))
    failing = [one for one in rented(huge.options) if one.binding == "wall_time_s" and one.grade is Grade.NOT_ENOUGH]

    assert failing
    for one in failing:
        assert (one.count, one.name) == (2, f"2 x {unit_name(one)}")
        assert one.cost is not None
        assert one.cost.parts[0].units == pytest.approx(2 * HOURS_PER_MONTH * 8 / 24)
        assert one.headroom is not None
        assert one.headroom < 1


def test_more_requests_than_users_can_send_have_no_price_by_the_token() -> None:
    """Two users who wait for each answer send no million requests a day, so that no machine answers them."""
    plausible, absurd = (make_plan(request(replace(USERS, volume_per_day=many))) for many in (1440.0, 1e6))

    for one in rented(plausible.options):
        if one.is_enough:
            assert one.cost_per_million is not None
    enough = [one for one in rented(absurd.options) if one.is_enough]
    assert enough
    for one in enough:
        assert one.cost_per_million is None
        assert one.tokens_per_month is None
        assert one.utilisation is None
        assert any("2 users who wait for each answer" in note for note in one.notes)
    assert api_of(absurd.options).cost is not None
    assert not [curve for curve in volume_curves(absurd) if curve.name in {one.name for one in enough}]


def test_one_stream_answers_no_more_than_one_after_the_other() -> None:
    """A volume beside one stream that would take it weeks a day has no price by the token, and crosses no API; one that it can answer has."""
    stream = replace(USERS, concurrent_users=None)
    plausible, absurd = (make_plan(request(replace(stream, volume_per_day=many))) for many in (1000.0, 1e6))

    enough = [one for one in rented(absurd.options) if one.is_enough]
    assert enough
    for one in enough:
        assert one.tokens_per_month is None
        assert one.cost_per_million is None
        assert any("one user who waits for each answer" in note for note in one.notes)
    assert not absurd.crossovers
    assert any(one.cost_per_million is not None for one in rented(plausible.options) if one.is_enough)


def test_what_all_limits_together_leave_free_to_miss() -> None:
    """P95 of the first token, and the tightest limit on further ones, at 0.2 s for 95 of 100: who misses a looser one misses it too."""
    demand = replace(CHAT, tpot=Limit(value_s=0.5, percentile=99.0))

    assert kept_share(demand) == pytest.approx(0.90)
    assert kept_share(replace(demand, tpot=Limit(value_s=0.1, percentile=95.0))) == pytest.approx(0.90)
    assert kept_share(replace(demand, tpot=Limit(value_s=0.1, percentile=99.0))) == pytest.approx(0.94)


def test_users_send_at_most_one_request_in_the_time_of_one() -> None:
    """Two users, 20 s a request: 8,640 a day."""
    below, above = (volume_of(replace(USERS, volume_per_day=many)) for many in (8640.0, 8641.0))

    assert asks_too_often(USERS, below, 20.0) is None
    assert "8,640 requests a day" in (asks_too_often(USERS, above, 20.0) or "")
    assert asks_too_often(CHAT, volume_of(CHAT), 1e6) is None
    assert asks_too_often(USERS, above, None) is None


def test_each_of_several_engines_works_for_its_part_of_the_requests() -> None:
    """Two engines that answer half of the requests each are half as busy."""
    one = evidence_from(run_record(decode=60.0, prefill=4000.0), "box")
    stated = HereCost(date="2026-11-30", currency="USD")

    (single,) = here_options(CHAT, [one], stated, volume_of(CHAT))
    (double,) = here_options(CHAT, [replace(one, engines=2)], stated, volume_of(CHAT))

    assert single.utilisation is not None
    assert double.utilisation == pytest.approx(single.utilisation / 2)


@pytest.mark.parametrize(
    ("rate", "window_s", "streams", "part_time"),
    [(0.6, None, 1, 0), (0.6, EIGHT_HOURS_S, 1, 1), (1.0, EIGHT_HOURS_S, 0, 2), (1.5, None, 0, 1)],
)
def test_the_gpus_that_a_hybrid_is_measured_against_are_an_option(
    rate: float, window_s: float | None, streams: int, part_time: int
) -> None:
    """With the bill that the hybrid's notes name, judged by the same rule: the rest in idle time, apart, or both for some hours."""
    demand = mixed_demand(margin=1.2, requests_per_second=rate, window_s=window_s)
    gpus, cpus = [gpu()], [cpu(per_hour=0.05)]
    fleet = found_hybrids(demand, gpus, cpus)[0].saving.shown_alone
    assert fleet is not None

    found = with_gpus_alone(demand, gpus, cpus, most=8, tags={})
    (alone,) = [one for one in found if one.kind is OptionKind.GPU]

    assert (fleet.streams, fleet.part_time) == (streams, part_time)
    assert found[:-1] == hybrids(demand, gpus, cpus)
    assert alone.cost is not None
    assert alone.cost.amount == pytest.approx(fleet.monthly)
    assert alone.cost.amount == pytest.approx(sum(part.amount for part in alone.cost.parts))
    assert (alone.grade, alone.count) == (Grade.ENOUGH, fleet.count)
    assert alone.tokens_per_month == pytest.approx(found[0].tokens_per_month)
    assert "GPUs alone" in alone.notes[0]


def test_gpus_that_keep_the_limits_in_every_request_are_no_reason_for_more_of_them() -> None:
    """One GPU answers all of few requests as they come: against it no hybrid saves, and it is a machine to rent as it is."""
    demand, gpus, cpus = mixed_demand(), [gpu(per_hour=1.0)], [cpu(per_hour=0.1)]

    (found,) = found_hybrids(demand, gpus, cpus)
    fleet = found.saving.shown_alone
    options = with_gpus_alone(demand, gpus, cpus, most=8, tags={})

    assert fleet is not None
    assert (fleet.count, fleet.part_time, fleet.streams) == (1, 0, 0)
    assert found.saving.shown == pytest.approx(-0.1)
    assert found.saving.high == pytest.approx(-0.1)
    assert [one.kind for one in options] == [OptionKind.HYBRID]
    assert "every request within the limits" in " ".join(options[0].notes)


def test_a_hybrid_is_measured_against_gpus_that_no_hybrid_is_made_of() -> None:
    """Small GPUs are cheapest for the few that wait and slow for the rest; a fast one that costs little more does everything."""
    demand = mixed_demand(requests_per_second=1.0, interactive_share=0.05)
    small = gpu("small", per_hour=1.0)
    fast = machine("fast", 400.0, 20_000.0, 1.1)

    with_fast = found_hybrids(demand, [small, fast], [cpu(per_hour=0.5)])

    for one in with_fast:
        assert one.saving.shown_alone is not None
        assert one.saving.shown_alone.monthly <= 1.1 * HOURS_PER_MONTH * (1 + 1e-9)


def test_a_plan_of_a_share_ranks_the_gpus_alone_with_the_rest() -> None:
    """The first option is no dearer than they are."""
    plan = make_plan(request(replace(CHAT, interactive_share=0.2, requests_per_second=0.2), exact=1))
    alone = [one for one in plan.options if any(note.startswith("GPUs alone:") for note in one.notes)]

    assert alone
    first = plan.options[0].cost
    assert first is not None
    for one in alone:
        assert one.is_enough
        assert one.cost is not None
        assert first.amount <= one.cost.amount
    only = make_plan(request(replace(CHAT, interactive_share=0.2), kinds=(OptionKind.HYBRID,)))
    assert {one.kind for one in only.options} == {OptionKind.HYBRID}


def test_no_open_or_failing_option_has_a_price_by_the_token() -> None:
    """Undefined, not high: in every plan, of every kind."""
    for plan in (chat_plan(), job_plan()):
        for one in plan.options:
            if one.grade in (Grade.OPEN, Grade.NOT_ENOUGH):
                assert one.cost_per_million is None


def here_and_api(idle_watts: float = 40.0, api: float = 52.56) -> tuple[PlanOption, PlanOption]:
    """A machine at hand that works a quarter of the time, 120 W at work, at 0.30 a kWh; and an API."""
    machine, priced = job_options(tokens_per_machine=None, kind=OptionKind.HERE, name="this machine", count=1)
    stated = HereCost(date="2026-11-30", currency="USD", watts=120.0, idle_watts=idle_watts, price_per_kwh=0.30)
    bill = MonthlyCost(amount=api, currency="USD", parts=())
    return replace(machine, cost=here_cost(stated, 0.25)), replace(priced, cost=bill)


def test_the_energy_of_this_machine_grows_with_the_volume() -> None:
    """8.76 a month idle and 4.38 for the demand's work, 13.14 together: 52.56 for an API is as much at 8.76 / 48.18 of the volume, not at a quarter."""
    options, volume = here_and_api(), volume_of(JOB)
    assert options[0].cost is not None
    assert volume is not None

    (cross,) = crossovers(options, "USD", volume)
    curves = {curve.name: curve for curve in volume_curves(replace(job_plan(), options=options, currency="USD"))}

    assert options[0].cost.amount == pytest.approx(13.14)
    assert cross.times_the_demand == pytest.approx(8.76 / 48.18)
    assert never_cheaper(options, (cross,), "USD") == ()
    for x, amount in curves["this machine"].points:
        assert amount == pytest.approx(8.76 + 4.38 * x / volume.output_tokens_per_month)
    assert curves["this machine"].points[-1][1] == pytest.approx(13.14)


def test_an_api_for_less_than_the_energy_of_work_is_never_dearer() -> None:
    """Of 4 a month for the demand's tokens, where the machine takes 4.38 for them; one that draws nothing when idle is always cheaper than 52.56."""
    volume = volume_of(JOB)
    cheap, frugal = here_and_api(api=4.0), here_and_api(idle_watts=0.0)

    assert crossovers(cheap, "USD", volume) == ()
    (sentence,) = never_cheaper(cheap, (), "USD")
    assert sentence.startswith(f"{cheap[1].name} costs less than this machine at every volume")
    assert crossovers(frugal, "USD", volume) == ()
    assert never_cheaper(frugal, (), "USD") == ()


@pytest.mark.parametrize(
    ("idle_watts", "utilisation", "said"),
    [
        (
            None,
            0.25,
            "and as little as 6.57 if it draws nothing when idle, which is not stated (--machine-idle-watts).",
        ),
        (40.0, None, "and as little as 8.76 if it hardly works: the share of time in which it does is not known."),
    ],
)
def test_what_is_open_of_the_bill_of_this_machine_is_its_energy(
    idle_watts: float | None, utilisation: float | None, said: str
) -> None:
    """Its speed is measured: it is in doubt of machines to rent."""
    stated = HereCost(date="2026-11-30", currency="USD", watts=120.0, idle_watts=idle_watts, price_per_kwh=0.30)
    machine = replace(here_and_api()[0], cost=here_cost(stated, utilisation), utilisation=utilisation)
    demand = replace(JOB, budget_per_month=20.0, currency="USD")

    here = within_budget(machine, demand)
    rented_one = within_budget(replace(machine, kind=OptionKind.CPU), demand)

    assert (here.grade, here.binding) == (Grade.OPEN, "budget")
    assert said in here.reason
    assert "fast" not in here.reason.removesuffix(machine.reason)
    assert "if it is as fast as the high end says" in rented_one.reason


def test_a_budget_that_the_plan_judges_is_not_said_to_be_unjudged() -> None:
    """And the memory that is stated is still that of this machine."""
    demand = replace(CHAT, budget_per_month=400.0, currency="USD", memory_bytes=1.0)
    here = (evidence_from(run_record(decode=60.0, prefill=4000.0), "box"),)

    (option,) = here_options(demand, here, HereCost(date="2026-11-30", currency="USD"), volume_of(demand))

    assert "Not judged here" not in option.reason
    assert option.verdict is not None
    assert "budget_per_month" not in {one.constraint.name for one in option.verdict.constraints}
    assert (option.grade, option.binding) == (Grade.NOT_ENOUGH, "memory_bytes")

"""Laws of what a plan says of volumes: where costs cross, what users can send, and bills of more machines."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.plans import CHAT, JOB, job_plan
from suffice.decide.plan_load import asks_too_often, volume_of
from suffice.decide.plan_rank import crossovers, never_cheaper
from suffice.decide.plan_types import MonthlyCost, OptionKind, PlanOption

AMOUNT = st.floats(0.01, 1e6)
SHARE = st.floats(0.01, 100.0)


def _machine(amount: float, count: int, carried: float | None) -> PlanOption:
    first = next(one for one in job_plan().options if one.is_enough and one.kind is not OptionKind.API)
    bill = MonthlyCost(amount=amount * count, currency="USD", parts=())
    return replace(
        first, name="m" if count == 1 else f"{count} x m", count=count, cost=bill, tokens_per_machine=carried
    )


def _api(amount: float) -> PlanOption:
    first = next(one for one in job_plan().options if one.kind is OptionKind.API)
    return replace(first, cost=MonthlyCost(amount=amount, currency="USD", parts=()))


@settings(max_examples=100, deadline=None)
@given(amount=AMOUNT, api=AMOUNT, count=st.integers(1, 64), carries=st.one_of(st.none(), SHARE))
def test_at_a_crossing_both_cost_the_same_and_the_machine_carries_it(
    amount: float, api: float, count: int, carries: float | None
) -> None:
    """Or it is said that there is none: never both, and never neither."""
    volume = volume_of(JOB)
    assert volume is not None
    tokens = volume.output_tokens_per_month
    options = (_machine(amount, count, None if carries is None else carries * tokens), _api(api))

    found = crossovers(options, "USD", volume)
    sentences = never_cheaper(options, found, "USD")

    assert len(found) + len(sentences) == 1
    for one in found:
        each = amount * (count if carries is None else 1)
        assert abs(api * one.tokens_per_month / tokens - each) <= 1e-9 * each
        assert one.tokens_per_month <= tokens * (1.0 if carries is None else carries)


@settings(max_examples=100, deadline=None)
@given(users=st.integers(1, 1000), request_s=st.floats(0.01, 1e4), daily=st.floats(0.1, 1e7), more=st.floats(1.0, 50.0))
def test_more_users_send_more_and_slower_answers_let_them_send_less(
    users: int, request_s: float, daily: float, more: float
) -> None:
    """What they can send stays possible with more of them or with faster answers."""
    demand = replace(CHAT, requests_per_second=None, concurrent_users=users)
    volume = volume_of(replace(demand, volume_per_day=daily))
    if asks_too_often(demand, volume, request_s) is None:
        assert asks_too_often(demand, volume, request_s / more) is None
        assert asks_too_often(replace(demand, concurrent_users=users + 1), volume, request_s) is None
    else:
        assert asks_too_often(demand, volume, request_s * more) is not None
        assert asks_too_often(demand, volume_of(replace(demand, volume_per_day=daily * more)), request_s) is not None

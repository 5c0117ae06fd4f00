"""Laws of plans: more work never needs fewer machines, more money an hour never costs less, and prices scale."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.plans import CHAT, JOB
from suffice.decide.plan_cost import HereCost, here_cost, machine_cost
from suffice.decide.plan_load import Pace, work_of
from suffice.decide.plan_types import PriceTag
from suffice.decide.prospects import Speeds, predicted_evidence
from suffice.records.schema import ModelRecord
from suffice.serving.queueing import busy_under_wait

SPEED = st.floats(0.5, 500)
FACTOR = st.floats(1.0, 50.0)
EVIDENCE = predicted_evidence(
    "m", ModelRecord(), Speeds(depth=0, decode=None, prefill=None), is_gpu=False, memory_bytes=None
)


@settings(max_examples=60, deadline=None)
@given(decode=SPEED, prefill=SPEED, faster=FACTOR, more=FACTOR)
def test_more_work_never_needs_fewer_machines_and_more_speed_never_more(
    decode: float, prefill: float, faster: float, more: float
) -> None:
    """Of a rate under limits and of a queue, at the slow end and at the fast one."""
    slow = Pace(decode_low=decode, decode_high=2 * decode, prefill_low=10 * prefill, prefill_high=20 * prefill)
    fast = Pace(
        decode_low=decode * faster,
        decode_high=2 * decode * faster,
        prefill_low=10 * prefill * faster,
        prefill_high=20 * prefill * faster,
    )
    for demand in (CHAT, JOB):
        assert demand.requests_per_second is not None
        work = work_of(demand, EVIDENCE)
        harder = work_of(replace(demand, requests_per_second=demand.requests_per_second * more), EVIDENCE)
        assert slow.least(harder) >= slow.least(work) >= fast.least(work)
        assert slow.least_at_best(harder) >= slow.least_at_best(work) >= fast.least_at_best(work)
        assert slow.least_at_best(work) <= slow.least(work)


@settings(max_examples=200, deadline=None)
@given(
    places=st.floats(1, 100),
    wait=st.floats(0, 1000),
    may_wait=st.sampled_from([0.01, 0.05, 0.1, 0.5]),
    more=st.floats(1, 10),
)
def test_the_busy_share_under_a_wait_is_the_root_and_grows(
    places: float, wait: float, may_wait: float, more: float
) -> None:
    """At it just as many wait too long as may; with more places, patience or leave to miss it is no smaller."""
    share = busy_under_wait(places, wait, may_wait)

    assert may_wait ** (1 / places) * (1 - 1e-9) <= share <= 1
    too_long = math.log(may_wait) - (places * math.log(share) - (1 - share) * wait)
    assert too_long == pytest.approx(0, abs=1e-6 * (1 + wait))
    for easier in (
        (places * more, wait, may_wait),
        (places, wait * more, may_wait),
        (places, wait, min(1.0, may_wait * more)),
    ):
        assert busy_under_wait(*easier) >= share * (1 - 1e-6)


@settings(max_examples=60, deadline=None)
@given(decode=st.floats(6, 500), rate=st.floats(0.001, 2))
def test_who_waits_for_no_first_token_lets_a_machine_be_busy_all_the_time(decode: float, rate: float) -> None:
    """With one slot each answer is as fast as alone, whatever waits outside: only the work counts, less a tenth for the lengths that are drawn."""
    pace = Pace(decode_low=decode, decode_high=2 * decode, prefill_low=20 * decode, prefill_high=40 * decode)
    work = work_of(replace(CHAT, ttft=None, requests_per_second=rate), EVIDENCE)

    assert pace.least(work) == max(1, math.ceil(rate * work.margin * pace.request_s(work) / 1.1))


@settings(max_examples=60, deadline=None)
@given(amount=st.floats(0.001, 1000), count=st.integers(1, 64), hours=st.floats(1, 730), least=st.integers(1, 64))
def test_a_bill_scales_with_its_price_and_its_range_holds_it(
    amount: float, count: int, hours: float, least: int
) -> None:
    """Twice the price is twice the bill; low, amount and high are in order."""
    price = PriceTag(amount=amount, unit="hour", currency="USD", region="r", date="2026", source="s")

    cost = machine_cost(price, count, hours, least)
    twice = machine_cost(replace(price, amount=2 * amount), count, hours, least)

    assert abs(twice.amount - 2 * cost.amount) <= 1e-9 * twice.amount
    assert (cost.amount if cost.low is None else cost.low) <= cost.amount <= (cost.high or cost.amount)


@settings(max_examples=60, deadline=None)
@given(busy=st.floats(0, 1), watts=st.floats(1, 2000), idle=st.floats(0, 1))
def test_energy_lies_between_idle_and_full_power(busy: float, watts: float, idle: float) -> None:
    """Whatever the share of time in which the machine works."""
    stated = HereCost(date="2026", currency="EUR", watts=watts, idle_watts=idle * watts, price_per_kwh=0.3)

    amount = here_cost(stated, busy).amount

    slack = 1e-9 * here_cost(stated, 1.0).amount
    assert here_cost(stated, 0.0).amount - slack <= amount <= here_cost(stated, 1.0).amount + slack

"""Slots, machines and users of a load that is simulated: the best slots carry the capacity, and uneven batches are told as they are."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from helpers.records import evidence, run_record
from helpers.serving import chat, flat_curve, served_of, with_curve
from suffice.decide import service_load, words
from suffice.decide.compare import decide
from suffice.decide.service import outlook
from suffice.decide.service_rate import RateServer, fewest
from suffice.decide.service_users import users_hold
from suffice.decide.verdict import Grade, decide_machine
from suffice.model.demand import Limit
from suffice.report.decision import decision_document, decision_text
from suffice.report.json_values import json_text
from suffice.report.memo import memo_markdown
from suffice.serving.capacity import Proof, at_rate
from suffice.serving.curve import curve_of_points
from suffice.serving.load import OpenArrivals
from suffice.serving.surface import Point

if TYPE_CHECKING:
    from collections.abc import Iterator

    from suffice.decide.evidence import MachineEvidence

GAINING = flat_curve(step_s=0.02, more_s=0.01, token_s=0.0001)
# Steps of 1 to 8 sequences in ms, as a kernel of four rows at a time has them: four are faster than three.
UNEVEN_MS = (50, 94, 124, 97, 123, 150, 188, 184)
UNEVEN = curve_of_points(
    [Point(size=n, depth=d, seconds=ms / 1000) for n, ms in enumerate(UNEVEN_MS, 1) for d in (0, 4096)],
    [Point(size=size, depth=d, seconds=size * 0.0001) for size in (100, 500) for d in (0, 4096)],
)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Shorter runs than a verdict has; nothing is kept from one test to the next."""
    monkeypatch.setattr(service_load, "FULL", replace(service_load.FULL, requests=90))
    outlook.cache_clear()
    yield
    outlook.cache_clear()


@pytest.mark.parametrize("rate", [0.1, 4.0])
@pytest.mark.parametrize("end", ["slow", "likely", "fast"])
def test_no_slots_carry_more_than_the_capacity(rate: float, end: str) -> None:
    """Whatever is demanded: at each end no number of slots holds the limits at loads above the capacity, from what it is found to on.

    Three loads, and at the first of them also in other runs: these are short, and of many one holds by chance.
    """
    served = served_of(chat(requests_per_second=rate), with_curve(GAINING))
    assert served.capacity is not None
    curve, proof, capacity = {
        "slow": (served.ends.slow, Proof.HOLDS, served.capacity.low),
        "likely": (served.ends.likely, Proof.MEDIAN, served.capacity.point),
        "fast": (served.ends.fast, Proof.MAY_HOLD, served.capacity.high),
    }[end]
    assert curve is not None
    assert capacity is not None
    server = RateServer(curve, served.case, proof)

    more = [capacity * (1 + served.case.effort.tolerance) ** number for number in (1, 2, 3)]
    tried = range(1, served.case.most_slots + 1)
    assert [
        slots
        for slots in tried
        if all(server.holds(slots, rate) for rate in more) and server.holds_again(slots, more[0])
    ] == []


def test_the_slots_of_a_small_load_are_the_fewest_and_the_capacity_is_of_others() -> None:
    """One slot holds 0.1 requests/s with the margin; the capacity is that of a server with more, which the text names."""
    demand, machine = chat(requests_per_second=0.1), with_curve(GAINING)
    served = served_of(demand, machine)

    assert served.slots == 1
    assert served.capacity_slots > 1
    assert f"with --parallel {served.capacity_slots}, demanded" in decision_text(decide(demand, [machine]))


def test_the_capacity_hardly_depends_on_the_demanded_rate() -> None:
    """It is the machine's: between rates of 0.1 and 30 requests/s each end moves by no more than the search's own share, twice."""
    found = [served_of(chat(requests_per_second=rate), with_curve(GAINING)).capacity for rate in (0.1, 1, 3, 30)]
    share = (1 + service_load.FULL.tolerance) ** 2

    for ends in zip(*((one.low, one.point, one.high) for one in found if one is not None), strict=True):
        known = [value for value in ends if value is not None]
        assert len(known) == 4
        assert max(known) <= min(known) * share


def test_the_fewest_slots_are_found_by_doubling_and_halving() -> None:
    """From 1 on by powers of two, then in between; none where even the most are not good."""
    for truth in (1, 2, 3, 7, 20):
        assert fewest(20, lambda slots, truth=truth: slots >= truth) == truth  # type: ignore[misc]
    assert fewest(20, lambda _: False) is None


@pytest.mark.parametrize("users", range(2, 9))
@pytest.mark.parametrize("rate", [9.9, 8.5])
def test_a_verdict_on_users_is_what_the_simulation_says_of_just_these(users: int, rate: float) -> None:
    """With uneven batches too: enough and thin by the users of the margin and of the demand at the slow end, "gpu" by these at the fast one."""
    demand = chat(concurrent_users=users, tokens_per_second_per_user=rate)
    served = served_of(demand, with_curve(UNEVEN))
    slow, fast, wanted = served.ends.slow, served.ends.fast, -(-users * 3 // 2)
    assert slow is not None
    assert fast is not None
    slow_holds = [users_hold(slow, served.case, Proof.HOLDS, count) for count in (wanted, users)]

    grade = decide_machine(demand, with_curve(UNEVEN)).constraints[0].grade

    assert (grade is Grade.ENOUGH) == slow_holds[0]
    assert (grade is Grade.THIN) == (slow_holds[1] and not slow_holds[0])
    assert (grade is Grade.NOT_ENOUGH) == (not users_hold(fast, served.case, Proof.MAY_HOLD, users))


def test_uneven_batches_are_said_where_fewer_users_miss_what_more_keep() -> None:
    """101 ms: two users hold, three have steps of 124 ms, four of 97 ms; the text, the memo and JSON say so, and no flip is named."""
    two, four = (
        decide(chat(concurrent_users=users, margin=1.0), [with_curve(UNEVEN, uncertainty=None)]) for users in (2, 4)
    )
    capacities = [decision_document(one)["serving"]["capacity"]["point"] for one in (two, four)]

    assert capacities == [2, 4]
    assert decision_document(two)["serving"]["uneven_users"] == [3]
    said = "3 users do not hold the limits although more of them do"
    demand = chat(concurrent_users=2, margin=1.0)
    for text in (
        decision_text(two),
        memo_markdown(demand, two, run_record()),
        two.verdict.constraints[0].constraint.note,
    ):
        assert said in text
    assert two.verdict.flips == ()
    even = decide(chat(concurrent_users=4), [with_curve(GAINING)])
    assert decision_document(even)["serving"]["uneven_users"] == []
    assert "although more" not in decision_text(even)


def test_machines_share_users_so_that_each_share_holds() -> None:
    """Ten users by four, three and three would leave three on a machine, which does not hold; by twos it takes five."""
    served = served_of(chat(concurrent_users=10, margin=1.0, tokens_per_second_per_user=8.5), with_curve(UNEVEN))
    slow = served.ends.slow
    assert slow is not None
    assert served.machines is not None
    held = {users: users_hold(slow, served.case, Proof.HOLDS, users) for users in range(1, 6)}

    assert held == {1: True, 2: True, 3: False, 4: True, 5: False}
    assert (served.machines, served.machine_slots) == (5, 2)


def test_the_cap_of_the_search_is_no_capacity() -> None:
    """Steps of 1 ms: more than 32 users hold, more were not tried, and text, memo and JSON say "at least"."""
    demand, machine = chat(concurrent_users=2), with_curve(flat_curve(step_s=0.001, token_s=0.00001))
    decision = decide(demand, [machine])
    document = json.loads(json_text(decision_document(decision)))

    for text in (decision_text(decision), memo_markdown(demand, decision, run_record())):
        assert "at least 32 users (more was not tried, extrapolated)" in text
        assert "at least 32 users (more was not tried), demanded 2 users" in text
        assert "without the margin up to at least 32 users" in text
    assert "headroom at least 16.00" in decision.verdict.reason
    capacity = document["serving"]["capacity"]
    assert (capacity["point"], capacity["high"], capacity["is_least"]) == (32, None, True)
    assert document["constraints"][0]["available_is_least"] is True
    assert document["constraints"][0]["available_high"] is None


def test_memory_is_a_true_end_of_the_users() -> None:
    """Room for nine caches: nine users, and not "at least" so many."""
    memory = 1_000_000_000 + 9.5 * 121 * 100_000
    machine = with_curve(flat_curve(step_s=0.001, token_s=0.00001))
    capacity = served_of(chat(concurrent_users=2, memory_bytes=memory), machine).capacity

    assert capacity is not None
    assert (capacity.point, capacity.high, capacity.more_untried) == (9, 9, False)


def test_more_slots_that_were_not_tried_are_said() -> None:
    """Where all slots that the curve reaches carry most, others may carry more; where fewer carry most, nothing is said."""
    flat, slow = flat_curve(step_s=0.05, token_s=0.00001), {"requests_per_second": 1, "tokens_per_second_per_user": 0.5}

    assert "more than 20 slots were not tried" in decision_text(decide(chat(**slow), [with_curve(flat)]))
    assert "slots were not tried" not in decision_text(decide(chat(requests_per_second=1), [with_curve(GAINING)]))


@pytest.mark.parametrize("machine", [with_curve(flat_curve()), evidence(decode=20, prefill=1000)])
def test_a_rate_of_nearly_nothing_is_a_stream_alone(machine: MachineEvidence) -> None:
    """1e-15 requests/s are one in thirty million years: times are those of an idle machine, not 0 s and not inf tokens/s."""
    served, rare = (served_of(chat(requests_per_second=rate), machine) for rate in (1e-15, 1e-6))

    for one, other in ((served.ttft, rare.ttft), (served.tpot, rare.tpot)):
        assert one is not None
        assert other is not None
        assert one.point > 0
        assert one.point == pytest.approx(other.point, rel=0.001)


def test_an_idle_machine_that_is_too_slow_is_so_for_the_rarest_request() -> None:
    """Steps of 200 ms against 101 ms: no rate is so small that it would hold."""
    assert decide_machine(chat(requests_per_second=1e-15), with_curve(flat_curve(step_s=0.2))).verdict == words.GPU


def test_rates_are_simulated_within_what_clocks_can_tell() -> None:
    """Neither end overflows or loses its milliseconds; ordinary rates are simulated as they are."""
    load = service_load.served_case(chat(requests_per_second=1), with_curve(GAINING))
    assert load is not None
    rates = [at_rate(load.load(), rate).arrivals for rate in (1e-320, 0.5, 1e300)]

    assert [one.rate_per_s for one in rates if isinstance(one, OpenArrivals)] == [1e-9, 0.5, 1e9]


def test_enough_for_two_users_is_enough_for_one() -> None:
    """A margin of load on two users asks for three, who share the machine: one alone has more than the margin of time.

    By the steps of 20 + 10 (n - 1) ms the limit of 40 ms is just three users' at the slow end with nothing to spare, 2 times what one takes.
    """
    machine = with_curve(flat_curve(step_s=0.02, more_s=0.01, token_s=0.0001), decode=50, prefill=10_000)
    rates = [1 / (limit_ms / 1000) for limit_ms in (30, 40, 47, 60, 101)]

    for rate in rates:
        grades = [
            decide_machine(chat(concurrent_users=users, tokens_per_second_per_user=rate), machine).grade
            for users in (2, 1)
        ]
        assert grades[0] is not Grade.ENOUGH or grades[1] is Grade.ENOUGH
    assert Grade.ENOUGH in {
        decide_machine(chat(concurrent_users=2, tokens_per_second_per_user=rate), machine).grade for rate in rates
    }


def test_the_memo_explains_its_short_words_where_they_occur() -> None:
    """TTFT, TPOT, P95 and slots of a load; a demand of one rate alone has none of them, and no such lines."""
    demand = chat(concurrent_users=4)
    memo = memo_markdown(demand, decide(demand, [with_curve(GAINING)]), run_record())
    for word in (
        "**TTFT**, time to first token",
        "**TPOT**, time per output token",
        "**P95**: 95 of 100",
        "**Slots**:",
    ):
        assert word in memo

    plain = replace(chat(), ttft=None)
    bare = memo_markdown(plain, decide(plain, [evidence(decode=20)]), run_record())
    assert "**TPOT**" not in bare
    assert "**Slots**" not in bare


@pytest.mark.parametrize("percent", [95.0, 99.0])
@pytest.mark.parametrize("users", [1, 2, 3, 5, 40])
def test_a_run_of_few_users_has_requests_enough_for_its_percentile(users: int, percent: float) -> None:
    """72 requests count for P95 and 368 for P99, after the warm-up and before the tail, however few users there are."""
    case = service_load.served_case(
        chat(concurrent_users=2, ttft=Limit(value_s=5, percentile=percent)), with_curve(GAINING)
    )
    assert case is not None
    load, trial = case.crowd(users)
    counted = math.ceil(load.requests * (1 - trial.window.tail)) - math.floor(load.requests * trial.window.lead)

    assert counted >= {95.0: 72, 99.0: 368}[percent]
    assert load.requests * trial.window.lead >= users  # the first of each does not count


@pytest.mark.parametrize("users", [2, 3, 5])
def test_the_short_look_at_many_machines_sees_few_users_as_well(users: int) -> None:
    """Runs of the screening are short, and still long enough for P95 with two or three users: a fast machine is enough."""
    fast = evidence(decode=2000, prefill=100_000)
    found = outlook(chat(concurrent_users=users, margin=1.0), fast, service_load.SCREEN)

    assert found is not None
    assert found.is_enough

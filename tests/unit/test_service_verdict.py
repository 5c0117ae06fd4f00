"""Users, rates and queues: judged by simulated percentiles, with slots, capacity and machines."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from helpers.records import batch_demand, evidence, run_record
from helpers.serving import chat, flat_curve, served_of, with_curve
from suffice.decide import service_load, words
from suffice.decide.compare import decide
from suffice.decide.evidence import evidence_from
from suffice.decide.service import drain_s, outlook
from suffice.decide.service_curves import BATCH_OVERHEAD, SIMULATION_ERROR, curve_ends
from suffice.decide.service_load import limits_of, served_case, slots_that_fit
from suffice.decide.service_table import load_table
from suffice.decide.verdict import decide_machine
from suffice.decide.wording import machines_sentence
from suffice.errors import DemandError
from suffice.model.basis import Basis
from suffice.model.demand import Demand, DemandKind, Lengths, Limit
from suffice.model.prefill_curve import PrefillCurve
from suffice.records.schema import ServicePass, ServiceRecord
from suffice.report.decision import decision_document, decision_text
from suffice.report.json_values import json_text
from suffice.report.memo import memo_markdown
from suffice.serving.capacity import Proof, at_rate, holds, largest_between, largest_whole, saturated_rate
from suffice.serving.curve import curve_of_points

if TYPE_CHECKING:
    from collections.abc import Iterator

    from suffice.decide.evidence import MachineEvidence

# A step of B sequences takes 20 + 10 (B - 1) ms: under the limit of 101 ms up to 9 sequences, and up to 7 and 10 at the ends.
GAINING = flat_curve(step_s=0.02, more_s=0.01, token_s=0.0001)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Shorter runs than a verdict has; nothing is kept from one test to the next."""
    monkeypatch.setattr(service_load, "FULL", replace(service_load.FULL, requests=90))
    outlook.cache_clear()
    yield
    outlook.cache_clear()


def test_users_are_counted_by_the_step_that_they_share() -> None:
    """Users of equal lengths go in step: all read, then all write, a step of 20 + 10 (n - 1) ms each.

    101 ms are enough for nine of them; for seven where all takes 1.15 times as long (92 ms), for ten where it takes 1 / 1.15 (96 ms).
    """
    capacity = served_of(chat(concurrent_users=4), with_curve(GAINING)).capacity

    assert capacity is not None
    assert (capacity.low, capacity.point, capacity.high) == (7, 9, 10)
    assert capacity.basis is Basis.EXTRAPOLATED  # simulated from what was measured, and not measured itself


@pytest.mark.parametrize(
    ("users", "word"), [(4, words.CPU), (6, words.CPU_THIN), (9, words.UNDECIDED), (12, words.GPU)]
)
def test_the_four_words_of_users(users: int, word: str) -> None:
    """7 users at the slow end, 10 at the fast one: 4 have the margin of 1.5, 6 have not, 9 lies between the ends, 12 is beyond both."""
    verdict = decide_machine(chat(concurrent_users=users), with_curve(GAINING))

    assert verdict.verdict == word
    assert verdict.service is not None


def test_the_four_words_of_a_rate() -> None:
    """A rate of a tenth, three quarters, once and three times the capacity of the curve, between its ends of about 15 %."""
    machine = with_curve(GAINING)
    capacity = served_of(chat(requests_per_second=3.0), machine).capacity
    assert capacity is not None
    assert capacity.low is not None
    assert capacity.high is not None

    rates = (capacity.low / 10, capacity.low * 0.9, (capacity.low + capacity.high) / 2, capacity.high * 3)
    found = [decide_machine(chat(requests_per_second=rate), machine).verdict for rate in rates]

    assert found == [words.CPU, words.CPU_THIN, words.UNDECIDED, words.GPU]


def test_the_limits_hold_at_the_capacity_and_not_beyond() -> None:
    """With some slots the slow end holds the limits at its capacity; at 1.1 times of it with none that may be tried."""
    demand, machine = chat(requests_per_second=3.0), with_curve(GAINING)
    served = served_of(demand, machine)
    case, curve = served.case, served.ends.slow
    assert curve is not None
    assert served.capacity is not None
    assert served.capacity.low is not None

    def held(slots: int, rate_per_s: float) -> bool:
        server, load = case.scheduler(slots), at_rate(case.load(), rate_per_s)
        saturated = saturated_rate(curve, server, case.load())
        return rate_per_s <= saturated and holds(curve, server, load, case.limits, case.trial, Proof.HOLDS)

    tried = range(1, case.most_slots + 1)
    assert any(held(slots, served.capacity.low) for slots in tried)
    assert not any(held(slots, served.capacity.low * 1.1) for slots in tried)


def test_a_rate_without_limits_is_what_a_full_server_answers() -> None:
    """Two slots and no gain: 100 x 1 ms and 20 steps of 100 ms for two answers: 2.2 s for two, 0.909 requests/s."""
    curve = flat_curve(step_s=0.05, more_s=0.05)
    demand = replace(chat(requests_per_second=0.2, margin=2.0), tokens_per_second_per_user=None, ttft=None)

    found = outlook(demand, with_curve(curve))

    assert found is not None
    assert found.served is None
    assert found.drained is not None
    assert found.drained.requests_per_second is not None
    assert found.drained.requests_per_second.point == pytest.approx(1 / 1.1, rel=0.02)
    assert found.drained.slots == 1  # more gain nothing
    assert decide_machine(demand, with_curve(curve)).verdict == words.CPU


def test_a_job_takes_the_time_of_its_queue() -> None:
    """100 requests of 1.1 s, one at a time on a curve that gains nothing: 110 s; 5,000 in proportion to the first 2,000."""
    demand = Demand(
        kind=DemandKind.SCHEDULED,
        prompt_tokens=Lengths(p50=100, p95=100),
        output_tokens=Lengths(p50=21, p95=21),
        requests_per_second=100 / 86400,
        window_s=3600,
    )
    found = outlook(demand, with_curve(flat_curve(step_s=0.05, more_s=0.05)))
    assert found is not None
    assert found.drained is not None

    few, many = (drain_s(found.drained, requests) for requests in (100, 5000))

    assert few is not None
    assert many is not None
    assert few.point == pytest.approx(110, rel=0.001)
    assert few.high == pytest.approx(110 * (1 + SIMULATION_ERROR), rel=0.001)
    assert many.point == pytest.approx(5500, rel=0.001)


def test_memory_limits_the_slots() -> None:
    """Weights of 1 GB and 12.1 MB a slot in 1.03 GB: two slots are tried, and three users do not fit however fast they are."""
    memory = 1_000_000_000 + 2.5 * 121 * 100_000
    machine = with_curve(GAINING)
    rate = chat(requests_per_second=5.0, memory_bytes=memory)

    assert slots_that_fit(rate, machine, 121) == 2
    assert served_of(rate, machine).slots <= 2
    users = decide_machine(chat(concurrent_users=3, memory_bytes=memory), machine)
    assert users.verdict == words.GPU
    assert {item.constraint.name for item in users.constraints if item.grade.value == "not enough"} >= {"memory_bytes"}


def test_machines_hold_what_one_does_not() -> None:
    """20 users with margin 1.5 are 30; seven on a machine: five machines with six each. One machine is no answer where one holds it."""
    many = served_of(chat(concurrent_users=20), with_curve(GAINING))
    few = served_of(chat(concurrent_users=2), with_curve(GAINING))

    assert many.machines == 5
    assert machines_sentence(many) == "6 slots on each of 5 such machines hold it with the margin of 1.5"
    assert (few.machines, machines_sentence(few)) == (None, "")


def test_machines_of_a_rate_are_checked_by_simulation() -> None:
    """Each gets its share of 30 requests/s with the margin and holds the limits there; they are as many as the capacity says, or one or two more or fewer."""
    machine = with_curve(GAINING)
    served = served_of(chat(requests_per_second=30.0), machine)
    assert served.machines is not None
    assert served.capacity is not None
    assert served.capacity.low is not None
    assert abs(served.machines - 30 * 1.5 / served.capacity.low) <= 2
    case, curve = served.case, served.ends.slow
    assert curve is not None

    def held(slots: int, machines: int) -> bool:
        load = at_rate(case.load(), 30 * 1.5 / machines)
        return holds(curve, case.scheduler(slots), load, case.limits, case.trial)

    assert held(served.machine_slots, served.machines)


def test_no_number_of_machines_helps_an_idle_one_that_is_too_slow() -> None:
    """Steps of 200 ms never give ten tokens a second: capacity 0, no machines, "gpu"."""
    machine = with_curve(flat_curve(step_s=0.2))
    verdict = decide_machine(chat(requests_per_second=0.1), machine)
    served = served_of(chat(requests_per_second=0.1), machine)

    assert verdict.verdict == words.GPU
    assert served.machines is None
    assert served.capacity is not None
    assert served.capacity.high == 0


def test_a_single_stream_leaves_users_open_and_says_what_settles_it() -> None:
    """20 tokens/s alone: four users get from a quarter to all of it; the next step is the service curve, for as many slots as the margin needs."""
    verdict = decide_machine(chat(concurrent_users=4), evidence(decode=20, prefill=1000))

    assert verdict.verdict == words.UNDECIDED
    assert verdict.settle is not None
    assert "--slots 6" in verdict.settle
    measured = decide_machine(chat(concurrent_users=4), with_curve(flat_curve(step_s=0.05), decode=20, prefill=1000))
    assert measured.verdict == words.CPU


def test_without_intervals_a_curve_decides_nothing() -> None:
    """Passes of one repetition: a capacity without ends, and more repetitions as the next step."""
    verdict = decide_machine(chat(concurrent_users=4), with_curve(GAINING, uncertainty=None))
    capacity = verdict.constraints[0].constraint.available

    assert capacity is not None
    assert (capacity.point, capacity.low, capacity.high) == (9, None, None)
    assert verdict.verdict == words.UNDECIDED
    assert verdict.settle is not None
    assert "repetitions" in verdict.settle


def test_one_user_is_judged_as_a_single_stream() -> None:
    """A demand of one user has the verdict, and the constraints, of a demand that names none."""
    machine = with_curve(GAINING)

    assert decide_machine(chat(concurrent_users=1), machine) == decide_machine(chat(), machine)
    assert outlook(chat(concurrent_users=1), machine) is None


def test_one_slot_without_neighbours_is_a_single_stream() -> None:
    """Requests that never meet get 100 x 1 ms to their first token and 50 ms a step, as a stream alone does."""
    served = served_of(chat(requests_per_second=0.001), with_curve(flat_curve()))

    assert served.ttft is not None
    assert served.tpot is not None
    assert served.ttft.point == pytest.approx(0.1, rel=1e-6)
    assert served.tpot.point == pytest.approx(0.05, rel=1e-6)
    assert served.tpot.high == pytest.approx(0.05 * (1 + SIMULATION_ERROR), rel=1e-6)


def test_the_verdict_is_repeatable() -> None:
    """Seeds are fixed: a second look, with nothing kept from the first, gives the same answer to the last bit."""
    demand, machine = chat(requests_per_second=2.0), with_curve(GAINING)
    first = decide_machine(demand, machine)
    outlook.cache_clear()

    assert decide_machine(demand, machine) == first


def test_a_limit_at_p99_has_enough_requests() -> None:
    """At least 368 requests of a run count for P99, 72 for P95."""
    strict = chat(requests_per_second=1.0, ttft=Limit(value_s=2, percentile=99))
    case = served_case(strict, with_curve(GAINING))

    assert case is not None
    window = case.trial.window
    assert case.requests * (1 - window.lead - window.tail) >= 368


def test_a_batch_beyond_the_measured_is_bounded_not_guessed() -> None:
    """Measured up to 16 and asked for 64: four times the step at the slow end, the same step at the fast one, and it is said."""
    case = served_case(chat(concurrent_users=64, margin=1.0), with_curve(flat_curve()))
    assert case is not None
    ends = curve_ends(with_curve(flat_curve()), case.extent(64))

    assert ends.slow is not None
    assert ends.fast is not None
    assert ends.slow.decode_s(64, 0) == pytest.approx(4 * 0.05 * (1 + SIMULATION_ERROR))
    assert ends.fast.decode_s(64, 0) == pytest.approx(0.05 / (1 + SIMULATION_ERROR))
    assert "16 were measured" in ends.beyond[0]


def test_a_depth_beyond_the_measured_has_no_slow_end_from_empty_caches() -> None:
    """A curve at depth 0 alone does not say what 4,000 tokens cost."""
    whole = flat_curve()
    shallow = [
        [point for point in points if point.depth == 0] for points in (whole.decode_points, whole.prefill_points)
    ]
    empty = with_curve(curve_of_points(*shallow))
    limit = Limit(value_s=20, percentile=95)
    long = chat(concurrent_users=2, prompt_tokens=Lengths(p50=4000, p95=4000), ttft=limit, tokens_per_second_per_user=1)
    case = served_case(long, empty)
    assert case is not None

    ends = curve_ends(empty, case.extent(2))

    assert ends.slow is None
    assert ends.fast is not None
    assert decide_machine(long, empty).verdict == words.UNDECIDED


def test_the_prompt_that_was_read_tells_what_depth_costs() -> None:
    """Chunks behind empty caches alone: those of the record's own prompt, 256 at depth 256 in 0.4 s, give the rest."""
    whole = flat_curve()
    shallow = [point for point in whole.prefill_points if point.depth == 0]
    machine = with_curve(curve_of_points(whole.decode_points, shallow))
    deep = replace(machine, prefill_curve=PrefillCurve(chunk_tokens=(256, 256), chunk_s=(0.256, 0.4)))
    case = served_case(chat(concurrent_users=2, prompt_tokens=Lengths(p50=1500, p95=1500)), deep)
    assert case is not None

    found = [curve_ends(one, case.extent(2)).slow for one in (machine, deep)]

    assert found[0] is None
    assert found[1] is not None
    assert found[1].prefill_s(256, 256) == pytest.approx(0.4 * (1 + SIMULATION_ERROR))


def test_the_slow_end_of_a_single_stream_gains_nothing_and_the_fast_end_ends_at_prefill() -> None:
    """20 tokens/s and 100 of prompts: a step of 8 takes 8 steps and a quarter more at most, and 8 prompt tokens at least."""
    machine = evidence(decode=20, prefill=100, depth=512)
    case = served_case(chat(concurrent_users=8), machine)
    assert case is not None
    ends = curve_ends(machine, case.extent(12))

    assert ends.slow is not None
    assert ends.fast is not None
    assert ends.slow.decode_s(8, 100) == pytest.approx(BATCH_OVERHEAD * 8 / (20 * 0.98) * (1 + SIMULATION_ERROR))
    assert ends.slow.decode_s(1, 100) == pytest.approx(1 / (20 * 0.98) * (1 + SIMULATION_ERROR))
    assert ends.fast.decode_s(8, 100) == pytest.approx(8 / (100 * 1.02) / (1 + SIMULATION_ERROR))
    assert ends.fast.decode_s(2, 100) == pytest.approx(1 / (20 * 1.02) / (1 + SIMULATION_ERROR))


def test_a_record_with_a_service_curve_is_evidence_of_it() -> None:
    """The points' medians become the curve, and the scatter of their repetitions its uncertainty."""
    passes = tuple(
        ServicePass(size=size, depth=0, seconds=tuple(0.05 * size * noise for noise in (0.98, 0.99, 1, 1, 1.01, 1.02)))
        for size in (1, 2)
    )
    record = run_record()
    service = ServiceRecord(slots=2, decode=passes, prefill=passes)
    machine = evidence_from(replace(record, measurement=replace(record.measurement, service=service)))

    assert machine.service is not None
    assert machine.service.decode_s(2, 0) == pytest.approx(0.1)
    assert machine.service_uncertainty == pytest.approx(0.02)


def test_the_table_goes_from_little_to_more_than_the_capacity() -> None:
    """Loads ascend, the demanded one is marked, latency never falls with load, and the last load is beyond the capacity."""
    served = served_of(chat(requests_per_second=2.0), with_curve(GAINING))
    rows = load_table(served)

    loads = [row.load for row in rows]
    assert loads == sorted(loads)
    assert [row.load for row in rows if row.is_demanded] == [2.0]
    assert served.capacity is not None
    assert loads[0] < served.capacity.point / 5
    assert loads[-1] > served.capacity.point
    assert rows[0].tpot_s <= rows[-1].tpot_s
    assert rows[0].output_tokens_per_second < rows[-1].output_tokens_per_second


@pytest.mark.parametrize("machine", [with_curve(GAINING), evidence(decode=200, prefill=1000)])
@pytest.mark.parametrize("load", [{"requests_per_second": 1.0}, {"requests_per_second": 4.0}, {"concurrent_users": 3}])
def test_the_table_keeps_the_limits_at_the_capacity(load: dict[str, float], machine: MachineEvidence) -> None:
    """The rows are of the search's own runs: those up to the capacity are within every limit, and one beyond it by a fifth is not."""
    served = served_of(chat(**load, ttft=Limit(value_s=0.7, percentile=95)), machine)
    assert served.capacity is not None
    seconds = {limit.metric: limit.seconds for limit in served.case.limits}

    rows = load_table(served)

    (at_capacity,) = [row for row in rows if row.load == served.capacity.point]
    assert at_capacity.missed == ()
    assert at_capacity.ttft_s <= seconds["ttft_s"]
    assert at_capacity.tpot_s <= seconds["tpot_s"]
    assert max(rows, key=lambda row: row.load).missed != ()


def test_the_table_of_a_load_that_only_the_fast_end_holds_has_the_slots_of_the_capacity() -> None:
    """Between the ends other slots are simulated at the demanded load than those that carry the capacity; the row at it holds all the same."""
    machine, limit = with_curve(GAINING), Limit(value_s=0.7, percentile=95)
    capacity = served_of(chat(requests_per_second=1.0, ttft=limit), machine).capacity
    assert capacity is not None

    for factor in (1.1, 1.5, 2, 4):
        served = served_of(chat(requests_per_second=capacity.point * factor, ttft=limit), machine)
        found = [row.missed for row in load_table(served) if served.capacity and row.load == served.capacity.point]
        assert found == [()]


def test_text_and_json_say_which_limits_a_load_misses() -> None:
    """A column for readers, two names in JSON."""
    decision = decide(chat(concurrent_users=20), [with_curve(GAINING)])
    rows = decision_document(decision)["serving"]["curve"]

    assert "TPOT missed" in decision_text(decision)
    assert [row["limits_hold"] for row in rows] == [row["load"] <= 9 for row in rows]
    assert {name for row in rows for name in row["missed"]} == {"tpot_s"}


@pytest.mark.parametrize("users", [4, 9])
def test_a_flip_of_users_is_true(users: int) -> None:
    """Seven hold at the slow end: 4 have the margin, 5 have not, and 11 fail at the fast one as well."""
    (flip,) = [
        text
        for text in decide_machine(chat(concurrent_users=users), with_curve(GAINING)).flips
        if "machines" not in text
    ]

    assert flip == (
        "users at once: enough up to 4 users (with margin 1.5), holds without the margin up to 7 users, fails above 10 users"
    )
    said = {4: words.CPU, 5: words.CPU_THIN, 7: words.CPU_THIN, 8: words.UNDECIDED, 11: words.GPU}
    for count, word in said.items():
        assert decide_machine(chat(concurrent_users=count), with_curve(GAINING)).verdict == word


def test_a_flip_of_a_rate_is_true() -> None:
    """A demand of the rate that would be enough is enough; of a rate that fails nothing is said, other slots may carry it."""
    machine, limit = with_curve(GAINING), Limit(value_s=0.7, percentile=95)
    for rate in (1.0, 3.0):
        verdict = decide_machine(chat(requests_per_second=rate, ttft=limit), machine)
        flip = next(text for text in verdict.flips if text.startswith("load"))
        enough = float(flip.split("enough up to ")[1].split()[0])
        holds_to = float(flip.split("without the margin up to ")[1].split()[0])

        assert decide_machine(chat(requests_per_second=enough, ttft=limit), machine).verdict == words.CPU
        held = decide_machine(chat(requests_per_second=holds_to, ttft=limit), machine).verdict
        assert held in (words.CPU, words.CPU_THIN)
        assert "fails" not in flip


@pytest.mark.parametrize(
    ("requests", "text"),
    [
        (10_000, "enough down to a window of"),
        (70_000, "a window of a whole day is not shown to be enough (with margin 1.5), not enough below"),
        (200_000, "not even a window of a whole day is enough"),
    ],
)
def test_no_flip_asks_for_a_window_longer_than_a_day(requests: float, text: str) -> None:
    """At 1.1 s a request, 10,000 take 3 h, 70,000 take 21 h of 24 and 200,000 take 61 h."""
    job = Demand(
        kind=DemandKind.SCHEDULED,
        prompt_tokens=Lengths(p50=100, p95=100),
        output_tokens=Lengths(p50=21, p95=21),
        requests_per_second=requests / 86_400,
        window_s=6 * 3600.0,
    )

    (flip,) = decide_machine(job, with_curve(flat_curve(step_s=0.05, more_s=0.05))).flips

    assert text in flip


def test_the_next_step_of_an_open_load_is_a_whole_command() -> None:
    """Users and rates are searched for on a server; a job is no load with limits, and a server works off some of it."""
    curve = flat_curve(step_s=0.05, more_s=0.05)
    job = Demand(
        kind=DemandKind.SCHEDULED,
        prompt_tokens=Lengths(p50=100, p95=100),
        output_tokens=Lengths(p50=21, p95=21),
        requests_per_second=1600 / 86_400,
        window_s=1800.0,
    )

    users = decide_machine(chat(concurrent_users=9), with_curve(GAINING)).settle or ""
    capacity = served_of(chat(requests_per_second=3.0), with_curve(GAINING)).capacity
    assert capacity is not None
    open_rate = chat(requests_per_second=capacity.point)  # between the ends
    rate = decide_machine(open_rate, with_curve(GAINING)).settle or ""
    queue = decide_machine(job, with_curve(curve)).settle or ""

    spawn = "suffice load --spawn MODEL.gguf --slots"
    assert f"{spawn} 14 --find-capacity users --demand demand.toml --out cap.json" in users
    slots = served_of(open_rate, with_curve(GAINING)).slots
    assert f"{spawn} {slots} --find-capacity --demand demand.toml --out cap.json" in rate
    assert f"{spawn} 1 --concurrency 2 --requests 20 --prompt-tokens 100 --output-tokens 21 --out load.json" in queue
    assert "--find-capacity" not in queue


def test_where_the_curve_is_too_short_the_next_step_is_a_longer_one() -> None:
    """9,000 tokens of prompt behind a curve of 4,096: first the curve, and no load test before it."""
    long = chat(
        concurrent_users=6,
        prompt_tokens=Lengths(p50=9000, p95=9000),
        ttft=Limit(value_s=20, percentile=95),
        tokens_per_second_per_user=1,
    )

    verdict = decide_machine(long, with_curve(GAINING))

    assert verdict.verdict != words.CPU
    assert verdict.settle is not None
    assert verdict.settle.startswith(
        "First measure the service curve up to 9021 tokens: `suffice check DEMAND --budget 8m`."
    )
    assert "--find-capacity" not in verdict.settle

    longer = decide_machine(long, replace(with_curve(GAINING), budget_s=480.0))
    assert longer.settle is not None
    assert "--budget 16m" in longer.settle  # eight minutes were too little already


def test_no_users_at_all_says_which_limit_one_user_misses() -> None:
    """Steps of 200 ms against 101 ms: nobody is served in time, however few they are."""
    machine = with_curve(flat_curve(step_s=0.2))
    users = decision_text(decide(chat(concurrent_users=2), [machine]))
    rate = decision_text(decide(chat(requests_per_second=0.1), [machine]))

    assert "even one user misses the limit: TPOT P95 200.0 ms against 101.0 ms" in users
    assert "even a request that is alone misses the limit: TPOT P95 200.0 ms against 101.0 ms" in rate
    assert "even one user" not in decision_text(decide(chat(concurrent_users=20), [with_curve(GAINING)]))


def test_what_each_user_gets_is_told_from_what_a_stream_gets() -> None:
    """The two rates have different names; JSON keeps its name for both."""
    machine = with_curve(GAINING)
    several, alone = (decide(demand, [machine]) for demand in (chat(concurrent_users=4), chat()))

    assert "decode for each user" in decision_text(several)
    assert "decode for each user" not in decision_text(alone)
    assert {item.constraint.name for item in several.verdict.constraints} >= {"decode_tokens_per_second"}


def test_text_memo_and_json_show_slots_capacity_and_the_curve() -> None:
    """The same figures in all three; JSON names them under ``serving``, and a demand of one stream has null there."""
    demand, machine = chat(concurrent_users=20), with_curve(GAINING)
    decision = decide(demand, [machine])
    text, memo = decision_text(decision), memo_markdown(demand, decision, run_record())
    document = json.loads(json_text(decision_document(decision)))["serving"]

    for shown in (text, memo):
        assert "5 such machines" in shown
        assert "TTFT P95" in shown
        assert "20 (demanded)" in shown
    assert (document["load"], document["slots"], document["machines"], document["slots_of_a_machine"]) == (
        "users",
        20,
        5,
        6,
    )
    assert document["capacity"]["point"] == 9
    assert {row["load"] for row in document["curve"]} >= {9, 20}
    assert json.loads(json_text(decision_document(decide(chat(), [machine]))))["serving"] is None


def test_a_queue_is_shown_with_its_slots() -> None:
    """A batch has slots and a rate of requests, in text and JSON."""
    decision = decide(batch_demand(), [with_curve(GAINING)])
    queue = decision_document(decision)["serving"]["queue"]

    assert "is fastest for a queue" in decision_text(decision)
    assert queue["slots"] >= 1
    assert queue["requests_per_second"]["low"] < queue["requests_per_second"]["high"]


def test_the_largest_good_number_is_found() -> None:
    """By doubling and halving for whole numbers, to a tolerance between two bounds for others."""
    for truth in (0, 1, 2, 5, 31, 32):
        for start in (1, 4, 32):
            assert largest_whole(start, 32, lambda value, truth=truth: value <= truth) == truth  # type: ignore[misc]
    assert largest_between(1.0, 100.0, lambda value: value <= 10, tolerance=0.01) == pytest.approx(10, rel=0.01)


def test_a_rate_of_answers_of_one_token_is_judged_as_work() -> None:
    """Nothing follows the first token, so that a rate for each user says nothing; a million requests a second are still too many."""
    one = chat(requests_per_second=1e6, output_tokens=Lengths(p50=1, p95=1), ttft=None)

    assert decide_machine(one, with_curve(GAINING)).verdict == words.GPU
    with pytest.raises(DemandError, match="ttft_s"):
        decide_machine(replace(one, requests_per_second=None, concurrent_users=50), with_curve(GAINING))


def test_short_answers_among_long_ones_keep_their_limit() -> None:
    """Half of the answers have one token, the others up to 300: fifty users share a step of half a second, far from 9 tokens/s."""
    mixed = chat(concurrent_users=50, output_tokens=Lengths(p50=1, p95=300))

    assert decide_machine(mixed, with_curve(GAINING)).verdict in (words.GPU, words.UNDECIDED)


def test_a_stated_tpot_and_a_rate_are_both_limits() -> None:
    """9.9 tokens/s at P95 and 0.2 s at P99: neither is dropped for the other."""
    limits = limits_of(replace(chat(), tpot=Limit(value_s=0.2, percentile=99)))

    assert [(limit.seconds, limit.percent) for limit in limits if limit.metric == "tpot_s"] == [
        (pytest.approx(1 / chat().tokens_per_second_per_user), 95),  # type: ignore[operator]
        (0.2, 99),
    ]


def test_a_rate_is_not_called_too_much_by_one_number_of_slots() -> None:
    """Between the ends of the capacity the word is "undecided", whatever TPOT is at the slots that are shown."""
    machine = with_curve(flat_curve(step_s=0.05))
    capacity = served_of(chat(requests_per_second=3.0), machine).capacity
    assert capacity is not None
    assert capacity.low is not None
    assert capacity.high is not None

    verdict = decide_machine(chat(requests_per_second=(capacity.low + capacity.high) / 2, margin=1.0), machine)

    assert verdict.verdict != words.GPU
    assert {item.grade for item in verdict.constraints if item.constraint.several} == {verdict.grade}

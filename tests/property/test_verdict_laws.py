"""Laws of the verdict: what must hold for every demand and every machine."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.records import bare_record, evidence, noisy
from suffice import choose_hardware
from suffice.decide import words
from suffice.decide.compare import decide
from suffice.decide.constraint import Sense
from suffice.decide.constraints import constraints_for
from suffice.decide.evidence import evidence_from
from suffice.decide.verdict import Grade, decide_machine
from suffice.errors import DemandError
from suffice.model.demand import Demand, DemandKind, Lengths, Limit, single_stream_need
from suffice.records.schema import DecodeSeries, EngineRecord, MeasurementRecord

if TYPE_CHECKING:
    from suffice.decide.evidence import MachineEvidence

QUICK = settings(max_examples=80, deadline=None, derandomize=True)
POSITIVE = st.floats(min_value=0, exclude_min=True, allow_nan=False, allow_infinity=False)
MARGINS = st.floats(min_value=1, max_value=100)
SPEEDS = st.floats(min_value=0.1, max_value=1000)
MORE = st.floats(min_value=1, max_value=50)
BETTER = {Grade.NOT_ENOUGH: 0, Grade.OPEN: 1, Grade.THIN: 2, Grade.ENOUGH: 3}


def _lengths(largest: float) -> st.SearchStrategy[Lengths]:
    return st.tuples(st.floats(1, largest), st.floats(1, 4)).map(lambda p: Lengths(p50=p[0], p95=p[0] * p[1]))


LIMITS = st.builds(Limit, value_s=st.floats(0.01, 100), percentile=st.sampled_from([50.0, 90.0, 95.0, 99.0]))
DEMANDS = st.builds(
    Demand,
    kind=st.sampled_from(DemandKind),
    prompt_tokens=st.none() | _lengths(2000),
    output_tokens=st.none() | _lengths(500),
    requests_per_second=st.none(),  # users, rates and queues are simulated: test_service_laws.py
    concurrent_users=st.none() | st.just(1),
    tokens_per_second_per_user=st.none() | st.floats(0.1, 1000),
    ttft=st.none() | LIMITS,
    tpot=st.none() | LIMITS,
    window_s=st.none() | st.floats(600, 86400),
    margin=st.floats(1, 3),
    memory_bytes=st.none() | st.floats(1e8, 1e11),
    quality_floor=st.none() | st.floats(0, 1),
)
MACHINES = st.builds(
    evidence,
    decode=st.floats(0.5, 500),
    prefill=st.floats(5, 5000),
    depth=st.integers(0, 2000),
    busy=st.booleans(),
    lower_bound=st.booleans(),
)


@QUICK
@given(POSITIVE, POSITIVE, MARGINS)
def test_plain_numbers_are_judged_as_the_article_judges_them(required: float, measured: float, margin: float) -> None:
    """On bare records `decide` and `choose_hardware` agree, for all positive numbers and to the last bit."""
    decision = decide(single_stream_need(required, margin), [evidence_from(bare_record(measured))])

    assert decision.verdict.verdict == choose_hardware(required, measured, margin)


@QUICK
@given(st.floats(1e-3, 1e6), MARGINS, st.integers(-2, 2), st.booleans())
def test_the_thresholds_themselves_are_judged_alike(required: float, margin: float, ulps: int, at_margin: bool) -> None:  # noqa: FBT001  # drawn
    """At the two thresholds and one or two units in the last place beside them there is no disagreement either."""
    measured = required * margin if at_margin else required
    for _ in range(abs(ulps)):
        measured = math.nextafter(measured, math.inf if ulps > 0 else 0.0)

    decision = decide(single_stream_need(required, margin), [evidence_from(bare_record(measured))])

    assert decision.verdict.verdict == choose_hardware(required, measured, margin)


@QUICK
@given(DEMANDS, st.floats(0.5, 500), st.floats(5, 5000), st.integers(0, 2000), MORE)
def test_more_speed_is_never_a_worse_verdict(
    demand: Demand, decode: float, prefill: float, depth: int, more: float
) -> None:
    """A machine that is faster in both phases by one factor stands at least as well."""
    slow = decide_machine(demand, evidence(decode=decode, prefill=prefill, depth=depth))
    fast = decide_machine(demand, evidence(decode=decode * more, prefill=prefill * more, depth=depth))

    assert BETTER[fast.grade] >= BETTER[slow.grade]


@QUICK
@given(DEMANDS, MACHINES, MORE)
def test_a_larger_margin_is_never_a_better_verdict(demand: Demand, machine: MachineEvidence, more: float) -> None:
    """More headroom asked for: at most as good."""
    strict = decide_machine(replace(demand, margin=demand.margin * more), machine)

    assert BETTER[strict.grade] <= BETTER[decide_machine(demand, machine).grade]


@QUICK
@given(st.floats(0.1, 1000), SPEEDS, MORE)
def test_a_larger_need_is_never_a_better_verdict(need: float, decode: float, more: float) -> None:
    """More tokens per second asked for: at most as good."""
    machine = evidence(decode=decode)
    low, high = (decide_machine(single_stream_need(n), machine).grade for n in (need, need * more))

    assert BETTER[high] <= BETTER[low]


@QUICK
@given(DEMANDS, MACHINES)
def test_a_busy_record_never_becomes_gpu_or_thin_by_speed(demand: Demand, machine: MachineEvidence) -> None:
    """Disturbed numbers are enough or undecided; only memory, which no neighbour changes, may say "gpu"."""
    verdict = decide_machine(demand, replace(machine, disturbed=True))

    assert verdict.verdict != words.CPU_THIN
    if verdict.verdict == words.GPU:
        assert verdict.binding == "memory_bytes"


@QUICK
@given(DEMANDS, MACHINES)
def test_a_lower_bound_never_becomes_gpu_by_speed(demand: Demand, machine: MachineEvidence) -> None:
    """A build that leaves instruction sets unused never sends money after a GPU, unless memory does."""
    verdict = decide_machine(demand, replace(machine, engine_lower_bound=True))

    assert verdict.verdict != words.GPU or verdict.binding == "memory_bytes"


@QUICK
@given(DEMANDS, MACHINES)
def test_every_headroom_is_its_own_ratio(demand: Demand, machine: MachineEvidence) -> None:
    """Headroom is available / required, or required / available for limits; the range encloses the point; unknown stays None."""
    for constraint in constraints_for(demand, machine):
        available, required = constraint.available, constraint.required
        if available is None or required is None:
            assert constraint.headroom is None
            continue
        ratio = available.point / required
        assert constraint.headroom == pytest.approx(ratio if constraint.sense is Sense.AT_LEAST else 1 / ratio)
        low, high = constraint.headroom_range
        assert constraint.headroom is not None
        assert low is None or low <= constraint.headroom * (1 + 1e-9)
        assert high is None or high >= constraint.headroom * (1 - 1e-9)


@QUICK
@given(DEMANDS, MACHINES)
def test_the_words_are_four_and_the_reason_is_one_line(demand: Demand, machine: MachineEvidence) -> None:
    """No other verdict is ever said; undecided names the next step; the binding constraint is one of those listed."""
    verdict = decide(demand, [machine]).verdict

    assert verdict.verdict in (words.CPU, words.CPU_THIN, words.GPU, words.UNDECIDED)
    assert verdict.reason
    assert "\n" not in verdict.reason
    assert verdict.verdict != words.UNDECIDED or verdict.settle
    assert verdict.binding is None or verdict.binding in {item.constraint.name for item in verdict.constraints}


@QUICK
@given(DEMANDS, MACHINES)
def test_a_contradiction_decides_nothing(demand: Demand, machine: MachineEvidence) -> None:
    """Whatever the numbers say: undecided."""
    assert decide_machine(demand, replace(machine, contradictions=("x",))).verdict == words.UNDECIDED


@QUICK
@given(DEMANDS)
def test_no_evidence_never_says_cpu(demand: Demand) -> None:
    """Unknown is never 0 and never enough: an empty record is undecided for every demand."""
    assert decide_machine(demand, evidence_from(bare_record(None))).verdict == words.UNDECIDED


@QUICK
@given(st.lists(st.tuples(SPEEDS, st.sampled_from(["cpu", "gpu"])), min_size=2, max_size=5), SPEEDS)
def test_gpu_is_said_of_several_only_with_a_gpu_that_is_enough(machines: list[tuple[float, str]], need: float) -> None:
    """With a GPU among the records, "gpu" needs one that reaches the requirement and no CPU that does."""
    records = [evidence_from(bare_record(speed, device_kind=kind), str(i)) for i, (speed, kind) in enumerate(machines)]

    verdict = decide(single_stream_need(need), records).verdict.verdict

    cpus = [speed for speed, kind in machines if kind == "cpu"]
    gpus = [speed for speed, kind in machines if kind == "gpu"]
    if max(cpus, default=0.0) >= need:
        assert verdict in (words.CPU, words.CPU_THIN)
    elif not cpus or (gpus and max(gpus) < need):
        assert verdict == words.UNDECIDED  # without a CPU nobody knows whether a GPU is needed
    else:
        assert verdict == words.GPU


@QUICK
@given(st.floats(1, 100), st.floats(1, 100), st.floats(0, 20_000), st.integers(0, 4000), st.integers(0, 4000))
def test_decode_at_any_depth_is_a_number_or_open(first: float, second: float, depth: float, d1: int, d2: int) -> None:
    """Between, beside and beyond two measured depths the rate is positive and never above the fastest that was seen."""
    series = tuple(
        DecodeSeries(depth=d, threads=1, tokens_per_second=noisy(rate)) for d, rate in ((d1, first), (d2, second))
    )
    machine = evidence_from(
        bare_record(None, measurement=MeasurementRecord(decode=series), engine=EngineRecord(name="x"))
    )

    rate = machine.decode_rate(depth)

    assert rate is not None
    assert 0 < rate.point <= max(first, second) * (1 + 1e-9)
    assert rate.low is None or rate.low <= rate.point
    assert rate.high is None or rate.high >= rate.point * (1 - 1e-9)


def test_a_context_beyond_the_model_is_never_a_verdict() -> None:
    """No machine is recommended for what no machine can do."""
    with pytest.raises(DemandError):
        decide_machine(replace(single_stream_need(1), context_tokens=10**6), evidence())

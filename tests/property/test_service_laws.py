"""Laws of the verdict on users, rates and queues: what must hold for every demand, curve and machine. Runs are short: 90 requests each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from helpers.records import bare_record, evidence
from helpers.serving import chat, with_curve
from suffice.decide import words
from suffice.decide.compare import decide
from suffice.decide.constraint import Sense
from suffice.decide.evidence import evidence_from
from suffice.decide.prospects import Prospect, Speeds, predicted_evidence, standings
from suffice.decide.quantity import Quantity
from suffice.decide.service import outlook
from suffice.decide.service_load import Effort
from suffice.decide.verdict import Grade, decide_machine
from suffice.model.basis import Basis
from suffice.model.demand import DemandKind, Lengths, Limit
from suffice.serving.curve import curve_of_points
from suffice.serving.surface import Point

if TYPE_CHECKING:
    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.verdict import Verdict
    from suffice.model.demand import Demand
    from suffice.serving.curve import ServiceCurve

FEW = settings(max_examples=5, deadline=None, derandomize=True, phases=[Phase.generate])  # to shrink one takes minutes
COARSE = Effort(requests=90, tolerance=0.05)
BETTER = {Grade.NOT_ENOUGH: 0, Grade.OPEN: 1, Grade.THIN: 2, Grade.ENOUGH: 3}
LENGTHS = st.tuples(st.integers(1, 600), st.floats(1, 3)).map(lambda p: Lengths(p50=p[0], p95=p[0] * p[1]))
SHORT = st.tuples(st.integers(2, 40), st.floats(1, 3)).map(lambda p: Lengths(p50=p[0], p95=p[0] * p[1]))
LIMITS = st.builds(Limit, value_s=st.floats(0.05, 30), percentile=st.sampled_from([50.0, 90.0, 95.0]))


def _demands(**fields: st.SearchStrategy[object]) -> st.SearchStrategy[Demand]:
    shared: dict[str, st.SearchStrategy[object]] = {
        "prompt_tokens": LENGTHS,
        "output_tokens": SHORT,
        "tokens_per_second_per_user": st.none() | st.floats(0.5, 100),
        "ttft": LIMITS,
        "margin": st.floats(1, 2),
    }
    return st.fixed_dictionaries(shared | fields).map(lambda changes: chat(**changes))


USERS = _demands(concurrent_users=st.integers(2, 6))
RATES = _demands(requests_per_second=st.floats(0.01, 5))
QUEUES = _demands(
    kind=st.sampled_from([DemandKind.BATCH, DemandKind.SCHEDULED]),
    requests_per_second=st.floats(1e-4, 1),
    window_s=st.floats(600, 86400),
    tokens_per_second_per_user=st.none(),
    ttft=st.none(),
)
SERVED = USERS | RATES | QUEUES
MACHINES = st.builds(evidence, decode=st.floats(2, 200), prefill=st.floats(50, 5000), depth=st.integers(0, 1000))


def _curve(step_s: float, more: float, token_s: float, depth_s: float) -> ServiceCurve:
    return curve_of_points(
        [
            Point(size=size, depth=depth, seconds=step_s * (1 + more * (size - 1)) + size * depth * depth_s)
            for size in (1, 4, 8)
            for depth in (0, 2000)
        ],
        [
            Point(size=size, depth=depth, seconds=step_s + size * (token_s + depth * depth_s))
            for size in (64, 512)
            for depth in (0, 2000)
        ],
    )


CURVES = st.builds(_curve, st.floats(0.005, 0.2), st.floats(0, 1), st.floats(1e-4, 0.01), st.floats(0, 1e-6))


def _judged(demand: Demand, machine: MachineEvidence) -> Verdict:
    return decide_machine(demand, machine, outlook(demand, machine, COARSE))


@FEW
@given(USERS | QUEUES, CURVES, st.floats(1.2, 10))
def test_a_slower_curve_is_never_a_better_verdict(demand: Demand, curve: ServiceCurve, factor: float) -> None:
    """Every pass takes as many times as long: at most as good."""
    slow, fast = (_judged(demand, with_curve(one, 0.02)) for one in (curve.slower(factor), curve))

    assert BETTER[slow.grade] <= BETTER[fast.grade]


@FEW
@given(RATES, CURVES, st.floats(2, 10))
def test_a_slower_curve_never_carries_more(demand: Demand, curve: ServiceCurve, factor: float) -> None:
    """The capacity of the slow end, that of its best slots, falls with the speed (searched to 5 % by slots and by rates)."""
    slow, fast = (_low_capacity(demand, with_curve(one, 0.02)) for one in (curve.slower(factor), curve))

    assert slow <= fast * 1.1


def _low_capacity(demand: Demand, machine: MachineEvidence) -> float:
    found = outlook(demand, machine, COARSE)
    assert found is not None
    assert found.served is not None
    capacity = found.served.capacity
    assert capacity is not None
    assert capacity.low is not None
    return capacity.low


@FEW
@given(RATES | USERS, CURVES, st.just(2))
def test_more_load_never_has_more_headroom(demand: Demand, curve: ServiceCurve, times: int) -> None:
    """Several times the rate or the users: the headroom of load, up to the margin, is no larger at the slow end, and the verdict no better."""
    more = replace(
        demand,
        requests_per_second=None if demand.requests_per_second is None else demand.requests_per_second * times,
        concurrent_users=None if demand.concurrent_users is None else demand.concurrent_users * times,
    )
    machine = with_curve(curve, 0.02)
    little, much = _judged(demand, machine), _judged(more, machine)

    assert BETTER[much.grade] <= BETTER[little.grade]
    lows = [verdict.constraints[0].constraint.headroom_range[0] for verdict in (little, much)]
    assert lows[0] is not None
    assert lows[1] is not None
    assert min(lows[1], demand.margin) <= lows[0] * 1.05


@FEW
@given(SERVED, MACHINES, st.floats(1.05, 3))
def test_a_larger_margin_is_never_a_better_verdict_under_load(
    demand: Demand, machine: MachineEvidence, more: float
) -> None:
    """More headroom asked for: at most as good."""
    strict = _judged(replace(demand, margin=demand.margin * more), machine)

    assert BETTER[strict.grade] <= BETTER[_judged(demand, machine).grade]


@FEW
@given(SERVED, MACHINES | st.builds(with_curve, CURVES, st.floats(0, 0.1)))
def test_ranges_enclose_their_points_and_undecided_says_what_settles_it(
    demand: Demand, machine: MachineEvidence
) -> None:
    """The range holds the point, headroom is its own ratio, and every undecided has a next step."""
    verdict = _judged(demand, machine)

    for item in verdict.constraints:
        available, required = item.constraint.available, item.constraint.required
        if available is None or required is None:
            continue
        assert available.low is None or available.low <= available.point
        assert available.high is None or available.high >= available.point
        ratio = available.point / required
        if ratio:
            expected = ratio if item.constraint.sense is Sense.AT_LEAST else 1 / ratio
            assert item.constraint.headroom == pytest.approx(expected)
    assert verdict.verdict != words.UNDECIDED or verdict.settle
    assert "\n" not in verdict.reason


@FEW
@given(SERVED, MACHINES)
def test_marks_of_the_evidence_count_under_load_as_well(demand: Demand, machine: MachineEvidence) -> None:
    """A busy machine is enough or undecided, a slow build is never "gpu" by speed, a contradiction decides nothing."""
    busy, slow, wrong = (
        _judged(demand, marked)
        for marked in (
            replace(machine, disturbed=True),
            replace(machine, engine_lower_bound=True),
            replace(machine, contradictions=("x",)),
        )
    )

    assert busy.verdict != words.CPU_THIN
    assert busy.verdict != words.GPU or busy.binding == "memory_bytes"
    assert slow.verdict != words.GPU or slow.binding == "memory_bytes"
    assert wrong.verdict == words.UNDECIDED


@FEW
@given(SERVED)
def test_nothing_known_is_never_enough_for_a_load(demand: Demand) -> None:
    """An empty record is undecided for users, rates and queues, and says what to measure."""
    verdict = decide(demand, [evidence_from(bare_record(None))]).verdict

    assert verdict.verdict == words.UNDECIDED
    assert verdict.settle


@FEW
@given(USERS | RATES, st.floats(2, 300), st.floats(50, 5000))
def test_what_screening_names_is_enough_alone(demand: Demand, decode: float, prefill: float) -> None:
    """A machine that is enough by the short look at thousands is enough by the slow end of its own."""
    speeds = Speeds(
        depth=round(demand.work_depth_tokens or 0),
        decode=Quantity(point=decode, low=decode * 0.8, high=decode * 1.2, basis=Basis.PREDICTED),
        prefill=Quantity(point=prefill, low=prefill * 0.8, high=prefill * 1.2, basis=Basis.PREDICTED),
    )
    record = predicted_evidence("m", _MODEL, speeds, is_gpu=False, memory_bytes=1e12)

    (standing,) = standings(demand, [Prospect(evidence=record)])

    if standing.is_enough:
        assert BETTER[standing.judged_alone().verdict.grade] >= BETTER[Grade.THIN]


_MODEL = bare_record(1.0).model

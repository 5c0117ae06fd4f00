"""Laws of the plan of a service curve, whatever the machine and the budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hypothesis import example, given, settings
from hypothesis import strategies as st

from suffice.measure.service_plan import (
    LEAST_REPETITIONS,
    PassKind,
    PassPoint,
    ServiceNeeds,
    ServicePlanner,
    SpeedEstimate,
    context_of,
    cost_s,
    passes_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection

NEEDS = st.builds(
    ServiceNeeds,
    slots=st.integers(2, 64),
    working_depth=st.integers(1, 4000),
    deepest=st.integers(0, 10_000),
    largest_chunk=st.sampled_from((1, 2, 64, 300, 512, 2048)),
)
SPEEDS = st.builds(
    SpeedEstimate,
    step_s=st.floats(1e-4, 2.0),
    token_s=st.floats(1e-5, 1.0),
    step_s_per_token=st.floats(0.0, 1e-4),
    can_cut=st.booleans(),
)


def _points(needs: ServiceNeeds, speed: SpeedEstimate, budget_s: float) -> tuple[PassPoint, ...]:
    planner = ServicePlanner(needs=needs, budget_s=budget_s)
    points = planner.plan(speed, budget_s, lambda _point: 0).points
    assert context_of(points) <= context_of(planner.whole.points())
    return points


@settings(max_examples=60, deadline=None)
@given(NEEDS, SPEEDS, st.floats(0.1, 1e4))
def test_a_plan_keeps_its_budget_or_is_the_least_one(
    needs: ServiceNeeds, speed: SpeedEstimate, budget_s: float
) -> None:
    """What is planned can be repeated often enough within the budget, unless it is the least curve that there is."""
    points = _points(needs, speed, budget_s)
    batches = {point.size for point in points if point.kind is PassKind.DECODE}

    least = batches <= {1, needs.slots} and all(point.depth == 0 for point in points if point.kind is PassKind.PREFILL)
    assert least or cost_s(dict.fromkeys(points, LEAST_REPETITIONS), speed) <= budget_s
    assert len(set(points)) == len(points)


@settings(max_examples=60, deadline=None)
@given(NEEDS, SPEEDS, st.floats(0.1, 1e4))
def test_every_plan_is_a_curve(needs: ServiceNeeds, speed: SpeedEstimate, budget_s: float) -> None:
    """One sequence and all slots, empty caches and the working depth, at least one chunk, and room for all of it."""
    points = _points(needs, speed, budget_s)
    decode = {(point.size, point.depth) for point in points if point.kind is PassKind.DECODE}

    assert {(size, depth) for size in (1, needs.slots) for depth in (0, needs.working_depth)} <= decode
    assert any(point.kind is PassKind.PREFILL for point in points)
    assert all(point.size <= needs.largest_chunk for point in points if point.kind is PassKind.PREFILL)
    for point in points:
        tokens = point.size if point.kind is PassKind.PREFILL else 1
        assert point.depth + tokens * passes_of(point, speed.pass_s(point)).total <= context_of(points)


_LONGER_CHUNK: Final = (  # what reads a chunk of 300 tokens as well has no time for two depths of another
    ServiceNeeds(slots=2, working_depth=1, deepest=2, largest_chunk=300),
    SpeedEstimate(step_s=1.0, token_s=0.375, can_cut=False),
    461.0,
    1.25,
)


@settings(max_examples=60, deadline=None)
@example(*_LONGER_CHUNK)
@given(NEEDS, SPEEDS, st.floats(0.1, 1e4), st.floats(1.0, 10.0))
def test_more_budget_never_plans_less(
    needs: ServiceNeeds, speed: SpeedEstimate, budget_s: float, factor: float
) -> None:
    """The number of points does not fall when the budget grows, unless longer prompts are read for it."""
    less, more = _points(needs, speed, budget_s), _points(needs, speed, factor * budget_s)

    assert len(less) <= len(more) or _longest_chunk(less) < _longest_chunk(more)


def _longest_chunk(points: Collection[PassPoint]) -> int:
    return max(point.size for point in points if point.kind is PassKind.PREFILL)

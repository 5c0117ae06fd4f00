"""Which passes a service curve is made of, and what is left out when time or memory are short."""

from __future__ import annotations

from dataclasses import replace

import pytest

from suffice.measure.service_plan import (
    DRIFT_TOKENS,
    LEAST_LARGEST_CHUNK,
    Layout,
    PassKind,
    PassPoint,
    ServiceNeeds,
    ServicePlanner,
    SpeedEstimate,
    context_of,
    cost_s,
    kept_points,
    passes_of,
    shortfall,
    turns_of,
)

NEEDS = ServiceNeeds(slots=6, working_depth=500, deepest=1000, largest_chunk=512)
SPEED = SpeedEstimate(step_s=0.02, step_s_per_token=1e-5, token_s=0.002)


def _plan(budget_s: float, speed: SpeedEstimate = SPEED) -> tuple[PassPoint, ...]:
    """The points of a curve of which nothing is measured yet."""
    return ServicePlanner(needs=NEEDS, budget_s=budget_s).plan(speed, budget_s, lambda _point: 0).points


def _decode(points: tuple[PassPoint, ...]) -> set[tuple[int, int]]:
    return {(point.size, point.depth) for point in points if point.kind is PassKind.DECODE}


def _chunks(points: tuple[PassPoint, ...]) -> set[tuple[int, int]]:
    return {(point.size, point.depth) for point in points if point.kind is PassKind.PREFILL}


def test_a_large_budget_gets_the_whole_grid() -> None:
    """Every batch up to the slots at three depths; chunks up to a micro-batch at the ends."""
    points = _plan(1e6)

    assert _decode(points) == {(batch, depth) for batch in range(1, 7) for depth in (0, 500, 1000)}
    assert _chunks(points) == {(2**n, depth) for n in range(1, 10) for depth in (0, 1000)}
    assert shortfall(NEEDS, dict.fromkeys(points, 3)) == ()


def test_many_slots_are_measured_one_by_one_then_in_doublings() -> None:
    """Up to 8 each, because kernels make 4 faster than 3; then 16 and 32, and the slots themselves."""
    many = replace(NEEDS, slots=40).layout().batches

    assert many == (1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 40)
    assert replace(NEEDS, slots=8).layout().batches == tuple(range(1, 9))
    assert replace(NEEDS, slots=1).layout().batches == (1,)


def test_points_are_left_out_in_their_order() -> None:
    """The deepest depth first, then batches between, then chunks between, then chunks behind a cache; the ends stay."""
    whole = NEEDS.layout()
    layouts = list(whole.smaller())

    assert layouts[0] == whole
    assert layouts[1] == replace(whole, depths=(0, 500))
    assert [layout.batches for layout in layouts[2:6]] == [(1, 2, 3, 4, 6), (1, 2, 3, 6), (1, 2, 6), (1, 6)]
    assert layouts[-2].chunks == (2, 512)
    assert layouts[-1] == Layout(depths=(0, 500), batches=(1, 6), chunks=(2, 512), deep_chunks=False)
    sizes = [len(layout.points()) for layout in layouts]
    assert sizes == sorted(sizes, reverse=True)


def test_no_budget_leaves_the_least_curve() -> None:
    """One sequence and all, empty and at the working depth, and a small and a large chunk."""
    points = _plan(1e-9)

    assert _decode(points) == {(1, 0), (6, 0), (1, 500), (6, 500)}
    assert _chunks(points) == {(2, 0), (LEAST_LARGEST_CHUNK, 0)}


def test_a_machine_that_reads_slowly_measures_smaller_chunks() -> None:
    """At 0.5 s a token a chunk of 512 takes minutes: it is left out, and the lack is said."""
    slow = SpeedEstimate(step_s=0.5, token_s=0.5)
    points = _plan(600.0, slow)

    assert max(size for size, _ in _chunks(points)) == LEAST_LARGEST_CHUNK
    assert any("chunks of" in text and "512" in text for text in shortfall(NEEDS, dict.fromkeys(points, 3)))


def test_what_the_memory_does_not_hold_is_left_out() -> None:
    """Room for 6000 tokens in all: not the deepest depth, and fewer sequences; for none at all one sequence is left."""
    planner = ServicePlanner(needs=NEEDS, budget_s=1e6, fits=lambda sequences, context: sequences * context <= 6000)
    none = ServicePlanner(needs=NEEDS, budget_s=1e6, fits=lambda _sequences, _context: False)

    assert planner.whole.depths == (0, 500)
    assert 1 < planner.whole.batches[-1] < NEEDS.slots
    assert planner.whole.batches[-1] * context_of(planner.whole.points()) <= 6000
    assert none.whole.batches == (1,)


def test_what_is_measured_is_not_planned_again() -> None:
    """Points with enough repetitions are left alone; when all have them, nothing is left to plan."""
    planner = ServicePlanner(needs=NEEDS, budget_s=1e6)
    done = {PassPoint(PassKind.DECODE, 1, 0): 3, PassPoint(PassKind.DECODE, 2, 0): 2}
    points = planner.plan(SPEED, 1e6, lambda point: done.get(point, 0)).points

    assert set(planner.whole.points()) - set(points) == {PassPoint(PassKind.DECODE, 1, 0)}
    assert planner.plan(SPEED, 1e6, lambda _point: 3).points == ()


def test_time_that_is_left_brings_points_back() -> None:
    """A grid that was too large for the first estimate is completed when its passes turn out to be quick."""
    planner = ServicePlanner(needs=NEEDS, budget_s=20.0)
    slow, quick = SpeedEstimate(step_s=0.2, token_s=0.02), SpeedEstimate(step_s=0.01, token_s=0.001)
    first = planner.plan(slow, 20.0, lambda _point: 0).points
    then = planner.plan(quick, 15.0, lambda point: 3 if point in first else 0).points

    assert len(first) < len(planner.whole.points())
    assert set(first) | set(then) == set(planner.whole.points())


def test_a_deepest_request_that_is_hardly_deeper_is_no_depth_of_its_own() -> None:
    """500 and 600 tokens lie on one line; so do lengths that are shorter than the working depth."""
    for deepest in (0, 500, 600):
        assert replace(NEEDS, deepest=deepest).layout().depths == (0, 500)


def test_caches_that_fill_slowly_are_filled_once() -> None:
    """Filling takes longer than all passes: every point has its repetitions at one filling; else a filling each."""
    twice = {PassPoint(PassKind.DECODE, batch, depth): 2 for batch in (1, 2) for depth in (0, 500)}
    slow = SpeedEstimate(step_s=0.001, token_s=0.1)

    assert turns_of(twice, slow) == 2
    assert turns_of(twice, replace(slow, token_s=1e-6)) == 1
    visits_s = sum(slow.visit_s(point) for point in twice)
    assert cost_s(twice, slow) == pytest.approx(2 * visits_s + 50.0)
    assert cost_s({}, slow) == 0


@pytest.mark.parametrize(
    ("point", "pass_s", "passes"),
    [
        (PassPoint(PassKind.DECODE, 4, 0), 0.3, (0, 1)),
        (PassPoint(PassKind.DECODE, 4, 0), 0.03, (1, 4)),
        (PassPoint(PassKind.DECODE, 4, 0), 1e-4, (1, 6)),
        (PassPoint(PassKind.PREFILL, 16, 0), 0.01, (1, 3)),
        (PassPoint(PassKind.PREFILL, 64, 0), 0.01, (0, 1)),
        (PassPoint(PassKind.PREFILL, 512, 0), 0.01, (0, 1)),
    ],
)
def test_repetitions_last_about_as_long(point: PassPoint, pass_s: float, passes: tuple[int, int]) -> None:
    """A tenth of a second of passes behind one that wakes the threads; chunks never drift far beyond their depth."""
    assert passes_of(point, pass_s) == passes
    if point.kind is PassKind.PREFILL and point.size <= DRIFT_TOKENS:
        assert point.size * passes_of(point, pass_s).total <= DRIFT_TOKENS


def test_a_filling_for_each_point_is_counted_where_caches_cannot_be_cut() -> None:
    """Recurrent state: 500 tokens are read again before each point behind them."""
    point = PassPoint(PassKind.DECODE, 1, 500)

    assert replace(SPEED, can_cut=False).visit_s(point) == pytest.approx(SPEED.visit_s(point) + 1.0)


def test_a_single_visit_is_no_point_of_a_curve() -> None:
    """Fewer than three repetitions: kept only where the least curve needs the point; the rest is counted as lacking."""
    points = _plan(1e6)
    counts = {point: 1 if point.size == 16 or point.depth == 500 else 3 for point in points}
    kept = kept_points(NEEDS, counts)

    assert PassPoint(PassKind.PREFILL, 16, 0) not in kept
    assert {(point.size, point.depth) for point in kept if counts[point] == 1} == {(1, 500), (6, 500)}
    assert "6 points that were measured fewer than 3 times" in shortfall(NEEDS, counts)
    alone = {PassPoint(PassKind.DECODE, 2, 0): 1, PassPoint(PassKind.PREFILL, 4, 0): 2}
    assert kept_points(NEEDS, alone) == set(alone)
    assert kept_points(NEEDS, alone | {PassPoint(PassKind.PREFILL, 512, 0): 1}) == {
        PassPoint(PassKind.DECODE, 2, 0),
        PassPoint(PassKind.PREFILL, 512, 0),
    }
    assert kept_points(NEEDS, {}) == set()


def test_what_is_lacking_is_named() -> None:
    """A depth, batches, chunks, deep chunks, and points of too few repetitions."""
    points = _plan(1e-9)
    text = "; ".join(shortfall(NEEDS, dict.fromkeys(points, 2)))

    assert text == (
        "depth 1000; steps of 2, 3, 4, 5; chunks of 2, 4, 8, 16, 32, 128, 256, 512; chunks behind a filled cache; "
        "3 repetitions of 5 of its 5 points; 1 points that were measured fewer than 3 times"
    )

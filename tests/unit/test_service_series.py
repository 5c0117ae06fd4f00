"""The rounds of a service curve on a fake engine whose costs are planted and whose calls are counted."""

# ruff: noqa: ANN401  # builders take any field of what they build

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from suffice.measure.engine.fake import FakeBehaviour, FakeEngine
from suffice.measure.engine.seam import EngineSettings
from suffice.measure.service_plan import (
    DRIFT_TOKENS,
    LEAST_REPETITIONS,
    MOST_REPETITIONS,
    PassKind,
    PassPoint,
    ServiceNeeds,
    ServicePlanner,
    SpeedEstimate,
    context_of,
)
from suffice.measure.service_series import ServiceRunner, ServiceSeries, ServiceState

NEEDS = ServiceNeeds(slots=4, working_depth=200, deepest=400, largest_chunk=128)
SPEED = SpeedEstimate(step_s=0.02, step_s_per_token=1e-5, token_s=0.002)


@dataclass(kw_only=True)
class Bench:
    """A fake engine with the costs of the estimate, times ``slower``; ``log`` has (kind, model, size, depth) of each pass."""

    slower: float = 1.0
    behaviour: FakeBehaviour = field(default_factory=FakeBehaviour)
    log: list[tuple[str, str, int, int]] = field(default_factory=list)
    saves: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Open nothing yet."""

        def step(model: Path, depth: int, batch: int) -> float:
            self.log.append(("step", model.name, batch, depth))
            return SPEED.pass_s(PassPoint(PassKind.DECODE, batch, depth)) * self.slower

        def chunk(model: Path, depth: int, tokens: int) -> float:
            self.log.append(("chunk", model.name, tokens, depth))
            return SPEED.pass_s(PassPoint(PassKind.PREFILL, tokens, depth)) * self.slower

        self.engine = FakeEngine(step_cost=step, prefill_cost=chunk, behaviour=self.behaviour)

    def run(self, budget_s: float, state: ServiceState | None = None, models: int = 1, **changes: Any) -> ServiceState:
        """All rounds; time starts when the sessions are open."""
        planner = ServicePlanner(needs=NEEDS, budget_s=budget_s)
        room = context_of(planner.whole.points())
        settings = EngineSettings(n_ctx=room, n_threads=1, n_threads_batch=1, n_batch=128, n_ubatch=128, n_sequences=4)
        sessions = [self.engine.open(Path(f"{index}.gguf"), settings) for index in range(models)]
        self.opened_s = self.engine.clock.now_s()
        state = state or ServiceState(n_sessions=models)
        series = ServiceSeries(
            planner=planner,
            speed=SPEED,
            between=lambda: self.saves.append(sum(len(rows[0]) for rows in state.rows.values())),
            **changes,
        )
        ServiceRunner(sessions, self.engine.clock, state, series).run()
        return state

    @property
    def taken_s(self) -> float:
        """Since the sessions were open."""
        return self.engine.clock.now_s() - self.opened_s


def _check_times(state: ServiceState, slack: int) -> None:
    """Every kept value is that of the point, up to ``slack`` tokens deeper."""
    for point, rows in state.rows.items():
        deeper = point._replace(depth=point.depth + slack)
        for value in rows[0]:
            assert SPEED.pass_s(point) * 0.999 <= value <= SPEED.pass_s(deeper) * 1.001


def test_every_point_is_measured_at_its_own_size_and_depth() -> None:
    """With time enough the whole grid has all repetitions, each value of its own pass."""
    bench = Bench()
    state = bench.run(1e6)

    assert set(state.rows) == set(NEEDS.layout().points())
    assert {len(rows[0]) for rows in state.rows.values()} == {MOST_REPETITIONS}
    _check_times(state, DRIFT_TOKENS)


def test_repetitions_are_interleaved_and_in_another_order_each_time() -> None:
    """Between two repetitions of a point all others of its depth are visited, in orders that differ from round to round."""
    bench = Bench()
    bench.run(1e6)
    fresh = [(kind, size) for kind, _, size, depth in bench.log if depth == 0 and (kind, size) != ("chunk", 1)]
    fillings = ("chunk", 128)  # also the beginning of each filling
    visits = [entry for entry in fresh if entry != fillings]
    count = sum(point.depth == 0 for point in NEEDS.layout().points()) - 1
    orders = [tuple(visits[start : start + count]) for start in range(0, len(visits), count)]

    assert len(orders) == MOST_REPETITIONS
    assert all(set(order) == set(orders[0]) and len(set(order)) == count for order in orders)
    assert len(set(orders)) > 1


def test_caches_are_filled_once_a_round_where_they_can_be_cut() -> None:
    """The first round goes from 0 to 200 to 400; each further one fills 400 and cuts back, but finds the first one's still there."""
    bench = Bench()
    bench.run(1e6)
    starts = [depth for kind, _, size, depth in bench.log if kind == "chunk" and size == 128]

    # 128 tokens at depth 256 are a part of filling 400 only; at depth 0 also of filling 200, and a point of each round.
    assert starts.count(256) == MOST_REPETITIONS - 1
    assert starts.count(0) == MOST_REPETITIONS + 1 + (MOST_REPETITIONS - 1)


@pytest.mark.parametrize("budget_s", [6.0, 12.0, 30.0])
def test_the_budget_is_kept(budget_s: float) -> None:
    """No round is begun that would not fit, and every point that is there has its repetitions."""
    bench = Bench()
    state = bench.run(budget_s)

    assert bench.taken_s <= budget_s
    assert min(len(rows[0]) for rows in state.rows.values()) >= LEAST_REPETITIONS


def test_a_machine_that_is_slower_than_expected_drops_points() -> None:
    """Four times as slow as the plan thought: seen at the first depth, so that the next one has the ends of the grid only."""
    bench = Bench(slower=4.0)
    state = bench.run(18.0)
    ends = [PassPoint(PassKind.DECODE, batch, depth) for batch in (1, 4) for depth in (0, 200)]

    assert all(state.repetitions(point) >= LEAST_REPETITIONS for point in ends)
    assert {point.size for point in state.rows if point.kind is PassKind.DECODE and point.depth} == {1, 4}
    assert bench.taken_s <= 18.0


def test_a_hopeless_budget_still_gives_the_least_curve() -> None:
    """A hundred times as slow: behind a filled cache there are one sequence and all, at the working depth and not beyond."""
    bench = Bench(slower=100.0)
    state = bench.run(4.0)
    deep = {(point.kind, point.size) for point in state.rows if point.depth}

    assert {point.depth for point in state.rows} == {0, 200}
    assert deep == {(PassKind.DECODE, 1), (PassKind.DECODE, 4)}


def test_models_that_cannot_be_cut_are_filled_again() -> None:
    """Recurrent state: values may lie a short drift beyond their depth, never elsewhere; one token is an empty cache."""
    bench = Bench(behaviour=FakeBehaviour(can_rewind=False))
    state = bench.run(1e6)

    assert {len(rows[0]) for rows in state.rows.values()} == {MOST_REPETITIONS}
    _check_times(state, 3 * DRIFT_TOKENS)


def test_a_filled_state_goes_on() -> None:
    """What was measured is kept at the beginning of each row, and only what is missing is added."""
    first = Bench().run(12.0)
    before = {point: list(rows[0]) for point, rows in first.rows.items()}
    again = Bench().run(1e6, state=first)

    assert all(again.rows[point][0][: len(values)] == values for point, values in before.items())
    assert set(again.rows) >= set(NEEDS.layout().points())
    assert all(again.repetitions(point) >= LEAST_REPETITIONS for point in NEEDS.layout().points())


def test_progress_is_saved_after_every_turn() -> None:
    """The number of values grows from save to save."""
    bench = Bench()
    bench.run(12.0)

    assert len(bench.saves) > LEAST_REPETITIONS
    assert bench.saves == sorted(set(bench.saves))


def test_several_sessions_are_measured_in_turns() -> None:
    """Slices: each visit goes through all of them, and a repetition has a value of each."""
    bench = Bench()
    state = bench.run(1e6, models=3)
    models = [model for _kind, model, _size, _depth in bench.log]
    turns = [model for index, model in enumerate(models) if index == 0 or models[index - 1] != model]

    assert turns[:6] == ["0.gguf", "1.gguf", "2.gguf"] * 2
    assert all([len(row) for row in rows] == [MOST_REPETITIONS] * 3 for rows in state.rows.values())


def test_a_cache_that_may_hold_a_slice_is_emptied_before_each_pass() -> None:
    """Single passes, each behind an eviction: as many evictions as passes of points."""
    emptied: list[int] = []
    bench = Bench()
    state = bench.run(1e6, models=2, single=True, evict=lambda: emptied.append(1))

    visits = sum(len(rows[0]) for rows in state.rows.values())
    assert len(emptied) == visits * 2 * 3
    _check_times(state, 0)

"""The repetitions of a service curve on open sessions: one for a whole model, or one for each of its slices.

Points are visited round by round, in an order that is shuffled anew each time, so that a slow moment of the machine hits all of them. A
round fills the caches once, to its deepest depth, and cuts them back for the others; the first round goes from shallow to deep instead, so
that a budget which ends early has left out what matters least. One value of each visit is kept: the median of its passes.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Final

from suffice.measure.service_plan import (
    DRIFT_TOKENS,
    LEAST_REPETITIONS,
    MOST_REPETITIONS,
    PassKind,
    PassPoint,
    ServicePlan,
    cost_s,
    passes_of,
)
from suffice.stats.intervals import median

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from suffice.measure.clock import Clock
    from suffice.measure.engine.seam import Session
    from suffice.measure.service_plan import ServicePlanner, SpeedEstimate

# The first plan rests on estimates: a grid that just fits would lose points after its first round.
PLANNED_SHARE: Final = 0.85
SEED: Final = 1  # of the order in which points are visited
SINGLE_TURNS: Final = 3  # of one pass, where the last-level cache would hold a slice between two passes
_UNKNOWN_DEPTH: Final = -1


@dataclass(slots=True, kw_only=True)
class ServiceState:
    """What was measured so far: ``rows[point][session][repetition]`` in seconds. A resumed run starts from a filled one."""

    n_sessions: int
    rows: dict[PassPoint, list[list[float]]] = field(default_factory=dict)

    def repetitions(self, point: PassPoint) -> int:
        """How often a point was measured."""
        return len(self.rows[point][0]) if point in self.rows else 0

    def add(self, point: PassPoint, seconds: Sequence[float]) -> None:
        """One repetition: a value of each session."""
        own = self.rows.setdefault(point, [[] for _ in range(self.n_sessions)])
        for row, value in zip(own, seconds, strict=True):
            row.append(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSeries:
    """How a curve is measured.

    Attributes:
        speed: first estimate of what passes take.
        planner: chooses the points of each round by the costs that are known by then.
        single: one pass at a time, session by session, because the last-level cache may hold a part of a slice.
        evict: empties that cache before each pass; None: nothing needs to.
        between: called after every turn of the points of a depth, to save what there is.
    """

    speed: SpeedEstimate
    planner: ServicePlanner
    single: bool = False
    evict: Callable[[], None] | None = None
    between: Callable[[], None] | None = None


class SeenCosts:
    """Costs as they were measured, and estimated where they were not yet."""

    def __init__(self, speed: SpeedEstimate) -> None:
        self._speed = speed
        self._visits_s: dict[PassPoint, list[float]] = {}
        self._fills_s: dict[int, float] = {}

    def see(self, point: PassPoint, seconds: float) -> None:
        """Another visit of a point took so long."""
        self._visits_s.setdefault(point, []).append(seconds)

    def fill(self, depth: int, seconds: float) -> None:
        """Filling to a depth took so long; cutting a deeper cache back takes next to nothing, and is no filling."""
        if seconds > self._fills_s.get(depth, 0.0):
            self._fills_s[depth] = seconds

    def visit_s(self, point: PassPoint) -> float:
        """Mean seconds of the visits so far, or an estimate that errs by as much as the others did."""
        seen = self._visits_s.get(point)
        return self._speed.visit_s(point) * self._error() if seen is None else fmean(seen)

    def fill_s(self, depth: int) -> float:
        """Seconds of the longest filling to a depth, or an estimate."""
        return self._fills_s.get(depth, self._speed.fill_s(depth) * self._error())

    def _error(self) -> float:
        estimated_s = math.fsum(self._speed.visit_s(point) for point in self._visits_s)
        return math.fsum(map(fmean, self._visits_s.values())) / estimated_s if estimated_s else 1.0


class ServiceRunner:
    """Visits the points; all sessions have room for the planner's whole grid and as many sequences as its largest step."""

    def __init__(
        self,
        sessions: Sequence[Session],
        clock: Clock,
        state: ServiceState,
        series: ServiceSeries,
    ) -> None:
        self._sessions, self._clock, self._series = sessions, clock, series
        self.state = state
        self._sequences = series.planner.whole.batches[-1]
        self._costs = SeenCosts(series.speed)
        self._order = random.Random(SEED)  # noqa: S311  # an order, not a secret
        # Tokens that each sequence of each session holds; a warm-up has left some in the first.
        self._held = [[_UNKNOWN_DEPTH] * self._sequences for _ in sessions]
        self._filled_s = 0.0  # spent on filling so far
        self._started_s = clock.now_s()

    def run(self) -> None:
        """Rounds until every point has enough repetitions or the budget is spent; the first is always made."""
        self._first_round()
        while (plan := self._next()).points:
            for depth in sorted({point.depth for point in plan.points}, reverse=True):
                self._visit_depth(depth, plan)

    def _first_round(self) -> None:
        """From shallow to deep, planned anew at each depth: only now it shows what passes cost. The least grid is visited in any case."""
        planner, depth = self._series.planner, -1
        left_s = PLANNED_SHARE * planner.budget_s
        while True:
            plan = planner.plan(self._costs, left_s, self.state.repetitions)
            deeper = {point.depth for point in plan.points if point.depth > depth}
            if not deeper:
                return
            depth = min(deeper)
            self._visit_depth(depth, plan)
            left_s = planner.budget_s - self._elapsed_s()

    def _next(self) -> ServicePlan:
        """What the time that is left is enough for: points that lack repetitions, else one more of all that have enough."""
        left_s = self._series.planner.budget_s - self._elapsed_s()
        plan = self._series.planner.plan(self._costs, left_s, self.state.repetitions)
        if not plan.points:
            counts = {point: self.state.repetitions(point) for point in self.state.rows}
            again = [point for point, count in counts.items() if LEAST_REPETITIONS <= count < MOST_REPETITIONS]
            plan = ServicePlan(points=tuple(again))
        fits = cost_s(dict.fromkeys(plan.points, plan.turns), self._costs) <= left_s
        return plan if fits else ServicePlan()

    def _visit_depth(self, depth: int, plan: ServicePlan) -> None:
        filled_s = self._filled_s
        points = [point for point in plan.points if point.depth == depth]
        for _ in range(plan.turns):
            for point in self._order.sample(points, len(points)):
                self._visit(point)
            if self._series.between is not None:
                self._series.between()
        self._costs.fill(depth, self._filled_s - filled_s)

    def _elapsed_s(self) -> float:
        return self._clock.now_s() - self._started_s

    def _visit(self, point: PassPoint) -> None:
        before_s, filled_s = self._clock.now_s(), self._filled_s
        self.state.add(point, self.repeat(point))
        self._costs.see(point, self._clock.now_s() - before_s - (self._filled_s - filled_s))

    def repeat(self, point: PassPoint) -> list[float]:
        """One repetition of a point, a value of each session; it is not added to the curve."""
        measured: list[list[float]] = [[] for _ in self._sessions]
        for _ in range(SINGLE_TURNS if self._series.single else 1):
            for index in range(len(self._sessions)):
                measured[index] += self._passes(index, point)
        return [median(own) for own in measured]

    def repeat_s(self, point: PassPoint) -> float:
        """About how long one more repetition of a point takes."""
        return self._costs.visit_s(point)

    def _passes(self, index: int, point: PassPoint) -> tuple[float, ...]:
        """The timed passes of one session."""
        self._go_to(index, point)
        waking, timed = (0, 1) if self._series.single else passes_of(point, self._expected_s(index, point))
        if self._series.evict is not None:
            self._series.evict()
        session, held, count = self._sessions[index], self._held[index], waking + timed
        if point.kind is PassKind.DECODE:
            seconds = session.decode(count, batch=point.size)
            held[: point.size] = [held[0] + count] * point.size
        else:
            seconds = session.extend(point.size, n_chunks=count)
            held[0] += count * point.size
        return seconds[waking:]

    def _expected_s(self, index: int, point: PassPoint) -> float:
        if self.state.repetitions(point):
            return self.state.rows[point][index][-1]
        return self._series.speed.pass_s(point) / len(self._sessions)

    def _go_to(self, index: int, point: PassPoint) -> None:
        """Bring the sequences of a session to a depth; what cannot be cut back may drift a little before it is filled again."""
        session, held = self._sessions[index], self._held[index]
        before_s, deep_enough = self._clock.now_s(), held[0] >= point.depth
        if deep_enough and session.rewind(point.depth):
            held[:] = [min(tokens, point.depth) for tokens in held]
        elif not 0 <= held[0] - point.depth <= (DRIFT_TOKENS if point.depth else 0):
            self._fill(index, point.depth)
            if not deep_enough:  # otherwise it is filled for this point alone, and is a part of what that costs
                self._filled_s += self._clock.now_s() - before_s
        if point.kind is PassKind.DECODE and set(held[: point.size]) != {held[0]}:
            before_s = self._clock.now_s()
            session.spread(self._sequences)
            held[:] = [held[0]] * self._sequences
            self._filled_s += self._clock.now_s() - before_s

    def _fill(self, index: int, depth: int) -> None:
        session, held = self._sessions[index], self._held[index]
        session.prefill(max(depth, 1))
        held[:] = [max(depth, 1)] + [0] * (self._sequences - 1)
        if depth == 0 and session.rewind(0):  # one token is as near to an empty cache as others get
            held[0] = 0

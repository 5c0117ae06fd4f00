"""The repetitions of a run on slices: several sessions in turns, so that a slow moment of the machine hits all of them.

A repetition of prefill reads the prompt once in each slice. A repetition of decode goes through the slices some times; in each turn a
slice makes a few steps at a fixed depth, of which the first only wakes its threads. Where the last-level cache may hold a part of a
slice, a turn is one step, so that the other slices empty the cache in between; where they are too small for that, something else empties
it before each step. Raw seconds of all other steps are kept.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from suffice.measure.observer import in_turns
from suffice.measure.watched_state import WatchedState
from suffice.model.extrapolation import extrapolate
from suffice.stats.intervals import median
from suffice.stats.stopping import StopReason, should_stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from suffice.measure.clock import Clock
    from suffice.measure.engine.seam import Session
    from suffice.measure.observer import Observer
    from suffice.measure.series import DecodeAt, SeriesPlan, ThreadChoice
    from suffice.records.schema import RepetitionRecord

TURNS: Final = 2
WAKING_STEPS: Final = 1
STEPS_PER_TURN: Final = 3
SINGLE_TURNS: Final = 4  # of one step, when other slices or something else empty the cache before each
# Decoding is quicker than reading a prompt: so many repetitions of it for each prompt.
DECODES_PER_PREFILL: Final = 3
# Models whose cache cannot be cut back drift deeper by so many tokens before the cache is filled again.
DRIFT_TOKENS: Final = 64
_UNKNOWN_DEPTH: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceModel:
    """What extrapolation needs to know: layers of each kind in every slice and in the whole model, and their work."""

    counts: tuple[tuple[float, ...], ...]
    full_counts: tuple[float, ...]
    decode_work: Callable[[DecodeAt], tuple[float, ...]]
    prefill_work: tuple[float, ...]

    def decode_times(self, at: DecodeAt, rows: Sequence[Sequence[Sequence[float]]]) -> tuple[float, ...]:
        """Seconds of a step of the whole model, for each repetition; ``rows[slice][repetition]`` are the steps."""
        times = [[median(row) for row in own] for own in rows]
        return extrapolate(self.counts, times, self.decode_work(at), self.full_counts)

    def prefill_times(self, rows: Sequence[Sequence[Sequence[float]]]) -> tuple[tuple[float, ...], ...]:
        """Seconds of each chunk of the whole model, a row for each repetition."""
        chunks = range(len(rows[0][0])) if rows and rows[0] else range(0)
        columns = [
            extrapolate(self.counts, [[row[i] for row in own] for own in rows], self.prefill_work, self.full_counts)
            for i in chunks
        ]
        return tuple(zip(*columns, strict=True))


@dataclass(slots=True, kw_only=True)
class SliceState(WatchedState):
    """What one run has gathered so far; a resumed run starts from a filled one. Rows are [slice][repetition]."""

    threads: ThreadChoice
    prompt_tokens: int
    n_slices: int
    chunk_tokens: tuple[int, ...] = ()
    chunk_rows: list[list[tuple[float, ...]]] = field(default_factory=list)
    step_rows: dict[DecodeAt, list[list[tuple[float, ...]]]] = field(default_factory=dict)
    stopped: dict[DecodeAt | None, StopReason] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.chunk_rows:
            self.chunk_rows = [[] for _ in range(self.n_slices)]

    def repetitions_made(self, series: DecodeAt | None) -> int:
        """See :class:`~suffice.measure.watched_state.WatchedState`."""
        return len(self.rows(series)[0])

    def rows(self, series: DecodeAt | None) -> list[list[tuple[float, ...]]]:
        """The rows of a series; None is prefill."""
        return self.chunk_rows if series is None else self.step_rows[series]


class SliceRunner:
    """Runs the repetitions of a plan on the open sessions of all slices.

    Args:
        sessions: one for each slice, in the order of the design.
        single: one step a turn, because the last-level cache may hold a part of a slice.
        evict: empties that cache before each step, where the other slices do not do that by their size; None: they do.
        observer: watches each repetition; None: nobody does.
    """

    def __init__(
        self,
        sessions: Sequence[Session],
        clock: Clock,
        plan: SeriesPlan,
        state: SliceState,
        model: SliceModel,
        *,
        single: bool = False,
        evict: Callable[[], None] | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._observer = observer
        self._turns: list[RepetitionRecord] = []  # what was seen in those of the repetition that is under way
        state.watch_with(observer)
        self._sessions, self._clock, self._plan, self._model = sessions, clock, plan, model
        self.state, self._single, self._evict = state, single, evict
        for at in plan.decode_series():
            state.step_rows.setdefault(at, [[] for _ in sessions])
        self._depths = [_UNKNOWN_DEPTH] * len(sessions)  # tokens in the cache of each; a warm-up has left some there
        self._spread = [False] * len(sessions)
        self._cost_s: dict[DecodeAt | None, float] = {}
        self._started_s = clock.now_s()

    def run(self) -> None:
        """Repeat until every series is narrow enough or the budget is spent; at least the least repetitions of each are made."""
        deep = [at for at in self.state.step_rows if at.depth > self._plan.prompt_tokens]
        for at in deep:
            while not self._finished(at, share=0.6):
                self._decode(at)
        while self._cycle():
            pass
        if self._observer is not None:
            self._observer.prepare(always=True)

    def _cycle(self) -> bool:
        prefill_is_due = not self._finished(None)
        due = [at for at in self.state.step_rows if not self._finished(at)]
        if prefill_is_due:
            self._prefill()
        for at in sorted(due, reverse=True):
            for _ in range(DECODES_PER_PREFILL if prefill_is_due else 1):
                if not self._finished(at):
                    self._decode(at)
        return prefill_is_due or bool(due)

    def _finished(self, series: DecodeAt | None, share: float = 1.0) -> bool:
        if series in self.state.stopped:
            return True
        reason = should_stop(
            self._plan.rule_for(series),
            self.rates(series),
            elapsed_s=self._clock.now_s() - self._started_s,
            next_s=self._cost_s.get(series, 0.0),
            budget_s=self._plan.budget_s * share,
            disturbed=[one.disturbed for one in self.state.repetitions(series)],
        )
        if reason is not None:
            self.state.stopped[series] = reason
        return reason is not None

    def rates(self, series: DecodeAt | None) -> tuple[float, ...]:
        """Extrapolated tokens per second of one stream, for each repetition."""
        rows = self.state.rows(series)
        if not rows[0]:
            return ()
        if series is not None:
            return tuple(1 / seconds for seconds in self._model.decode_times(series, rows))
        return tuple(self.state.prompt_tokens / math.fsum(row) for row in self._model.prefill_times(rows))

    def _prefill(self) -> None:
        before_s = self._clock.now_s()
        self._prepare()
        measured = []
        for index, session in enumerate(self._sessions):
            with self._watched(self.state.threads.prefill):
                chunks = session.prefill(self._plan.prompt_tokens)
            self._depths[index], self._spread[index] = self._plan.prompt_tokens, False
            self.state.chunk_tokens = chunks.tokens
            measured.append(chunks.seconds)
        for own, row in zip(self.state.chunk_rows, measured, strict=True):  # all slices or none, if interrupted
            own.append(row)
        self._note(None)
        self._done(None, before_s)

    def _decode(self, at: DecodeAt) -> None:
        for index in range(len(self._sessions)):
            self._go_to(index, at)
        before_s = self._clock.now_s()
        self._prepare()
        measured: list[list[float]] = [[] for _ in self._sessions]
        for _ in range(SINGLE_TURNS if self._single else TURNS):
            for index, session in enumerate(self._sessions):
                self._go_to(index, at)
                with self._watched(self.state.threads.decode):
                    measured[index] += self._turn(session, at.batch)
                self._depths[index] = max(self._depths[index], at.depth) + self._steps
        for own, steps in zip(self.state.step_rows[at], measured, strict=True):
            own.append(tuple(steps))
        self._note(at)
        self._done(at, before_s)

    def _prepare(self) -> None:
        """Read the reference kernel where that is due; what the first slice then decodes wakes its threads and is cut off again."""
        if self._observer is not None and self._observer.prepare():
            self._observer.woke(self._sessions[0].decode(1))
            self._depths[0], self._spread[0] = max(self._depths[0], 0) + 1, False

    @contextmanager
    def _watched(self, threads: int) -> Iterator[None]:
        """A slice's turn. Before it the threads of the one before fall asleep: for some milliseconds they look for more work, on the CPUs of this one."""
        if self._observer is None:
            yield
            return
        self._observer.settle()
        self._observer.start()
        try:
            yield
        finally:  # what watches must end whatever happens
            self._turns.append(self._observer.stop(worked_s=None, threads=threads))

    def _note(self, series: DecodeAt | None) -> None:
        """Keep what was seen in the turns of the last repetition."""
        if self._turns:
            self.state.note(series, replace(in_turns(self._turns), part=len(self.state.references) - 1))
        self._turns = []

    @property
    def _steps(self) -> int:
        return 1 if self._single else WAKING_STEPS + STEPS_PER_TURN

    def _turn(self, session: Session, batch: int) -> tuple[float, ...]:
        if self._evict is not None:
            self._evict()
        return session.decode(self._steps, batch=batch)[0 if self._single else WAKING_STEPS :]

    def _go_to(self, index: int, at: DecodeAt) -> None:
        """Bring one slice's cache to a depth; a cache that cannot be cut back may drift a little before it is filled again."""
        session, depth = self._sessions[index], self._depths[index]
        if depth != at.depth and not (depth > at.depth and session.rewind(at.depth)):
            self._spread[index] = False  # the first sequence alone has gone on
            if not 0 <= depth - at.depth <= (DRIFT_TOKENS if at.depth else 0):
                session.prefill(max(at.depth, 1))
                if at.depth == 0:
                    session.rewind(0)  # one token is as near to an empty cache as others get
                depth = at.depth
        else:
            depth = at.depth
        if at.batch > 1 and not self._spread[index]:
            session.spread(at.batch)
            self._spread[index] = True
        self._depths[index] = depth

    def _done(self, series: DecodeAt | None, before_s: float) -> None:
        self._cost_s[series] = self._clock.now_s() - before_s
        if self._plan.between is not None:
            self._plan.between()

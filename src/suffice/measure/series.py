"""The repetitions of one run: what is measured in which order, and when it is enough.

A repetition of prefill reads a whole prompt from an empty cache. A repetition of decode makes some steps at a fixed depth,
after which the cache is cut back to that depth. Both keep the raw seconds of every chunk and every step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from suffice.measure.observer import in_turns
from suffice.measure.watched_state import WatchedState
from suffice.records.schema import DecodeSeries, PrefillSeries, RepetitionRecord, ThreadPoint
from suffice.stats.intervals import estimate_from, median
from suffice.stats.stopping import StoppingRule, StopReason, should_stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from suffice.measure.clock import Clock
    from suffice.measure.engine.seam import Session
    from suffice.measure.observer import Observer
    from suffice.stats.estimate import Estimate

# A decode repetition should last about so long that one scheduling hiccup does not decide it ...
REPETITION_TARGET_S: Final = 0.4
# ... with enough steps to be a rate, and few enough to be repeated.
MIN_STEPS: Final = 4
MAX_STEPS: Final = 64
# A step that takes so long is a repetition of its own: a large model must not spend the budget on one.
SLOW_STEP_S: Final = 1.0
# Decoding behind a cache that is deeper than the prompt comes first; prefill and the shallow depth get the rest.
DEEP_SHARE: Final = 0.6
# A prompt whose repetitions would eat more than half of the budget is shortened, down to this.
LEAST_PROMPT_TOKENS: Final = 32
WARM_UP_TOKENS: Final = 32
WARM_UP_STEPS: Final = 4
SWEEP_ROUNDS: Final = 3
SWEEP_STEPS: Final = 6
SWEEP_PROMPT_TOKENS: Final = 64


class DecodeAt(NamedTuple):
    """What a decode series is known by: the depth at which it decodes, and how many sequences decode together."""

    depth: int
    batch: int = 1


class Part(StrEnum):
    """Series that are repeated together, since they share what the cache holds."""

    DEEP = "deep"  # decoding behind a cache that is deeper than the prompt: it stays filled
    SHALLOW = "shallow"  # the prompt, and decoding at depths that it fills


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """First impression of the speed, never reported: it plans the repetitions."""

    step_s: float
    prefill_token_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadChoice:
    """Best thread counts and the sweep that they come from (empty when the user chose)."""

    decode: int
    prefill: int
    sweep: tuple[ThreadPoint, ...] = ()


def warm_up(session: Session) -> WarmUp:
    """Run a little of both phases, so that pages, caches and thread pools are in place; the times only plan."""
    session.prefill(WARM_UP_TOKENS)
    session.decode(WARM_UP_STEPS)
    chunks = session.prefill(WARM_UP_TOKENS)
    steps = session.decode(WARM_UP_STEPS)
    return WarmUp(step_s=median(steps), prefill_token_s=sum(chunks.seconds) / sum(chunks.tokens))


def sweep_threads(session: Session, candidates: Sequence[int], clock: Clock, budget_s: float) -> ThreadChoice:
    """Try thread counts in interleaved rounds and choose the fastest for decode and for prefill apart.

    Rounds are interleaved so that a slow moment of the machine hits all candidates. At least one round is made; more
    while the budget lasts. Speeds are the median over rounds.
    """
    if len(candidates) == 1:
        return ThreadChoice(decode=candidates[0], prefill=candidates[0])
    decode_s: dict[int, list[float]] = {threads: [] for threads in candidates}
    prefill_s: dict[int, list[float]] = {threads: [] for threads in candidates}
    started_s = clock.now_s()
    for done in range(SWEEP_ROUNDS):
        for threads in candidates:
            session.set_threads(threads, threads)
            chunks = session.prefill(SWEEP_PROMPT_TOKENS)
            prefill_s[threads].append(sum(chunks.seconds) / sum(chunks.tokens))
            decode_s[threads].append(median(session.decode(SWEEP_STEPS)))
        elapsed_s = clock.now_s() - started_s
        if elapsed_s * (done + 2) / (done + 1) > budget_s:
            break
    points = tuple(
        ThreadPoint(
            threads=threads,
            decode_tokens_per_second=1 / median(decode_s[threads]),
            prefill_tokens_per_second=1 / median(prefill_s[threads]),
        )
        for threads in candidates
    )
    return ThreadChoice(
        decode=max(points, key=lambda point: point.decode_tokens_per_second or 0.0).threads,
        prefill=max(points, key=lambda point: point.prefill_tokens_per_second or 0.0).threads,
        sweep=points,
    )


def steps_per_repetition(step_s: float) -> int:
    """How many decode steps make a repetition of about ``REPETITION_TARGET_S``."""
    least = 1 if step_s >= SLOW_STEP_S else MIN_STEPS
    return min(MAX_STEPS, max(least, math.ceil(REPETITION_TARGET_S / step_s)))


def shortened(asked: int, affordable: int, chunk: int) -> int:
    """At most what is affordable, in whole chunks when there are several, and never below a useful least."""
    if asked <= affordable:
        return asked
    whole = affordable // chunk * chunk if affordable >= chunk else affordable
    return min(asked, max(whole, LEAST_PROMPT_TOKENS))


def decode_rate(step_rows: Sequence[Sequence[float]]) -> Estimate | None:
    """Tokens per second of one stream: in each repetition, steps over their time; None without a repetition."""
    if not step_rows:
        return None
    return estimate_from([len(row) / math.fsum(row) for row in step_rows])


def prefill_rate(chunk_rows: Sequence[Sequence[float]], prompt_tokens: int) -> Estimate | None:
    """Prompt tokens per second: in each repetition, the prompt over the time of all its chunks."""
    if not chunk_rows:
        return None
    return estimate_from([prompt_tokens / math.fsum(row) for row in chunk_rows])


@dataclass(slots=True, kw_only=True)
class SeriesState(WatchedState):
    """What one run has gathered so far. The one mutable thing here: a resumed run starts from a filled one."""

    threads: ThreadChoice
    prompt_tokens: int
    chunk_tokens: tuple[int, ...] = ()
    chunk_rows: list[tuple[float, ...]] = field(default_factory=list)
    step_rows: dict[DecodeAt, list[tuple[float, ...]]] = field(default_factory=dict)  # the run's depth is the first key
    ttft_s: list[float] = field(default_factory=list)
    stopped: dict[DecodeAt | None, StopReason] = field(default_factory=dict)

    def repetitions_made(self, series: DecodeAt | None) -> int:
        """See :class:`~suffice.measure.watched_state.WatchedState`."""
        return len(self.chunk_rows if series is None else self.step_rows[series])

    def decode_series(self) -> tuple[DecodeSeries, ...]:
        """The decode part of a record."""
        return tuple(
            DecodeSeries(
                depth=at.depth,
                batch=at.batch,
                threads=self.threads.decode,
                tokens_per_second=decode_rate(rows),
                step_s=tuple(rows),
                stopped=self.stopped.get(at),
                repetitions=self.repetitions(at),
            )
            for at, rows in self.step_rows.items()
        )

    def prefill_series(self) -> PrefillSeries:
        """The prefill part of a record."""
        return PrefillSeries(
            prompt_tokens=self.prompt_tokens,
            threads=self.threads.prefill,
            chunk_tokens=self.chunk_tokens,
            tokens_per_second=prefill_rate(self.chunk_rows, self.prompt_tokens),
            chunk_s=tuple(self.chunk_rows),
            stopped=self.stopped.get(None),
            repetitions=self.repetitions(None),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPlan:
    """Lengths and bounds of a run."""

    prompt_tokens: int
    depth: int
    steps: int
    budget_s: float
    piece_steps: int | None = (
        None  # of a turn, where others have theirs between the steps of a repetition; None: all of them
    )
    wakes: bool = False  # each turn begins with a step that does not count; only for models whose cache can be cut
    batch: int = 1  # more than 1: decoding of so many sequences at the run's depth is a series of its own
    rule: StoppingRule
    prompt: str | None = None
    between: Callable[[], None] | None = None  # called after every repetition, to save what there is

    def decode_series(self) -> tuple[DecodeAt, ...]:
        """The series to decode, the run's own depth first; a second depth shows how decode slows down as the cache fills."""
        second = self.prompt_tokens if self.depth == 0 else 0
        batched = (DecodeAt(self.depth, self.batch),) if self.batch > 1 else ()
        return (DecodeAt(self.depth), DecodeAt(second), *batched)

    def rule_for(self, series: DecodeAt | None) -> StoppingRule:
        """When a series has enough: the second depth gives a slope, and decides nothing alone."""
        if series is None or series.depth == self.depth:
            return self.rule
        return replace(self.rule, least=1, maximum=self.rule.minimum)


class SeriesRunner:
    """Runs the repetitions of a plan on an open session. Decode series are known by their depth and batch, prefill by None."""

    def __init__(
        self, session: Session, clock: Clock, plan: SeriesPlan, state: SeriesState, observer: Observer | None = None
    ) -> None:
        self._session, self._clock, self._plan, self.state = session, clock, plan, state
        self._observer = observer
        state.watch_with(observer)
        for at in plan.decode_series():
            state.step_rows.setdefault(at, [])
        self._cost_s: dict[DecodeAt | None, float] = {}
        self._filled = 0  # tokens in the cache
        self._spread = False  # the other sequences are copies of the first
        self._started_s = clock.now_s()

    def run(self) -> None:
        """Repeat until every series is narrow enough or the budget is spent; at least one repetition of each is made."""
        self._session.set_threads(self.state.threads.decode, self.state.threads.prefill)
        while deep := [at for at in self.state.step_rows if self._is_deep(at) and not self._finished(at, DEEP_SHARE)]:
            for at in deep:
                self._decode(at)
        while self._cycle():
            pass
        self._read_reference(always=True)

    def turn(self, part: Part) -> Iterator[None]:
        """One repetition of each series of a part, whatever there is of them: for those who decide themselves when it is enough.

        After each piece others may have their turn: behind a prompt, and behind so many steps of decode as the plan says.
        """
        if self._observer is not None:
            self._observer.settle()
        self._session.decode(1)  # wakes threads that slept while another session had its turn
        if part is Part.SHALLOW:
            self._prefill()
            yield
        for at in sorted(self.state.step_rows, reverse=part is Part.SHALLOW):
            if self._is_deep(at) is (part is Part.DEEP):
                yield from self._pieces(at, self._plan.piece_steps or self._plan.steps, wakes=self._plan.wakes)

    def _is_deep(self, at: DecodeAt) -> bool:
        return at.depth > self._plan.prompt_tokens

    def _cycle(self) -> bool:
        """One repetition of everything that is not finished; False when all is."""
        prefill_is_due = not self._finished(None)
        due = [at for at in self.state.step_rows if not self._is_deep(at) and not self._finished(at)]
        self._repeat(due, prefill_is_due=prefill_is_due)
        return prefill_is_due or bool(due)

    def _repeat(self, due: Sequence[DecodeAt], *, prefill_is_due: bool) -> None:
        # A cache that must be filled again for a deep decode is one more repetition of prefill, for nothing.
        if prefill_is_due or max((at.depth for at in due), default=0) > self._filled:
            self._prefill()
        for at in sorted(due, reverse=True):
            self._decode(at)

    def _finished(self, series: DecodeAt | None, share: float = 1.0) -> bool:
        if series in self.state.stopped:
            return True
        reason = should_stop(
            self._plan.rule_for(series),
            self._samples(series),
            elapsed_s=self._clock.now_s() - self._started_s,
            next_s=self._cost_s.get(series, 0.0),
            budget_s=self._plan.budget_s * share,
            disturbed=[one.disturbed for one in self.state.repetitions(series)],
        )
        if reason is not None:
            self.state.stopped[series] = reason
        return reason is not None

    def _samples(self, series: DecodeAt | None) -> tuple[float, ...]:
        if series is None:
            estimate = prefill_rate(self.state.chunk_rows, self._plan.prompt_tokens)
        else:
            estimate = decode_rate(self.state.step_rows[series])
        return () if estimate is None else estimate.samples

    def _prefill(self) -> None:
        before_s = self._clock.now_s()
        self._read_reference()
        self._start()
        chunks = self._session.prefill(self._plan.prompt_tokens, prompt=self._plan.prompt)
        seen = self._seen(math.fsum(chunks.seconds), self.state.threads.prefill)
        (first_step_s,) = self._session.decode(1)
        self._filled, self._spread = self._plan.prompt_tokens + 1, False
        self.state.chunk_tokens = chunks.tokens
        self.state.chunk_rows.append(chunks.seconds)
        self.state.note(None, seen)
        self.state.ttft_s.append(math.fsum(chunks.seconds) + first_step_s)
        self._done(None, before_s)

    def _go_to(self, at: DecodeAt) -> None:
        """Bring the cache to a depth; models with recurrent state cannot be cut back and are filled again."""
        if self._filled < at.depth or not self._session.rewind(at.depth):
            # Prefill empties the cache before it fills it; one token is as near to an empty one as it gets.
            self._session.prefill(max(at.depth, 1), prompt=self._plan.prompt)
            self._spread = False
        if at.batch > 1 and not self._spread:
            self._session.spread(at.batch)
        self._filled, self._spread = at.depth, at.batch > 1

    def _decode(self, at: DecodeAt) -> None:
        for _ in self._pieces(at, self._plan.steps):
            pass

    def _pieces(self, at: DecodeAt, steps: int, *, wakes: bool = False) -> Iterator[None]:
        """One repetition of a series, ``steps`` at a time; ``wakes``: each piece behind a step that does not count."""
        before_s = self._clock.now_s()
        first_filling = self._filled < at.depth
        self._read_reference()
        self._go_to(at)
        if first_filling:
            before_s = self._clock.now_s()  # the next repetition only cuts the cache back
        made: list[float] = []
        seen: list[RepetitionRecord] = []
        while len(made) < self._plan.steps:
            if wakes:
                self._wake(at, len(made))
            self._start()
            taken = self._session.decode(min(steps, self._plan.steps - len(made)), batch=at.batch)
            seen.append(self._seen(math.fsum(taken), self.state.threads.decode))
            made += taken
            self._filled = at.depth + len(made)
            if len(made) < self._plan.steps:
                yield
        self.state.step_rows[at].append(tuple(made))
        self.state.note(at, in_turns(seen))
        self._done(at, before_s)
        yield

    def _wake(self, at: DecodeAt, made: int) -> None:
        """A step behind the turns of others, which is cut off again: threads slept, and caches hold something else."""
        self._session.decode(1, batch=at.batch)
        self._session.rewind(at.depth + made)

    def _done(self, series: DecodeAt | None, before_s: float) -> None:
        self._cost_s[series] = self._clock.now_s() - before_s
        if self._plan.between is not None:
            self._plan.between()

    def _read_reference(self, *, always: bool = False) -> None:
        """Read the reference kernel where that is due, and wake the engine's threads behind it; what they decode is cut off again."""
        if self._observer is not None and self._observer.prepare(always=always) and not always:
            self._observer.woke(self._session.decode(1))

    def _start(self) -> None:
        if self._observer is not None:
            self._observer.start(self._session.pid)

    def _seen(self, worked_s: float, threads: int) -> RepetitionRecord:
        """What else happened since the start; an empty reading where nobody watches."""
        if self._observer is None:
            return RepetitionRecord()
        seen = self._observer.stop(worked_s=worked_s, threads=threads)
        return replace(seen, part=len(self.state.references) - 1)

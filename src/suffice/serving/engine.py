"""What both schedulers share: the clock, the cache's account, and the record."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from suffice.serving.run import Outcome, SimulatedRun
from suffice.serving.source import Source
from suffice.serving.step_times import StepTimes, line_sums

if TYPE_CHECKING:
    from collections.abc import Callable

    from suffice.serving.curve import ServiceCurve
    from suffice.serving.load import DrawnLoad
    from suffice.serving.misses import Misses
    from suffice.serving.schedulers import Scheduler

_NEVER = float("inf")


class Engine:
    """A server that works from event to event.

    Between an arrival that can start, the end of a prompt's chunk and the end of an answer the set of sequences is constant, so
    all steps in between are one jump. The depth of a generating sequence is ``base + steps``: what is kept is its base,
    which does not change while it generates.
    """

    def __init__(
        self, curve: ServiceCurve, scheduler: Scheduler, drawn: DrawnLoad, misses: Misses | None = None
    ) -> None:
        self._misses = misses
        self._times = StepTimes(curve)
        self._source = Source(drawn, scheduler.request_tokens)
        self._recorder = self._source.recorder
        self._closed = drawn.times_s is None
        self._limits = scheduler
        self._capacity = scheduler.capacity_tokens
        self._queue: deque[int] = deque()
        self._now = 0.0
        self._steps = 0  # of the engine, which are tokens of each generating sequence
        self._batch = 0  # sequences that generate
        self._base_sum = 0
        self._read_tokens = 0  # in the caches of sequences whose prompts are being read
        self._busy_s = 0.0
        self._token_seconds = 0.0
        self._most_tokens = 0
        self._recomputed_tokens = 0
        self._preemptions = 0

    def run(self) -> SimulatedRun:
        """Serve all requests; or, where misses are counted, until it is certain whether the limits are kept."""
        source, misses = self._source, self._misses
        while misses is None or misses.kept is None:
            while source.next_s <= self._now:
                number = source.take()
                if number is not None:
                    self._queue.append(number)
            if not self._work():
                if source.next_s == _NEVER:
                    break
                self._now = source.next_s
        return self._result()

    def _work(self) -> bool:
        """Do one step or one jump; False when there is nothing to do."""
        raise NotImplementedError

    @property
    def _total_depth(self) -> int:
        """Tokens in the caches of all generating sequences."""
        return self._base_sum + self._batch * self._steps

    def _pass_time(self, seconds: float, steps: int, read_tokens: int = 0) -> None:
        """The clock and the account of the cache after some steps, in which prompts grew by ``read_tokens``."""
        grown = self._batch * steps + read_tokens
        before = self._base_sum + self._batch * self._steps + self._read_tokens
        self._token_seconds += (before + grown / 2) * seconds
        if before + grown > self._most_tokens:  # noqa: PLR1730  # faster than max(), and this is called at every event
            self._most_tokens = before + grown
        self._read_tokens += read_tokens
        self._busy_s += seconds
        self._now += seconds
        self._steps += steps

    def _read_steps(self, seconds_of: Callable[[int], float], steps: int, chunk: int) -> None:
        """The same after many steps that read a chunk of a prompt each; they lengthen, so the cache is fuller in most of their time."""
        seconds, weighted = line_sums(seconds_of, steps)
        self._token_seconds += (self._batch + chunk) * (weighted - seconds * (steps - 1) / 2)
        self._pass_time(seconds, steps, chunk * steps)

    def _answered(self, number: int) -> None:
        """The last token of a request is there."""
        self._recorder.finish_s[number] = self._now
        if self._misses is not None:
            self._misses.ended(number, self._recorder)
        if self._closed:
            self._source.answered(number, self._now)

    def _failed(self, number: int) -> None:
        """A request ends without its answer."""
        self._recorder.outcome[number] = int(Outcome.FAILED)
        if self._misses is not None:
            self._misses.ended(number, self._recorder)
        if self._closed:
            self._source.answered(number, self._now)

    def _result(self) -> SimulatedRun:
        recorder = self._recorder
        return SimulatedRun(
            arrival_s=np.array(recorder.arrival_s),
            start_s=np.array(recorder.start_s),
            first_token_s=np.array(recorder.first_token_s),
            finish_s=np.array(recorder.finish_s),
            prompt_tokens=np.array(recorder.prompt_tokens, dtype=np.int64),
            output_tokens=np.array(recorder.output_tokens, dtype=np.int64),
            outcome=np.array(recorder.outcome, dtype=np.int64),
            busy_s=self._busy_s,
            end_s=self._now,
            steps=self._steps,
            cached_token_seconds=self._token_seconds,
            most_cached_tokens=self._most_tokens,
            capacity_tokens=self._capacity,
            most_requests=self._limits.most_requests,
            recomputed_tokens=self._recomputed_tokens,
            preemptions=self._preemptions,
            reached=self._times.reached,
        )

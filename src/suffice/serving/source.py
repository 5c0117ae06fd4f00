"""Requests as they come to the server: from a list of times, or from users who wait for their answers."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from suffice.serving.run import Outcome, Recorder

if TYPE_CHECKING:
    from suffice.serving.load import DrawnLoad

_NEVER = float("inf")


class Source:
    """The next arrival, and what becomes of requests that cannot be served.

    Attributes:
        next_s: time of the next arrival; infinity: there is none that is known yet.
    """

    __slots__ = ("_count", "_limit_tokens", "_pauses", "_ready", "_taken", "_times", "next_s", "recorder")

    def __init__(self, drawn: DrawnLoad, limit_tokens: int) -> None:
        self.recorder = Recorder(drawn.prompts, drawn.outputs)
        self._count = len(drawn.prompts)
        self._limit_tokens = limit_tokens
        self._times = drawn.times_s
        self._pauses = drawn.pauses_s
        self._taken = 0
        self._ready = [0.0] * min(drawn.users, self._count)  # when users will send again
        heapify(self._ready)
        self.next_s = self._upcoming()

    def _upcoming(self) -> float:
        if self._taken == self._count:
            return _NEVER
        if self._times is not None:
            return self._times[self._taken]
        return self._ready[0] if self._ready else _NEVER

    def take(self) -> int | None:
        """The number of the request that arrives at ``next_s``, or None when its prompt does not fit and it is rejected."""
        number, now, recorder = self._taken, self.next_s, self.recorder
        self._taken = number + 1
        if self._times is None:
            heappop(self._ready)
        recorder.arrival_s[number] = now
        room = self._limit_tokens - recorder.prompt_tokens[number]
        if room < recorder.output_tokens[number]:
            if room < 1:
                recorder.outcome[number] = int(Outcome.REJECTED)
                recorder.output_tokens[number] = 0
                self.answered(number, now)
                return None
            recorder.output_tokens[number] = room
            recorder.outcome[number] = int(Outcome.TRUNCATED)
        if self._times is not None and number + 1 < self._count:
            self.next_s = self._times[number + 1]
        else:
            self.next_s = self._upcoming()
        return number

    def answered(self, number: int, now: float) -> None:
        """A request has ended, one way or another: its user thinks, and comes again."""
        if self._pauses is not None:
            heappush(self._ready, now + self._pauses[number])
        self.next_s = self._upcoming()

"""What a simulation leaves behind: the times of every request, and what the engine did."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from suffice.serving.curve import Reached

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


class Outcome(IntEnum):
    """How a request ended."""

    DONE = 0
    TRUNCATED = 1  # the context ended before the answer did; the tokens until then count
    REJECTED = 2  # its prompt does not fit into the context
    FAILED = 3  # the shared cache was full in the middle of it


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRun:
    """One simulated run. Times in seconds from its start; NaN: it did not happen.

    Attributes:
        arrival_s: when each request came.
        start_s: when it left the queue (got a slot, or its first tokens were scheduled).
        first_token_s: when its first token was there.
        finish_s: when its last token was there.
        prompt_tokens: of each prompt.
        output_tokens: generated.
        outcome: an :class:`Outcome` each.
        busy_s: time in which the engine worked.
        end_s: time of the last event.
        steps: of the engine.
        cached_token_seconds: integral of the tokens in the cache over time.
        most_cached_tokens: in the cache at once.
        capacity_tokens: that the cache holds.
        most_requests: that can run at once.
        recomputed_tokens: read again after a request was put back.
        preemptions: requests that were put back.
        reached: how far the curve was used.
    """

    arrival_s: Floats
    start_s: Floats
    first_token_s: Floats
    finish_s: Floats
    prompt_tokens: Ints
    output_tokens: Ints
    outcome: Ints
    busy_s: float
    end_s: float
    steps: int
    cached_token_seconds: float
    most_cached_tokens: int
    capacity_tokens: int
    most_requests: int
    recomputed_tokens: int
    preemptions: int
    reached: Reached

    @property
    def served(self) -> NDArray[np.bool_]:
        """Requests that got an answer, whole or cut by the context."""
        return self.outcome <= int(Outcome.TRUNCATED)

    @property
    def queueing_s(self) -> Floats:
        """Time in the queue."""
        return self.start_s - self.arrival_s

    @property
    def ttft_s(self) -> Floats:
        """Time to first token, from the arrival."""
        return self.first_token_s - self.arrival_s

    @property
    def e2e_s(self) -> Floats:
        """Time to the last token, from the arrival."""
        return self.finish_s - self.arrival_s

    @property
    def tpot_s(self) -> Floats:
        """Time per output token after the first; NaN for answers of one token."""
        later = self.output_tokens - 1
        spans = self.finish_s - self.first_token_s
        tpot_s: Floats = np.divide(spans, later, out=np.full(len(spans), np.nan), where=later > 0)
        return tpot_s

    def count(self, outcome: Outcome) -> int:
        """Requests that ended so."""
        return int((self.outcome == int(outcome)).sum())


class Recorder:
    """Collects the times of requests while a simulation runs."""

    __slots__ = ("arrival_s", "finish_s", "first_token_s", "outcome", "output_tokens", "prompt_tokens", "start_s")

    def __init__(self, prompts: list[int], outputs: list[int]) -> None:
        nan, count = float("nan"), len(prompts)
        self.prompt_tokens = prompts
        self.output_tokens = list(outputs)  # cut where the context ends
        self.arrival_s = [nan] * count
        self.start_s = [nan] * count
        self.first_token_s = [nan] * count
        self.finish_s = [nan] * count
        self.outcome = [int(Outcome.DONE)] * count

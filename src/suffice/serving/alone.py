"""Requests at a llama.cpp server that does nothing else: what each takes is the same in every run, and is computed once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from suffice.serving.passes import Part, read_s, shared_passes_s
from suffice.serving.schedulers import KvLayout
from suffice.serving.step_times import Read

if TYPE_CHECKING:
    from suffice.serving.schedulers import LlamaCppScheduler
    from suffice.serving.step_times import StepTimes

FEW_STEPS: Final = 4  # below, one at a time is as quick
_MOST_KEPT: Final = 10_000  # prompts of a curve


class Alone:
    """Requests on one curve under the rules of one scheduler.

    Attributes:
        reads: prompts by their tokens; :meth:`read` adds to them.
        longest: tokens of a prompt; a longer one is better read in steps that are jumped over, or does not fit.
        room: tokens of prompt and answer that fit.
        sums: seconds of the first steps of one sequence together, from an empty cache on, by their number; beyond ask :meth:`answer_s`.
    """

    def __init__(self, times: StepTimes, scheduler: LlamaCppScheduler) -> None:
        # Of its own: what a run did with a request it says itself, which may be nothing.
        self._times, self._scheduler = times.apart(), scheduler
        self._shared = scheduler.layout is KvLayout.UNIFIED
        rules = (self._shared, scheduler.batch_tokens, scheduler.pass_tokens, scheduler.prompt_end)
        self.reads = times.reads_under(rules)
        self.room = scheduler.capacity_tokens
        self.longest = min(FEW_STEPS * (scheduler.batch_tokens - scheduler.slots + 1), self.room)
        self.sums = self._times.sums_of_one()

    def read(self, prompt: int) -> Read:
        """What it takes to read a whole prompt, computed anew."""
        own, scheduler = self._scheduler.pass_tokens, self._scheduler
        seconds, token_seconds, steps, done, largest, depth = 0.0, 0.0, 0, 0, 0, 0
        while done < prompt:
            chunk = scheduler.chunk_tokens(prompt - done, scheduler.batch_tokens)
            if self._shared:
                step_s = shared_passes_s(self._times, own, 0, 0, [Part(0, chunk, done)])
            else:
                step_s = read_s(self._times, own, chunk, done)
            seconds, steps, token_seconds = seconds + step_s, steps + 1, token_seconds + (done + chunk / 2) * step_s
            done += chunk
            if self._shared or min(chunk, own) > 1:
                largest = max(largest, min(chunk, own))
            if not self._shared and (chunk - 1) % own == 0:
                depth = done
        read = Read(seconds, steps, token_seconds, largest, depth)
        if len(self.reads) < _MOST_KEPT:
            self.reads[prompt] = read
        return read

    def answer_s(self, prompt: int, later: int) -> float:
        """Seconds of the tokens of an answer after the first, which comes with the end of the prompt."""
        return self._times.steps_s(1, prompt, later)

"""llama.cpp's server: slots, one token of each generating slot first, then prompts in the order of the slots.

What was read in its source (tools/server/server-context.cpp, src/llama-batch.cpp) and is done here:

- A request takes the free slot that was used least recently (of unused ones that with the highest number), at a boundary of
  steps, in the order of arrival.
- A step takes one token of each generating slot, then prompt tokens slot by slot until ``n_batch``. All its tokens come out at its
  end; the last chunk of a prompt gives the first token.
- A shared cache is cut into passes of ``n_ubatch`` tokens in order; caches that are apart are split equally over neighbouring
  slots (``passes.separate_passes_s``).
- An answer that reaches the end of its slot's context stops there; a prompt that fills the context is rejected.
- When a shared cache is full, every request that is being processed fails.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from suffice.serving.engine import Engine
from suffice.serving.passes import Neighbours, Part, read_s, separate_passes_s, shared_passes_s
from suffice.serving.schedulers import KvLayout, LlamaCppScheduler, PromptEnd
from suffice.serving.step_times import Jump, Read, jump_of

if TYPE_CHECKING:
    from suffice.serving.curve import ServiceCurve
    from suffice.serving.load import DrawnLoad
    from suffice.serving.misses import Misses

_NEVER = float("inf")
_FEW_STEPS = 4  # below, one at a time is as quick
_CHECKPOINT_TOKENS = 4  # llama.cpp keeps the state so many tokens before the end of a prompt


class SlotsEngine(Engine):
    """The state of a llama.cpp server."""

    def __init__(
        self, curve: ServiceCurve, scheduler: LlamaCppScheduler, drawn: DrawnLoad, misses: Misses | None = None
    ) -> None:
        super().__init__(curve, scheduler, drawn, misses)
        slots = scheduler.slots
        self._scheduler = scheduler
        self._slots = slots
        self._shared = scheduler.layout is KvLayout.UNIFIED
        self._pass_tokens = min(scheduler.micro_batch_tokens, scheduler.batch_tokens)
        rules = (self._shared, scheduler.batch_tokens, self._pass_tokens, scheduler.prompt_end)
        self._reads = self._times.reads_under(rules)
        least_chunk = scheduler.batch_tokens - slots + 1
        self._long_tokens = _FEW_STEPS * least_chunk
        self._has_long = max(drawn.prompts, default=0) > self._long_tokens
        self._free = deque(range(slots - 1, -1, -1))  # least recently used first
        self._request = [-1] * slots
        self._base = [0] * slots
        self._generating = bytearray(slots + 1)  # 1: yes; the last is never one, and ends a run
        self._reading: dict[int, int] = {}  # slot -> tokens of its prompt that are in the cache
        self._finishing: list[int] = []  # heap of step * slots + slot
        self._runs: list[Neighbours] | None = []  # of generating slots; None: they changed

    def _work(self) -> bool:
        if self._queue and self._free:
            if not self._batch and not self._reading and self._serve_alone():
                return True
            self._admit()
        if self._reading:
            self._mixed_step()
        elif self._batch:
            self._generate(self._finishing[0] // self._slots - self._steps)
        else:
            return False
        return True

    def _admit(self) -> None:
        queue, free = self._queue, self._free
        while queue and free:
            number, slot = queue.popleft(), free.popleft()
            self._recorder.start_s[number] = self._now
            self._request[slot] = number
            self._reading[slot] = 0

    def _serve_alone(self) -> bool:
        """Jump from an idle server over a whole request; False where another one could begin before its end.

        With one slot that is every request, and under a light load most of them.
        """
        if self._slots > 1 and len(self._queue) > 1:
            return False
        number, recorder = self._queue[0], self._recorder
        prompt, later = recorder.prompt_tokens[number], recorder.output_tokens[number] - 1
        read = self._read_of(prompt)
        next_s = self._source.next_s if self._slots > 1 else _NEVER
        if read is None or next_s < self._now + read.seconds or (self._shared and prompt + later > self._capacity):
            return False
        answer_s = self._times.steps_s(1, prompt, later) if later else 0.0
        first_s = self._now + read.seconds
        if next_s < first_s + answer_s:
            return False
        self._queue.popleft()
        self._free.rotate(-1)  # the slot that was used least recently is now the last one
        recorder.start_s[number], recorder.first_token_s[number] = self._now, first_s
        self._times.read_again(read)
        self._token_seconds += read.token_seconds + (prompt + later / 2) * answer_s
        self._most_tokens = max(self._most_tokens, prompt + later)
        self._busy_s += read.seconds + answer_s
        self._steps += read.steps + later
        self._now = first_s + answer_s
        self._answered(number)
        return True

    def _generating_runs(self) -> list[Neighbours]:
        """The passes of a pure decode step: all generating slots at once, or each run of neighbours."""
        if self._runs is not None:
            return self._runs
        runs: list[Neighbours] = []
        if self._shared or self._batch == self._slots:
            runs.append(Neighbours(self._slots - 1, self._batch, self._base_sum))
        else:
            flags, start = self._generating, self._generating.find(1)
            while start >= 0:
                end = flags.find(0, start)
                runs.append(Neighbours(end - 1, end - start, sum(self._base[start:end])))
                start = flags.find(1, end)
        self._runs = runs
        return runs

    def _generate(self, steps: int) -> None:
        """Jump: to the end of an answer, or to the first boundary of steps at which a newcomer finds a free slot."""
        total = self._total_depth
        if self._shared:
            room = (self._capacity - total) // self._batch
            if room < 1:
                self._overflow()
                return
            steps = min(steps, room)
        gap_s = self._source.next_s - self._now if self._free else _NEVER
        runs = self._generating_runs()
        if len(runs) == 1:
            jump = self._times.jump(self._batch, total, steps, gap_s)
        else:
            jump = self._jump_of_runs(runs, steps, gap_s)
        self._pass_time(jump.seconds, jump.steps)
        self._finish_due()

    def _jump_of_runs(self, runs: list[Neighbours], steps: int, gap_s: float) -> Jump:
        """A jump whose steps are several passes."""
        times, done = self._times, self._steps

        def seconds_of(count: int) -> float:
            return sum([times.steps_s(run.size, run.base_sum + run.size * done, count) for run in runs])

        seconds = seconds_of(steps)
        return Jump(steps, seconds) if seconds <= gap_s else jump_of(seconds_of, steps, gap_s, seconds)

    def _finish_due(self) -> None:
        """Answers whose last token came with the last step."""
        finishing, end = self._finishing, (self._steps + 1) * self._slots
        while finishing and finishing[0] < end:
            slot = heappop(finishing) % self._slots
            self._generating[slot] = 0
            self._batch -= 1
            self._base_sum -= self._base[slot]
            self._runs = None
            self._release(slot)

    def _release(self, slot: int) -> None:
        self._answered(self._request[slot])
        self._free.append(slot)

    def _mixed_step(self) -> None:
        """One step, or many alike: a token of each generating slot, and what fits of the prompts."""
        if not self._batch and len(self._reading) == 1 and self._read_alone():
            return
        if self._has_long and self._read_far():
            return
        parts, taken = self._prompt_parts()
        depth = self._total_depth
        if self._shared and depth + self._batch + self._read_tokens + taken > self._capacity:
            self._overflow()
            return
        self._pass_time(self._mixed_s(parts, 0), 1, taken)
        self._finish_due()
        self._begin_answers()

    def _mixed_s(self, parts: list[Part], ahead: int) -> float:
        """Seconds of the step that comes so many steps after now."""
        if self._shared:
            depth = self._total_depth + self._batch * ahead
            return shared_passes_s(self._times, self._pass_tokens, self._batch, depth, parts)
        runs = self._generating_runs()
        return separate_passes_s(self._times, self._pass_tokens, runs, self._steps + ahead, parts)

    def _read_alone(self) -> bool:
        """Jump to the end of the only prompt at the server; False where it has begun, is long, or somebody finds a free slot before its end."""
        ((slot, done),) = self._reading.items()
        prompt = self._recorder.prompt_tokens[self._request[slot]]
        read = None if done else self._read_of(prompt)
        if read is None or (self._free and self._source.next_s < self._now + read.seconds):
            return False
        self._times.read_again(read)
        self._reading[slot] = prompt
        # Of the account, in which the mean depth is half of the prompt: it is not, where chunks differ.
        self._token_seconds += read.token_seconds - prompt / 2 * read.seconds
        self._pass_time(read.seconds, read.steps, prompt)
        self._begin_answers()
        return True

    def _read_of(self, prompt: int) -> Read | None:
        """What it takes to read a whole prompt alone; None where it is long, or fails since it does not fit."""
        if prompt > self._long_tokens or (self._shared and prompt > self._capacity):
            return None
        read = self._reads.get(prompt)
        if read is not None:
            return read
        times, own = self._times, self._pass_tokens
        seconds, token_seconds, steps, done, largest = 0.0, 0.0, 0, 0, 0
        has_step = False  # a pass over one token, which is a decode step
        while done < prompt:
            chunk = self._chunk(prompt - done, self._scheduler.batch_tokens)
            step_s = self._mixed_s([Part(0, chunk, done)], 0) if self._shared else read_s(times, own, chunk, done)
            seconds, steps, token_seconds = seconds + step_s, steps + 1, token_seconds + (done + chunk / 2) * step_s
            done, largest = done + chunk, max(largest, min(chunk, own))
            has_step |= not self._shared and (chunk - 1) % own == 0
        read = Read(seconds, steps, token_seconds, 0 if has_step and largest == 1 else largest)
        if not has_step:  # else each run has to count it
            self._reads[prompt] = read
        return read

    def _read_far(self) -> bool:
        """Jump over the steps that the first prompt fills alone, to where something else happens; False where these are few."""
        slot = min(self._reading)
        done, chunk = self._reading[slot], self._scheduler.batch_tokens - self._batch
        kept = 1 if self._scheduler.prompt_end is PromptEnd.WHOLE else _CHECKPOINT_TOKENS + self._pass_tokens
        steps = (self._recorder.prompt_tokens[self._request[slot]] - done - kept) // chunk
        if steps < _FEW_STEPS:
            return False
        if self._batch:
            steps = min(steps, self._finishing[0] // self._slots - self._steps)
        if self._shared:
            steps = min(steps, (self._capacity - self._total_depth - self._read_tokens) // (self._batch + chunk))

        def seconds_of(ahead: int) -> float:
            return self._mixed_s([Part(slot, chunk, done + chunk * ahead)], ahead)

        gap_s = self._source.next_s - self._now if self._free else _NEVER
        while steps >= _FEW_STEPS and steps * seconds_of(steps - 1) > gap_s:  # no step is shorter than one before it
            steps //= 2
        if steps < _FEW_STEPS:
            return False
        self._reading[slot] = done + chunk * steps
        self._read_steps(seconds_of, steps, chunk)
        self._finish_due()
        return True

    def _prompt_parts(self) -> tuple[list[Part], int]:
        """What the next step reads of prompts, in the order of the slots, and how many tokens that is."""
        room = self._scheduler.batch_tokens - self._batch
        parts, taken = [], 0
        for slot in sorted(self._reading) if len(self._reading) > 1 else list(self._reading):
            done = self._reading[slot]
            chunk = self._chunk(self._recorder.prompt_tokens[self._request[slot]] - done, room - taken)
            if chunk > 0:
                parts.append(Part(slot, chunk, done))
                self._reading[slot] = done + chunk
                taken += chunk
        return parts, taken

    def _chunk(self, left: int, room: int) -> int:
        if self._scheduler.prompt_end is PromptEnd.CHECKPOINTS:
            for before_end in (_CHECKPOINT_TOKENS + self._pass_tokens, _CHECKPOINT_TOKENS):
                if left > before_end:
                    return min(left - before_end, room)
        return min(left, room)

    def _begin_answers(self) -> None:
        """Prompts that are read: their first token is there."""
        recorder = self._recorder
        for slot, done in list(self._reading.items()):
            number = self._request[slot]
            if done < recorder.prompt_tokens[number]:
                continue
            del self._reading[slot]
            self._read_tokens -= done
            recorder.first_token_s[number] = self._now
            left = recorder.output_tokens[number] - 1
            if not left:
                self._release(slot)
                continue
            base = done - self._steps
            self._base[slot] = base
            self._base_sum += base
            self._batch += 1
            self._generating[slot] = 1
            self._runs = None
            heappush(self._finishing, (self._steps + left) * self._slots + slot)

    def _overflow(self) -> None:
        """The shared cache is full: llama.cpp ends everything that is being processed with an error."""
        for slot in range(self._slots):
            if self._generating[slot] or slot in self._reading:
                self._failed(self._request[slot])
                self._free.append(slot)
        self._generating = bytearray(self._slots + 1)
        self._reading.clear()
        self._finishing.clear()
        self._batch, self._base_sum, self._read_tokens, self._runs = 0, 0, 0, None

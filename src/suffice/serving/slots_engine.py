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

from suffice.serving.alone import FEW_STEPS, Alone
from suffice.serving.engine import Engine
from suffice.serving.passes import Neighbours, Part, separate_passes_s, shared_passes_s
from suffice.serving.schedulers import KvLayout, LlamaCppScheduler
from suffice.serving.step_times import Jump, jump_of

if TYPE_CHECKING:
    from suffice.serving.curve import ServiceCurve
    from suffice.serving.load import DrawnLoad
    from suffice.serving.misses import Misses

_NEVER = float("inf")


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
        self._pass_tokens = scheduler.pass_tokens
        self._alone = Alone(self._times, scheduler)
        self._has_long = max(drawn.prompts, default=0) > FEW_STEPS * (scheduler.batch_tokens - slots + 1)
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
        """Jump from an idle server over whole requests, one after the other, until one could meet another; whether nothing is left to be done now.

        With one slot that is every request, and under a light load most of them: all in one loop, which calls little.
        """
        source, queue, recorder, misses, alone = self._source, self._queue, self._recorder, self._misses, self._alone
        now, several, served, deepest, largest_chunk = self._now, self._slots > 1, 0, 0, 0
        sums, known = alone.sums, len(alone.sums)
        while queue and not (several and len(queue) > 1):
            number = queue[0]
            prompt, later = recorder.prompt_tokens[number], recorder.output_tokens[number] - 1
            end = prompt + later
            if prompt > alone.longest or end > alone.room:
                break
            read = alone.reads.get(prompt) or alone.read(prompt)
            answer_s = sums[end] - sums[prompt] if end < known else alone.answer_s(prompt, later)
            first_s = now + read.seconds
            if several and source.next_s < first_s + answer_s:
                break
            queue.popleft()
            served += 1
            recorder.start_s[number], recorder.first_token_s[number] = now, first_s
            recorder.finish_s[number] = now = first_s + answer_s
            self._token_seconds += read.token_seconds + (prompt + later / 2) * answer_s
            self._busy_s += read.seconds + answer_s
            self._steps += read.steps + later
            self._most_tokens = max(self._most_tokens, end)
            depth = end if later else read.depth
            deepest = max(deepest, depth)
            largest_chunk = max(largest_chunk, read.largest_chunk)
            if misses is not None:
                misses.ended(number, recorder)
                if misses.kept is not None:
                    break
            if self._closed:
                source.answered(number, now)
            while source.next_s <= now or (not queue and source.next_s != _NEVER):
                now = max(now, source.next_s)
                came = source.take()
                if came is not None:
                    queue.append(came)
        self._now = now
        self._times.asked_again(largest_chunk, deepest)
        self._free.rotate(-served)  # the slots that were used least recently are now the last ones
        return not queue or (misses is not None and misses.kept is not None)

    def _generating_runs(self) -> list[Neighbours]:
        """The passes of a pure decode step: all generating slots at once, or each run of neighbours."""
        if self._runs is not None:
            return self._runs
        runs: list[Neighbours] = []
        if self._shared or self._batch == self._slots:
            runs.append((self._slots - 1, self._batch, self._base_sum))
        else:
            flags, start = self._generating, self._generating.find(1)
            while start >= 0:
                end = flags.find(0, start)
                runs.append((end - 1, end - start, sum(self._base[start:end])))
                start = flags.find(1, end)
        self._runs = runs
        return runs

    def _generate(self, steps: int) -> None:
        """Jump: to the end of an answer, or to the first boundary of steps at which a newcomer finds a free slot."""
        batch = self._batch
        total = self._base_sum + batch * self._steps
        if self._shared:
            room = (self._capacity - total) // batch
            if room < 1:
                self._overflow()
                return
            steps = min(steps, room)
        gap_s = self._source.next_s - self._now if self._free else _NEVER
        if batch == 1 or len(runs := self._generating_runs()) == 1:
            steps, seconds = self._times.jump(batch, total, steps, gap_s)
        else:
            steps, seconds = self._jump_of_runs(runs, steps, gap_s)
        self._pass_time(seconds, steps)
        self._finish_due()

    def _jump_of_runs(self, runs: list[Neighbours], steps: int, gap_s: float) -> Jump:
        """A jump whose steps are several passes."""
        times, done = self._times, self._steps

        def seconds_of(count: int) -> float:
            return sum([times.steps_s(size, base_sum + size * done, count) for _, size, base_sum in runs])

        seconds = seconds_of(steps)
        return (steps, seconds) if seconds <= gap_s else jump_of(seconds_of, steps, gap_s, seconds)

    def _finish_due(self) -> None:
        """Answers whose last token came with the last step."""
        finishing, slots = self._finishing, self._slots
        while finishing and finishing[0] < (self._steps + 1) * slots:
            slot = heappop(finishing) % slots
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
        if self._shared and self._total_depth + self._batch + self._read_tokens + taken > self._capacity:
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
        """Jump to the end of the only prompt at the server; False where it has begun, is long, does not fit, or somebody finds a free slot before its end."""
        ((slot, done),) = self._reading.items()
        prompt = self._recorder.prompt_tokens[self._request[slot]]
        if done or prompt > self._alone.longest:
            return False
        read = self._alone.reads.get(prompt) or self._alone.read(prompt)
        if self._free and self._source.next_s < self._now + read.seconds:
            return False
        self._times.asked_again(read.largest_chunk, read.depth)
        self._reading[slot] = prompt
        # Of the account, in which the mean depth is half of the prompt: it is not, where chunks differ.
        self._token_seconds += read.token_seconds - prompt / 2 * read.seconds
        self._pass_time(read.seconds, read.steps, prompt)
        self._begin_answers()
        return True

    def _read_far(self) -> bool:
        """Jump over the steps that the first prompt fills alone, to where something else happens; False where these are few."""
        slot = min(self._reading)
        done, chunk = self._reading[slot], self._scheduler.batch_tokens - self._batch
        steps = (self._recorder.prompt_tokens[self._request[slot]] - done - self._scheduler.kept_tokens) // chunk
        if steps < FEW_STEPS:
            return False
        if self._batch:
            steps = min(steps, self._finishing[0] // self._slots - self._steps)
        if self._shared:
            steps = min(steps, (self._capacity - self._total_depth - self._read_tokens) // (self._batch + chunk))

        def seconds_of(ahead: int) -> float:
            return self._mixed_s([Part(slot, chunk, done + chunk * ahead)], ahead)

        gap_s = self._source.next_s - self._now if self._free else _NEVER
        while steps >= FEW_STEPS and steps * seconds_of(steps - 1) > gap_s:  # no step is shorter than one before it
            steps //= 2
        if steps < FEW_STEPS:
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
            chunk = self._scheduler.chunk_tokens(self._recorder.prompt_tokens[self._request[slot]] - done, room - taken)
            if chunk > 0:
                parts.append(Part(slot, chunk, done))
                self._reading[slot] = done + chunk
                taken += chunk
        return parts, taken

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

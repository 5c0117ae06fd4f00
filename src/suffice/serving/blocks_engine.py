"""A vLLM-like server: a budget of tokens a step, and a cache in blocks.

A step takes one token of each generating sequence, then chunks of prompts in the order of admission, then newcomers while
sequences, budget and blocks are left. When blocks run out the youngest sequence is put back to the head of the queue and its cache
is dropped; later its prompt and what it had generated are read again.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from suffice.serving.engine import Engine
from suffice.serving.passes import Part, shared_passes_s
from suffice.serving.schedulers import BlockPolicy, VllmScheduler

if TYPE_CHECKING:
    from suffice.serving.curve import ServiceCurve
    from suffice.serving.load import DrawnLoad
    from suffice.serving.misses import Misses

_NEVER = float("inf")
_FEW_STEPS = 4  # below, one at a time is as quick


class BlocksEngine(Engine):
    """The state of a vLLM-like server."""

    def __init__(
        self, curve: ServiceCurve, scheduler: VllmScheduler, drawn: DrawnLoad, misses: Misses | None = None
    ) -> None:
        super().__init__(curve, scheduler, drawn, misses)
        count = len(drawn.prompts)
        self._scheduler = scheduler
        self._budget = scheduler.batched_tokens
        self._most = scheduler.max_sequences
        longest = max((sum(pair) for pair in zip(drawn.prompts, drawn.outputs, strict=True)), default=0)
        self._has_long = longest > _FEW_STEPS * (
            self._budget - self._most + 1
        )  # a request put back reads its answer again
        self._block_tokens = scheduler.block_tokens
        self._count = count
        self._grows = scheduler.policy is BlockPolicy.GROW
        self._target = list(drawn.prompts)  # tokens to read before the next token can be generated
        self._base: dict[int, int] = {}  # of generating requests, oldest first to start
        self._reading: dict[int, int] = {}  # request -> tokens that are in the cache, in the order of admission
        self._running: dict[int, None] = {}  # in the order of admission
        self._due: dict[int, int] = {}  # request -> its key in the heap
        self._finishing: list[int] = []  # heap of step * count + request; keys that are not due are stale
        self._reserved = 0

    def _work(self) -> bool:
        if self._reading or self._admissible(self._budget - self._batch):
            self._mixed_step()
        elif self._batch:
            self._generate()
        else:
            return False
        return True

    def _blocks_of(self, tokens: int) -> int:
        return -(-tokens // self._block_tokens)

    def _whole_blocks(self, number: int) -> int:
        """Blocks of a request at its end; its last token is never written."""
        recorder = self._recorder
        return self._blocks_of(recorder.prompt_tokens[number] + recorder.output_tokens[number] - 1)

    def _fits(self, steps: int, more: int) -> bool:
        """Whether all that run can go on for some steps beside ``more`` blocks; a bound first, then the exact count."""
        blocks, held = self._scheduler.blocks, more
        if self._reading:
            held += sum([self._blocks_of(tokens) for tokens in self._reading.values()])
        if held + (self._base_sum + self._batch * (self._steps + steps)) // self._block_tokens + self._batch <= blocks:
            return True
        now = self._steps + steps
        return held + sum(self._blocks_of(base + now) for base in self._base.values()) <= blocks

    def _admissible(self, room: int) -> bool:
        """Whether the head of the queue may start with a step that has a budget of ``room`` tokens left."""
        if not self._queue or room <= 0 or len(self._running) >= self._most:
            return False
        number = self._queue[0]
        if not self._grows:
            return self._reserved + self._whole_blocks(number) <= self._scheduler.blocks
        return self._fits(1, self._blocks_of(min(self._target[number], room)))

    def _generate(self) -> None:
        """Jump: to the end of an answer, to a newcomer that may start, or to the last step for which there are blocks."""
        steps = self._steps_to_end()
        if self._grows and not self._fits(steps, 0):
            low, high = 0, steps
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if self._fits(middle, 0) else (low, middle)
            if low == 0:
                self._preempt()
                return
            steps = low
        may_start = not self._queue and self._batch < self._most
        gap_s = self._source.next_s - self._now if may_start else _NEVER
        steps, seconds = self._times.jump(self._batch, self._total_depth, steps, gap_s)
        self._pass_time(seconds, steps)
        self._finish_due()

    def _steps_to_end(self) -> int:
        """Steps until the next answer is whole."""
        finishing, due = self._finishing, self._due
        while due.get(finishing[0] % self._count) != finishing[0]:
            heappop(finishing)
        return finishing[0] // self._count - self._steps

    def _finish_due(self) -> None:
        finishing, end = self._finishing, (self._steps + 1) * self._count
        while finishing and finishing[0] < end:
            key = heappop(finishing)
            number = key % self._count
            if self._due.get(number) != key:
                continue
            del self._due[number]
            self._batch -= 1
            self._base_sum -= self._base.pop(number)
            self._leave(number)

    def _leave(self, number: int) -> None:
        del self._running[number]
        if not self._grows:
            self._reserved -= self._whole_blocks(number)
        self._answered(number)

    def _preempt(self) -> None:
        """Put the youngest back to the head of the queue; its cache is lost."""
        number, _ = self._running.popitem()
        if number in self._reading:
            lost = self._reading.pop(number)
            self._read_tokens -= lost
        else:
            base = self._base.pop(number)
            del self._due[number]
            self._batch -= 1
            self._base_sum -= base
            lost = base + self._steps
            self._target[number] = lost + 1  # the token that was generated last has to be read as well
        self._recomputed_tokens += lost
        self._preemptions += 1
        self._queue.appendleft(number)

    def _mixed_step(self) -> None:
        """One step, or many alike: a token of each generating sequence, chunks of prompts, newcomers."""
        if self._has_long and self._reading and self._read_far():
            return
        put_back = self._preemptions
        while self._grows and not self._fits(1, 0):
            self._preempt()
        parts: list[Part] = []
        room = self._read_on(parts, self._budget - self._batch)
        if put_back == self._preemptions:
            self._admit(parts, room)
        if not parts and not self._batch:
            return
        seconds = shared_passes_s(self._times, self._budget, self._batch, self._total_depth, parts)
        self._pass_time(seconds, 1, sum(part.tokens for part in parts))
        self._finish_due()
        for part in parts:
            self._begin_answer(part.slot)

    def _read_far(self) -> bool:
        """Jump over the steps whose whole budget the first prompt takes; newcomers wait for them. False where these are few."""
        number, done = next(iter(self._reading.items()))
        batch, chunk = self._batch, self._budget - self._batch
        steps = (self._target[number] - done - 1) // chunk if chunk else 0
        if steps < _FEW_STEPS:
            return False
        if batch:
            steps = min(steps, self._steps_to_end())
        while steps >= _FEW_STEPS and self._grows:
            more = self._blocks_of(done + chunk * steps) - self._blocks_of(done)
            if self._fits(steps, more):
                break
            steps //= 2
        if steps < _FEW_STEPS:
            return False

        def seconds_of(ahead: int) -> float:
            parts = [Part(number, chunk, done + chunk * ahead)]
            return shared_passes_s(self._times, self._budget, batch, self._total_depth + batch * ahead, parts)

        self._reading[number] = done + chunk * steps
        self._read_steps(seconds_of, steps, chunk)
        self._finish_due()
        return True

    def _read_on(self, parts: list[Part], room: int) -> int:
        """Chunks of the prompts that are being read; returns what is left of the budget."""
        for number in list(self._reading):
            if number not in self._reading or room <= 0:
                continue
            done = self._reading[number]
            chunk = min(self._target[number] - done, room)
            more = self._blocks_of(done + chunk) - self._blocks_of(done)
            while self._grows and number in self._reading and not self._fits(1, more):
                self._preempt()
            if number in self._reading:
                self._reading[number] = done + chunk
                parts.append(Part(number, chunk, done))
                room -= chunk
        return room

    def _admit(self, parts: list[Part], room: int) -> None:
        recorder = self._recorder
        while self._admissible(room):
            number = self._queue.popleft()
            chunk = min(self._target[number], room)
            if recorder.start_s[number] != recorder.start_s[number]:  # NaN: not put back before
                recorder.start_s[number] = self._now
            if not self._grows:
                self._reserved += self._whole_blocks(number)
            self._running[number] = None
            self._reading[number] = chunk
            parts.append(Part(number, chunk, 0))
            room -= chunk

    def _begin_answer(self, number: int) -> None:
        """A prompt whose last chunk was read has its next token."""
        done = self._reading[number]
        if done < self._target[number]:
            return
        del self._reading[number]
        self._read_tokens -= done
        recorder = self._recorder
        generated = done - recorder.prompt_tokens[number] + 1
        if generated == 1:
            recorder.first_token_s[number] = self._now
        left = recorder.output_tokens[number] - generated
        if not left:
            self._leave(number)
            return
        base = done - self._steps
        self._base[number] = base
        self._base_sum += base
        self._batch += 1
        key = (self._steps + left) * self._count + number
        self._due[number] = key
        heappush(self._finishing, key)

"""Laws of the server simulation, and a slow simulation that goes token by token beside it."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.serving.curve import ServiceCurve, curve_of_physics, curve_of_points
from suffice.serving.load import EmpiricalLength, GivenArrivals, Load
from suffice.serving.run import Outcome, SimulatedRun
from suffice.serving.schedulers import BlockPolicy, KvLayout, LlamaCppScheduler, PromptEnd, VllmScheduler
from suffice.serving.simulate import simulate
from suffice.serving.step_times import StepTimes, jump_of
from suffice.serving.summary import queue_at
from suffice.serving.surface import MeasuredSurface, PassPhysics, Point, surface_of_points

QUICK = settings(max_examples=40, deadline=None, derandomize=True)
LENGTHS = st.lists(st.integers(1, 40), min_size=12, max_size=12).map(tuple)
# An irrational unit: an arrival at the very end of a step could round to either side of it.
TIMES = st.lists(st.integers(0, 60), min_size=12, max_size=12).map(
    lambda counts: tuple(sorted(count / math.sqrt(5) for count in counts))
)
LOADS = st.builds(
    lambda times, prompts, outputs: Load(
        arrivals=GivenArrivals(times_s=times),
        prompt=EmpiricalLength(tokens=prompts, in_order=True),
        output=EmpiricalLength(tokens=outputs, in_order=True),
        requests=len(times),
    ),
    TIMES,
    LENGTHS,
    LENGTHS,
)
CURVES = st.builds(
    lambda fixed, per_sequence, per_depth, per_token: curve_of_points(
        [
            Point(size=size, depth=depth, seconds=fixed + per_sequence * size + per_depth * size * depth)
            for size in (1, 4, 16)
            for depth in (0, 20, 100)
        ],
        [
            Point(size=size, depth=depth, seconds=fixed + per_token * size + per_depth * size * depth)
            for size in (1, 8, 64)
            for depth in (0, 20, 100)
        ],
    ),
    st.floats(0.05, 1),
    st.floats(0, 0.2),
    st.floats(0, 0.01),
    st.floats(0, 0.1),
)
SLOTS = st.builds(
    LlamaCppScheduler,
    slots=st.integers(1, 6),
    context_tokens=st.just(600),
    batch_tokens=st.integers(6, 40),
    micro_batch_tokens=st.integers(6, 24),
    layout=st.sampled_from(KvLayout),
    prompt_end=st.sampled_from(PromptEnd),
)
BLOCKS = st.builds(
    VllmScheduler,
    max_sequences=st.integers(1, 6),
    context_tokens=st.just(80),
    blocks=st.integers(20, 60),
    batched_tokens=st.integers(6, 60),
    block_tokens=st.just(4),
    policy=st.sampled_from(BlockPolicy),
)


class SlowServer:
    """llama.cpp's server, one token at a time, from the description of its batches alone."""

    def __init__(self, curve: ServiceCurve, scheduler: LlamaCppScheduler, load: Load) -> None:
        self.curve, self.scheduler = curve, scheduler
        drawn = load.draw(0)
        assert drawn.times_s is not None
        self.prompts, self.outputs, self.times = drawn.prompts, drawn.outputs, drawn.times_s
        self.pass_tokens = min(scheduler.micro_batch_tokens, scheduler.batch_tokens)
        self.cached: dict[int, int] = {}  # slot -> tokens in its cache
        self.made: dict[int, int] = {}
        self.who: dict[int, int] = {}
        self.last_used = dict.fromkeys(range(scheduler.slots), -1.0)
        self.first: dict[int, float] = {}
        self.finish: dict[int, float] = {}

    def run(self) -> None:
        """Serve all requests."""
        now, coming, queue, uses = 0.0, 0, deque[int](), 0.0
        while len(self.finish) < len(self.times):
            while coming < len(self.times) and self.times[coming] <= now:
                queue.append(coming)
                coming += 1
            while queue and len(self.who) < self.scheduler.slots:
                free = [slot for slot in self.last_used if slot not in self.who]
                slot = min(free, key=lambda slot: (self.last_used[slot], -slot))
                self.who[slot], self.cached[slot], self.made[slot] = queue.popleft(), 0, 0
            if not self.who:
                now = self.times[coming]
                continue
            now += self.step()
            for slot in sorted(self.who):
                request = self.who[slot]
                if self.cached[slot] < self.prompts[request]:
                    continue
                self.made[slot] += 1
                self.first.setdefault(request, now)
                if self.made[slot] == self.outputs[request]:
                    self.finish[request] = now
                    del self.who[slot]
                    uses += 1
                    self.last_used[slot] = uses

    def step(self) -> float:
        """Build a batch; its seconds."""
        batch = []  # (slot, depth, of a prompt)
        for slot in sorted(self.who):
            if self.made[slot]:
                batch.append((slot, self.cached[slot], False))
                self.cached[slot] += 1
        for slot in sorted(self.who):
            while not self.made[slot] and self.cached[slot] < self.prompts[self.who[slot]]:
                if len(batch) >= self.scheduler.batch_tokens:
                    break
                batch.append((slot, self.cached[slot], True))
                self.cached[slot] += 1
                left = self.prompts[self.who[slot]] - self.cached[slot]
                if self.scheduler.prompt_end is PromptEnd.CHECKPOINTS and left in (4, 4 + self.pass_tokens):
                    break
        if self.scheduler.layout is KvLayout.UNIFIED:
            return self.unified_s(batch)
        return self.per_slot_s(batch)

    def unified_s(self, batch: list[tuple[int, int, bool]]) -> float:
        """Passes of a fixed number of tokens."""
        generating = [depth for _, depth, of_prompt in batch if not of_prompt]
        alone = self.curve.decode_s(len(generating), float(np.mean(generating))) if generating else 0.0
        if len(generating) == len(batch):
            return alone
        seconds = alone - self.curve.decode_s(len(generating), 0) if generating else 0.0
        for start in range(0, len(batch), self.pass_tokens):
            part = batch[start : start + self.pass_tokens]
            starts: dict[int, int] = {}
            for slot, depth, of_prompt in part:
                if of_prompt:
                    starts.setdefault(slot, depth)
            weighted = [starts[slot] for slot, _, of_prompt in part if of_prompt]
            seconds += self.curve.prefill_s(len(part), float(np.mean(weighted)) if weighted else 0.0)
        return max(seconds, alone)

    def per_slot_s(self, batch: list[tuple[int, int, bool]]) -> float:
        """Passes over runs of neighbouring slots, token by token."""
        seconds, left = 0.0, list(batch)
        while left:
            members: list[int] = []
            for slot, _, _ in left:
                if not members or slot == members[-1] + 1:
                    members.append(slot)
            tokens = {member: [token for token in left if token[0] == member] for member in members}
            rounds, taken = 0, []
            while all(len(own) > rounds for own in tokens.values()):
                if rounds and (rounds + 1) * len(members) > self.pass_tokens:
                    break
                taken += [own[rounds] for own in tokens.values()]
                rounds += 1
            depth = float(np.mean([own[0][1] for own in tokens.values()]))
            if rounds == 1:
                seconds += self.curve.decode_s(len(members), depth)
            else:
                seconds += self.curve.prefill_s(len(taken), depth)
            left = [token for token in left if token not in taken]
        return seconds


class SlowBlocks:
    """A server with cache blocks that grow, one step at a time; ``cached`` holds who runs, in the order of admission."""

    def __init__(self, curve: ServiceCurve, scheduler: VllmScheduler, load: Load) -> None:
        self.curve, self.scheduler = curve, scheduler
        drawn = load.draw(0)
        assert drawn.times_s is not None
        self.prompts, self.outputs, self.times = drawn.prompts, drawn.outputs, drawn.times_s
        self.made = [0] * len(self.times)
        self.cached: dict[int, int] = {}
        self.queue: deque[int] = deque()
        self.finish: dict[int, float] = {}
        self.put_back = 0

    def known(self, number: int) -> int:
        """Tokens that must be in the cache before the next one is made."""
        return self.prompts[number] + self.made[number]

    def blocks(self, grown: dict[int, int]) -> int:
        """Blocks that are taken when some requests grow by some tokens."""
        return sum(
            math.ceil((tokens + grown.get(number, 0)) / self.scheduler.block_tokens)
            for number, tokens in self.cached.items()
        )

    def schedule(self) -> dict[int, int]:
        """Tokens that each request gets in the next step: generating ones first, then prompts, then newcomers."""
        before = self.put_back
        chosen: dict[int, int] = {}
        generating = [number for number, tokens in self.cached.items() if tokens + 1 == self.known(number)]
        generating = [number for number in generating if self.made[number]]
        chosen = dict.fromkeys(generating, 1)
        while self.blocks(chosen) > self.scheduler.blocks:
            self.preempt(chosen)
        for number in [number for number in self.cached if number not in chosen]:
            room = self.scheduler.batched_tokens - sum(chosen.values())
            while number in self.cached and room > 0:
                chosen[number] = min(self.known(number) - self.cached[number], room)
                if self.blocks(chosen) <= self.scheduler.blocks:
                    break
                del chosen[number]
                self.preempt(chosen)
        while before == self.put_back and self.queue and len(self.cached) < self.scheduler.max_sequences:
            number, room = self.queue[0], self.scheduler.batched_tokens - sum(chosen.values())
            chunk = min(self.known(number), room)
            taken = self.blocks(chosen) + math.ceil(chunk / self.scheduler.block_tokens)
            if room <= 0 or taken > self.scheduler.blocks:
                break
            self.cached[self.queue.popleft()] = 0
            chosen[number] = chunk
        return chosen

    def preempt(self, chosen: dict[int, int]) -> None:
        """The youngest goes back to the head of the queue."""
        number, _ = self.cached.popitem()
        chosen.pop(number, None)
        self.put_back += 1
        self.queue.appendleft(number)

    def run(self) -> None:
        """Serve all requests."""
        now, coming = 0.0, 0
        while len(self.finish) < len(self.times):
            while coming < len(self.times) and self.times[coming] <= now:
                self.queue.append(coming)
                coming += 1
            chosen = self.schedule()
            if not chosen:
                now = now if self.queue else self.times[coming]
                continue
            now += self.seconds(chosen)
            for number, tokens in chosen.items():
                self.cached[number] += tokens
                if self.cached[number] == self.known(number):
                    self.made[number] += 1
                    if self.made[number] == self.outputs[number]:
                        self.finish[number] = now
                        del self.cached[number]

    def seconds(self, chosen: dict[int, int]) -> float:
        """One pass over all tokens."""
        reading = {number: tokens for number, tokens in chosen.items() if not self.generates(number)}
        depths = [self.cached[number] for number in chosen if self.generates(number)]
        alone = self.curve.decode_s(len(depths), float(np.mean(depths))) if depths else 0.0
        if not reading:
            return alone
        weighted = sum(self.cached[number] * tokens for number, tokens in reading.items()) / sum(reading.values())
        extra = alone - self.curve.decode_s(len(depths), 0) if depths else 0.0
        return max(alone, extra + self.curve.prefill_s(sum(chosen.values()), weighted))

    def generates(self, number: int) -> bool:
        """Whether its cache lacks only the token that was made last."""
        return self.made[number] > 0 and self.cached[number] + 1 == self.known(number)


TIGHT = st.builds(
    VllmScheduler,
    max_sequences=st.integers(1, 6),
    context_tokens=st.just(80),
    blocks=st.integers(20, 30),
    batched_tokens=st.integers(80, 120),
    block_tokens=st.just(4),
)


@QUICK
@given(CURVES, TIGHT, LOADS)
def test_jumps_over_blocks_give_what_single_steps_give(
    curve: ServiceCurve, scheduler: VllmScheduler, load: Load
) -> None:
    """The same of a pool that is so small that requests are put back: the same ends, and as many of them put back."""
    run = simulate(curve, scheduler, load)
    slow = SlowBlocks(curve, scheduler, load)
    slow.run()

    assert run.finish_s == pytest.approx([slow.finish[number] for number in range(load.requests)], rel=1e-9)
    assert run.preemptions == slow.put_back


@QUICK
@given(CURVES, SLOTS, LOADS)
def test_jumps_give_what_single_steps_give(curve: ServiceCurve, scheduler: LlamaCppScheduler, load: Load) -> None:
    """Each first and last token of the event simulation comes when a token-by-token simulation of the same rules has it."""
    run = simulate(curve, scheduler, load)
    slow = SlowServer(curve, scheduler, load)
    slow.run()

    assert run.finish_s == pytest.approx([slow.finish[number] for number in range(load.requests)], rel=1e-9)
    assert run.first_token_s == pytest.approx([slow.first[number] for number in range(load.requests)], rel=1e-9)


def _check_conservation(run: SimulatedRun, load: Load) -> None:
    drawn = load.draw(0)
    assert run.served.all()
    assert run.output_tokens.tolist() == drawn.outputs
    assert (run.arrival_s <= run.start_s).all()
    assert (run.start_s < run.first_token_s).all()
    assert (run.first_token_s <= run.finish_s).all()
    assert ((run.finish_s == run.first_token_s) == (run.output_tokens == 1)).all()
    assert run.busy_s <= run.end_s * (1 + 1e-12)
    assert run.end_s == run.finish_s.max()
    assert run.most_cached_tokens <= run.capacity_tokens
    moments = np.unique(np.concatenate([run.start_s, run.finish_s]))
    running = np.searchsorted(np.sort(run.start_s), moments, side="right") - np.searchsorted(
        np.sort(run.finish_s), moments, side="right"
    )
    assert running.max() <= run.most_requests
    assert (queue_at(run, run.arrival_s) >= 0).all()


@QUICK
@given(CURVES, SLOTS, LOADS)
def test_no_request_and_no_token_is_lost_in_slots(
    curve: ServiceCurve, scheduler: LlamaCppScheduler, load: Load
) -> None:
    """Every request is answered in full, in order of its times, never more at once than there are slots."""
    _check_conservation(simulate(curve, scheduler, load), load)


@QUICK
@given(CURVES, BLOCKS, LOADS)
def test_no_request_and_no_token_is_lost_in_blocks(curve: ServiceCurve, scheduler: VllmScheduler, load: Load) -> None:
    """The same of blocks, whatever is put back; and whoever reserves puts nothing back."""
    run = simulate(curve, scheduler, load)

    _check_conservation(run, load)
    if scheduler.policy is BlockPolicy.RESERVE:
        assert run.preemptions == 0


@QUICK
@given(CURVES, LOADS, st.integers(1, 6))
def test_both_schedulers_agree_where_their_rules_do(curve: ServiceCurve, load: Load, places: int) -> None:
    """With prompts of one token and room for all, slots that share a cache and blocks serve alike."""
    short = replace(load, prompt=EmpiricalLength(tokens=(1,)))
    slots = LlamaCppScheduler(slots=places, context_tokens=600, layout=KvLayout.UNIFIED)
    blocks = VllmScheduler(max_sequences=places, context_tokens=600, blocks=600, batched_tokens=512)

    one, two = simulate(curve, slots, short), simulate(curve, blocks, short)

    assert two.first_token_s == pytest.approx(one.first_token_s, rel=1e-9)
    assert two.finish_s == pytest.approx(one.finish_s, rel=1e-9)
    assert two.cached_token_seconds == pytest.approx(one.cached_token_seconds, rel=1e-9)


@QUICK
@given(CURVES, BLOCKS, LOADS)
def test_littles_law_holds(curve: ServiceCurve, scheduler: VllmScheduler, load: Load) -> None:
    """The area under the number of waiting requests is the sum of their waits."""
    run = simulate(curve, scheduler, load)
    moments = np.unique(np.concatenate([run.arrival_s, run.start_s]))
    area = float((queue_at(run, moments[:-1]) * np.diff(moments)).sum())

    assert area == pytest.approx(float(run.queueing_s.sum()), rel=1e-9, abs=1e-9)


@QUICK
@given(CURVES, LOADS, st.floats(1, 3))
def test_a_slower_machine_never_answers_sooner(curve: ServiceCurve, load: Load, factor: float) -> None:
    """With one slot, first come first served, no first token comes sooner when everything takes longer."""
    scheduler = LlamaCppScheduler(slots=1, context_tokens=200)

    fast, slow = simulate(curve, scheduler, load), simulate(curve.slower(factor), scheduler, load)

    assert (slow.ttft_s >= fast.ttft_s * (1 - 1e-9)).all()
    assert (slow.e2e_s >= fast.e2e_s * (1 - 1e-9)).all()


@QUICK
@given(LENGTHS, st.integers(1, 8))
def test_more_slots_never_drain_a_queue_later(outputs: tuple[int, ...], slots: int) -> None:
    """Where a step costs the same for any batch, one slot more never makes the whole queue last longer."""
    points = [Point(size=size, depth=0, seconds=1.0) for size in (1, 64)]
    load = Load(
        arrivals=GivenArrivals(times_s=(0.0,) * len(outputs)),
        prompt=EmpiricalLength(tokens=(1,)),
        output=EmpiricalLength(tokens=outputs, in_order=True),
        requests=len(outputs),
    )
    fewer = LlamaCppScheduler(slots=slots, context_tokens=5000, layout=KvLayout.UNIFIED)

    ends = [
        simulate(curve_of_points(points, points), scheduler, load).end_s
        for scheduler in (fewer, replace(fewer, slots=slots + 1))
    ]

    assert ends[1] <= ends[0]


@QUICK
@given(CURVES, st.integers(1, 12), st.integers(0, 900), st.integers(1, 150))
def test_the_sum_of_steps_is_exact(curve: ServiceCurve, batch: int, total_depth: int, steps: int) -> None:
    """The closed form of many steps is the sum of single steps at their mean depths."""
    one_by_one = sum(curve.decode_s(batch, total_depth / batch + step) for step in range(steps))

    assert StepTimes(curve).steps_s(batch, total_depth, steps) == pytest.approx(one_by_one, rel=1e-9)


@QUICK
@given(st.lists(st.floats(0.01, 5), min_size=1, max_size=60).map(sorted), st.floats(0.001, 200))
def test_the_least_number_of_steps_is_the_first_that_reaches(steps: list[float], gap_s: float) -> None:
    """The bracketed search finds what counting finds."""
    sums = np.cumsum(steps)
    counted = next((count for count, end in enumerate(sums, start=1) if end >= gap_s), len(steps))

    found, seconds = jump_of(lambda count: float(sums[count - 1]), len(steps), gap_s, float(sums[-1]))

    assert found == counted
    assert seconds == sums[counted - 1]


POINTS = st.lists(
    st.builds(Point, size=st.integers(1, 32), depth=st.integers(0, 4000), seconds=st.floats(0.001, 10)),
    min_size=1,
    max_size=12,
)


@QUICK
@given(POINTS, st.floats(1, 64), st.floats(0, 9000), st.floats(1, 2), st.floats(0, 500))
def test_a_surface_never_falls(points: list[Point], size: float, depth: float, more: float, deeper: float) -> None:
    """Whatever noise was measured, a deeper cache never makes a pass faster, nor do more sequences than were measured."""
    surface = surface_of_points(points)
    here = surface.at(size, depth)
    last = surface.sizes[-1]

    assert here > 0
    assert surface.at(last * more, depth) >= surface.at(last, depth) * (1 - 1e-9)
    assert surface.at(size, depth + deeper) >= here * (1 - 1e-9)
    assert surface.row(size, np.array([depth]))[0] == pytest.approx(here)


@QUICK
@given(st.lists(st.floats(0.001, 10), min_size=6, max_size=6))
def test_a_monotone_grid_is_reproduced(values: list[float]) -> None:
    """Points that are monotone already lie on the surface."""
    grid = np.sort(np.array(values)).reshape(2, 3)
    points = [
        Point(size=size, depth=depth, seconds=float(grid[row, column]))
        for row, size in enumerate((1, 8))
        for column, depth in enumerate((0, 100, 1000))
    ]

    surface = surface_of_points(points)

    assert isinstance(surface, MeasuredSurface)
    assert [surface.at(point.size, point.depth) for point in points] == pytest.approx(
        [point.seconds for point in points]
    )


@QUICK
@given(LOADS, SLOTS)
def test_scaling_time_scales_every_answer(load: Load, scheduler: LlamaCppScheduler) -> None:
    """A machine twice as slow under arrivals twice as far apart gives the same run in twice the time."""
    curve = curve_of_physics(
        PassPhysics(
            weight_bytes=1e6, bandwidth_bytes_per_s=1e7, kv_bytes_per_token=1e3, flop_per_token=2e6, flop_per_s=1e8
        )
    )
    assert isinstance(load.arrivals, GivenArrivals)
    stretched = replace(load, arrivals=GivenArrivals(times_s=tuple(2 * time for time in load.arrivals.times_s)))

    one, two = simulate(curve, scheduler, load), simulate(curve.slower(2), scheduler, stretched)

    assert two.finish_s == pytest.approx(2 * one.finish_s)
    assert two.count(Outcome.DONE) == one.count(Outcome.DONE) == load.requests

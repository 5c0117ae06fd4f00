"""Lengths far beyond any table: sums in closed form, and many steps over a long prompt at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.model.demand import Lengths
from suffice.serving import alone, blocks_engine, slots_engine
from suffice.serving.curve import ServiceCurve, curve_of_physics, curve_of_points
from suffice.serving.load import ClosedLoop, FixedLength, GivenArrivals, Load, LognormalLength, OpenArrivals
from suffice.serving.schedulers import BlockPolicy, KvLayout, LlamaCppScheduler, PromptEnd, VllmScheduler
from suffice.serving.simulate import simulate
from suffice.serving.step_times import StepTimes, line_sums
from suffice.serving.surface import MeasuredSurface, PassPhysics, Point, Surface

if TYPE_CHECKING:
    from numpy.typing import NDArray

MEASURED = curve_of_points(
    [
        Point(size=size, depth=depth, seconds=0.02 + 0.002 * size + 1e-6 * size * min(depth, 80_000))
        for size in (1, 4)
        for depth in (0, 4000, 80_000, 100_000)
    ],
    [
        Point(size=size, depth=depth, seconds=0.02 + 0.001 * size + 1e-7 * size * depth)
        for size in (32, 512)
        for depth in (0, 8000)
    ],
)
PHYSICS = curve_of_physics(
    PassPhysics(
        weight_bytes=1e9,
        bandwidth_bytes_per_s=4e10,
        kv_bytes_per_token=1e5,
        flop_per_token=2e9,
        attention_flop=1e5,
        flop_per_s=2e11,
    )
)
LONG = LognormalLength(lengths=Lengths(p50=512, p95=512_000))
SLOTS = LlamaCppScheduler(slots=4, context_tokens=4 * 2**26)


@pytest.mark.parametrize("curve", [MEASURED, PHYSICS])
@pytest.mark.parametrize(
    ("total", "steps"), [(3 * 65_530, 40), (3 * 79_990, 30), (3 * 10**6 + 1, 50), (3 * 60_000, 50_000)]
)
def test_steps_behind_the_table_are_the_sum_of_single_steps(curve: ServiceCurve, total: int, steps: int) -> None:
    """Across the end of the table, across a measured depth behind it, and far out."""
    one_by_one = float(curve.decode.row(3, total / 3 + np.arange(steps, dtype=np.float64)).sum())

    assert StepTimes(curve).steps_s(3, total, steps) == pytest.approx(one_by_one, rel=1e-6)


def test_a_jump_behind_the_table_ends_where_counting_ends() -> None:
    """The least number of steps that last two seconds, from a depth of a million."""
    times = StepTimes(MEASURED)
    steps, seconds = times.jump(2, 2 * 10**6, 500, 2.0)

    assert times.steps_s(2, 2 * 10**6, steps) == seconds >= 2.0
    assert times.steps_s(2, 2 * 10**6, steps - 1) < 2.0


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.floats(0, 5), min_size=2, max_size=5), st.integers(1, 300))
def test_a_function_in_pieces_is_summed_as_one_by_one(slopes: list[float], count: int) -> None:
    """Whatever the slopes of the pieces: the sum is that of its values."""
    knots = np.arange(len(slopes) + 1) * 60.0
    values = np.concatenate([[1.0], 1.0 + np.cumsum(np.array(slopes) * 60.0)])

    def seconds_of(index: int) -> float:
        return float(np.interp(index, knots, values))

    seconds, weighted = line_sums(seconds_of, count)

    assert seconds == pytest.approx(sum(seconds_of(index) for index in range(count)), rel=1e-8)
    assert weighted == pytest.approx(sum(index * seconds_of(index) for index in range(count)), rel=1e-8)


SERVERS = [
    SLOTS,
    LlamaCppScheduler(slots=4, context_tokens=2**20, layout=KvLayout.UNIFIED),
    LlamaCppScheduler(slots=3, context_tokens=3 * 2**20, batch_tokens=300, prompt_end=PromptEnd.CHECKPOINTS),
    VllmScheduler(max_sequences=4, context_tokens=2**18, blocks=2**15),
    VllmScheduler(max_sequences=4, context_tokens=2**18, blocks=2**16, policy=BlockPolicy.RESERVE),
]


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("curve", [MEASURED, PHYSICS])
@pytest.mark.parametrize(
    "arrivals", [OpenArrivals(rate_per_s=0.02), GivenArrivals(times_s=(0.0,) * 40), ClosedLoop(users=3, think_s=20.0)]
)
def test_many_steps_at_once_end_when_single_ones_do(
    monkeypatch: pytest.MonkeyPatch,
    curve: ServiceCurve,
    server: LlamaCppScheduler | VllmScheduler,
    arrivals: OpenArrivals | GivenArrivals | ClosedLoop,
) -> None:
    """Every time, end and count of a run with prompts of up to a million tokens is that of the same run step by step."""
    prompt = LognormalLength(lengths=Lengths(p50=2000, p95=100_000))
    load = Load(arrivals=arrivals, prompt=prompt, output=LognormalLength(lengths=Lengths(p50=50, p95=400)), requests=40)

    jumped = simulate(curve, server, load, 3)
    monkeypatch.setattr(slots_engine, "FEW_STEPS", 10**9)
    monkeypatch.setattr(alone, "FEW_STEPS", 10**9)
    monkeypatch.setattr(blocks_engine, "_FEW_STEPS", 10**9)
    single = simulate(curve, server, load, 3)

    assert jumped.first_token_s == pytest.approx(single.first_token_s, rel=1e-6, nan_ok=True)
    assert jumped.finish_s == pytest.approx(single.finish_s, rel=1e-6, nan_ok=True)
    assert (jumped.outcome == single.outcome).all()
    assert (jumped.steps, jumped.preemptions, jumped.reached) == (single.steps, single.preemptions, single.reached)
    assert jumped.cached_token_seconds == pytest.approx(single.cached_token_seconds, rel=1e-6)


@dataclass(frozen=True, slots=True)
class Counting:
    """A surface that counts how often it is asked."""

    inner: MeasuredSurface
    calls: list[int] = field(hash=False)

    @property
    def largest_size(self) -> float:
        """Of the surface inside."""
        return self.inner.largest_size

    @property
    def largest_depth(self) -> float:
        """Of the surface inside."""
        return self.inner.largest_depth

    def at(self, size: float, depth: float) -> float:
        """Counted."""
        self.calls[0] += 1
        return self.inner.at(size, depth)

    def row(self, size: float, depths: NDArray[np.float64]) -> NDArray[np.float64]:
        """Counted by its length."""
        self.calls[0] += len(depths)
        return self.inner.row(size, depths)


def _counted(surface: Surface) -> tuple[Counting, list[int]]:
    assert isinstance(surface, MeasuredSurface)
    calls = [0]
    return Counting(surface, calls), calls


def test_prompts_a_thousand_times_the_median_cost_no_time_of_their_own() -> None:
    """400 requests with 10^8 tokens of prompts: the curve is asked less often than there are passes in one of them."""
    decode, steps = _counted(MEASURED.decode)
    prefill, chunks = _counted(MEASURED.prefill)
    curve = ServiceCurve(decode=decode, prefill=prefill, basis=MEASURED.basis)
    load = Load(arrivals=OpenArrivals(rate_per_s=0.01), prompt=LONG, output=FixedLength(tokens=100), requests=400)

    run = simulate(curve, SLOTS, load)

    assert run.served.sum() > 390
    assert run.prompt_tokens[run.served].sum() / 512 > 100_000
    assert chunks[0] < 60_000
    assert steps[0] < 1_000_000


@pytest.mark.parametrize(
    "server",
    [
        LlamaCppScheduler(slots=1, context_tokens=10**9),
        VllmScheduler(max_sequences=1, context_tokens=10**9, blocks=10**8),
    ],
)
def test_a_thousand_million_tokens_are_read(server: LlamaCppScheduler | VllmScheduler) -> None:
    """The first token comes after the prompt's arithmetic, n (flop + attention n / 2) / rate; no memory goes with the length."""
    tokens = 10**9 - 10
    load = Load(
        arrivals=GivenArrivals(times_s=(0.0,)),
        prompt=FixedLength(tokens=tokens),
        output=FixedLength(tokens=5),
        requests=1,
    )

    run = simulate(PHYSICS, server, load)

    assert run.first_token_s[0] == pytest.approx(tokens * (2e9 + 1e5 * tokens / 2) / 2e11, rel=1e-3)
    assert run.finish_s[0] > run.first_token_s[0]


def test_draws_of_absurd_spreads_stay_whole_numbers() -> None:
    """A median of 1 and a P95 of 10^9: lengths end at 10^12 tokens and never turn negative."""
    drawn = LognormalLength(lengths=Lengths(p50=1, p95=10**9)).draw(np.random.default_rng(1), 100_000)

    assert drawn.min() == 1
    assert drawn.max() == 10**12

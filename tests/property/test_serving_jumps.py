"""A server that jumps over what it does alone says what one does that goes step by step there."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.model.demand import Lengths
from suffice.serving.curve import curve_of_points
from suffice.serving.load import ArrivalKind, ClosedLoop, Load, LognormalLength, OpenArrivals
from suffice.serving.schedulers import KvLayout, LlamaCppScheduler, PromptEnd
from suffice.serving.slots_engine import SlotsEngine
from suffice.serving.surface import Point

QUICK = settings(max_examples=80, deadline=None, derandomize=True)
CURVE = curve_of_points(
    [
        Point(size=size, depth=depth, seconds=0.05 + 0.01 * size + 1e-5 * size * depth)
        for size in (1, 8)
        for depth in (0, 900)
    ],
    [
        Point(size=size, depth=depth, seconds=0.05 + 0.002 * size + 1e-5 * depth)
        for size in (8, 512)
        for depth in (0, 900)
    ],
)
LENGTHS = st.sampled_from([1, 2, 10, 60, 400]).map(
    lambda tokens: LognormalLength(lengths=Lengths(p50=tokens, p95=3 * tokens))
)
ARRIVALS = st.one_of(
    st.builds(OpenArrivals, rate_per_s=st.floats(0.01, 10), kind=st.sampled_from(ArrivalKind)),
    st.builds(ClosedLoop, users=st.integers(1, 9), think_s=st.sampled_from([0.0, 3.0])),
)
SERVERS = st.builds(
    LlamaCppScheduler,
    slots=st.integers(1, 8),
    context_tokens=st.sampled_from([600, 3000, 20_000]),
    batch_tokens=st.sampled_from([64, 512, 2048]),
    micro_batch_tokens=st.sampled_from([32, 128, 512]),
    layout=st.sampled_from(KvLayout),
    prompt_end=st.sampled_from(PromptEnd),
)


class StepByStep(SlotsEngine):
    """The same server, without the jumps over whole requests and whole prompts."""

    def _serve_alone(self) -> bool:
        return False

    def _read_alone(self) -> bool:
        return False


@QUICK
@given(
    server=SERVERS,
    arrivals=ARRIVALS,
    prompt=LENGTHS,
    output=LENGTHS,
    requests=st.integers(1, 80),
    seed=st.integers(0, 99),
)
def test_jumps_change_nothing(  # one for each thing that is drawn
    *,
    server: LlamaCppScheduler,
    arrivals: OpenArrivals | ClosedLoop,
    prompt: LognormalLength,
    output: LognormalLength,
    requests: int,
    seed: int,
) -> None:
    """Neither a time of a request nor how it ended nor the account of the cache."""
    load = Load(arrivals=arrivals, prompt=prompt, output=output, requests=requests)

    run, slow = (kind(CURVE, server, load.draw(seed)).run() for kind in (SlotsEngine, StepByStep))

    for name in ("arrival_s", "start_s", "first_token_s", "finish_s"):
        np.testing.assert_allclose(getattr(run, name), getattr(slow, name), rtol=1e-9, atol=1e-9, err_msg=name)
    assert run.outcome.tolist() == slow.outcome.tolist()
    assert (run.reached.batch, run.reached.depth) == (slow.reached.batch, slow.reached.depth)
    assert (run.steps, run.most_cached_tokens) == (slow.steps, slow.most_cached_tokens)
    np.testing.assert_allclose(run.cached_token_seconds, slow.cached_token_seconds, rtol=1e-7)

"""The vLLM-like scheduler: small traces worked by hand. Every step takes one second."""

from __future__ import annotations

import pytest

from suffice.serving.curve import curve_of_points
from suffice.serving.load import EmpiricalLength, GivenArrivals, Load
from suffice.serving.run import Outcome
from suffice.serving.schedulers import BlockPolicy, VllmScheduler
from suffice.serving.simulate import simulate
from suffice.serving.surface import Point

FLAT = [Point(size=size, depth=0, seconds=1.0) for size in (1, 4096)]
ONE_SECOND = curve_of_points(FLAT, FLAT)


def _load(*requests: tuple[float, int, int]) -> Load:
    """(arrival, prompt tokens, output tokens) each."""
    times, prompts, outputs = zip(*requests, strict=True)
    return Load(
        arrivals=GivenArrivals(times_s=times),
        prompt=EmpiricalLength(tokens=prompts, in_order=True),
        output=EmpiricalLength(tokens=outputs, in_order=True),
        requests=len(requests),
    )


def _tight(policy: BlockPolicy) -> VllmScheduler:
    """Three blocks of two tokens."""
    return VllmScheduler(max_sequences=2, context_tokens=6, blocks=3, batched_tokens=8, block_tokens=2, policy=policy)


TWO = _load((0, 2, 4), (0, 2, 3))


def test_prompts_are_read_in_chunks_under_the_budget() -> None:
    """A budget of four tokens: a chunk of A, its end beside the start of B, then decode beside the end of B."""
    # 0-1: A reads 4. 1-2: A reads 2 (first token), B reads 2. 2-3: A decodes its last, B reads 1 (first token). 3-4: B decodes.
    scheduler = VllmScheduler(max_sequences=2, context_tokens=64, blocks=100, batched_tokens=4)

    run = simulate(ONE_SECOND, scheduler, _load((0, 6, 2), (0, 3, 2)))

    assert run.start_s.tolist() == [0, 1]
    assert run.first_token_s.tolist() == [2, 3]
    assert run.finish_s.tolist() == [3, 4]


def test_the_youngest_is_put_back_when_blocks_run_out() -> None:
    """B loses two tokens of cache at 1, waits for A's end at 4, reads prompt and first token again, and ends at 6."""
    run = simulate(ONE_SECOND, _tight(BlockPolicy.GROW), TWO)

    assert run.preemptions == 1
    assert run.recomputed_tokens == 2
    assert run.first_token_s.tolist() == [1, 1]
    assert run.finish_s.tolist() == [4, 6]
    assert run.start_s.tolist() == [0, 0]


def test_reserved_blocks_are_never_taken_away() -> None:
    """A reserves all three blocks until 4; B starts only then."""
    run = simulate(ONE_SECOND, _tight(BlockPolicy.RESERVE), TWO)

    assert run.preemptions == 0
    assert run.start_s.tolist() == [0, 4]
    assert run.first_token_s.tolist() == [1, 5]
    assert run.finish_s.tolist() == [4, 7]


def test_a_newcomer_does_not_wait_for_the_end_of_an_answer() -> None:
    """With places and blocks to spare an arrival is read at the next step; with none it waits."""
    scheduler = VllmScheduler(max_sequences=2, context_tokens=64, blocks=100)
    run = simulate(ONE_SECOND, scheduler, _load((0, 1, 10), (3.25, 1, 10), (3.5, 1, 1)))

    assert run.start_s.tolist() == [0, 4, 10]


def test_what_does_not_fit_is_rejected_or_cut() -> None:
    """The context bounds prompt and answer together."""
    scheduler = VllmScheduler(max_sequences=2, context_tokens=10, blocks=100)
    run = simulate(ONE_SECOND, scheduler, _load((0, 10, 1), (0, 8, 5)))

    assert run.outcome.tolist() == [Outcome.REJECTED, Outcome.TRUNCATED]
    assert run.output_tokens.tolist() == [0, 2]


def test_settings_that_cannot_be_are_refused() -> None:
    """A pool that cannot hold one request, or a budget under the number of sequences."""
    with pytest.raises(ValueError, match="do not hold one request"):
        VllmScheduler(max_sequences=1, context_tokens=100, blocks=2)
    with pytest.raises(ValueError, match="budget"):
        VllmScheduler(max_sequences=100, context_tokens=100, blocks=100, batched_tokens=50)

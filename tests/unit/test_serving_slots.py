"""llama.cpp's scheduler: small traces worked by hand. Every pass takes one second unless a test says otherwise."""

from __future__ import annotations

import numpy as np
import pytest

from suffice.serving.curve import curve_of_points
from suffice.serving.load import EmpiricalLength, GivenArrivals, Load
from suffice.serving.run import Outcome
from suffice.serving.schedulers import KvLayout, LlamaCppScheduler, PromptEnd
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


THREE = _load((0.0, 4, 3), (0.5, 6, 2), (1.0, 1, 1))


def _scheduler(slots: int, layout: KvLayout, batch_tokens: int = 4) -> LlamaCppScheduler:
    return LlamaCppScheduler(
        slots=slots, context_tokens=100, batch_tokens=batch_tokens, micro_batch_tokens=batch_tokens, layout=layout
    )


def test_a_trace_with_a_shared_cache() -> None:
    """Decode tokens come first in a batch of four, prompts fill it; a newcomer waits for a slot."""
    # 0-1: A reads 4, first token at 1. B (0.5) takes the other slot, C (1.0) waits.
    # 1-2: A decodes, B reads 3.  2-3: A decodes its third and last, B reads its last 3: first token at 3. C takes A's slot.
    # 3-4: B decodes its last, C reads 1: first and only token.
    run = simulate(ONE_SECOND, _scheduler(2, KvLayout.UNIFIED), THREE)

    assert run.start_s.tolist() == [0, 1, 3]
    assert run.first_token_s.tolist() == [1, 3, 4]
    assert run.finish_s.tolist() == [3, 4, 4]
    assert run.ttft_s.tolist() == [1, 2.5, 3]
    assert run.tpot_s[:2].tolist() == [1, 1]
    assert np.isnan(run.tpot_s[2])
    assert (run.steps, run.busy_s, run.end_s) == (4, 4, 4)


def test_a_trace_with_a_cache_for_each_slot() -> None:
    """A prompt beside a generating slot that is no neighbour below it costs a pass of its own."""
    # The first request takes the slot with the highest number, 1; B takes 0.
    # 0-1: A reads 4. 1-3: pass of A's token, pass of B's 3. 3-5: the same, A ends, B's first token; C takes slot 1.
    # 5-6: B's token and C's only prompt token are neighbours 0 and 1: one pass.
    run = simulate(ONE_SECOND, _scheduler(2, KvLayout.PER_SLOT), THREE)

    assert run.first_token_s.tolist() == [1, 5, 6]
    assert run.finish_s.tolist() == [5, 6, 6]


def test_an_idle_slot_between_generating_ones_costs_a_pass() -> None:
    """Separate caches: sequences 0 and 2 without 1 are two passes a step; a shared cache needs one."""
    load = _load((0.0, 1, 4), (0.0, 1, 2), (0.0, 1, 4))  # in slots 2, 1 and 0

    apart = simulate(ONE_SECOND, _scheduler(3, KvLayout.PER_SLOT), load)
    shared = simulate(ONE_SECOND, _scheduler(3, KvLayout.UNIFIED), load)

    assert apart.finish_s.tolist() == [6, 2, 6]  # tokens at 1, 2, then 4 and 6
    assert shared.finish_s.tolist() == [4, 2, 4]


def test_slots_that_rested_longest_are_taken_first() -> None:
    """After all slots were used once, the one that became free first is next."""
    # Slots 2, 1, 0 become free at 3, 2, 4 (B's slot 1 first). D arrives at 10 and takes slot 1, E at 10 slot 2: neighbours.
    load = _load((0.0, 1, 3), (0.0, 1, 2), (0.0, 1, 4), (10.0, 1, 3), (10.0, 1, 3))

    run = simulate(ONE_SECOND, _scheduler(3, KvLayout.PER_SLOT, 8), load)

    assert run.finish_s[3:].tolist() == [13, 13]  # slots 1 and 2: one pass a step


def test_a_newcomer_is_read_at_the_next_boundary_of_steps() -> None:
    """An arrival in the middle of a step waits for its end, not for the end of an answer."""
    run = simulate(ONE_SECOND, _scheduler(2, KvLayout.UNIFIED), _load((0.0, 1, 10), (3.25, 1, 2)))

    assert run.start_s.tolist() == [0, 4]
    assert run.first_token_s.tolist() == [1, 5]
    assert run.queueing_s[1] == 0.75


def test_long_prompts_take_several_passes_of_one_step() -> None:
    """10 tokens in micro-batches of 4 are three passes; with generating tokens in the batch, 4 + 4 + 3 of 11."""
    scheduler = LlamaCppScheduler(
        slots=2, context_tokens=100, batch_tokens=64, micro_batch_tokens=4, layout=KvLayout.UNIFIED
    )

    run = simulate(ONE_SECOND, scheduler, _load((0.0, 10, 3), (1.0, 10, 1)))

    assert run.first_token_s.tolist() == [3, 6]
    assert run.finish_s.tolist() == [7, 6]


def test_checkpoints_split_the_end_of_a_prompt() -> None:
    """Models with windows stop 4 + n_ubatch and 4 tokens before the end: 20 tokens at n_ubatch 8 are steps of 8, 8 and 4."""
    scheduler = LlamaCppScheduler(
        slots=1, context_tokens=100, batch_tokens=64, micro_batch_tokens=8, prompt_end=PromptEnd.CHECKPOINTS
    )

    run = simulate(ONE_SECOND, scheduler, _load((0.0, 20, 1)))

    assert (run.steps, run.end_s) == (3, 3)


def test_the_depth_of_the_cache_counts() -> None:
    """Steps at depths 4, 5 and 6 of a curve of 1 + depth seconds take 5 + 6 + 7."""
    decode = [Point(size=1, depth=depth, seconds=1 + depth) for depth in (0, 100)]
    curve = curve_of_points(decode, [Point(size=size, depth=0, seconds=2) for size in (1, 8)])

    run = simulate(curve, _scheduler(1, KvLayout.PER_SLOT), _load((0.0, 4, 4)))

    assert run.first_token_s[0] == 2
    assert run.finish_s[0] == pytest.approx(2 + 5 + 6 + 7)
    # The cache held 0 to 4 tokens while the prompt was read and 4 to 7 over the next 18 seconds.
    assert run.cached_token_seconds == pytest.approx(2 * 2 + 18 * 5.5)
    assert run.most_cached_tokens == 7


def test_what_does_not_fit_is_rejected_or_cut() -> None:
    """A prompt that fills its slot is rejected; an answer that reaches the end of it is cut there, and both are counted."""
    run = simulate(ONE_SECOND, LlamaCppScheduler(slots=2, context_tokens=20), _load((0, 10, 2), (0, 6, 9), (0, 9, 1)))

    assert run.outcome.tolist() == [Outcome.REJECTED, Outcome.TRUNCATED, Outcome.DONE]
    assert run.output_tokens.tolist() == [0, 4, 1]
    assert np.isnan(run.finish_s[0])
    assert run.count(Outcome.REJECTED) == 1


def test_a_full_shared_cache_fails_everything_in_it() -> None:
    """Two requests that outgrow a shared cache together both end with an error, as llama-server does; the next is served."""
    scheduler = LlamaCppScheduler(slots=2, context_tokens=20, layout=KvLayout.UNIFIED)

    run = simulate(ONE_SECOND, scheduler, _load((0, 6, 10), (0, 6, 10), (30, 6, 10)))

    assert run.outcome.tolist() == [Outcome.FAILED, Outcome.FAILED, Outcome.DONE]
    assert run.finish_s[2] == 40


def test_settings_that_cannot_be_are_refused() -> None:
    """No slots, a micro-batch below the number of slots, or no context for a slot."""
    with pytest.raises(ValueError, match="at least 1"):
        LlamaCppScheduler(slots=0, context_tokens=100)
    with pytest.raises(ValueError, match="micro-batch"):
        LlamaCppScheduler(slots=8, context_tokens=100, micro_batch_tokens=4)
    with pytest.raises(ValueError, match="too few"):
        LlamaCppScheduler(slots=8, context_tokens=15)

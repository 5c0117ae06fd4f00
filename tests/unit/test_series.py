"""Repetitions on a fake engine whose truth is known."""

# ruff: noqa: ANN401  # builders take any field of what they build

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from suffice.measure.engine.fake import FakeBehaviour, FakeClock, FakeEngine, FakeSession, FakeSpeed
from suffice.measure.engine.seam import EngineSettings
from suffice.measure.series import (
    MAX_STEPS,
    MIN_STEPS,
    DecodeAt,
    SeriesPlan,
    SeriesRunner,
    SeriesState,
    ThreadChoice,
    decode_rate,
    prefill_rate,
    steps_per_repetition,
    sweep_threads,
    warm_up,
)
from suffice.stats import StoppingRule, StopReason

# Planted truth: 20 ms a step and 10 us more per token in the cache, 2 ms a prompt token, one thread's worth of speed.
SPEED = FakeSpeed(decode_step_s=0.02, decode_step_s_per_depth=1e-5, prefill_token_s=0.002, useful_threads=1)


def _engine(speed: FakeSpeed = SPEED, **behaviour: Any) -> tuple[FakeClock, FakeSession]:
    clock = FakeClock()
    engine = FakeEngine(clock=clock, speed=speed, behaviour=FakeBehaviour(**behaviour))
    settings = EngineSettings(n_ctx=4096, n_threads=2, n_threads_batch=2)
    return clock, engine.open(Path("toy.gguf"), settings)


def _run(
    *, depth: int = 512, budget_s: float = 1e6, prompt_tokens: int = 1024, speed: FakeSpeed = SPEED, **behaviour: Any
) -> SeriesState:
    clock, session = _engine(speed, **behaviour)
    plan = SeriesPlan(prompt_tokens=prompt_tokens, depth=depth, steps=10, budget_s=budget_s, rule=StoppingRule())
    state = SeriesState(threads=ThreadChoice(decode=1, prefill=1), prompt_tokens=prompt_tokens)
    SeriesRunner(session, clock, plan, state).run()
    return state


def test_planted_speeds_are_found() -> None:
    """Decode at 512: mean step over depths 512 to 521 is 25.165 ms; prefill 500 tokens/s; TTFT 2.048 s and one step."""
    state = _run()
    at_depth, empty = state.decode_series()
    prefill = state.prefill_series()

    assert (at_depth.depth, empty.depth) == (512, 0)
    assert at_depth.tokens_per_second is not None
    assert at_depth.tokens_per_second.point == pytest.approx(1 / 0.025165)
    assert empty.tokens_per_second is not None
    assert empty.tokens_per_second.point == pytest.approx(1 / 0.020045)
    assert prefill.tokens_per_second is not None
    assert prefill.tokens_per_second.point == pytest.approx(500)
    assert state.ttft_s[0] == pytest.approx(1024 * 0.002 + 0.02 + 1024 * 1e-5)


def test_raw_samples_are_kept() -> None:
    """Every step of every repetition and every chunk is there: 8 rows of 10 steps, 8 rows of 2 chunks."""
    state = _run()

    assert [len(row) for row in state.step_rows[DecodeAt(512)]] == [10] * 8
    assert [len(row) for row in state.chunk_rows] == [2] * 8
    assert state.chunk_tokens == (512, 512)
    assert set(state.stopped.values()) == {StopReason.NARROW}


@pytest.mark.parametrize("depth", [0, 512, 1024, 2048])
def test_every_depth_is_measured_where_it_says(depth: int) -> None:
    """No matter how the prompt compares with the depth, each step is timed at its own depth."""
    state = _run(depth=depth)

    for (measured, _batch), rows in state.step_rows.items():
        for row in rows:
            assert row[0] == pytest.approx(0.02 + measured * 1e-5)
            assert row[-1] == pytest.approx(0.02 + (measured + 9) * 1e-5)


@pytest.mark.parametrize("depth", [0, 512, 2048])
def test_models_that_cannot_be_cut_back_are_filled_again(depth: int) -> None:
    """With recurrent state a rewind fails; steps are still timed at their depth, or one token on for an empty cache."""
    state = _run(depth=depth, can_rewind=False)

    for (measured, _batch), rows in state.step_rows.items():
        assert rows[-1][0] == pytest.approx(0.02 + max(measured, 1) * 1e-5)


@pytest.mark.parametrize("depth", [0, 512, 2048])
def test_a_spent_budget_still_gives_what_an_interval_needs(depth: int) -> None:
    """With next to no budget, prefill and the run's depth have three rows, the second depth one; the reason is the budget."""
    state = _run(depth=depth, budget_s=1e-9)

    assert len(state.chunk_rows) == 3
    assert [len(rows) for rows in state.step_rows.values()] == [3, 1]
    assert set(state.stopped.values()) == {StopReason.BUDGET}


def test_noise_is_repeated_until_it_is_narrow() -> None:
    """With a jitter of 20 % a repetition scatters, and more than the minimum of eight are made."""
    noisy = FakeSpeed(decode_step_s=0.02, prefill_token_s=0.002, useful_threads=1, jitter=0.6)

    state = _run(speed=noisy)

    assert len(state.chunk_rows) > 8


def test_rates_of_nothing_are_none() -> None:
    """No repetition, no rate: None, not 0."""
    assert decode_rate([]) is None
    assert prefill_rate([], 512) is None


def test_n_tokens_are_divided_by_their_n_steps() -> None:
    """Four steps of 0.25 s are 4 tokens/s: steps over their time, not tokens over one step less."""
    rate = decode_rate([(0.25,) * 4])

    assert rate is not None
    assert rate.point == 4.0


def test_the_sweep_finds_the_planted_best_threads() -> None:
    """Decode is planted to be best at 2 threads, prefill at 4: both are chosen apart, from interleaved rounds."""
    speed = FakeSpeed(step_s=lambda _depth, threads: {1: 0.03, 2: 0.02, 4: 0.025}[threads], useful_threads=4)
    clock, session = _engine(speed)

    choice = sweep_threads(session, (1, 2, 4), clock, budget_s=1e6)

    assert (choice.decode, choice.prefill) == (2, 4)
    assert [point.threads for point in choice.sweep] == [1, 2, 4]
    assert choice.sweep[1].decode_tokens_per_second == pytest.approx(50)


def test_one_candidate_is_not_swept() -> None:
    """Threads that the user chose are used without trying anything."""
    clock, session = _engine()

    assert sweep_threads(session, (3,), clock, budget_s=1e6) == ThreadChoice(decode=3, prefill=3)
    assert session.depth == 0


def test_the_warm_up_plans_and_reports_nothing() -> None:
    """The first impression is the speed of the second round, per step and per prompt token."""
    _, session = _engine()

    impression = warm_up(session)

    assert impression.prefill_token_s == pytest.approx(0.002)
    assert impression.step_s == pytest.approx(0.02 + 33.5e-5)


@pytest.mark.parametrize(("step_s", "steps"), [(1.0, 1), (0.3, MIN_STEPS), (0.02, 20), (1e-6, MAX_STEPS)])
def test_repetitions_last_about_the_same(step_s: float, steps: int) -> None:
    """0.4 s of steps, at least 4 and at most 64; a step of a second or more is a repetition of its own."""
    assert steps_per_repetition(step_s) == steps

from __future__ import annotations

from pathlib import Path

import pytest

from suffice.errors import EngineCrashError, EngineError
from suffice.measure.clock import Clock, RealClock
from suffice.measure.engine.fake import FakeBehaviour, FakeClock, FakeEngine, FakeSpeed
from suffice.measure.engine.seam import Engine, EngineSettings, Session

MODEL = Path("model.gguf")
SETTINGS = EngineSettings(n_ctx=1000, n_threads=2, n_threads_batch=4, n_batch=100)


def test_the_fake_implements_the_seam() -> None:
    """Fake engine, session and clock can stand wherever the real ones do (checked by mypy as well)."""
    engine: Engine = FakeEngine()
    session: Session = engine.open(MODEL, SETTINGS)
    clock: Clock = FakeClock(3.0)
    assert session.facts.resolved.n_ctx == 1000
    assert clock.now_s() == 3.0


def test_times_follow_the_speed_model() -> None:
    """0.02 s + 100 tokens x 0.0001 s over 2 threads is 15 ms; 250 tokens make chunks of 100, 100 and 50."""
    engine = FakeEngine(speed=FakeSpeed(decode_step_s=0.02, decode_step_s_per_depth=0.0001, prefill_token_s=0.004))
    session = engine.open(MODEL, SETTINGS)
    assert session.prefill(250).tokens == (100, 100, 50)
    assert session.prefill(100).seconds == pytest.approx((0.1,))
    assert session.decode(1) == pytest.approx((0.015,))


def test_the_clock_passes_all_time_and_no_other() -> None:
    """Load, prefill and decode add up on the clock that the caller sees."""
    engine = FakeEngine(speed=FakeSpeed(load_s=2.0, jitter=0.1))
    session = engine.open(MODEL, SETTINGS)
    spent_s = sum(session.prefill(300).seconds) + sum(session.decode(50))
    assert engine.clock.now_s() == pytest.approx(2.0 + spent_s)


def test_equal_seeds_give_equal_times_and_jitter_never_helps() -> None:
    """Noise is reproducible, differs between seeds, and only ever slows down."""
    speed = FakeSpeed(decode_step_s=0.01, jitter=0.2)
    first, again, other = (FakeEngine(speed=speed, seed=seed).open(MODEL, SETTINGS).decode(20) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert min(first) >= 0.005


def test_a_crash_comes_when_it_was_asked_for() -> None:
    """Two calls succeed, the third finds the process dead, and so does everything after it."""
    session = FakeEngine(behaviour=FakeBehaviour(crash_after_calls=2)).open(MODEL, SETTINGS)
    session.prefill(10)
    session.decode(10)
    with pytest.raises(EngineCrashError):
        session.decode(10)
    with pytest.raises(EngineError):
        session.count_tokens("x")


def test_depth_is_kept_like_the_real_engine_keeps_it() -> None:
    """Prefill starts at 0, decode goes on, rewind cuts, and a full context is an error."""
    session = FakeEngine().open(MODEL, SETTINGS)
    session.prefill(900)
    session.decode(50)
    assert session.rewind(900)
    assert session.depth == 900
    with pytest.raises(EngineError, match="n_ctx 1000"):
        session.decode(101)
    with pytest.raises(EngineError, match="rewind"):
        session.rewind(901)


def test_a_model_that_cannot_rewind_says_so() -> None:
    """Recurrent state cannot be cut: False, and the depth stays."""
    session = FakeEngine(behaviour=FakeBehaviour(can_rewind=False)).open(MODEL, SETTINGS)
    session.prefill(20)
    assert not session.rewind(10)
    assert session.depth == 20


def test_cold_load_is_only_claimed_when_asked_for() -> None:
    """Without evict_first nothing is known about the page cache."""
    assert FakeEngine().open(MODEL, SETTINGS).facts.weights_evicted_before_load is None
    assert FakeEngine().open(MODEL, SETTINGS, evict_first=True).facts.weights_evicted_before_load is True


def test_clocks_do_not_go_back() -> None:
    """The fake refuses to step back, and the real one does not."""
    with pytest.raises(ValueError, match="back"):
        FakeClock().advance(-1)
    clock = RealClock()
    assert clock.now_s() <= clock.now_s()

from __future__ import annotations

from dataclasses import replace
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


def test_a_batch_costs_little_more_than_one_and_each_cache_is_read() -> None:
    """0.02 s + 7 further sequences x 0.5 ms + 8 caches of 100 tokens x 0.01 ms is 31.5 ms, over 2 threads."""
    engine = FakeEngine(speed=FakeSpeed(decode_step_s=0.02, decode_step_s_per_depth=0.00001))
    session = engine.open(MODEL, replace(SETTINGS, n_sequences=8))
    session.prefill(100)
    session.spread(8)
    assert session.decode(1, batch=8) == pytest.approx((0.01575,))
    assert session.facts.resolved.n_sequences == 8


def test_sequences_must_be_equally_deep() -> None:
    """After a prefill only sequence 0 is filled; spread makes copies, rewind cuts all, and prefill starts anew."""
    session = FakeEngine().open(MODEL, replace(SETTINGS, n_sequences=3))
    session.decode(2, batch=3)
    session.prefill(10)
    with pytest.raises(EngineError, match=r"\[10, 0, 0\].*spread\(3\)"):
        session.decode(1, batch=3)
    session.spread(3)
    session.decode(5, batch=3)
    session.decode(1)
    assert session.rewind(10)
    assert len(session.decode(1, batch=3)) == 1
    with pytest.raises(EngineError, match="1 to 3"):
        session.decode(1, batch=4)


def test_a_model_that_cannot_spread_says_so() -> None:
    """The behaviour plants it."""
    session = FakeEngine(behaviour=FakeBehaviour(can_spread=False)).open(MODEL, replace(SETTINGS, n_sequences=2))
    with pytest.raises(EngineError, match="cannot copy"):
        session.spread(2)


def test_any_cost_can_be_planted_per_model_file() -> None:
    """A cost per layer, told apart by the file's name, is what the session then takes, whatever the threads."""
    engine = FakeEngine(
        step_cost=lambda model, depth, batch: 0.5 + int(model.stem) * (1 + depth / 100) * batch,
        prefill_cost=lambda model, depth, tokens: int(model.stem) * (tokens + depth),
    )
    for layers in (2, 4):
        session = engine.open(Path(f"{layers}.gguf"), replace(SETTINGS, n_sequences=2))
        assert session.prefill(200).seconds == (layers * 100.0, layers * 200.0)
        session.spread(2)
        assert session.decode(1, batch=2) == (0.5 + layers * 3 * 2,)


def test_fake_experts_are_drawn_for_each_token() -> None:
    """One token touches 2, eight tokens between 2 and 16, each layer for itself; a dense model has none."""
    settings = replace(SETTINGS, n_sequences=8, watch_experts=True)
    session = FakeEngine(behaviour=FakeBehaviour(n_expert=64, n_expert_layers=3)).open(MODEL, settings)
    alone = session.experts_touched(4)
    assert session.rewind(0)
    together = session.experts_touched(4, batch=8)
    assert alone is not None
    assert together is not None
    assert [use.distinct_per_step for use in alone] == [(2,) * 4] * 3
    assert all(2 < count <= 16 for use in together for count in use.distinct_per_step)
    assert session.depth == 4
    assert FakeEngine().open(MODEL, settings).experts_touched(1) is None
    with pytest.raises(EngineError, match="watch_experts"):
        FakeEngine().open(MODEL, SETTINGS).experts_touched(1)


def test_chunks_go_on_from_the_depth_of_the_first_sequence() -> None:
    """Two chunks of 20 behind 100 tokens start at 100 and 120; the other sequences stay where they were."""
    engine = FakeEngine(prefill_cost=lambda _model, depth, tokens: depth + tokens / 1000)
    session = engine.open(MODEL, replace(SETTINGS, n_sequences=2))
    session.prefill(100)
    session.spread(2)
    assert session.extend(20, n_chunks=2) == (100.02, 120.02)
    assert session.depth == 140
    with pytest.raises(EngineError, match=r"\[140, 100\]"):
        session.decode(1, batch=2)
    assert session.rewind(100)
    assert len(session.decode(1, batch=2)) == 1
    with pytest.raises(EngineError, match="1 to 100"):
        session.extend(101)
    with pytest.raises(EngineError, match="n_ctx 1000"):
        session.extend(100, n_chunks=9)

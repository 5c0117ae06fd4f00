"""Several fake engines used as one session."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from suffice.errors import EngineCrashError, EngineError
from suffice.measure.engine.fake import FakeBehaviour, FakeEngine, FakeSpeed
from suffice.measure.engine.seam import EngineSettings
from suffice.measure.engine.side_by_side import SideBySide

if TYPE_CHECKING:
    from suffice.measure.engine.fake import FakeSession

SETTINGS = EngineSettings(n_ctx=1024, n_threads=1, n_threads_batch=1, n_batch=64, n_ubatch=64, n_sequences=4)


def _session(step_s: float = 0.02, token_s: float = 0.002, behaviour: FakeBehaviour | None = None) -> FakeSession:
    speed = FakeSpeed(decode_step_s=step_s, prefill_token_s=token_s, decode_step_s_per_sequence=0.0)
    return FakeEngine(speed=speed, behaviour=behaviour or FakeBehaviour()).open(Path("m.gguf"), SETTINGS)


def test_the_slowest_gives_the_time() -> None:
    """One decodes more slowly, the other reads more slowly; each kind of pass has its own slowest, with as many values as asked for."""
    with SideBySide([_session(step_s=0.03), _session(token_s=0.004)]) as both:
        assert both.decode(3, batch=2) == pytest.approx((0.03,) * 3)
        both.rewind(0)
        assert both.extend(10, n_chunks=2) == pytest.approx((0.04,) * 2)
        assert both.prefill(100).seconds == pytest.approx((0.256, 0.144))


def test_all_are_equally_deep() -> None:
    """After every kind of call each engine holds the same number of tokens."""
    parts = [_session(), _session(step_s=0.5)]
    with SideBySide(parts) as both:
        both.prefill(100)
        both.spread(4)
        both.decode(5, batch=4)
        both.extend(7)
        assert [part.depth for part in parts] == [112, 112]
        assert both.rewind(50)
        assert [part.depth for part in parts] == [50, 50]


def test_they_work_at_the_same_time() -> None:
    """Steps that wait for each other come to an end."""
    barrier = threading.Barrier(2, timeout=10)
    met: list[int] = []

    def step(_model: Path, _depth: int, _batch: int) -> float:
        met.append(barrier.wait())
        return 0.01

    with SideBySide([FakeEngine(step_cost=step).open(Path("m.gguf"), SETTINGS) for _ in range(2)]) as both:
        both.decode(1)
    assert sorted(met) == [0, 1]


def test_each_works_alone_when_asked() -> None:
    """Within the context one ends before the next begins, and the slowest still gives the time; after it they are together again."""
    log: list[tuple[str, bool]] = []

    def step(model: Path, _depth: int, _batch: int) -> float:
        log.append((model.stem, threading.current_thread() is threading.main_thread()))
        return 0.01 if model.stem == "a" else 0.02

    with SideBySide([FakeEngine(step_cost=step).open(Path(f"{name}.gguf"), SETTINGS) for name in "ab"]) as both:
        with both.one_at_a_time():
            assert both.decode(2) == pytest.approx((0.02, 0.02))
        assert log == [("a", True), ("a", True), ("b", True), ("b", True)]
        log.clear()
        both.decode(1)
        assert sorted(log) == [("a", False), ("b", False)]


def test_an_error_in_one_ends_all() -> None:
    """The second dies; the error is its own, the first is closed as well, and what follows is a plain error."""
    first, second = _session(), _session(behaviour=FakeBehaviour(crash_after_calls=1))
    both = SideBySide([first, second])
    both.prefill(10)

    with pytest.raises(EngineCrashError, match="SIGSEGV"):
        both.decode(1)
    with pytest.raises(EngineError, match="closed"):
        first.decode(1)
    with pytest.raises(EngineError, match="is over"):
        both.decode(1)
    both.close()


def test_engines_that_disagree_on_cutting_back_are_an_error() -> None:
    """They would not be equally deep any more."""
    both = SideBySide([_session(), _session(behaviour=FakeBehaviour(can_rewind=False))])
    both.prefill(20)

    with pytest.raises(EngineError, match="do not agree"):
        both.rewind(10)


def test_what_adds_up_and_what_is_unknown() -> None:
    """Memory and CPU time are sums; one that does not tell makes the sum unknown."""
    with SideBySide([_session(behaviour=FakeBehaviour(node_bytes={0: 5})), _session()]) as both:
        assert both.peak_rss_bytes() == 2 * 123_456_789
        assert both.cpu_time_s() == pytest.approx(1.0)
        assert both.node_bytes() is None
        assert both.count_tokens("two words") == 2
    with SideBySide([_session(behaviour=FakeBehaviour(node_bytes={n: 5, 2: 1})) for n in (0, 1)]) as both:
        assert both.node_bytes() == {0: 5, 1: 5, 2: 2}
    quiet = FakeBehaviour(peak_rss_bytes=None)
    with SideBySide([_session(), _session(behaviour=quiet)]) as both:
        assert both.peak_rss_bytes() is None


def test_nothing_side_by_side_is_a_mistake() -> None:
    """At least one session."""
    with pytest.raises(ValueError, match="nothing"):
        SideBySide([])

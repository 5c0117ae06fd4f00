"""The watch over repetitions of a real engine, and the reference kernel between them."""

from __future__ import annotations

import os
import signal
import threading
from math import fsum
from typing import TYPE_CHECKING

import pytest

from helpers.sample import require_sample_model
from suffice.decide.disturbance import judge_repetition
from suffice.decide.reference import ReferenceLevel
from suffice.measure.counters import system_counters
from suffice.measure.engine.client import LlamaCppEngine
from suffice.measure.engine.library import available_engines, choose_library
from suffice.measure.engine.seam import EngineSettings
from suffice.measure.limits import read_cpu_limits
from suffice.measure.repetition_watch import RepetitionWatch
from suffice.measure.run_queue import LinuxThreads, system_threads, wait_until_asleep
from suffice.stats.quiet import marks_of_steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from suffice.measure.engine.client import LlamaCppClient
    from suffice.measure.run_queue import ThreadSource

pytestmark = pytest.mark.engine
STEPS = 16


@pytest.fixture(scope="module")
def session() -> Iterator[LlamaCppClient]:
    """One thread, warmed up."""
    if not available_engines():
        pytest.skip("no engine is installed")
    with LlamaCppEngine(choose_library()).open(
        require_sample_model(), EngineSettings(n_ctx=256, n_threads=1, n_threads_batch=1)
    ) as opened:
        opened.prefill(16)
        opened.decode(2)
        yield opened


@pytest.fixture(scope="module")
def threads(session: LlamaCppClient) -> ThreadSource:
    """Of the engine; skipped where they tell no delays."""
    source = system_threads((session.pid,))
    if not isinstance(source, LinuxThreads) or any(one.waited_s is None for one in source.read().threads.values()):
        pytest.skip("this system keeps no delays of threads")
    return source


@pytest.fixture
def watch(threads: ThreadSource) -> RepetitionWatch:
    """Of one thread of the engine."""
    limits = read_cpu_limits()
    counters = system_counters(limits)
    counters.read()
    return RepetitionWatch(counters, threads, limits, threads=1, interval_s=0.01)


def test_an_engine_that_works_is_there_all_the_time(session: LlamaCppClient, watch: RepetitionWatch) -> None:
    """However busy the machine, its thread ran or waited while steps were timed; every step lies in sampled windows."""
    watch.start()
    steps = session.decode(STEPS)
    seen = watch.stop(worked_s=fsum(steps))
    assert seen.reading.absent_share is not None
    assert seen.reading.absent_share < 0.02
    assert seen.reading.stops_seen == 0
    assert seen.windows[0].begin_s == seen.start_s
    assert len(marks_of_steps(steps, seen.start_s, seen.windows)) == STEPS


def test_a_stopped_engine_is_seen(session: LlamaCppClient, watch: RepetitionWatch) -> None:
    """Stopped and continued in the midst of a repetition: the engine's clock went on, its threads did not, and the mark says so."""

    def stop_and_go() -> None:
        os.kill(session.pid, signal.SIGSTOP)
        threading.Event().wait(0.2)
        os.kill(session.pid, signal.SIGCONT)

    for _ in range(5):  # on a busy machine the steps may be done before the signal is sent
        stopper = threading.Timer(0.02, stop_and_go)
        watch.start()
        stopper.start()
        steps = session.decode(2 * STEPS)
        seen = watch.stop(worked_s=fsum(steps))
        stopper.join()
        session.rewind(16)
        if (seen.reading.absent_share or 0.0) > 0.02:
            break
    mark = judge_repetition(seen.reading, (), ReferenceLevel())
    assert mark.disturbed is True
    assert any("stopped" in reason for reason in mark.reasons)


def test_the_engine_sleeps_when_nobody_asks(session: LlamaCppClient, threads: ThreadSource) -> None:
    """Some time after a repetition its threads look for no more work."""
    session.decode(2)
    assert wait_until_asleep(threads, at_most_s=10.0) is True
    session.rewind(16)

"""A real engine on CPUs of its own: two CPUs of this machine stand for two NUMA nodes. Times are whatever the machine makes of them today."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers.nodes import own_nodes
from helpers.sample import require_sample_model
from suffice.errors import EngineCrashError, EngineError
from suffice.loaders.model_file import open_model_file
from suffice.measure.clock import RealClock
from suffice.measure.engine.client import LlamaCppClient, LlamaCppEngine, Timeouts
from suffice.measure.engine.library import available_engines, choose_library
from suffice.measure.engine.seam import EngineSettings
from suffice.measure.engine.side_by_side import SideBySide
from suffice.measure.fake_machine import FakeMachine
from suffice.measure.request import RunRequest
from suffice.measure.run import Surroundings, measure_model
from suffice.records.store import load_record, save_record

if TYPE_CHECKING:
    from suffice.measure.numa import NumaNode

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not available_engines(), reason="no engine is installed"),
    pytest.mark.skipif(sys.platform != "linux", reason="keeps processes on some CPUs, and reads /proc"),
]


@pytest.fixture
def engine() -> LlamaCppEngine:
    """The installed one."""
    return LlamaCppEngine(choose_library(), Timeouts(load_s=60, open_s=120, request_s=120))


def _open(engine: LlamaCppEngine, node: NumaNode) -> LlamaCppClient:
    settings = EngineSettings(
        n_ctx=256, n_threads=2, n_threads_batch=2, n_batch=16, n_ubatch=16, n_sequences=2, cpus=node.cpu_list
    )
    return engine.open(require_sample_model(), settings)


def _allowed(pid: int) -> list[str]:
    """The CPUs of each thread of a process."""
    statuses = [task / "status" for task in Path(f"/proc/{pid}/task").iterdir()]
    lines = [line for status in statuses for line in status.read_text().splitlines()]
    return [line.split()[1] for line in lines if line.startswith("Cpus_allowed_list:")]


def test_the_engines_threads_stay_on_the_node(engine: LlamaCppEngine) -> None:
    """Process and thread pool are on the one CPU, though there are two threads; only the reader of requests was there before."""
    node = own_nodes(2)[1]
    with _open(engine, node) as session:
        session.decode(1)
        allowed = _allowed(session.pid)
        assert os.sched_getaffinity(session.pid) == set(node.cpus)
        assert allowed.count(node.cpu_list) >= 2
        assert len(allowed) - allowed.count(node.cpu_list) <= 1


def test_only_sessions_on_the_same_cpus_take_turns(engine: LlamaCppEngine) -> None:
    """One that waited for an engine on another node could not work at the same time as that one."""
    left, right = own_nodes(2)
    with _open(engine, left) as first, _open(engine, left) as second, _open(engine, right) as other:
        assert first._turns is second._turns
        assert first._turns is not other._turns
        for _ in range(2):
            assert [len(session.decode(1)) for session in (first, second, other)] == [1, 1, 1]


def test_engines_side_by_side_answer_as_one(engine: LlamaCppEngine) -> None:
    """Each on its CPU, again and again at the same time: equal depths, as many times as steps, and the end of one is the end of both."""
    sessions = [_open(engine, node) for node in own_nodes(2)]
    both = SideBySide(sessions)
    try:
        for _ in range(5):
            assert sum(both.prefill(16).tokens) == 16
            both.spread(2)
            assert len(both.decode(2, batch=2)) == 2
            assert both.rewind(16)
            assert len(both.extend(4, n_chunks=2)) == 2
        with both.one_at_a_time():
            assert len(both.decode(1)) == 1
        os.kill(sessions[1].pid, 9)
        with pytest.raises(EngineCrashError, match="SIGKILL"):
            both.decode(1)
        with pytest.raises(EngineError, match="is over"):
            sessions[0].decode(1)
    finally:
        both.close()


def test_a_run_per_node_is_one_record(engine: LlamaCppEngine, tmp_path: Path) -> None:
    """Two engines, a curve of one of them, where they were, and what they cost each other; the test's own thread is free again."""
    path, before = tmp_path / "run.json", os.sched_getaffinity(0)
    around = Surroundings(
        engine=engine,
        machine=FakeMachine(),
        clock=RealClock(),
        progress=lambda _step: None,
        save=lambda record: save_record(record, path),
    )
    nodes = own_nodes(2)
    request = RunRequest(
        model=open_model_file(require_sample_model()),
        budget_s=1.0,
        prompt_tokens=16,
        depth=16,
        slots=2,
        flash_attention="on",
        n_batch=16,
        n_ubatch=16,
        use_mmap=False,
        nodes=nodes,
    )
    measure_model(request, around)
    record = load_record(path)
    service = record.measurement.service

    assert record.complete
    assert service is not None
    assert (service.instances, service.slots, service.decode_threads) == (2, 2, 1)
    assert {(size, depth) for size in (1, 2) for depth in (0, 16)} <= {(one.size, one.depth) for one in service.decode}
    assert (record.settings["numa_node"], record.settings["cpus"]) == (0, nodes[0].cpu_list)
    assert any("times as long as with one at work" in text for text in record.warnings)
    assert os.sched_getaffinity(0) == before

"""Workers on CPUs of their own; no engine needed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from helpers.nodes import own_nodes
from suffice.errors import EngineError
from suffice.measure.engine.client import WorkerProcess

LINUX_ONLY = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@LINUX_ONLY
def test_two_workers_stay_on_their_own_cpus() -> None:
    """Each is pinned to another CPU, as the kernel tells of the process; this process stays where it was."""
    before, workers = os.sched_getaffinity(0), [WorkerProcess(), WorkerProcess()]
    try:
        for worker, node in zip(workers, own_nodes(2), strict=True):
            worker.ask("pin", {"cpus": node.cpu_list}, 60)
            assert os.sched_getaffinity(worker.pid) == set(node.cpus)
            status = Path(f"/proc/{worker.pid}/status").read_text()
            assert f"Cpus_allowed_list:\t{node.cpu_list}\n" in status
    finally:
        for worker in workers:
            worker.close()
    assert os.sched_getaffinity(0) == before


@LINUX_ONLY
def test_cpus_that_are_not_there_are_an_error() -> None:
    """One sentence with the CPUs; the worker lives on."""
    worker = WorkerProcess()
    try:
        with pytest.raises(EngineError, match="cannot run on the CPUs 100000"):
            worker.ask("pin", {"cpus": "100000"}, 60)
        assert worker.ask("cpu_time_s", {}, 60) > 0
    finally:
        worker.close()


@LINUX_ONLY
def test_a_worker_tells_where_its_memory_is() -> None:
    """Megabytes at least, on nodes that the system has; or nothing where it does not tell."""
    worker = WorkerProcess()
    try:
        told = worker.ask("node_bytes", {}, 60)
    finally:
        worker.close()
    if told is None:
        pytest.skip("this kernel keeps no numa_maps")
    assert sum(n_bytes for _, n_bytes in told) > 1_000_000
    assert all(node >= 0 for node, _ in told)

"""What needs a machine that most do not have: skipped with a reason, listed in docs/measuring.md."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from helpers.sample import require_sample_model
from suffice.errors import EngineMissingError
from suffice.measure.bandwidth import measure_bandwidth
from suffice.measure.cpu import read_cpu_facts
from suffice.measure.engine.client import find_engine
from suffice.measure.engine.seam import EngineSettings
from suffice.measure.limits import read_cpu_limits, read_memory_limits
from suffice.measure.numa import local_share, read_numa_nodes

if TYPE_CHECKING:
    from suffice.measure.engine.client import LlamaCppEngine


@pytest.fixture
def gpu_engine() -> LlamaCppEngine:
    """An engine that offers a GPU."""
    try:
        engine = find_engine()
    except EngineMissingError:
        pytest.skip("no engine is installed")
    if not engine.identity.gpu_devices:
        pytest.skip("the installed engine offers no GPU")
    return engine


@pytest.mark.gpu
@pytest.mark.engine
def test_layers_given_to_a_gpu_are_reported_there(gpu_engine: LlamaCppEngine) -> None:
    """With all layers on a GPU the resolved settings name the device and the layers."""
    settings = EngineSettings(n_ctx=256, n_threads=1, n_threads_batch=1, n_gpu_layers=999)

    with gpu_engine.open(require_sample_model(), settings) as session:
        assert session.facts.resolved.devices
        assert session.facts.resolved.n_gpu_layers


@pytest.mark.two_sockets
def test_all_sockets_read_no_slower_than_one_thread() -> None:
    """On two NUMA nodes the best thread count of the sweep is at least as fast as a single thread."""
    facts = read_cpu_facts()
    if (facts.numa_nodes or 1) < 2:
        pytest.skip(f"this machine has {facts.numa_nodes or 'an unknown number of'} NUMA nodes")
    result = measure_bandwidth(read_cpu_limits(), facts, read_memory_limits(), budget_s=4.0)

    single = [candidate.bytes_per_s for candidate in result.candidates if candidate.threads == 1]
    assert result.read.point >= 0.8 * max(single, default=0.0)


@pytest.mark.two_sockets
@pytest.mark.engine
def test_an_engine_on_a_node_has_its_memory_there() -> None:
    """On a real second node, weights that are copied lie on it."""
    able = [node for node in read_numa_nodes() or () if node.can_run]
    if len(able) < 2:
        pytest.skip(f"this machine has {len(able)} NUMA nodes that this process may use")
    try:
        engine = find_engine()
    except EngineMissingError:
        pytest.skip("no engine is installed")
    node, settings = able[-1], EngineSettings(n_ctx=256, n_threads=1, n_threads_batch=1, use_mmap=False)

    with engine.open(require_sample_model(), replace(settings, cpus=node.cpu_list)) as session:
        session.prefill(1)
        share = local_share(session.node_bytes(), node)
        assert share is not None
        assert share > 0.5  # the files of Python and of the library may lie anywhere


@pytest.mark.macos
@pytest.mark.skipif(sys.platform != "darwin", reason="needs macOS")
def test_macos_tells_the_processor() -> None:
    """Sysctl gives a model name, the cores, a cache and instruction sets."""
    facts = read_cpu_facts()

    assert facts.model_name
    assert facts.physical_cores
    assert facts.llc_bytes
    assert facts.isa

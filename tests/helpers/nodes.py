"""CPUs of the machine that runs the tests, taken for NUMA nodes."""

from __future__ import annotations

import os

import pytest

from suffice.measure.numa import NumaNode


def own_nodes(count: int) -> tuple[NumaNode, ...]:
    """So many nodes of one CPU each, all of which this process may use; skips where that cannot be."""
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("this system does not keep processes on some of its CPUs")
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < count:
        pytest.skip(f"needs {count} CPUs, this process may use {len(cpus)}")
    return tuple(NumaNode(number=number, cpus=(cpu,)) for number, cpu in enumerate(cpus[:count]))

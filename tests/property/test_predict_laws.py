"""What holds for every machine and workload, whatever was learned."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.predict.cpu import predict_cpu
from suffice.predict.cpu_data import shipped_cpu_model
from suffice.predict.cpu_features import machine_table
from suffice.predict.cpu_model import predict_rows, work_table
from suffice.predict.machine import MachineSpec, Phase, WorkloadSpec

CPUS = (
    None,
    "Intel(R) Xeon(R) Platinum 8370C CPU @ 2.80GHz",
    "AMD EPYC 7763 64-Core Processor",
    "AMD EPYC 9V74 80-Core Processor",
    "Neoverse-V2",
    "Some CPU of 2031",
)
ISAS = (
    None,
    frozenset({"avx", "avx2", "fma"}),
    frozenset({"avx2", "avx512f", "avx512_vnni", "amx_int8"}),
    frozenset({"asimd", "asimddp", "sve", "sve2"}),
)


@st.composite
def machines(draw: st.DrawFn) -> MachineSpec:
    """Machines of any kind, with anything unknown but the cores."""
    return MachineSpec(
        cpu_model=draw(st.sampled_from(CPUS)),
        vcpus=draw(st.integers(1, 256)),
        threads_per_core=draw(st.sampled_from((None, 1, 2))),
        sockets=draw(st.sampled_from((None, 1, 2))),
        numa_nodes=draw(st.sampled_from((None, 1, 2, 4))),
        isa=draw(st.sampled_from(ISAS)),
        llc_bytes=draw(st.none() | st.floats(2.0**20, 2.0**29)),
        read_bytes_per_s=draw(st.none() | st.floats(2e9, 1e12)),
        vendor=draw(st.sampled_from((None, "aws", "azure"))),
        instance=draw(st.sampled_from((None, "c7i.4xlarge", "Standard_D8s_v5"))),
    )


@st.composite
def workloads(draw: st.DrawFn) -> WorkloadSpec:
    """Workloads from tiny models to the largest."""
    parameters = draw(st.floats(5e7, 4e11))
    return WorkloadSpec(
        phase=draw(st.sampled_from(Phase)),
        n_tokens=draw(st.integers(1, 32768)),
        streamed_bytes=parameters * draw(st.floats(0.3, 4.0)),
        parameters=parameters,
        threads=draw(st.none() | st.integers(1, 256)),
    )


@settings(max_examples=80, deadline=None)
@given(machines(), workloads())
def test_ranges_are_ordered_positive_and_finite(machine: MachineSpec, workload: WorkloadSpec) -> None:
    """A machine with cores always has an answer, and its point lies within its range."""
    found = predict_cpu(machine, workload)

    assert found is not None
    assert 0 < found.low < found.tokens_per_second < found.high < math.inf


@settings(max_examples=50, deadline=None)
@given(machines(), workloads(), st.lists(st.floats(2e9, 1e12), min_size=2, max_size=6))
def test_more_bandwidth_is_never_slower(machine: MachineSpec, workload: WorkloadSpec, reads: list[float]) -> None:
    """Everything else alike, the point rises with the measured bandwidth or stays."""
    points = [_point(replace(machine, read_bytes_per_s=read), workload) for read in sorted(reads)]

    assert all(later >= earlier * (1 - 1e-9) for earlier, later in pairwise(points))


@settings(max_examples=50, deadline=None)
@given(machines(), workloads(), st.lists(st.floats(0.2, 5.0), min_size=2, max_size=6))
def test_more_bytes_are_never_faster(machine: MachineSpec, workload: WorkloadSpec, factors: list[float]) -> None:
    """The same operations on more bytes: the point falls or stays."""
    points = [
        _point(machine, replace(workload, streamed_bytes=workload.parameters * factor)) for factor in sorted(factors)
    ]

    assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(points))


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(machines(), workloads()), min_size=2, max_size=8), st.sampled_from(Phase))
def test_one_at_a_time_is_the_same_as_all_together(pairs: list[tuple[MachineSpec, WorkloadSpec]], phase: Phase) -> None:
    """A row's answer does not depend on the rows beside it."""
    works = [replace(work, phase=phase) for _, work in pairs]
    together = predict_rows(
        shipped_cpu_model(),
        phase,
        machine_table([machine for machine, _ in pairs]),
        np.arange(len(pairs)),
        work_table(works),
    )

    for index, (machine, _) in enumerate(pairs):
        alone = predict_cpu(machine, works[index])
        assert alone is not None
        assert alone.tokens_per_second == pytest.approx(together.point[index])
        assert (alone.low, alone.high) == pytest.approx((together.low[index], together.high[index]))


def _point(machine: MachineSpec, workload: WorkloadSpec) -> float:
    found = predict_cpu(machine, workload)
    assert found is not None
    return found.tokens_per_second

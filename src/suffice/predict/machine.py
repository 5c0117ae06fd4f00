"""What a prediction is asked for: a machine as its operator describes it, and a workload on it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """The two phases of a request."""

    DECODE = "decode"
    PREFILL = "prefill"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSpec:
    """A machine that is not at hand. None: not known; a prediction then rests on less and has a wider range.

    Attributes:
        name: for messages only.
        cpu_model: as ``lscpu`` prints it, of the CPU that the workload runs on.
        described_cpu_model: the CPU on which the other readings were taken, where that was another one (clouds move a
            machine between hosts): its instruction sets, caches and bandwidth then say less.
        vcpus: logical CPUs.
        threads_per_core: 2 where they are hyperthreads.
        cores_per_socket: as the guest sees it.
        sockets: as the guest sees it.
        numa_nodes: as the guest sees it; one stream on several nodes is much less predictable.
        isa: instruction sets in Linux's words (``avx512_vnni``, ``asimddp``); None: not known.
        llc_bytes: last-level cache, all instances together.
        llc_instances: of which there are so many.
        read_bytes_per_s: sustained read bandwidth of all cores, measured or rated.
        read_basis: "measured" or "rated": a rated one is a socket's, and is not used in place of a measured one.
        second_read_bytes_per_s: the same of a second tool.
        vendor: cloud, as in ``aws``.
        instance: type of instance, as in ``c7i.4xlarge``.
        gpu: name of an accelerator.
        gpu_count: how many.
    """

    name: str = ""
    cpu_model: str | None = None
    described_cpu_model: str | None = None
    vcpus: int | None = None
    threads_per_core: int | None = None
    cores_per_socket: int | None = None
    sockets: int | None = None
    numa_nodes: int | None = None
    isa: frozenset[str] | None = None
    llc_bytes: float | None = None
    llc_instances: int | None = None
    read_bytes_per_s: float | None = None
    read_basis: str = "measured"
    second_read_bytes_per_s: float | None = None
    vendor: str | None = None
    instance: str | None = None
    gpu: str | None = None
    gpu_count: int | None = None

    def __post_init__(self) -> None:
        for field in ("vcpus", "threads_per_core", "numa_nodes", "read_bytes_per_s", "llc_bytes"):
            value = getattr(self, field)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{field} of machine {self.name!r} must be positive, not {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSpec:
    """One stream through one model.

    Attributes:
        phase: decode or prefill.
        n_tokens: generated in a row from an empty cache, or in the prompt.
        depth: tokens that are in the cache before.
        streamed_bytes: weights read for each decode step (without a token embedding that is only looked up).
        file_bytes: the whole file of weights.
        cache_bytes_per_token: by which the KV cache grows; None: as is usual for the size.
        parameters: all of the model.
        active_parameters: that take part in one token; None: all of them.
        quant: family of the quantization, as in "q4_k_m".
        threads: of the engine; None: as many as there are cores.
        batch: sequences in a step; only 1 is predicted.
    """

    phase: Phase
    n_tokens: int
    streamed_bytes: float
    parameters: float
    depth: int = 0
    file_bytes: float | None = None
    cache_bytes_per_token: float | None = None
    active_parameters: float | None = None
    quant: str = "q4_k_m"
    threads: int | None = None
    batch: int = 1

    def __post_init__(self) -> None:
        for field in ("n_tokens", "streamed_bytes", "parameters", "batch"):
            if not 0 < getattr(self, field) < math.inf:
                raise ValueError(f"{field} of a workload must be positive")
        if self.depth < 0:
            raise ValueError("depth of a workload must not be negative")
        if self.threads is not None and self.threads < 1:
            raise ValueError("threads of a workload must be at least 1")

"""How fast this machine reads memory: the best of several kernels and thread counts, a measured lower bound.

A decode step of a language model streams its weights once; this is the speed limit of that stream. Nobody can show that no
faster kernel exists, hence "lower bound"; and a virtual machine's share of a socket's bandwidth changes with its neighbours.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.errors import SufficeError
from suffice.measure.bandwidth_kernels import KERNELS, BandwidthProbe, Kernel, kernel_named
from suffice.measure.limits import read_memory_limits
from suffice.model.basis import Basis
from suffice.stats.intervals import estimate_from, median
from suffice.units import MIB, NANOSECONDS_PER_SECOND, format_bandwidth, format_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from suffice.measure.cpu import CpuFacts
    from suffice.measure.limits import CpuLimits, MemoryLimits
    from suffice.stats.estimate import Estimate

DEFAULT_BUDGET_S: Final = 6.0
QUICK_BUDGET_S: Final = 0.35
# A sweep over 4 times the cache leaves at most a quarter of it in there under any sensible replacement; 256 MiB is above any
# cache of a desktop, for the case that the cache is not told.
LLC_MULTIPLE: Final = 4
LLC_MULTIPLE_NEEDED: Final = 2  # below twice the cache a good part of the reads may come from it
MIN_BUFFER_BYTES: Final = 256 * MIB
MAX_MEMORY_SHARE: Final = 0.25
LEAST_BUFFER_BYTES: Final = MIB
FINAL_REPETITIONS: Final = 6  # the fewest whose extremes enclose the median with 95 %
MAX_REPETITIONS: Final = 30
SWEEP_REPETITIONS: Final = 3
SWEEP_SHARE: Final = 0.5  # of the budget, for finding the best kernel and thread count
KERNELS_KEPT: Final = 2  # of those tried at all CPUs, for the other thread counts


@dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthCandidate:
    """One combination that was tried, and the median of its few repetitions."""

    kernel: str
    threads: int
    bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthResult:
    """Read bandwidth at the best ``kernel`` and ``threads``; ``read.samples`` has one value per pass or group of passes.

    ``cache_resident``: True when the buffer is not over twice the last-level cache, so that reads may come from the cache;
    None when the size of the cache is not known. ``method`` says in words how it was measured.
    """

    read: Estimate
    threads: int
    kernel: str
    buffer_bytes: int
    llc_bytes: int | None
    cache_resident: bool | None
    candidates: tuple[BandwidthCandidate, ...]
    method: str
    basis: Basis = Basis.MEASURED

    @property
    def read_bytes_per_s(self) -> float:
        """The point value: sustained read bandwidth, a lower bound."""
        return self.read.point


def choose_buffer_bytes(llc_bytes: int | None, usable_bytes: int) -> int:
    """Well over the cache, yet at most a quarter of the memory that we may use.

    Raises:
        SufficeError: there is not even a megabyte.
    """
    wanted = max(MIN_BUFFER_BYTES, LLC_MULTIPLE * (llc_bytes or 0))
    buffer_bytes = min(wanted, int(MAX_MEMORY_SHARE * usable_bytes))
    if buffer_bytes < LEAST_BUFFER_BYTES:
        raise SufficeError(
            f"only {format_memory(usable_bytes)} of memory can be used here, too little to measure bandwidth; "
            "free memory or raise the container's limit",
        )
    return buffer_bytes


def is_cache_resident(buffer_bytes: int, llc_bytes: int | None) -> bool | None:
    """May reads of this buffer come from the cache? None when the size of the cache is unknown."""
    return None if not llc_bytes else buffer_bytes <= LLC_MULTIPLE_NEEDED * llc_bytes


def thread_counts(usable_cpus: int, physical_cores: int | None) -> tuple[int, ...]:
    """What to try, largest first: all usable CPUs, all cores, and powers of two below."""
    counts = {usable_cpus}
    if physical_cores is not None and physical_cores <= usable_cpus:
        counts.add(physical_cores)
    counts.update(2**i for i in range(usable_cpus.bit_length()) if 2**i <= usable_cpus)
    return tuple(sorted(counts, reverse=True))


class _Deadline:
    """Time left of a budget."""

    def __init__(self, budget_s: float, clock_ns: Callable[[], int]) -> None:
        self._clock_ns = clock_ns
        self._end_ns = clock_ns() + int(budget_s * NANOSECONDS_PER_SECOND)

    def passed(self) -> bool:
        return self._clock_ns() >= self._end_ns


def _try(probe: BandwidthProbe, kernel: Kernel, threads: int, deadline: _Deadline) -> BandwidthCandidate:
    """One pass to warm up and to learn the length of a repetition, then a few repetitions; one at least."""
    passes = probe.passes_for(probe.read_once(kernel, threads))
    samples = [probe.read_once(kernel, threads, passes)]
    while len(samples) < SWEEP_REPETITIONS and not deadline.passed():
        samples.append(probe.read_once(kernel, threads, passes))
    return BandwidthCandidate(kernel=kernel.name, threads=threads, bytes_per_s=median(samples))


def _sweep(
    probe: BandwidthProbe, counts: Sequence[int], deadline: _Deadline, progress: Callable[[str], None] | None
) -> list[BandwidthCandidate]:
    """All kernels at the largest thread count, the best of them at the others; the first combination is tried in any case."""
    tried: list[BandwidthCandidate] = []
    kernels: Sequence[Kernel] = KERNELS
    for threads in counts:
        for kernel in kernels:
            if tried and deadline.passed():
                return tried
            tried.append(_try(probe, kernel, threads, deadline))
            if progress is not None:
                progress(f"{kernel.name}, {threads} threads: {format_bandwidth(tried[-1].bytes_per_s)}")
        if kernels is KERNELS:
            ranked = sorted(tried, key=lambda candidate: candidate.bytes_per_s, reverse=True)
            kernels = [kernel_named(candidate.kernel) for candidate in ranked[:KERNELS_KEPT]]
    return tried


def _repeat(
    probe: BandwidthProbe, kernel: Kernel, threads: int, *, least: int, most: int, deadline: _Deadline
) -> list[float]:
    first = probe.read_once(kernel, threads)  # warms up, and is not kept
    passes = probe.passes_for(first)
    samples: list[float] = []
    while len(samples) < least or (len(samples) < most and not deadline.passed()):
        samples.append(probe.read_once(kernel, threads, passes))
    return samples


def measure_with_probe(
    probe: BandwidthProbe,
    counts: Sequence[int],
    *,
    llc_bytes: int | None,
    budget_s: float = DEFAULT_BUDGET_S,
    clock_ns: Callable[[], int] = time.perf_counter_ns,
    progress: Callable[[str], None] | None = None,
) -> BandwidthResult:
    """Find the best kernel and thread count within half of the budget, then repeat it for the rest, six times at least.

    The final repetitions are new ones: the best of a noisy sweep is too high by its choice, they are not.
    """
    whole = _Deadline(budget_s, clock_ns)
    tried = _sweep(probe, counts, _Deadline(SWEEP_SHARE * budget_s, clock_ns), progress)
    best = max(tried, key=lambda candidate: candidate.bytes_per_s)
    samples = _repeat(
        probe,
        kernel_named(best.kernel),
        best.threads,
        least=FINAL_REPETITIONS,
        most=MAX_REPETITIONS,
        deadline=whole,
    )
    return BandwidthResult(
        read=estimate_from(samples),
        threads=best.threads,
        kernel=best.kernel,
        buffer_bytes=probe.buffer_bytes,
        llc_bytes=llc_bytes,
        cache_resident=is_cache_resident(probe.buffer_bytes, llc_bytes),
        candidates=tuple(tried),
        method=f"a measured lower bound: median of {len(samples)} passes of {best.kernel} on {best.threads} threads over "
        f"{format_memory(probe.buffer_bytes)}, the best of {len(tried)} combinations of kernel and threads",
    )


def open_probe(
    limits: CpuLimits,
    cpu: CpuFacts,
    memory: MemoryLimits | None = None,
    *,
    buffer_bytes: int | None = None,
    threads: int | None = None,
    clock_ns: Callable[[], int] = time.perf_counter_ns,
) -> BandwidthProbe:
    """A filled buffer of the right size, to be kept for readings before and after (see :func:`read_bandwidth_quick`).

    ``buffer_bytes`` asks for a size, such as that of a model, instead; ``memory`` None reads the limits of now.

    Raises:
        SufficeError: more threads than CPUs, or a buffer above a quarter of the usable memory, or no memory.
    """
    memory = memory or read_memory_limits()
    most = int(MAX_MEMORY_SHARE * memory.usable_bytes)
    if threads is not None and not 1 <= threads <= limits.usable_cpus:
        raise SufficeError(
            f"this process may use {limits.usable_cpus} CPUs; give 1 to {limits.usable_cpus} threads, not {threads}"
        )
    if buffer_bytes is not None and buffer_bytes > most:
        raise SufficeError(
            f"a bandwidth buffer of {format_memory(buffer_bytes)} is more than a quarter of the usable memory; "
            f"give at most {format_memory(most)}",
        )
    size = choose_buffer_bytes(cpu.llc_bytes, memory.usable_bytes) if buffer_bytes is None else buffer_bytes
    return BandwidthProbe(size, threads or limits.usable_cpus, clock_ns=clock_ns)


def measure_bandwidth(
    limits: CpuLimits,
    cpu: CpuFacts,
    memory: MemoryLimits | None = None,
    *,
    budget_s: float = DEFAULT_BUDGET_S,
    buffer_bytes: int | None = None,
    threads: int | None = None,
    clock_ns: Callable[[], int] = time.perf_counter_ns,
    progress: Callable[[str], None] | None = None,
) -> BandwidthResult:
    """Sustained read bandwidth of this machine; the time to fill the buffer comes on top of ``budget_s``.

    ``threads`` tries that many only. ``buffer_bytes`` reads a working set of that size over and over: a model that is smaller
    than the cache is read from there, at the speed that this then gives.

    Raises:
        SufficeError: see :func:`open_probe`.
    """
    counts = (threads,) if threads is not None else thread_counts(limits.usable_cpus, limits.physical_cores)
    with open_probe(limits, cpu, memory=memory, buffer_bytes=buffer_bytes, threads=threads, clock_ns=clock_ns) as probe:
        return measure_with_probe(
            probe, counts, llc_bytes=cpu.llc_bytes, budget_s=budget_s, clock_ns=clock_ns, progress=progress
        )


def read_bandwidth_quick(
    probe: BandwidthProbe,
    kernel: str,
    threads: int,
    *,
    budget_s: float = QUICK_BUDGET_S,
    clock_ns: Callable[[], int] = time.perf_counter_ns,
) -> Estimate:
    """A short reading with a known kernel and thread count, to compare before with after; one repetition at least."""
    deadline = _Deadline(budget_s, clock_ns)
    return estimate_from(
        _repeat(probe, kernel_named(kernel), threads, least=1, most=MAX_REPETITIONS, deadline=deadline),
    )

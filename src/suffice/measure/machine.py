"""The machine as a measuring session sees it: limits, facts, bandwidth, contention. One seam; its fake ships beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from suffice.measure.bandwidth import (
    BandwidthResult,
    is_cache_resident,
    measure_bandwidth,
    open_probe,
    read_bandwidth_quick,
    thread_counts,
)
from suffice.measure.contention import ContentionMonitor
from suffice.measure.counters import system_counters
from suffice.measure.cpu import read_cpu_facts
from suffice.measure.environment import describe_environment
from suffice.measure.limits import read_cpu_limits, read_memory_limits
from suffice.measure.observer import Observer
from suffice.measure.reference_kernel import ReferenceKernel
from suffice.measure.repetition_watch import RepetitionWatch
from suffice.measure.run_queue import system_threads, wait_until_asleep
from suffice.records.schema import BandwidthRecord
from suffice.units import MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from suffice.measure.contention import Contention
    from suffice.stats.estimate import Estimate

_WORD_BYTES = 8
# Working sets below this are read from the first- and second-level caches; no model is that small.
MIN_WORKING_SET_BYTES = MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """What a session needs to know before it starts. None: the system does not tell."""

    cpu_model: str | None
    isa: tuple[str, ...] | None
    llc_bytes: int | None
    usable_cpus: int
    thread_candidates: tuple[int, ...]
    memory_usable_bytes: int
    environment: dict[str, Any] = field(default_factory=dict)


class Machine(Protocol):
    """Where measurements happen."""

    def facts(self) -> MachineFacts:
        """What the machine is and has, read now."""

    def bandwidth(self, *, budget_s: float, progress: Callable[[str], None] | None = None) -> BandwidthRecord:
        """Sustained read bandwidth from memory, with the search for the best kernel and thread count."""

    def bandwidth_again(self, first: BandwidthRecord) -> BandwidthRecord | None:
        """A short reading with the kernel, threads and buffer of the first; None when there is no room for the buffer."""

    def cache_bandwidth(self, working_set_bytes: int, *, budget_s: float) -> BandwidthRecord | None:
        """Read bandwidth over a working set that the caches may hold; None when it cannot be had."""

    def contention(self, threads: int) -> Contention:
        """A monitor of what else runs; ``threads`` is what the measured work wants."""

    def observer(self, pids: Sequence[int | None], threads: int) -> Observer | None:
        """Readings of every repetition of the engine in these processes (those of sessions that have turns) on so many threads; None where they cannot be had."""

    def cache_evictor(self) -> Callable[[], None] | None:
        """Something that fills the last-level cache with other data each time it is called; None where its size is unknown."""


def bandwidth_record(result: BandwidthResult) -> BandwidthRecord:
    """The part of a run record for a bandwidth measurement."""
    return _record(
        result.read,
        kernel=result.kernel,
        threads=result.threads,
        buffer_bytes=result.buffer_bytes,
        llc_bytes=result.llc_bytes,
        cache_resident=result.cache_resident,
        method=result.method,
    )


def _record(read: Estimate, **facts: Any) -> BandwidthRecord:  # the record's own fields  # noqa: ANN401  # fields of the record
    interval = read.interval
    return BandwidthRecord(
        read_bytes_per_s=read.point,
        interval_low_bytes_per_s=None if interval is None else interval.low,
        interval_high_bytes_per_s=None if interval is None else interval.high,
        interval_level=None if interval is None else interval.level,
        samples_bytes_per_s=read.samples,
        **facts,
    )


class RealMachine:
    """This machine, as the calling thread may use it: one that is pinned to some CPUs sees those."""

    def __init__(self) -> None:
        self._limits = read_cpu_limits()
        self._cpu = read_cpu_facts(cpus=self._limits.cpus)

    def _look(self) -> None:
        """Read CPUs and caches again where the affinity is another one than the last time."""
        limits = read_cpu_limits()
        if limits.cpus != self._limits.cpus:
            self._limits, self._cpu = limits, read_cpu_facts(cpus=limits.cpus)

    def facts(self) -> MachineFacts:
        """Read now: the usable memory changes from call to call."""
        self._look()
        memory = read_memory_limits()
        environment = describe_environment(cpu=self._cpu, limits=self._limits, memory=memory)
        return MachineFacts(
            cpu_model=self._cpu.model_name,
            isa=self._cpu.isa,
            llc_bytes=self._cpu.llc_bytes,
            usable_cpus=self._limits.usable_cpus,
            thread_candidates=tuple(sorted(thread_counts(self._limits.usable_cpus, self._limits.physical_cores))),
            memory_usable_bytes=memory.usable_bytes,
            environment=environment.to_record(),
        )

    def bandwidth(self, *, budget_s: float, progress: Callable[[str], None] | None = None) -> BandwidthRecord:
        """See :func:`suffice.measure.bandwidth.measure_bandwidth`."""
        self._look()
        result = measure_bandwidth(self._limits, self._cpu, read_memory_limits(), budget_s=budget_s, progress=progress)
        return bandwidth_record(result)

    def bandwidth_again(self, first: BandwidthRecord) -> BandwidthRecord | None:
        """Same kernel, threads and buffer, a fraction of a second."""
        self._look()
        memory = read_memory_limits()
        if first.kernel is None or first.threads is None or first.buffer_bytes is None:
            return None
        if first.buffer_bytes > memory.usable_bytes / 2:
            return None
        # The quarter that open_probe grants is for a machine at rest; after a run the model still holds its memory.
        size = min(first.buffer_bytes, memory.usable_bytes // 4)
        with open_probe(self._limits, self._cpu, memory, buffer_bytes=size, threads=first.threads) as probe:
            read = read_bandwidth_quick(probe, first.kernel, first.threads)
        return _record(
            read,
            kernel=first.kernel,
            threads=first.threads,
            buffer_bytes=size,
            llc_bytes=self._cpu.llc_bytes,
            cache_resident=is_cache_resident(size, self._cpu.llc_bytes),
            method="a short reading after the run, to compare with the one before",
        )

    def cache_bandwidth(self, working_set_bytes: int, *, budget_s: float) -> BandwidthRecord | None:
        """Reads a buffer of the model's size over and over."""
        self._look()
        memory = read_memory_limits()
        size = max(working_set_bytes, MIN_WORKING_SET_BYTES)
        if size > memory.usable_bytes // 4:
            return None
        return bandwidth_record(
            measure_bandwidth(self._limits, self._cpu, memory, budget_s=budget_s, buffer_bytes=size)
        )

    def contention(self, threads: int) -> Contention:
        """Counters of this system, our process and its children taken out."""
        self._look()
        return ContentionMonitor(system_counters(self._limits), self._limits, threads=threads)

    def observer(self, pids: Sequence[int | None], threads: int) -> Observer | None:
        """Counters, the delays of the engine's threads, and a reference kernel; the engine is open by now."""
        known = tuple(pid for pid in pids if pid is not None)
        if not known or len(known) < len(pids):
            return None
        self._look()
        source = system_counters(self._limits)
        source.read()  # finds the engine's process
        engine = system_threads(known)
        kernel = ReferenceKernel(
            min(threads, self._limits.usable_cpus),
            llc_bytes=self._cpu.llc_bytes,
            usable_bytes=read_memory_limits().usable_bytes,
        )
        watch = RepetitionWatch(source, engine, self._limits, threads=threads)
        return Observer(watch, kernel, settle=partial(wait_until_asleep, engine))

    def cache_evictor(self) -> Callable[[], None] | None:
        """Reads a buffer a little larger than the last-level cache; as large as memory allows where that is little."""
        self._look()
        llc_bytes = self._cpu.llc_bytes
        if llc_bytes is None:
            return None
        words = min(llc_bytes * 5 // 4, read_memory_limits().usable_bytes // 8) // _WORD_BYTES
        buffer = np.ones(max(words, 1), dtype=np.int64)

        def evict() -> None:
            buffer.max()

        return evict

"""The bandwidth measurement: sizes, order, identities and clean ends; never a speed."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

from suffice.errors import SufficeError
from suffice.measure.bandwidth import (
    FINAL_REPETITIONS,
    MAX_REPETITIONS,
    choose_buffer_bytes,
    is_cache_resident,
    measure_bandwidth,
    measure_with_probe,
    open_probe,
    read_bandwidth_quick,
    thread_counts,
)
from suffice.measure.bandwidth_kernels import KERNELS, BandwidthProbe, Kernel, kernel_named
from suffice.measure.cpu import Cache, CpuFacts
from suffice.measure.limits import CpuLimits, MemoryLimits
from suffice.model.basis import Basis
from suffice.stats.intervals import median
from suffice.units import GIB, KIB, MIB, NANOSECONDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TWO = CpuLimits(usable_cpus=2, cpus=(0, 1), quota_cpus=None, physical_cores=2)
SMALL = 2 * MIB


def facts(llc_bytes: int | None) -> CpuFacts:
    """A CPU of which nothing but the cache is known."""
    return CpuFacts(
        architecture="x86_64",
        vendor=None,
        model_name=None,
        sockets=None,
        physical_cores=None,
        logical_cpus=None,
        smt=None,
        numa_nodes=None,
        caches=() if llc_bytes is None else (Cache(level=3, size_bytes=llc_bytes, instances=1),),
        max_frequency_hz=None,
        microcode=None,
        hypervisor=None,
        isa=None,
    )


def memory(usable_bytes: int) -> MemoryLimits:
    """A machine with that much memory left."""
    return MemoryLimits(total_bytes=2 * usable_bytes, available_bytes=usable_bytes)


def stepping_clock(step_ns: int) -> Callable[[], int]:
    """A clock that goes on by one step at each look."""
    ticks = itertools.count(0, step_ns)
    return lambda: next(ticks)


@pytest.fixture
def no_threads_left() -> Iterator[None]:
    """No reader thread survives the test."""
    yield
    assert [t.name for t in threading.enumerate() if t.name.startswith("suffice-bandwidth")] == []


def test_buffer_is_four_caches_and_256_mib_at_least() -> None:
    """4 x 300 MiB; 256 MiB for a small or an unknown cache."""
    assert choose_buffer_bytes(300 * MIB, 100 * GIB) == 1200 * MIB
    assert choose_buffer_bytes(8 * MIB, 100 * GIB) == choose_buffer_bytes(None, 100 * GIB) == 256 * MIB


def test_buffer_is_a_quarter_of_usable_memory_at_most() -> None:
    """In a container of 512 MiB it is 128 MiB; with nearly nothing left a clear error."""
    assert choose_buffer_bytes(300 * MIB, 512 * MIB) == 128 * MIB
    with pytest.raises(SufficeError, match="too little to measure bandwidth"):
        choose_buffer_bytes(None, 3 * MIB)


def test_cache_resident_is_told_or_unknown() -> None:
    """Up to twice the cache reads may come from it; an unknown cache gives None."""
    assert is_cache_resident(64 * MIB, 32 * MIB) is True
    assert is_cache_resident(64 * MIB + 1, 32 * MIB) is False
    assert is_cache_resident(64 * MIB, None) is None


@pytest.mark.parametrize(
    ("usable", "cores", "expected"),
    [(1, 1, (1,)), (2, 2, (2, 1)), (12, 6, (12, 8, 6, 4, 2, 1)), (3, None, (3, 2, 1)), (2, 32, (2, 1))],
)
def test_thread_counts_never_exceed_usable_cpus(usable: int, cores: int | None, expected: tuple[int, ...]) -> None:
    """All CPUs first, then cores and powers of two below; cores that we may not use are not tried."""
    assert thread_counts(usable, cores) == expected


@pytest.mark.usefixtures("no_threads_left")
def test_result_holds_together() -> None:
    """The result's point is the median of its samples, its best combination is one that was tried, and it names its basis."""
    notes: list[str] = []
    result = measure_bandwidth(
        TWO, facts(16 * MIB), memory=memory(GIB), buffer_bytes=SMALL, budget_s=0.2, progress=notes.append
    )
    assert result.read_bytes_per_s == result.read.point == median(result.read.samples)
    assert result.read.interval is not None
    assert result.read.interval.low <= result.read.point <= result.read.interval.high
    assert FINAL_REPETITIONS <= len(result.read.samples) <= MAX_REPETITIONS
    best = max(result.candidates, key=lambda candidate: candidate.bytes_per_s)
    assert (result.kernel, result.threads) == (best.kernel, best.threads)
    assert (result.buffer_bytes, result.llc_bytes, result.cache_resident) == (SMALL, 16 * MIB, True)
    assert result.basis is Basis.MEASURED
    assert "lower bound" in result.method
    assert len(notes) == len(result.candidates)


@pytest.mark.usefixtures("no_threads_left")
def test_no_budget_still_gives_an_interval() -> None:
    """With no time left one combination is tried and repeated six times."""
    with BandwidthProbe(SMALL, 1) as probe:
        result = measure_with_probe(probe, (1,), llc_bytes=None, budget_s=0.0)
    assert len(result.candidates) == 1
    assert len(result.read.samples) == FINAL_REPETITIONS
    assert result.cache_resident is None


@pytest.mark.usefixtures("no_threads_left")
def test_speed_is_bytes_over_the_clocks_difference() -> None:
    """With a clock of 1 ms a look, a pass of one thread takes 1 ms: bytes x passes / 1 ms."""
    with BandwidthProbe(SMALL, 1, clock_ns=stepping_clock(10**6)) as probe:
        assert probe.read_once(KERNELS[0], 1) == pytest.approx(SMALL * 1000)
        assert probe.read_once(KERNELS[0], 1, passes=3) == pytest.approx(3 * SMALL * 1000)


@pytest.mark.usefixtures("no_threads_left")
def test_elapsed_is_from_the_first_start_to_the_last_end() -> None:
    """Two threads look at the clock four times between them: three steps lie between the first and the last look."""
    with BandwidthProbe(SMALL, 2, clock_ns=stepping_clock(10**6)) as probe:
        assert probe.read_once(KERNELS[0], 2) == pytest.approx(SMALL * NANOSECONDS_PER_SECOND / (3 * 10**6))


@pytest.mark.usefixtures("no_threads_left")
def test_short_passes_are_looped() -> None:
    """A repetition lasts 20 ms at least: 1 MB at 1 GB/s takes 1 ms, so 20 of them; a large buffer is read once."""
    with BandwidthProbe(250 * 4 * KIB, 1) as probe:
        assert probe.passes_for(50.0 * probe.buffer_bytes) == 1
        assert probe.passes_for(1000.0 * probe.buffer_bytes) == 20
        assert probe.passes_for(1.0) == 1


@pytest.mark.usefixtures("no_threads_left")
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_each_byte_is_read_exactly_once_in_a_pass(threads: int) -> None:
    """The slices of a pass are the buffer: they add up to all its words and to its sum, also for an uneven share."""
    sizes: list[int] = []
    sums: list[int] = []

    def note(values: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> None:
        sizes.append(values.nbytes)
        sums.append(int(np.add.reduce(values)))

    with BandwidthProbe(1025 * 4 * KIB, 3) as probe:
        probe.read_once(Kernel("note", np.uint64, note), threads)
        whole = int(np.add.reduce(probe._words))
        assert (sum(sizes), probe.buffer_bytes) == (1025 * 4 * KIB,) * 2
    assert sum(sums) % 2**64 == whole
    assert len(sizes) == threads


@pytest.mark.usefixtures("no_threads_left")
def test_pages_are_distinct_and_hold_finite_non_zero_numbers() -> None:
    """No two pages can be merged, none is the zero page, and as float32 all values are normal numbers."""
    with BandwidthProbe(3 * MIB, 2) as probe:
        pages = probe._words.reshape(-1, 4 * KIB // 8)
        assert len({page.tobytes() for page in pages}) == len(pages)
        floats = probe._words.view(np.float32)
        assert float(floats.min()) >= 1.0
        assert float(floats.max()) < 2.0


@pytest.mark.usefixtures("no_threads_left")
def test_quick_reading_uses_the_given_combination() -> None:
    """One repetition at least even with no time, more with some; the kernel is the one asked for."""
    with BandwidthProbe(SMALL, 2) as probe:
        assert len(read_bandwidth_quick(probe, KERNELS[1].name, 2, budget_s=0.0).samples) == 1
        assert read_bandwidth_quick(probe, KERNELS[1].name, 1, budget_s=0.05).point > 0
        with pytest.raises(SufficeError, match="no bandwidth kernel"):
            read_bandwidth_quick(probe, "memcpy", 1)


@pytest.mark.usefixtures("no_threads_left")
@pytest.mark.parametrize("threads", [0, 3])
def test_threads_beyond_the_limit_are_refused(threads: int) -> None:
    """Neither the probe nor the measurement runs more threads than there are CPUs."""
    with BandwidthProbe(SMALL, 2) as probe, pytest.raises(SufficeError, match="1 to 2 threads"):
        probe.read_once(KERNELS[0], threads)
    with pytest.raises(SufficeError, match="2 CPUs"):
        open_probe(TWO, facts(None), memory=memory(GIB), threads=threads)


def test_buffers_that_cannot_be_had_are_refused() -> None:
    """Too large for the memory, too small for the threads, or refused by the system: one sentence each."""
    with pytest.raises(SufficeError, match="more than a quarter"):
        open_probe(TWO, facts(None), memory=memory(GIB), buffer_bytes=GIB)
    with pytest.raises(SufficeError, match="too small for 2 threads"):
        BandwidthProbe(4 * KIB, 2)
    with pytest.raises(SufficeError, match="cannot be allocated"):
        BandwidthProbe(2**60, 1)


@pytest.mark.usefixtures("no_threads_left")
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupted_reading_ends_its_threads(error: type[BaseException]) -> None:
    """Ctrl-C or an error during a reading comes out as itself, and no thread waits for ever."""

    def fail(_values: object) -> None:
        raise error

    with pytest.raises(error), BandwidthProbe(SMALL, 2) as probe:
        probe.read_once(Kernel("fails", np.uint64, fail), 2)


@pytest.mark.usefixtures("no_threads_left")
def test_closing_twice_is_fine_and_frees_the_buffer() -> None:
    """The second close does nothing."""
    probe = BandwidthProbe(SMALL, 1)
    probe.close()
    probe.close()
    assert probe.buffer_bytes == 0


def test_kernels_have_distinct_names() -> None:
    """A kernel is found by the name that a record holds."""
    assert [kernel_named(kernel.name) for kernel in KERNELS] == list(KERNELS)
    assert len({kernel.name for kernel in KERNELS}) == len(KERNELS)

"""The reference kernel on this machine, its budget, and its fake; where the engine's memory lies."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from suffice.decide.reference import ReferenceReading
from suffice.measure.engine.pagecache import SAMPLED_PAGES, SAMPLED_STRETCHES, _stretches, resident_share_sampled
from suffice.measure.memory_state import read_memory_state
from suffice.measure.reference_kernel import (
    LEAST_BUFFER_BYTES,
    MAX_COST_SHARE,
    WAKE_S,
    FakeReference,
    ReferenceKernel,
    reference_buffer_bytes,
)
from suffice.units import GIB, MIB, NANOSECONDS_PER_SECOND

if TYPE_CHECKING:
    from pathlib import Path


def test_the_buffer_is_larger_than_the_cache() -> None:
    """A quarter more than the cache, 128 MiB at least, an eighth of the memory at most; with next to no memory there is none."""
    assert reference_buffer_bytes(256 * MIB, 64 * GIB) == 320 * MIB
    assert reference_buffer_bytes(None, 64 * GIB) == LEAST_BUFFER_BYTES
    assert reference_buffer_bytes(256 * MIB, GIB) == 128 * MIB
    assert reference_buffer_bytes(256 * MIB, 32 * MIB) is None


def test_readings_of_fixed_work() -> None:
    """Two readings of one kernel are of the same work, in finite time, and say what they read and whether the cache may hold it."""
    with ReferenceKernel(1, llc_bytes=8 * MIB, usable_bytes=256 * MIB) as kernel:
        first, second = kernel.read(), kernel.read()
    assert first.memory_bytes == second.memory_bytes == kernel.memory_bytes or kernel.memory_bytes is None
    assert first.memory_bytes is not None
    assert 4 * MIB <= first.memory_bytes <= 16 * MIB
    assert first.memory_s is not None
    assert first.compute_s is not None
    assert 0 < first.memory_s < first.cost_s
    assert 0 < first.compute_s < first.cost_s
    assert second.time_s > first.time_s
    assert first.cache_resident is False
    assert kernel.memory_bytes is None  # it is closed
    kernel.close()


def test_a_buffer_that_the_cache_holds_says_so() -> None:
    """A cache of 64 MiB and a buffer of 32 MiB: reads may come from the cache. Without memory there is compute only."""
    with ReferenceKernel(1, llc_bytes=64 * MIB, usable_bytes=256 * MIB) as kernel:
        assert kernel.read().cache_resident is True
    with ReferenceKernel(1, llc_bytes=64 * MIB, usable_bytes=MIB) as kernel:
        reading = kernel.read()
    assert (reading.memory_s, reading.memory_bytes, reading.cache_resident) == (None, None, None)
    assert reading.compute_s is not None


def test_several_threads_share_the_work() -> None:
    """Two threads, whatever CPUs there are; none is refused."""
    with ReferenceKernel(2, llc_bytes=None, usable_bytes=64 * MIB) as kernel:
        reading = kernel.read()
    assert reading.memory_s is not None
    assert reading.cache_resident is None
    with pytest.raises(ValueError, match="one thread"):
        ReferenceKernel(0, llc_bytes=None, usable_bytes=MIB)


class Ticking:
    """A clock that goes on by a millisecond with every look, and by more when told."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        """The next moment."""
        self.now_ns += NANOSECONDS_PER_SECOND // 1000
        return self.now_ns


def test_readings_stop_at_their_share_of_the_time() -> None:
    """After a reading the next one waits until it was 5 % of the time since the kernel was opened."""
    clock = Ticking()
    with ReferenceKernel(1, llc_bytes=None, usable_bytes=MIB, clock_ns=clock) as kernel:
        first = kernel.read_if_cheap()
        assert first is not None
        assert kernel.read_if_cheap() is None
        clock.now_ns += int(first.cost_s / MAX_COST_SHARE * NANOSECONDS_PER_SECOND)
        assert kernel.read_if_cheap() is not None
        assert kernel.read_if_cheap() is None


def test_cores_are_awake_before_work_is_timed() -> None:
    """Before its tries a reading computes for a while: with a clock that goes on by a millisecond a look, that is ten looks at least."""
    clock = Ticking()
    with ReferenceKernel(1, llc_bytes=None, usable_bytes=MIB, clock_ns=clock) as kernel:
        reading = kernel.read()
    assert reading.compute_s is not None
    assert reading.cost_s >= WAKE_S + 3 * reading.compute_s


def test_the_fake_gives_its_readings_in_turn() -> None:
    """All are cheap, and the last one is given again."""
    one, other = (
        ReferenceReading(time_s=time_s, cost_s=0.01, memory_s=0.003, compute_s=0.002) for time_s in (1.0, 2.0)
    )
    fake = FakeReference([one, other])
    assert [fake.read(), fake.read_if_cheap(), fake.read()] == [one, other, other]
    assert fake.asked == 3
    with pytest.raises(ValueError, match="at least one"):
        FakeReference([])


def write(path: Path, text: str) -> None:
    """Write one file of a fake tree."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_memory_state_of_a_fake_proc(tmp_path: Path) -> None:
    """Resident, swapped and huge bytes are read in KiB, the local share from the pages of each node."""
    rollup = "5500-7ff0 ---p 00000000 00:00 0   [rollup]\nRss:  1024 kB\nAnonHugePages:  512 kB\nFilePmdMapped: 64 kB\nSwap:  100 kB\n"
    write(tmp_path / "proc/5/smaps_rollup", rollup)
    write(tmp_path / "proc/5/numa_maps", "7f00 default anon=4 N0=3 N1=1 kernelpagesize_kB=4\n")
    state = read_memory_state(5, root=tmp_path)
    assert (state.resident_bytes, state.swapped_bytes, state.huge_bytes) == (1024 * 1024, 102400, 576 * 1024)
    assert state.local_share == pytest.approx(0.75)
    assert state.file_resident_share is None


def test_memory_state_where_nothing_is_told(tmp_path: Path) -> None:
    """An empty tree: None for all, no zero."""
    state = read_memory_state(5, root=tmp_path)
    assert (state.resident_bytes, state.swapped_bytes, state.huge_bytes, state.local_share) == (None,) * 4
    assert read_memory_state(os.getpid()).resident_bytes != 0


def test_stretches_cover_a_file_evenly() -> None:
    """A small file is looked at whole, a large one from its first page to its last in as many stretches."""
    small = _stretches(20)
    assert sum(count for _, count in small) == 20
    large = _stretches(10**6)
    assert len(large) == SAMPLED_STRETCHES
    assert large[0] == (0, SAMPLED_PAGES)
    assert sum(large[-1]) == 10**6
    assert all(low + SAMPLED_PAGES <= high for (low, _), (high, _) in pairwise(large))


def test_a_file_that_was_just_written_is_in_memory(tmp_path: Path) -> None:
    """All of its pages are, where the system tells; an empty or missing file has no share."""
    path = tmp_path / "weights"
    path.write_bytes(bytes(3 * MIB + 5))
    assert resident_share_sampled(path) in {1.0, None}
    (tmp_path / "empty").touch()
    assert resident_share_sampled(tmp_path / "empty") is None
    assert resident_share_sampled(tmp_path / "missing") is None

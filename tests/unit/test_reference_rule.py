"""The rule on readings of the reference kernel, and on where the engine's memory lies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from suffice.decide.memory_state import MemoryState, memory_reasons
from suffice.decide.reference import (
    LEAST_REFERENCE_CHANGE,
    ReferenceLevel,
    ReferenceReading,
    reference_level,
    reference_reasons,
    sees_memory,
    slow_compute,
    slow_memory,
)

MS = 1 / 1000
READING = ReferenceReading(
    time_s=1.0, cost_s=0.015, memory_s=3 * MS, compute_s=2 * MS, memory_bytes=48 * 2**20, cache_resident=False
)


def readings(*memory_ms: float) -> list[ReferenceReading]:
    """Readings with these times of the memory work."""
    return [replace(READING, memory_s=value * MS) for value in memory_ms]


def test_the_level_is_where_fast_readings_gather() -> None:
    """Six steady readings among five slow ones and one lucky one: 3 ms, and slower is from 10 % above."""
    level = reference_level(readings(3.0, 3.01, 2.99, 3.0, 3.02, 2.98, 4.5, 4.6, 4.4, 4.5, 4.7, 2.5))
    assert level.memory_s == pytest.approx(3 * MS, rel=0.01)
    assert level.memory_limit_s == pytest.approx(3 * MS * (1 + LEAST_REFERENCE_CHANGE), rel=0.01)
    assert level.compute_limit_s == pytest.approx(2 * MS * 1.1)


def test_readings_that_scatter_have_a_wider_limit() -> None:
    """Readings that scatter by 3 % are slow only from well over 10 % on."""
    level = reference_level(readings(2.9, 3.1, 2.95, 3.05, 3.0, 2.85, 3.15, 3.0, 2.92, 3.08))
    assert level.memory_s is not None
    assert level.memory_limit_s is not None
    assert 1.12 < level.memory_limit_s / level.memory_s <= 1.2


def test_two_readings_are_compared_with_the_faster_and_one_with_nothing() -> None:
    """Too few for a place where they gather: the faster is the level, with twice the least change; one has no level."""
    level = reference_level(readings(3.0, 3.5))
    assert level.memory_s == pytest.approx(3 * MS)
    assert level.memory_limit_s == pytest.approx(3.6 * MS)
    assert reference_level(readings(3.0)) == ReferenceLevel()
    assert reference_level([]) == ReferenceLevel()
    assert slow_memory(READING, ReferenceLevel()) is None


def test_slow_readings_are_named_with_their_part() -> None:
    """A slow bus and a slow clock are two reasons, each with its factor and how many readings showed it; the limit itself is quiet."""
    level = ReferenceLevel(memory_s=3 * MS, memory_limit_s=3.3 * MS, compute_s=2 * MS, compute_limit_s=2.2 * MS)
    assert reference_reasons([READING, replace(READING, memory_s=3.3 * MS)], level) == ()
    bus = reference_reasons([READING, replace(READING, memory_s=4.5 * MS)], level)
    assert len(bus) == 1
    assert "up to 1.50 times" in bus[0]
    assert "1 of 2 readings" in bus[0]
    assert "memory bus" in bus[0]
    clock = replace(READING, compute_s=3 * MS)
    assert slow_compute(clock, level) == pytest.approx(1.5)
    assert "clock" in reference_reasons([clock], level)[0]


def test_readings_from_the_cache_do_not_see_the_bus() -> None:
    """A buffer that the cache holds, or none, is no evidence of a free bus; an unknown cache is taken as told by the buffer's size."""
    level = reference_level(readings(3.0, 3.0))
    assert sees_memory([READING, READING], level)
    assert sees_memory([replace(READING, cache_resident=None)], level)
    assert not sees_memory([READING, replace(READING, cache_resident=True)], level)
    assert not sees_memory([replace(READING, memory_s=None)], level)
    assert not sees_memory([], level)
    assert not sees_memory([READING], ReferenceLevel())


def test_a_slow_reading_that_had_no_cpu_is_no_evidence() -> None:
    """Preempted for more than 5 % of the reading: slow, it neither blames the bus nor clears it; fast all the same, it clears it."""
    level = ReferenceLevel(memory_s=3 * MS, memory_limit_s=3.3 * MS, compute_s=2 * MS, compute_limit_s=2.2 * MS)
    preempted = replace(READING, waited_s=0.001)  # 6.7 % of 15 ms
    slow = replace(preempted, memory_s=4.5 * MS, compute_s=3 * MS)
    assert reference_reasons([slow], level) == ()
    assert not sees_memory([slow], level)
    assert sees_memory([preempted], level)
    assert len(reference_reasons([replace(slow, waited_s=0.0005)], level)) == 2


GIB = 2**30
PLACED = MemoryState(resident_bytes=4 * GIB, swapped_bytes=0, huge_bytes=0, local_share=1.0, file_resident_share=1.0)


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (replace(PLACED, swapped_bytes=GIB), "20% of the engine's memory is swapped out"),
        (replace(PLACED, file_resident_share=0.9), "only 90% of the model's file"),
        (replace(PLACED, local_share=0.5), "only 50% of the engine's memory lies on one NUMA node"),
    ],
)
def test_memory_in_the_wrong_place_is_named(state: MemoryState, word: str) -> None:
    """Swapped, not in the page cache, on another node: one reason each; in place, or not told, none."""
    found = memory_reasons(state, use_mmap=True, on_one_node=True)
    assert len(found) == 1
    assert word in found[0]
    assert memory_reasons(PLACED, use_mmap=True, on_one_node=True) == ()
    assert memory_reasons(MemoryState(), use_mmap=True, on_one_node=True) == ()


def test_what_does_not_matter_is_not_asked() -> None:
    """Copied weights do not need their file in memory, and threads on several nodes have memory on several."""
    scattered = replace(PLACED, file_resident_share=0.0, local_share=0.5)
    assert memory_reasons(scattered, use_mmap=False, on_one_node=False) == ()

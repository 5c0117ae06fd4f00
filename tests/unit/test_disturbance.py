"""The rule that calls a measurement disturbed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from suffice.decide.disturbance import (
    MAX_BANDWIDTH_CHANGE,
    ContentionReading,
    Disturbance,
    is_window_disturbed,
    judge_disturbance,
    judge_repetition,
)
from suffice.decide.reference import ReferenceReading, reference_level

GB_PER_S = 10**9
# Ten seconds on 4 CPUs, all of them ours: 40 CPU seconds could be used.
QUIET = ContentionReading(
    wall_s=10.0,
    usable_cpus=4,
    watched_cpus=4,
    clock_error_s=0.1,
    threads=4,
    busy_cpu_s=39.0,
    own_cpu_s=38.9,
    steal_cpu_s=0.0,
)


def judge(reading: ContentionReading) -> bool | None:
    """The judgement of one reading with steady bandwidth."""
    return judge_disturbance([reading], 30.0 * GB_PER_S, 31.0 * GB_PER_S).disturbed


def test_quiet_machine_is_undisturbed() -> None:
    """All readings there and below their limits: False, with no reasons."""
    result = judge_disturbance([QUIET, QUIET], 30.0 * GB_PER_S, 30.0 * GB_PER_S)
    assert (result.disturbed, result.reasons) == (False, ())


@pytest.mark.parametrize(
    ("reading", "word"),
    [
        (replace(QUIET, steal_cpu_s=0.9), "steal"),  # 0.9 of 40 = 2.25 %
        (replace(QUIET, own_cpu_s=35.0), "other processes"),  # 0.4 CPUs, limit 0.2
        (replace(QUIET, throttled_s=1.0), "quota"),  # 1 of 40 = 2.5 %
        (replace(QUIET, throttled_periods=1), "quota"),  # no time told
        (replace(QUIET, thermal_throttles=3), "heat"),
        (replace(QUIET, major_faults=101), "disk"),  # over 10 a second
        (replace(QUIET, pages_swapped=101), "swapped"),
        (replace(QUIET, run_wait_s=1.3), "threads waited 3.2%"),  # 1.3 of 4 threads' 40 s
        (replace(QUIET, group_cpu_pressure_s=0.6), "cgroup waited 6.0%"),  # no delays told
        (replace(QUIET, worked_s=9.0, present_s=8.5), "no thread of the engine ran"),  # 0.5 of 9 s
        (replace(QUIET, stops_seen=1), "stopped"),
        (replace(QUIET, group_memory_pressure_s=0.3), "memory to be freed"),  # 3 %
        (replace(QUIET, memory_limit_hits=101), "memory limit 101 times"),
    ],
)
def test_each_reason(reading: ContentionReading, word: str) -> None:
    """One reading over its limit is enough, and the reason names it; among quiet ones too."""
    result = judge_disturbance([QUIET, reading], 30.0 * GB_PER_S, 30.0 * GB_PER_S)
    assert result.disturbed is True
    assert len(result.reasons) == 1
    assert word in result.reasons[0]


@pytest.mark.parametrize(
    "reading",
    [
        replace(QUIET, steal_cpu_s=0.8),  # exactly 2 %
        replace(QUIET, own_cpu_s=37.5),  # 0.15 CPUs, limit 0.2
        replace(QUIET, throttled_s=0.0, throttled_periods=0),
        replace(QUIET, major_faults=100, pages_swapped=100, thermal_throttles=0),
        replace(
            QUIET, run_wait_s=1.2, group_cpu_pressure_s=9.0
        ),  # exactly 2 %; delays of our own threads say more than pressure
        replace(QUIET, group_cpu_pressure_s=0.5, group_memory_pressure_s=0.2, memory_limit_hits=100, stops_seen=0),
        replace(QUIET, worked_s=9.0, present_s=8.82),  # exactly 2 %
        replace(QUIET, worked_s=9.0, present_s=9.5),  # other work of the engine between its steps
        replace(QUIET, worked_s=None, present_s=0.1),  # a GPU did it
    ],
)
def test_at_or_below_the_limit_is_quiet(reading: ContentionReading) -> None:
    """Limits are exclusive: what reaches them is still quiet."""
    assert judge(reading) is False


def test_others_on_idle_cpus_take_nothing_from_us() -> None:
    """Two threads of ours and one busy neighbour on 4 CPUs leave one idle; with three wanted threads none is left."""
    busy_neighbour = replace(QUIET, threads=2, busy_cpu_s=30.0, own_cpu_s=20.0)
    assert judge(busy_neighbour) is False
    assert judge(replace(busy_neighbour, threads=3)) is True


def test_what_is_wanted_counts_when_others_kept_us_from_it() -> None:
    """We wanted 4 threads and got 2 CPUs, another took 1.5: idle time then shows our waiting, not spare room."""
    assert judge(replace(QUIET, threads=4, own_cpu_s=20.0, busy_cpu_s=35.0)) is True


def test_a_quota_does_not_make_the_hosts_other_cpus_ours() -> None:
    """2 CPUs by quota on a host of 64: a neighbour's 10 CPUs leave 52 idle."""
    reading = replace(QUIET, usable_cpus=2, watched_cpus=64, threads=2, own_cpu_s=20.0, busy_cpu_s=120.0)
    assert judge(reading) is False


@pytest.mark.parametrize(("after", "expected"), [(24.0, False), (23.9, True), (37.5, False), (37.6, True)])
def test_bandwidth_change(after: float, expected: bool) -> None:  # noqa: FBT001 - a parametrized expectation
    """More than 20 % of the larger one, up or down, means that the bus was shared."""
    assert MAX_BANDWIDTH_CHANGE == 0.2
    assert judge_disturbance([QUIET], 30.0, after).disturbed is expected


def test_unreadable_is_none_with_what_is_missing() -> None:
    """No reading of others, or no bandwidth: None, never False; and still True when a reason was seen."""
    blind = ContentionReading(wall_s=10.0, usable_cpus=4, watched_cpus=4)
    assert judge(blind) is None
    assert judge_disturbance([], 30.0, 30.0).disturbed is None
    no_bandwidth = judge_disturbance([QUIET], 30.0, None)
    assert no_bandwidth.disturbed is None
    assert "bandwidth" in no_bandwidth.reasons[0]
    assert judge(replace(blind, steal_cpu_s=5.0)) is True


def test_granularity_below_zero_is_zero_and_more_is_a_contradiction() -> None:
    """Busy minus own of -0.05 s is within the clocks' 0.1 s and reads 0; -1 s is a contradiction and reads None."""
    assert replace(QUIET, own_cpu_s=39.05).other_cpus == 0.0
    assert replace(QUIET, own_cpu_s=40.0).other_cpus is None


def test_a_short_reading_is_not_busy_by_its_clock() -> None:
    """A difference that the clocks' error alone can make is not held against the machine."""
    short = replace(QUIET, wall_s=0.2, busy_cpu_s=0.8, own_cpu_s=0.72, clock_error_s=0.1)
    assert short.other_cpus == pytest.approx(0.4)
    assert judge(short) is False


def test_no_time_has_no_rates() -> None:
    """A reading of zero length gives no rates and no division by zero."""
    reading = replace(QUIET, wall_s=0.0, throttled_s=1.0)
    assert (reading.other_cpus, reading.own_cpus, reading.steal_share) == (None, None, None)
    assert judge(reading) is None


def reference(memory_ms: float, compute_ms: float = 2.0) -> ReferenceReading:
    """One reading of the reference kernel, from a buffer beyond the cache."""
    return ReferenceReading(
        time_s=0.0, cost_s=0.015, memory_s=memory_ms / 1000, compute_s=compute_ms / 1000, cache_resident=False
    )


FREE_BUS = [reference(memory_ms) for memory_ms in (3.0, 3.01, 2.99, 3.0, 3.02, 2.98)]


@pytest.mark.parametrize(
    ("wall_s", "waited_s", "is_marked"),
    [(0.1, 0.004, False), (0.1, 0.006, True), (0.01, 0.0015, True), (1.0, 0.031, True)],
)
def test_a_time_slice_is_no_disturbance_of_a_short_repetition(
    wall_s: float, waited_s: float, *, is_marked: bool
) -> None:
    """Up to 5 ms a thread are allowed where that is more than 3 % of the time, and no more than 10 % of it."""
    short = ContentionReading(wall_s=wall_s, usable_cpus=2, watched_cpus=2, threads=2, run_wait_s=2 * waited_s)
    reference = ReferenceReading(time_s=0.0, cost_s=0.01, memory_s=0.003, compute_s=0.002, cache_resident=False)
    mark = judge_repetition(short, (reference, reference), reference_level((reference, reference)))
    assert mark.disturbed is is_marked


def test_more_threads_than_cpus_wait_for_each_other() -> None:
    """Eight threads on four CPUs wait by the user's choice: delays then say nothing of others."""
    crowded = replace(QUIET, threads=8, run_wait_s=40.0)
    assert crowded.wait_share is None
    assert judge(crowded) is False


def test_reference_readings_stand_in_for_bandwidth() -> None:
    """Steady readings are evidence of a free bus where no bandwidth was read; a slow one among them is a reason."""
    assert judge_disturbance([QUIET], None, None).disturbed is None
    assert judge_disturbance([QUIET], None, None, FREE_BUS).disturbed is False
    shared = judge_disturbance([QUIET], 30.0, 30.0, [*FREE_BUS, reference(4.5)])
    assert shared.disturbed is True
    assert "memory bus" in shared.reasons[0]


def test_mark_of_a_repetition() -> None:
    """Quiet between two quiet readings: False. A slow reading on either side, or a reason of its own: True."""
    level = reference_level([*FREE_BUS, reference(4.5)])
    quiet, slow = FREE_BUS[0], reference(4.5)
    assert judge_repetition(QUIET, (quiet, quiet), level) == Disturbance(disturbed=False, reasons=())
    assert judge_repetition(QUIET, (quiet, slow), level).disturbed is True
    assert judge_repetition(QUIET, (slow, quiet), level).disturbed is True
    assert judge_repetition(replace(QUIET, run_wait_s=4.0), (quiet, quiet), level).disturbed is True


def test_a_repetition_that_was_not_seen_from_all_sides_has_no_mark() -> None:
    """No counters, or the bus on one side only: None with what is missing; delays of our own threads are enough of the CPU."""
    level = reference_level(FREE_BUS)
    around = (FREE_BUS[0], FREE_BUS[1])
    blind = ContentionReading(wall_s=0.4, usable_cpus=4, watched_cpus=4, threads=4)
    assert judge_repetition(None, around, level).disturbed is None
    assert "CPU use" in judge_repetition(blind, around, level).reasons[0]
    assert judge_repetition(replace(blind, run_wait_s=0.0), around, level).disturbed is False
    one_side = judge_repetition(QUIET, around[:1], level)
    assert one_side.disturbed is None
    assert "memory bus" in one_side.reasons[0]


@pytest.mark.parametrize(
    ("reading", "around", "told"),
    [
        (replace(QUIET, run_wait_s=4.0), (3.0, 3.0), True),  # others had our CPU: windows see when
        (replace(QUIET, run_wait_s=4.0, own_cpu_s=30.0), (3.0, 3.0), True),
        (
            replace(QUIET, run_wait_s=0.0, own_cpu_s=30.0),
            (3.0, 3.0),
            False,
        ),  # others had CPUs, but none that we waited for
        (replace(QUIET, run_wait_s=4.0), (3.0, 4.5), False),  # and the bus was shared, from the first step on perhaps
        (replace(QUIET, run_wait_s=4.0, steal_cpu_s=4.0), (3.0, 3.0), False),
    ],
)
def test_quiet_windows_are_no_proof_against_what_they_do_not_see(
    reading: ContentionReading,
    around: tuple[float, float],
    told: bool,  # noqa: FBT001 - a parametrized expectation
) -> None:
    """Windows see delays only, and the mark says whether that is all there was."""
    mark = judge_repetition(reading, tuple(reference(one) for one in around), reference_level(FREE_BUS))
    assert mark.disturbed is True
    assert mark.in_windows is told


@pytest.mark.parametrize(
    ("waited_s", "present_s", "stopped", "expected"),
    [
        (0.0, 0.05, 0, False),
        (0.002, 0.05, 0, False),  # tenths of milliseconds of several threads
        (0.003, 0.05, 0, True),  # a time slice
        (0.0, 0.01, 0, None),  # a thread that waits all the time is booked later
        (0.0, 0.0, 1, True),
        (None, None, None, None),
    ],
)
def test_mark_of_a_window(
    waited_s: float | None, present_s: float | None, stopped: int | None, *, expected: bool | None
) -> None:
    """Of 50 ms: delays of over 2.5 ms, or a stop, are a disturbance; quiet needs a thread that ran."""
    assert is_window_disturbed(0.05, waited_s, present_s, stopped) is expected

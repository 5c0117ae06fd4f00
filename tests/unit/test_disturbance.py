"""The rule that calls a measurement disturbed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from suffice.decide.disturbance import MAX_BANDWIDTH_CHANGE, ContentionReading, judge_disturbance

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

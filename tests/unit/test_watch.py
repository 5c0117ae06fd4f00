"""Readings of several stretches of time as one."""

from __future__ import annotations

import pytest

from suffice.decide.disturbance import ContentionReading, judge_disturbance
from suffice.measure.contention import FakeContention
from suffice.measure.watch import Watch, summed

QUIET = ContentionReading(
    wall_s=2.0,
    usable_cpus=2,
    watched_cpus=2,
    threads=2,
    clock_error_s=0.01,
    busy_cpu_s=4.0,
    own_cpu_s=4.0,
    major_faults=3,
    load_average=2.0,
    peak_other_cpus=0.1,
)
BUSY = ContentionReading(
    wall_s=1.0,
    usable_cpus=2,
    watched_cpus=2,
    threads=2,
    clock_error_s=0.02,
    busy_cpu_s=2.0,
    own_cpu_s=1.0,
    load_average=3.0,
    peak_other_cpus=1.0,
)


def test_times_add_up_and_moments_do_not() -> None:
    """Seconds are sums, the load is the last one, the peak the largest, and what one of them does not know is unknown."""
    total = summed([QUIET, BUSY])

    assert (total.wall_s, total.busy_cpu_s, total.own_cpu_s) == (3.0, 6.0, 5.0)
    assert (total.usable_cpus, total.threads) == (2, 2)
    assert total.clock_error_s == pytest.approx(
        0.0005**0.5
    )  # independent: not 0.03, which many short stretches would drown in
    assert (total.load_average, total.peak_other_cpus) == (3.0, 1.0)
    assert total.major_faults is None
    assert total.other_cpus == pytest.approx(1 / 3)
    assert judge_disturbance([total], 1.0, 1.0).disturbed is True


def test_every_stretch_is_watched() -> None:
    """Two stretches are two readings, and their sum is what is told; an error in one of them does not leave it running."""
    contention = FakeContention([QUIET, BUSY])
    watch = Watch(contention)
    with watch.watched():
        pass
    with pytest.raises(KeyError), watch.watched():
        raise KeyError

    assert (contention.started, contention.stopped) == (2, 2)
    assert watch.reading() == summed([QUIET, BUSY])


def test_nothing_watched_is_a_reading_of_now() -> None:
    """A measurement that had nothing left to do is judged by the moment in which that was found."""
    assert Watch(FakeContention([QUIET])).reading() == QUIET
    with pytest.raises(ValueError, match="no readings"):
        summed([])

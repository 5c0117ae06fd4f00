"""Was the machine busy, or its memory bus shared, while we measured? The rule, with the derivation of each threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.units import format_bandwidth

if TYPE_CHECKING:
    from collections.abc import Sequence

# A decode step waits for its slowest thread. On a 2-core VM steps of one quiet machine vary by 2 to 4 % (p10 to median 124 and
# 129 ms, reference machine); steal below 2 % cannot move a median beyond that, above it can.
MAX_STEAL_SHARE: Final = 0.02
# 5 % of the usable CPUs: on the reference machine one busy process on 2 CPUs (50 %) made steps 4.5 times as long, since one
# preempted thread stalls the barrier of each layer. Scaled linearly (3.5 x / 50 %) 5 % costs a third: that flips verdicts.
MAX_OTHERS_SHARE: Final = 0.05
# CPU counters are in ticks and threads wait at barriers: a machine that is 95 % busy has no idle CPU left to give.
SATURATED_SHARE: Final = 0.95
# Same yardstick as steal: time in which we were not allowed to run.
MAX_THROTTLED_SHARE: Final = 0.02
# With a neighbour on the memory bus decode steps moved from 100 to 144 ms (reference machine, zero steal, idle guest), which is
# 30 % of the larger; short readings of a quiet machine scatter by several percent. 20 % lies between.
MAX_BANDWIDTH_CHANGE: Final = 0.20
# A page read from an SSD costs 0.1 to 1 ms: 10 a second are up to 1 % of the time; the weights then come from a disk.
MAX_PAGES_READ_PER_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentionReading:
    """What happened on our CPUs between two moments. None: this system does not tell.

    ``busy_cpu_s`` and ``steal_cpu_s`` are seconds summed over ``watched_cpus`` (the CPUs of our affinity, or all of the machine
    when no count per CPU is kept); ``own_cpu_s`` is ours and our children's. ``clock_error_s`` is how far busy minus own can be
    off from the counters' granularity alone. ``usable_cpus`` is the number of threads that may run at once, ``threads`` how
    many the measured work wants (None: judged by what it used).
    """

    wall_s: float
    usable_cpus: int
    watched_cpus: int
    clock_error_s: float = 0.0
    threads: int | None = None
    busy_cpu_s: float | None = None
    own_cpu_s: float | None = None
    steal_cpu_s: float | None = None
    throttled_periods: int | None = None
    throttled_s: float | None = None
    cpu_pressure_s: float | None = None  # PSI "some": time in which at least one runnable task had no CPU
    thermal_throttles: int | None = None
    pages_swapped: int | None = None  # of the whole machine, in and out
    major_faults: int | None = None  # of us and our children: pages that had to be read from a disk
    load_average: float | None = None  # one minute, at the end
    frequency_hz: float | None = None  # mean of our CPUs, at the end
    temperature_c: float | None = None  # hottest CPU sensor, at the end
    peak_other_cpus: float | None = None  # largest use by others within one sampling window, in CPUs

    @property
    def other_cpus(self) -> float | None:
        """CPU use of all others on our CPUs, in CPUs (0.5 = half of one).

        A difference below zero by no more than the clocks' error is zero. One further below zero contradicts itself (the
        counters do not describe the same CPUs) and is returned as None.
        """
        if self.busy_cpu_s is None or self.own_cpu_s is None or self.wall_s <= 0:
            return None
        other_s = self.busy_cpu_s - self.own_cpu_s
        if other_s < -self.clock_error_s:
            return None
        return max(0.0, other_s) / self.wall_s

    @property
    def own_cpus(self) -> float | None:
        """Our own CPU use, in CPUs."""
        return None if self.own_cpu_s is None or self.wall_s <= 0 else self.own_cpu_s / self.wall_s

    @property
    def steal_share(self) -> float | None:
        """Time that the hypervisor gave to others, as a share of wall time times usable CPUs."""
        if self.steal_cpu_s is None or self.wall_s <= 0:
            return None
        return self.steal_cpu_s / (self.wall_s * self.usable_cpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """``disturbed`` is None when it cannot be told; ``reasons`` says why it is True, or what could not be read."""

    disturbed: bool | None
    reasons: tuple[str, ...]


def _steal(reading: ContentionReading) -> str | None:
    share = reading.steal_share
    if share is None or share <= MAX_STEAL_SHARE:
        return None
    return f"the hypervisor took {share:.1%} of the CPU time (steal; limit {MAX_STEAL_SHARE:.0%})"


def _others(reading: ContentionReading) -> str | None:
    """Others count only where they take what we need: with idle CPUs beyond ours they cost us nothing that the clocks see."""
    other, own = reading.other_cpus, reading.own_cpus
    if other is None or own is None:
        return None
    # The granularity of the clocks must not make a short reading look busy.
    certain = other - reading.clock_error_s / reading.wall_s
    wanted = max(own, float(reading.threads or 0))
    competing = wanted + other > SATURATED_SHARE * reading.watched_cpus
    if certain <= MAX_OTHERS_SHARE * reading.usable_cpus or not competing:
        return None
    limit = MAX_OTHERS_SHARE * reading.usable_cpus
    return f"other processes used {other:.2f} CPUs on the {reading.watched_cpus} that we may use (limit {limit:.2f})"


def _throttled(reading: ContentionReading) -> str | None:
    if reading.throttled_s is not None:
        share = reading.throttled_s / (reading.wall_s * reading.usable_cpus) if reading.wall_s > 0 else 0.0
        over = share > MAX_THROTTLED_SHARE
        return f"the cgroup CPU quota stopped us for {share:.1%} of the CPU time" if over else None
    return "the cgroup CPU quota stopped us" if reading.throttled_periods else None


def _hot(reading: ContentionReading) -> str | None:
    return (
        f"the CPU slowed down {reading.thermal_throttles} times because of heat" if reading.thermal_throttles else None
    )


def _paging(reading: ContentionReading) -> str | None:
    limit = MAX_PAGES_READ_PER_S * reading.wall_s
    if reading.major_faults is not None and reading.major_faults > limit:
        return f"{reading.major_faults} pages were read from a disk while measuring: the model does not stay in memory"
    if reading.pages_swapped is not None and reading.pages_swapped > limit:
        return f"the machine swapped {reading.pages_swapped} pages while measuring"
    return None


_RULES: Final = (_steal, _others, _throttled, _hot, _paging)


def _bandwidth(before_bytes_per_s: float, after_bytes_per_s: float) -> str | None:
    larger = max(before_bytes_per_s, after_bytes_per_s)
    if larger <= 0 or abs(after_bytes_per_s - before_bytes_per_s) / larger <= MAX_BANDWIDTH_CHANGE:
        return None
    change = f"{format_bandwidth(before_bytes_per_s)} before and {format_bandwidth(after_bytes_per_s)} after"
    return f"memory bandwidth was {change} (limit {MAX_BANDWIDTH_CHANGE:.0%}): the memory bus is shared"


def judge_disturbance(
    readings: Sequence[ContentionReading],
    bandwidth_before_bytes_per_s: float | None,
    bandwidth_after_bytes_per_s: float | None,
) -> Disturbance:
    """Whether what was measured during ``readings`` was disturbed.

    One reason is enough for True. False needs evidence: the CPU use of others in each reading, and bandwidth before and after
    (neighbours on the memory bus show nowhere else). Anything less is None, with what was missing as the reasons.
    """
    found = [reason for reading in readings for rule in _RULES if (reason := rule(reading)) is not None]
    bandwidth_known = bandwidth_before_bytes_per_s is not None and bandwidth_after_bytes_per_s is not None
    if bandwidth_before_bytes_per_s is not None and bandwidth_after_bytes_per_s is not None:
        shared = _bandwidth(bandwidth_before_bytes_per_s, bandwidth_after_bytes_per_s)
        found += [shared] if shared else []
    if found:
        return Disturbance(disturbed=True, reasons=tuple(dict.fromkeys(found)))
    missing = []
    if not readings or any(reading.other_cpus is None for reading in readings):
        missing.append("the CPU use of other processes could not be read")
    if not bandwidth_known:
        missing.append("memory bandwidth was not read before and after")
    return Disturbance(disturbed=None if missing else False, reasons=tuple(missing))

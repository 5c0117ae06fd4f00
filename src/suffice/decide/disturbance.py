"""Was the machine busy, or its memory bus shared, while we measured? The rule, with the derivation of each threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.decide.reference import reference_level, reference_reasons, sees_memory
from suffice.units import format_bandwidth

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.reference import ReferenceLevel, ReferenceReading

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
# The same yardstick again, per thread: time in which a thread could have run and had no CPU. By arithmetic, our own sampling (20 times a
# second for a tenth of a millisecond) costs 0.2 %, and one busy process beside two threads on 2 CPUs 33 % of the time of one or 17 % of each;
# with more of them 25 to 50 % were seen (2-core VM, load 4). A quiet one showed 0.8 % in repetitions of one engine, 1 to 2 % where engines have turns.
MAX_WAIT_SHARE: Final = 0.03
# A repetition of a short prompt lasts 0.1 s: one time slice (3 ms) and the waking of threads is more than 3 % of it, on a quiet machine as well (2-core
# VM: 1.7 % of 300 quiet repetitions of 0.16 s waited over 3 ms, 0.3 % over 5 ms). Up to 10 % of what is shorter still.
LEAST_WAIT_S: Final = 0.005
MAX_SHORT_WAIT_SHARE: Final = 0.10
# And time in which no thread of the engine ran or waited for a CPU while the engine counted it as work: stopped, or blocked on a disk. A
# step has no other reason to let all of its threads sleep; on a GPU it has, and there this is not asked.
MAX_ABSENT_SHARE: Final = 0.02
# Pressure counts the time in which any task of our group waits: of two threads that wait 2 % each, at most 4 %, and the sampling on top.
# It is asked only where the scheduler keeps no delays of threads, and never of the root group, which is the whole machine.
MAX_GROUP_PRESSURE_SHARE: Final = 0.05
# Time in which a task of our group waited for memory to be freed: time lost, as with steal.
MAX_MEMORY_STALL_SHARE: Final = 0.02
# A preempted thread waits for a time slice, 3 ms (base_slice_ns of the kernel's scheduler): 6 % of a sampling window of 50 ms. A quiet
# machine has tenths of a millisecond in it, added up over threads.
MAX_WINDOW_WAIT_SHARE: Final = 0.05
# The time that a thread runs is booked at the scheduler's tick, 10 ms at most: a fifth of a window.
LEAST_WINDOW_PRESENCE: Final = 0.75


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
    run_wait_s: float | None = (
        None  # of the engine's threads, added up: time in which they could have run and had no CPU
    )
    worked_s: float | None = None  # what the engine says it worked on CPUs; None also for a GPU
    present_s: float | None = None  # time in which one of its threads, or more, ran or waited; or an upper bound
    voluntary_switches: int | None = None  # of the engine's threads, which waited for something
    involuntary_switches: int | None = None  # of the engine's threads, which were taken off their CPU
    stops_seen: int | None = None  # samples at which a process of the engine was stopped
    group_cpu_pressure_s: float | None = None  # PSI "some" of our cgroup; None for the root, which is the machine
    group_memory_pressure_s: float | None = None  # PSI "some": a task of our cgroup waited for memory to be freed
    memory_limit_hits: int | None = None  # how often our cgroup reached its memory limit
    quota_periods: int | None = None  # of the CPU quota, in which our cgroup wanted to run

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

    @property
    def wait_share(self) -> float | None:
        """Time that a thread waited for a CPU, as a share of wall time, averaged over the threads.

        None also where more threads were wanted than can run at once: they wait for each other, whoever else is there.
        """
        threads = self.threads or self.usable_cpus
        if self.run_wait_s is None or self.wall_s <= 0 or threads > self.usable_cpus:
            return None
        return self.run_wait_s / (self.wall_s * threads)

    @property
    def absent_share(self) -> float | None:
        """Of the time that the engine counted as work, the share in which none of its threads ran or waited for a CPU."""
        if self.worked_s is None or self.present_s is None or self.worked_s <= 0:
            return None
        return max(0.0, self.worked_s - self.present_s) / self.worked_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """``disturbed`` is None when it cannot be told; ``reasons`` says why it is True, or what could not be read.

    ``in_windows``: the reasons are such that sampling windows see when they were at work.
    """

    disturbed: bool | None
    reasons: tuple[str, ...]
    in_windows: bool = False


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


def _waited(reading: ContentionReading) -> str | None:
    share = reading.wait_share
    if share is not None:
        limit = max(MAX_WAIT_SHARE, min(MAX_SHORT_WAIT_SHARE, LEAST_WAIT_S / reading.wall_s))
        over = share > limit
        return f"the engine's threads waited {share:.1%} of the time for a CPU (limit {limit:.0%})" if over else None
    if reading.run_wait_s is not None or reading.group_cpu_pressure_s is None or reading.wall_s <= 0:
        return None
    pressure = reading.group_cpu_pressure_s / reading.wall_s
    if pressure <= MAX_GROUP_PRESSURE_SHARE:
        return None
    return f"something in our cgroup waited {pressure:.1%} of the time for a CPU (limit {MAX_GROUP_PRESSURE_SHARE:.0%})"


def _stopped(reading: ContentionReading) -> str | None:
    if reading.stops_seen:
        return "the engine's process was stopped (SIGSTOP, or a debugger) while measuring"
    share = reading.absent_share
    if share is None or share <= MAX_ABSENT_SHARE:
        return None
    return (
        f"for {share:.1%} of the time no thread of the engine ran or waited for a CPU (limit {MAX_ABSENT_SHARE:.0%}): "
        "its process was stopped, or waited for a disk"
    )


def _memory_stall(reading: ContentionReading) -> str | None:
    stalled_s = reading.group_memory_pressure_s
    if stalled_s is not None and reading.wall_s > 0 and stalled_s > MAX_MEMORY_STALL_SHARE * reading.wall_s:
        return f"our cgroup waited {stalled_s / reading.wall_s:.1%} of the time for memory to be freed"
    hits = reading.memory_limit_hits
    if (
        hits is not None and hits > MAX_PAGES_READ_PER_S * reading.wall_s
    ):  # each is a page at least that must be read again
        return f"our cgroup reached its memory limit {hits} times while measuring"
    return None


_RULES: Final = (_steal, _others, _throttled, _hot, _paging, _waited, _stopped, _memory_stall)
# Somebody had our CPU, or our process was stopped. Windows see both by the delays of our threads, in whatever reading they show first.
_RULES_OF_WINDOWS: Final = (_others, _throttled, _waited, _stopped)


def _bandwidth(before_bytes_per_s: float, after_bytes_per_s: float) -> str | None:
    larger = max(before_bytes_per_s, after_bytes_per_s)
    if larger <= 0 or abs(after_bytes_per_s - before_bytes_per_s) / larger <= MAX_BANDWIDTH_CHANGE:
        return None
    change = f"{format_bandwidth(before_bytes_per_s)} before and {format_bandwidth(after_bytes_per_s)} after"
    return f"memory bandwidth was {change} (limit {MAX_BANDWIDTH_CHANGE:.0%}): the memory bus is shared"


def _found(readings: Sequence[ContentionReading]) -> list[str]:
    return [reason for reading in readings for rule in _RULES if (reason := rule(reading)) is not None]


def judge_disturbance(
    readings: Sequence[ContentionReading],
    bandwidth_before_bytes_per_s: float | None,
    bandwidth_after_bytes_per_s: float | None,
    references: Sequence[ReferenceReading] = (),
) -> Disturbance:
    """Whether what was measured during ``readings`` was disturbed.

    One reason is enough for True. False needs evidence: the CPU use of others in each reading, and the memory bus before and after: two
    bandwidths, or readings of the reference kernel (neighbours on the bus show nowhere else). Anything less is None, with what was missing
    as the reasons.
    """
    found = _found(readings)
    level = reference_level(references)
    found += reference_reasons(references, level)
    bandwidth_known = bandwidth_before_bytes_per_s is not None and bandwidth_after_bytes_per_s is not None
    if bandwidth_before_bytes_per_s is not None and bandwidth_after_bytes_per_s is not None:
        shared = _bandwidth(bandwidth_before_bytes_per_s, bandwidth_after_bytes_per_s)
        found += [shared] if shared else []
    if found:
        return Disturbance(disturbed=True, reasons=tuple(dict.fromkeys(found)))
    missing = []
    if not readings or any(reading.other_cpus is None for reading in readings):
        missing.append("the CPU use of other processes could not be read")
    if not bandwidth_known and not sees_memory(references, level):
        missing.append("memory bandwidth was not read before and after")
    return Disturbance(disturbed=None if missing else False, reasons=tuple(missing))


def judge_repetition(
    reading: ContentionReading | None, around: Sequence[ReferenceReading], level: ReferenceLevel
) -> Disturbance:
    """The mark of one repetition.

    Args:
        reading: of the time of the repetition alone.
        around: the reference readings nearest before and after it.
        level: what the reference kernel takes undisturbed, by all readings of the run (:func:`suffice.decide.reference.reference_level`).

    Returns:
        True with the reasons; False where the CPU side (others' use, or delays of our own threads) and the memory bus on both sides of the
        repetition were seen and quiet; else None with what was missing.
    """
    found = ([] if reading is None else _found([reading])) + list(reference_reasons(around, level))
    if found:
        return Disturbance(disturbed=True, reasons=tuple(found), in_windows=_is_in_windows(reading, found))
    missing = []
    if reading is None or (reading.other_cpus is None and reading.wait_share is None):
        missing.append("the CPU use of other processes could not be read")
    if len(around) < 2 or not sees_memory(around, level):  # noqa: PLR2004  # before and after
        missing.append("the memory bus was not read before and after the repetition")
    return Disturbance(disturbed=None if missing else False, reasons=tuple(missing))


def _is_in_windows(reading: ContentionReading | None, found: Sequence[str]) -> bool:
    """Others who had CPUs while none of our threads waited disturb in a way that no window sees: they share the memory, or a core."""
    if reading is None:
        return False
    seen = [reason for rule in _RULES_OF_WINDOWS if (reason := rule(reading)) is not None]
    return len(seen) == len(found) and (_waited(reading) is not None or _stopped(reading) is not None)


def is_window_disturbed(
    wall_s: float, waited_s: float | None, present_s: float | None, stopped: int | None
) -> bool | None:
    """The mark of one short sampling window, by what the engine's threads did in it; None: not told.

    A delay is booked when it ends: a window in which no thread ran for most of the time, and none waited so far, is not known to be quiet.
    """
    if stopped:
        return True
    if waited_s is None or wall_s <= 0:
        return None
    if waited_s > MAX_WINDOW_WAIT_SHARE * wall_s:
        return True
    return False if present_s is not None and present_s >= LEAST_WINDOW_PRESENCE * wall_s else None

"""Was the machine itself slower for a while? The rule on readings of a reference kernel, made before, between and after repetitions.

A neighbour on the memory bus, on the other half of a core, or a lower clock rate shows in no counter of this system: only fixed work that is
timed again and again sees it. What is there from the first reading to the last is not seen: there is nothing to compare with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.stats.modes import lower_mode

if TYPE_CHECKING:
    from collections.abc import Sequence

# As in a quiet estimate: less than 30 % of readings alike is no level to compare with.
LEAST_LEVEL_SHARE: Final = 0.30
# A decode step of a model that streams its weights is as many times longer as the bus is slower. 10 % keeps what is not marked within a few
# percent of the truth (a quiet speed should be within 5 %) and is over twice the scatter of steps on a quiet machine (4 %).
LEAST_REFERENCE_CHANGE: Final = 0.10
# A thread that is woken six times for its tries waits some tens of microseconds each time: 1 % of a reading. Above 5 % other processes had
# its CPU, and a slow reading says nothing of the memory bus or of the clock.
MAX_READING_WAIT_SHARE: Final = 0.05
# Where the readings themselves scatter, a change is more than twice the width of their level (three deviations), so six deviations.
LEVEL_WIDTHS: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceReading:
    """One reading of the reference kernel.

    Attributes:
        time_s: when it ended, on a monotonic clock.
        cost_s: what it took, with all tries.
        memory_s: seconds of the fixed memory work, the best of some tries. None: the memory for it was not to be had.
        compute_s: seconds of the fixed compute work, the best of some tries.
        memory_bytes: what the memory work reads.
        cache_resident: whether the reads may come from the last-level cache, which does not see the memory bus; None: size not known.
        waited_s: time in which a thread of the kernel waited for a CPU, the mean over threads; None: not told.
    """

    time_s: float
    cost_s: float
    memory_s: float | None
    compute_s: float | None
    memory_bytes: int | None = None
    cache_resident: bool | None = None
    waited_s: float | None = None

    @property
    def preempted(self) -> bool:
        """Whether other processes had its CPUs, so that a slow result has a cause that repetitions show by themselves."""
        return self.waited_s is not None and self.waited_s > MAX_READING_WAIT_SHARE * self.cost_s


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceLevel:
    """What the kernel takes when nobody disturbs: seconds, and from which on it counts as slower. None: not known."""

    memory_s: float | None = None
    memory_limit_s: float | None = None
    compute_s: float | None = None
    compute_limit_s: float | None = None


def _level(seconds: Sequence[float]) -> tuple[float, float] | None:
    """The fastest place where readings gather, and the limit above it. Readings too few for a place: the fastest of them."""
    if len(seconds) < 2:  # noqa: PLR2004  # one reading has nothing to be compared with
        return None
    mode = lower_mode([seconds], LEAST_LEVEL_SHARE)
    if mode is None:
        # The fastest is a few percent too fast for a level; the limit of the widest scatter makes up for it.
        return min(seconds), min(seconds) * (1 + 2 * LEAST_REFERENCE_CHANGE)
    return mode.centre, mode.centre * (1 + max(LEAST_REFERENCE_CHANGE, LEVEL_WIDTHS * mode.tolerance))


def reference_level(readings: Sequence[ReferenceReading]) -> ReferenceLevel:
    """The undisturbed level of a run, from all of its readings; of fewer than two there is none."""
    memory = _level([one.memory_s for one in readings if one.memory_s is not None])
    compute = _level([one.compute_s for one in readings if one.compute_s is not None])
    return ReferenceLevel(
        memory_s=None if memory is None else memory[0],
        memory_limit_s=None if memory is None else memory[1],
        compute_s=None if compute is None else compute[0],
        compute_limit_s=None if compute is None else compute[1],
    )


def _slower(seconds: float | None, level_s: float | None, limit_s: float | None) -> float | None:
    """How many times as long as undisturbed, where that is above the limit; preempted or not."""
    if seconds is None or level_s is None or limit_s is None or seconds <= limit_s:
        return None
    return seconds / level_s


def slow_memory(reading: ReferenceReading, level: ReferenceLevel) -> float | None:
    """How many times as long as undisturbed the memory work took; None where that is within the limit, or not known."""
    return None if reading.preempted else _slower(reading.memory_s, level.memory_s, level.memory_limit_s)


def slow_compute(reading: ReferenceReading, level: ReferenceLevel) -> float | None:
    """How many times as long as undisturbed the compute work took; None where that is within the limit, or not known."""
    return None if reading.preempted else _slower(reading.compute_s, level.compute_s, level.compute_limit_s)


def reference_reasons(readings: Sequence[ReferenceReading], level: ReferenceLevel) -> tuple[str, ...]:
    """What the readings say against an undisturbed machine; empty when nothing."""
    found = []
    memory = [factor for one in readings if (factor := slow_memory(one, level)) is not None]
    if memory:
        found.append(
            f"reading memory took up to {max(memory):.2f} times as long as undisturbed, in {len(memory)} of {len(readings)} readings "
            f"between repetitions: the memory bus is shared"
        )
    compute = [factor for one in readings if (factor := slow_compute(one, level)) is not None]
    if compute:
        found.append(
            f"computing took up to {max(compute):.2f} times as long as undisturbed, in {len(compute)} of {len(readings)} readings "
            f"between repetitions: the CPU's clock was lower, or its cores were shared"
        )
    return tuple(found)


def sees_memory(readings: Sequence[ReferenceReading], level: ReferenceLevel) -> bool:
    """Whether the readings can tell that nobody else used the memory bus.

    There is a level, all of them reach beyond the cache, and none was slow only because other processes had its CPUs: one that was fast
    all the same tells.
    """
    told = [
        one.memory_s is not None
        and not one.cache_resident
        and not (one.preempted and _slower(one.memory_s, level.memory_s, level.memory_limit_s))
        for one in readings
    ]
    return bool(told) and all(told) and level.memory_s is not None

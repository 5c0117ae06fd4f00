"""How many machines a part of the demand takes: for the requests that wait, for the rest, and for both.

What a hybrid saves is measured against GPUs whose idle time works off the rest: a GPU that must be there for the requests that wait is paid
for all day. Both sorts on one server are simulated (:mod:`suffice.serving.mix`), with their margin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar

from suffice.decide.plan_hybrid_server import Server
from suffice.decide.service_queue import queue_end
from suffice.model.cost import HOURS_PER_MONTH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from suffice.decide.plan_hybrid_parts import Parts, Rented

Found = TypeVar("Found")

_BUSY_AT_MOST: Final = 0.9  # of their time, where idle time is to be of use


class Speeds(StrEnum):
    """At which speeds so many machines are enough."""

    SLOW = "slow end"  # what is shown: nothing is gained by batches
    ROOFLINE = "roofline"  # the likely ones: weights are read once for a whole batch
    FAST = "fast end"  # nothing is simulated, and no schedule needs fewer


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Equal machines for one load.

    Attributes:
        machine: one of them.
        count: of them.
        speeds: at which they are enough with the margin.
        part_time: of ``count``, machines that are there for the rest and rented for its hours only.
        streams: of the rest on each, beside the requests that wait; 0: not on the same machines, or not simulated.
        slots: of each, for the requests that wait.
        answered_per_s: requests of the rest that each is shown to answer, where it does nothing else; None: it does, or nothing is shown.
    """

    machine: Rented
    count: int
    speeds: Speeds
    part_time: int = 0
    rest_hours: float = HOURS_PER_MONTH
    streams: int = 0
    slots: int = 1
    answered_per_s: float | None = None

    @property
    def shown(self) -> bool:
        """Whether the slow end is enough."""
        return self.speeds is Speeds.SLOW

    @property
    def hours(self) -> float:
        """Machine hours of a month."""
        return HOURS_PER_MONTH * (self.count - self.part_time) + self.rest_hours * self.part_time

    @property
    def monthly(self) -> float:
        """What they cost in a month."""
        return self.hours * self.machine.price.per_hour


def for_waiting(machine: Rented, parts: Parts, most: int) -> Fleet | None:
    """The fewest machines that are shown to keep the limits with the margin; None: even ``most`` are not."""
    curve = machine.slow
    return None if curve is None else _for_waiting(Server.at_slow_end(machine, curve), parts, most, Speeds.SLOW)


def _for_waiting(server: Server, parts: Parts, most: int, speeds: Speeds) -> Fleet | None:
    if not server.may_hold:
        return None
    least = max(1, server.least_machines(parts.waiting_wanted_per_s))
    found = _fewest(least, most, lambda count: server.slots_for(parts.waiting_wanted_per_s / count))
    return None if found is None else Fleet(machine=server.machine, count=found[0], speeds=speeds, slots=found[1])


def for_rest(machine: Rented, parts: Parts, most: int) -> Fleet | None:
    """The fewest machines that are shown to work off the rest with its margin, rented for its hours; None: even ``most`` are not."""
    curve = machine.slow
    rate = 0.0 if curve is None else queue_end(curve, machine.rest)[1]
    count = math.ceil(parts.rest_wanted_per_s / rate) if rate > 0 else most + 1
    return _part_time(machine, parts, count, Speeds.SLOW, rate) if count <= most else None


def _part_time(machine: Rented, parts: Parts, count: int, speeds: Speeds, answered_per_s: float | None = None) -> Fleet:
    return Fleet(
        machine=machine,
        count=count,
        speeds=speeds,
        part_time=count,
        rest_hours=parts.rest_hours,
        answered_per_s=answered_per_s,
    )


def waiting_at_best(machine: Rented, parts: Parts) -> Fleet:
    """The fewest that may keep the limits at the fast end."""
    return Fleet(machine=machine, count=machine.least_machines(parts.waiting_wanted_per_s), speeds=Speeds.FAST)


def rest_at_best(machine: Rented, parts: Parts) -> Fleet:
    """The fewest that may work off the rest at the fast end."""
    return _part_time(machine, parts, machine.least_machines(parts.rest_wanted_per_s), Speeds.FAST)


def both_at_best(machine: Rented, parts: Parts) -> Fleet:
    """The fewest that may do both at the fast end."""
    waiting = waiting_at_best(machine, parts)
    count = machine.least_machines(parts.waiting_wanted_per_s + parts.rest_wanted_per_s)
    return _both(waiting, parts, count)


def _both(waiting: Fleet, parts: Parts, count: int, streams: int = 0) -> Fleet:
    """Those beyond what the requests that wait take are there for the rest."""
    part_time = max(0, count - waiting.count)
    return replace(waiting, count=count, part_time=part_time, rest_hours=parts.rest_hours, streams=streams)


@dataclass(frozen=True, slots=True, kw_only=True)
class Doing:
    """Machines that are enough for the requests that wait, as candidates for both.

    Attributes:
        waiting: as many as those take.
        parts: of the demand.
        tried: the first numbers of machines that leave idle time of which the rest in it is simulated; beyond, some are for the rest alone.
    """

    server: Server
    waiting: Fleet
    parts: Parts
    tried: int

    @property
    def _apart(self) -> int:
        return self.waiting.count + self.server.least_machines(self.parts.rest_wanted_per_s)

    @property
    def _least(self) -> int:
        both = self.parts.waiting_wanted_per_s + self.parts.rest_wanted_per_s
        return max(self.waiting.count, self.server.least_machines(both / _BUSY_AT_MOST))

    @property
    def least_monthly(self) -> float:
        """What they cost at the very least, before anything is simulated."""
        divided = _both(self.waiting, self.parts, min(self._least, self._apart)).monthly
        return min(divided, self._all_waiting(self._least_all, self.waiting.slots).monthly)

    @property
    def _least_all(self) -> int:
        return max(self.waiting.count, self.server.least_machines(self.parts.all_wanted_per_s))

    def _all_waiting(self, count: int, slots: int) -> Fleet:
        return replace(self.waiting, count=count, slots=slots)

    def fleet(self) -> Fleet:
        """The cheapest of three ways: every request within the limits, the rest in idle time, or some of the machines for it alone.

        Idle time is looked at among the first numbers, so that the number is near the fewest, not surely the fewest.
        """
        within = self._within_limits(self.waiting.count)
        if within is not None:
            return within  # nothing takes fewer than the requests that wait
        divided = self._divided()
        count = max(self._least_all, self.waiting.count + 1)
        while self._all_waiting(count, 1).monthly < divided.monthly:
            within = self._within_limits(count)
            if within is not None:
                return within
            count += 1
        return divided

    def _within_limits(self, count: int) -> Fleet | None:
        """So many machines where they keep the limits in all requests as they come, the rest included."""
        if count < self._least_all:
            return None
        slots = self.server.slots_for(self.parts.all_wanted_per_s / count)
        return None if slots is None else self._all_waiting(count, slots)

    def _divided(self) -> Fleet:
        least, apart = self._least, self._apart
        for count in range(least, min(apart, least + self.tried)):
            streams = self.server.streams_beside(self.parts, count, self.waiting.slots)
            if streams is not None:
                return _both(self.waiting, self.parts, count, streams)
        return _both(self.waiting, self.parts, apart)


def doing_shown(waiting: Fleet, parts: Parts) -> Doing | None:
    """As they are shown at the slow end; None: not known."""
    machine, curve = waiting.machine, waiting.machine.slow
    if curve is None or not waiting.shown:
        return None
    return Doing(server=Server.at_slow_end(machine, curve), waiting=waiting, parts=parts, tried=1)


def doing_likely(machine: Rented, parts: Parts, most: int) -> Doing | None:
    """As they are at the roofline, each looked at in one run; None: it is not known, or more than ``most`` wait for requests."""
    curve = machine.likely
    if curve is None:
        return None
    server = Server.at_roofline(machine, curve)
    waiting = _for_waiting(server, parts, most, Speeds.ROOFLINE)
    return None if waiting is None else Doing(server=server, waiting=waiting, parts=parts, tried=2)


def cheapest_for_both(found: Iterable[Doing]) -> Fleet | None:
    """The cheapest of them for both, the first of equals; those that cannot be it are not simulated. None: there are none."""
    best: tuple[float, int] | None = None
    cheapest = None
    for bound, place, one in sorted((one.least_monthly, place, one) for place, one in enumerate(found)):
        if best is not None and (bound, place) > best:
            break
        fleet = one.fleet()
        if best is None or (fleet.monthly, place) < best:
            best, cheapest = (fleet.monthly, place), fleet
    return cheapest


def _fewest(least: int, most: int, found_for: Callable[[int], Found | None]) -> tuple[int, Found] | None:
    """The fewest machines for which something is found, and that; from ``least`` on in growing steps, then back by halves."""
    below, count, step = least - 1, least, 1
    while count <= most:
        found = found_for(count)
        if found is not None:
            return _between(below, (count, found), found_for)
        below, count, step = count, min(count + step, most) if count < most else most + 1, 2 * step
    return None


def _between(below: int, known: tuple[int, Found], found_for: Callable[[int], Found | None]) -> tuple[int, Found]:
    while known[0] - below > 1:
        middle = (below + known[0]) // 2
        found = found_for(middle)
        below, known = (middle, known) if found is None else (below, (middle, found))
    return known

"""What rate one curve carries, with how many slots.

More slots shorten the queue and lengthen each step, so that the most is carried with some number in the middle. Powers of two are tried, and
then the neighbours of the best of them; a number whose full server answers less than was found already is passed over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from suffice.serving.capacity import Proof, at_rate, holds, largest_between, saturated_rate

if TYPE_CHECKING:
    from collections.abc import Callable

    from suffice.decide.service_load import ServedCase
    from suffice.serving.curve import ServiceCurve
    from suffice.serving.search import Trial

KNOWN: Final = 600  # answers that are kept
_IDLE_SHARE: Final = 0.002  # of what a server answers at most: a load at which nobody meets anybody
_MOST_HALVINGS: Final = 10
_MOST_STEPS_UP: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """What one curve answers.

    Attributes:
        slots: for the demanded load: the fewest that hold it with its margin, else without, else those of the capacity.
        capacity: the most users or requests a second at which the limits hold.
        capacity_slots: with which they do.
        capped: the search ended there, more was not tried.
        uneven: users at which the limits fail although they hold with more of them.
    """

    slots: int
    capacity: float
    capacity_slots: int
    capped: bool = False
    uneven: tuple[int, ...] = ()


@lru_cache(maxsize=KNOWN)
def rate_end(curve: ServiceCurve, case: ServedCase, proof: Proof, slower: End | None) -> End:
    """The highest rate at which the limits hold, with the slots that carry most.

    ``slower``: what a slower curve gave; its slots are tried first, so that the ends are compared at the same slots.
    """
    server = RateServer(curve, case, proof)
    slots, held = server.slots_and_rate(slower)
    if not case.effort.finds_capacity:
        return End(slots=slots, capacity=held, capacity_slots=slots)
    best, capacity = server.best(slots, held, slower)
    wanted = case.demanded * case.margin
    keeps = held >= wanted or case.demanded <= held <= capacity < wanted
    return End(slots=slots if keeps else best, capacity=capacity, capacity_slots=best)


@lru_cache(maxsize=KNOWN)
def rate_machines(curve: ServiceCurve, case: ServedCase, end: End) -> tuple[int, int] | None:
    """The fewest equal machines that hold the rate with the margin at the slow end, and the slots of each; None: none that was tried.

    Requests are shared out at random; a share of Poisson arrivals is Poisson.
    """
    server = RateServer(curve, case, Proof.HOLDS)
    wanted = case.demanded * case.margin

    def slots_for(machines: int) -> int | None:
        share = wanted / machines
        slots = fewest(case.most_slots, partial(server.holds_with, share))
        return end.capacity_slots if slots is None and server.holds(end.capacity_slots, share) else slots

    surely = max(2, math.ceil(wanted / end.capacity))
    known = next(
        ((count, slots) for count in range(surely, surely + _MOST_STEPS_UP) if (slots := slots_for(count))), None
    )
    low = max(1, math.ceil(wanted / (end.capacity * (1 + case.effort.tolerance))) - 1)
    while known is not None and known[0] - low > 1:  # the capacity is found to a share, so that fewer may do
        middle = (known[0] + low) // 2
        slots = slots_for(middle)
        known, low = (known, middle) if slots is None else ((middle, slots), low)
    return known


class RateServer:
    """One curve under Poisson arrivals, with what was found out of it."""

    def __init__(self, curve: ServiceCurve, case: ServedCase, proof: Proof) -> None:
        self._curve, self._case, self._proof = curve, case, proof
        self._load, self._trial = case.load(), case.trial
        self._saturated: dict[int, float] = {}

    def saturated(self, slots: int) -> float:
        """Requests a second that so many slots answer at most."""
        if slots not in self._saturated:
            self._saturated[slots] = saturated_rate(self._curve, self._case.scheduler(slots), self._load)
        return self._saturated[slots]

    def holds(self, slots: int, rate_per_s: float) -> bool:
        """Whether the limits hold and the queue does not grow for ever, which a short run would not show."""
        if rate_per_s > self.saturated(slots):
            return False
        return self._holds(slots, rate_per_s, self._trial)

    def _holds(self, slots: int, rate_per_s: float, trial: Trial) -> bool:
        case, load = self._case, at_rate(self._load, rate_per_s)
        return holds(self._curve, case.scheduler(slots), load, case.limits, trial, self._proof)

    def holds_again(self, slots: int, rate_per_s: float) -> bool:
        """In other runs: of many numbers of slots that fall short, one holds by chance."""
        return self._holds(slots, rate_per_s, replace(self._trial, seed=self._trial.seed + self._trial.runs))

    def holds_with(self, rate_per_s: float, slots: int) -> bool:
        """The same, the rate first."""
        return self.holds(slots, rate_per_s)

    def slots_and_rate(self, slower: End | None) -> tuple[int, float]:
        """The fewest slots that hold the load times the margin, else the load, else a half, a quarter of it; and what they hold.

        Those of the slower curve come first where they hold the load there; where nothing holds the load, those of its capacity serve as well.
        """
        case = self._case
        wanted = case.demanded * case.margin
        if slower is not None and slower.capacity >= case.demanded:
            held = next((rate for rate in (wanted, case.demanded) if self.holds(slower.slots, rate)), 0.0)
            return slower.slots, held
        if not self.holds(1, _IDLE_SHARE * self.saturated(1)):
            return 1, 0.0  # nobody waits there, and it is too slow
        rates = [wanted, case.demanded]
        if case.effort.finds_capacity and (slower is None or slower.capacity == 0):
            rates += [case.demanded / 2**number for number in range(1, _MOST_HALVINGS)]
        for rate in rates:
            slots = fewest(case.most_slots, partial(self.holds_with, rate))
            if slots is not None:
                return slots, rate
        return (1 if slower is None else slower.capacity_slots), 0.0

    def best(self, slots: int, held: float, slower: End | None) -> tuple[int, float]:
        """The slots that carry most, and how much; ``held``: a rate that ``slots`` are known to hold, 0 when none is."""
        if slower is not None and slower.capacity > held and self.holds(slower.capacity_slots, slower.capacity):
            slots, held = slower.capacity_slots, slower.capacity
        capacity = self._capacity(slots, held)
        if capacity == 0:
            slots, capacity = 1, self._capacity(1, 0.0)
        if capacity == 0:
            return slots, capacity  # one at a time is too slow, and more of them are no faster
        for count in doubled(self._case.most_slots):
            slots, capacity = self._better(count, slots, capacity)
        step = 2 ** max(0, slots.bit_length() - 2)
        while step:
            for count in (slots - step, slots + step):
                slots, capacity = self._better(count, slots, capacity)
            step //= 2
        return slots, self._at_the_load(slots, capacity)

    def _better(self, count: int, slots: int, capacity: float) -> tuple[int, float]:
        """Other slots with what they carry, where that is more by the share to which a capacity is found, and in other runs as well."""
        more = capacity * (1 + self._case.effort.tolerance)
        if count == slots or not 1 <= count <= self._case.most_slots:
            return slots, capacity
        if not self.holds(count, more) or not self.holds_again(count, more):
            return slots, capacity
        return count, self._raised(count, more)

    def _raised(self, slots: int, held: float) -> float:
        """The highest rate with so many slots from one on that they hold, in steps that grow: it is mostly near."""
        tolerance, step = self._case.effort.tolerance, 2
        low, most = held, self.saturated(slots)
        while low < most:
            high = min(most, low * (1 + tolerance) ** step)
            if not self.holds(slots, high):
                return largest_between(low, high, lambda rate: self.holds(slots, rate), tolerance=tolerance)
            low, step = high, 2 * step
        return low

    def _at_the_load(self, slots: int, capacity: float) -> float:
        """At the demanded load, with and without its margin, counts what the simulation says there, not what was found nearby."""
        case = self._case
        for rate in (case.demanded * case.margin, case.demanded):
            if capacity < rate <= capacity * (1 + case.effort.tolerance) and self.holds(slots, rate):
                return rate
        return capacity

    def _capacity(self, slots: int, held: float) -> float:
        """The highest rate with so many slots; ``held``: one that is known to hold, 0 when none is."""
        most = self.saturated(slots)
        low = held or _IDLE_SHARE * most
        if not held and not self.holds(slots, low):
            return 0.0
        if low >= most or self.holds(slots, most):
            return most
        return largest_between(low, most, lambda rate: self.holds(slots, rate), tolerance=self._case.effort.tolerance)


def doubled(most: int) -> list[int]:
    """1, 2, 4 and so on, and the most."""
    return [*(2**number for number in range(most.bit_length()) if 2**number < most), most]


def fewest(most: int, is_good: Callable[[int], bool]) -> int | None:
    """The fewest slots that are good: powers of two first, then between the last that was not and the first that was."""
    bad = 0
    for slots in doubled(most):
        if is_good(slots):
            good = slots
            while good - bad > 1:
                middle = (good + bad) // 2
                bad, good = (bad, middle) if is_good(middle) else (middle, good)
            return good
        bad = slots
    return None

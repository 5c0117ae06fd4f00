"""One machine of a hybrid or of its baseline on one curve: what it holds, what it answers when it never rests, and what beside others."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from suffice.decide.service_rate import KNOWN
from suffice.serving.capacity import Proof, at_rate, holds, saturated_rate
from suffice.serving.mix import Mix, others_beside
from suffice.serving.search import Trial

if TYPE_CHECKING:
    from collections.abc import Callable

    from suffice.decide.plan_hybrid_parts import Parts, Rented
    from suffice.decide.service_load import ServedCase
    from suffice.serving.curve import ServiceCurve

_SLOTS: Final = (1, 2, 4, 8, 16, 32)  # for requests that wait
_FULL_SLOTS: Final = 16  # at which a server that never rests is looked at
_STREAMS: Final = (1, 2, 4, 8, 16)  # of the rest beside requests that wait
_GAIN: Final = 1.05  # of more streams: less than that is none
_IDLE_SHARE: Final = 0.002  # of what a machine answers one by one: a load at which nobody meets anybody
_ONE_RUN: Final = Trial(runs=1, confidence=0.5)  # what is likely needs no proof
_LEAST_LOAD: Final = (
    0.1  # of what a machine answers one by one: a smaller load is simulated as this one, which is never easier
)
_CLEARLY_LESS: Final = 0.9  # of what is needed: one run shows it


@lru_cache(maxsize=KNOWN)
def _full_per_s(curve: ServiceCurve, case: ServedCase, slots: int) -> float:
    return saturated_rate(curve, case.scheduler(slots), case.load())


@lru_cache(maxsize=KNOWN)
def _holds(curve: ServiceCurve, case: ServedCase, slots: int, rate_per_s: float, trial: Trial) -> bool:
    load = at_rate(case.load(), rate_per_s)
    return holds(curve, case.scheduler(slots), load, case.limits, trial, Proof.HOLDS)


@lru_cache(maxsize=KNOWN)
def _beside(  # all that decides is the key
    curve: ServiceCurve, case: ServedCase, mix: Mix, slots: int, trial: Trial, least_per_s: float
) -> float | None:
    return others_beside(curve, case.scheduler(slots), mix, case.limits, trial, least_per_s=least_per_s)


class Server:
    """One machine on one curve, with what was found out of it."""

    def __init__(self, machine: Rented, curve: ServiceCurve, trial: Trial) -> None:
        # The name tells nothing of its steps: the same accelerator is rented in several places.
        self.machine, self._curve, self._trial = machine, replace(curve, name=""), trial
        self._case = machine.waiting
        self._alone_per_s = self._full(1)

    @classmethod
    def at_slow_end(cls, machine: Rented, curve: ServiceCurve) -> Server:
        """What is shown: steps of several sequences gain nothing, but prompts of equal length may share a pass."""
        return cls(machine, curve, Trial())

    @classmethod
    def at_roofline(cls, machine: Rented, curve: ServiceCurve) -> Server:
        """What is likely, each looked at in one run."""
        return cls(machine, curve, _ONE_RUN)

    @property
    def saturated_per_s(self) -> float:
        """Requests a second that it answers when it never rests, one by one or many at once."""
        return max(self._alone_per_s, self._full(min(_FULL_SLOTS, self._case.most_slots)))

    def least_machines(self, per_s: float) -> int:
        """Of those that never rest, as many as answer so many requests a second; many at once are looked at only where one by one is not enough."""
        return math.ceil(per_s / (self._alone_per_s if per_s <= self._alone_per_s else self.saturated_per_s))

    def _full(self, slots: int) -> float:
        return _full_per_s(self._curve, self._case, slots)

    @property
    def may_hold(self) -> bool:
        """Whether a run at a load at which nobody meets anybody keeps the limits; where it does not, no load holds them."""
        return _holds(self._curve, self._case, 1, _IDLE_SHARE * self._alone_per_s, _ONE_RUN)

    def holds(self, slots: int, rate_per_s: float) -> bool:
        """Whether they hold at a rate with so many slots."""
        return _holds(self._curve, self._case, slots, rate_per_s, self._trial)

    def slots_for(self, rate_per_s: float) -> int | None:
        """The fewest slots with which they hold; None: none that were tried."""
        tried = (count for count in _SLOTS if count <= self._case.most_slots)
        return next((count for count in tried if self.holds(count, rate_per_s)), None)

    def streams_beside(self, parts: Parts, count: int, slots: int) -> int | None:
        """Streams of the rest on each of ``count`` machines that work it off while the limits hold, both with the margin; None: none do.

        Args:
            parts: of the demand.
            count: of machines.
            slots: of each for the requests that wait.
        """
        case, queue = self._case, self.machine.rest
        load = at_rate(case.load(), max(parts.waiting_wanted_per_s / count, _LEAST_LOAD * self._alone_per_s))
        needed = parts.rest_wanted_per_s / count

        def answered(streams: int) -> float | None:
            mix = Mix(waited_for=load, others=queue.load(), streams=streams)
            return _beside(self._curve, case, mix, slots + streams, self._trial, needed * _CLEARLY_LESS)

        return _first_enough(answered, needed, case.most_slots - slots)


def _first_enough(answered: Callable[[int], float | None], needed: float, most: int) -> int | None:
    before = 0.0
    for streams in _STREAMS:
        rate = answered(streams) if streams <= most else None
        if rate is None or rate < before * _GAIN:
            return None  # more of them only take more from those that wait
        if rate >= needed:
            return streams
        before = rate
    return None

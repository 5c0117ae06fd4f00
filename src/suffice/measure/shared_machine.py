"""A machine that several runs share, one after the other: the best way to read its memory is searched once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from suffice.measure.contention import Contention
    from suffice.measure.machine import Machine, MachineFacts
    from suffice.measure.observer import Observer
    from suffice.records.schema import BandwidthRecord

_METHOD: Final = (
    "a short reading before the run, with kernel and threads of the search before the first run of this comparison"
)


class SharedMachine:
    """Another machine, of whose bandwidth only the first reading is a search.

    Later runs get a short reading, made anew with what the search found: an old number would say nothing about the machine as it is
    before that run, and the difference would be taken for a neighbour on the memory bus.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._searched: BandwidthRecord | None = None

    def facts(self) -> MachineFacts:
        """See :class:`~suffice.measure.machine.Machine`."""
        return self._machine.facts()

    def bandwidth(self, *, budget_s: float, progress: Callable[[str], None] | None = None) -> BandwidthRecord:
        """A search the first time, and where memory does not hold the buffer of the first; a short reading later."""
        if self._searched is not None:
            again = self._machine.bandwidth_again(self._searched)
            if again is not None:
                return replace(again, method=_METHOD)
        self._searched = self._machine.bandwidth(budget_s=budget_s, progress=progress)
        return self._searched

    def bandwidth_again(self, first: BandwidthRecord) -> BandwidthRecord | None:
        """See :class:`~suffice.measure.machine.Machine`."""
        return self._machine.bandwidth_again(first)

    def cache_bandwidth(self, working_set_bytes: int, *, budget_s: float) -> BandwidthRecord | None:
        """See :class:`~suffice.measure.machine.Machine`."""
        return self._machine.cache_bandwidth(working_set_bytes, budget_s=budget_s)

    def contention(self, threads: int) -> Contention:
        """See :class:`~suffice.measure.machine.Machine`."""
        return self._machine.contention(threads)

    def observer(self, pids: Sequence[int | None], threads: int) -> Observer | None:
        """See :class:`~suffice.measure.machine.Machine`."""
        return self._machine.observer(pids, threads)

    def cache_evictor(self) -> Callable[[], None] | None:
        """See :class:`~suffice.measure.machine.Machine`."""
        return self._machine.cache_evictor()


class OneReading(SharedMachine):
    """A machine whose bandwidth is read once before and once after, for all that are measured side by side."""

    def __init__(self, machine: Machine, *, budget_s: float) -> None:
        super().__init__(machine)
        self._budget_s = budget_s
        self._before: BandwidthRecord | None = None
        self._after: list[BandwidthRecord | None] = []
        self._of_size: dict[int, BandwidthRecord | None] = {}

    def bandwidth(self, *, budget_s: float, progress: Callable[[str], None] | None = None) -> BandwidthRecord:
        """As read the first time; it took the budget of all of them, not that of one."""
        if self._before is None:
            self._before = super().bandwidth(budget_s=max(budget_s, self._budget_s), progress=progress)
        return self._before

    def bandwidth_again(self, first: BandwidthRecord) -> BandwidthRecord | None:
        """As read the first time that it was asked for."""
        if not self._after:
            self._after.append(super().bandwidth_again(first))
        return self._after[0]

    def cache_bandwidth(self, working_set_bytes: int, *, budget_s: float) -> BandwidthRecord | None:
        """As read the first time for a model of that size."""
        if working_set_bytes not in self._of_size:
            self._of_size[working_set_bytes] = super().cache_bandwidth(working_set_bytes, budget_s=budget_s)
        return self._of_size[working_set_bytes]

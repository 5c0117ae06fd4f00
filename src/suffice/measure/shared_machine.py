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

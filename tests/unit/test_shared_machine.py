"""A machine that several runs share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from suffice.measure.fake_machine import FakeMachine
from suffice.measure.shared_machine import SharedMachine

if TYPE_CHECKING:
    from collections.abc import Callable

    from suffice.records.schema import BandwidthRecord


class CountingMachine(FakeMachine):
    """Counts searches and short readings; ``room`` False: memory does not hold the buffer of the first."""

    searches = 0
    room = True

    def bandwidth(self, *, budget_s: float, progress: Callable[[str], None] | None = None) -> BandwidthRecord:
        """A search."""
        self.searches += 1
        return super().bandwidth(budget_s=budget_s, progress=progress)

    def bandwidth_again(self, first: BandwidthRecord) -> BandwidthRecord | None:
        """A reading that is slower than the search."""
        return replace(first, read_bytes_per_s=first.read_bytes_per_s * 0.9) if self.room else None


def test_the_bandwidth_is_searched_once_and_read_anew_before_each_run() -> None:
    """Later runs have a number of their own, of now, and say how it came about."""
    machine = CountingMachine()
    shared = SharedMachine(machine)

    first, second = shared.bandwidth(budget_s=1.0), shared.bandwidth(budget_s=1.0)

    assert machine.searches == 1
    assert second.read_bytes_per_s == first.read_bytes_per_s * 0.9
    assert second.method != first.method
    assert "before the first run" in str(second.method)


def test_a_search_again_where_the_buffer_has_no_room() -> None:
    """An old number would say nothing about now."""
    machine = CountingMachine()
    machine.room = False
    shared = SharedMachine(machine)

    shared.bandwidth(budget_s=1.0)
    shared.bandwidth(budget_s=1.0)

    assert machine.searches == 2

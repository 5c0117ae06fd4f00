"""The fake beside :mod:`suffice.measure.machine`: a machine of made-up, repeatable numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.decide.disturbance import ContentionReading
from suffice.measure.contention import FakeContention
from suffice.measure.machine import MachineFacts
from suffice.records.schema import BandwidthRecord
from suffice.units import GIB, GIGA, MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from suffice.measure.contention import Contention
    from suffice.measure.observer import Observer


class FakeMachine:
    """A machine of made-up, repeatable numbers, for tests and examples; it measures nothing and is never busy."""

    def __init__(
        self,
        *,
        read_bytes_per_s: float = 20.0 * GIGA,
        readings: ContentionReading | None = None,
        facts: MachineFacts | None = None,
        later_bytes_per_s: float | None = None,
        evictor: Callable[[], None] | None = None,
        observer: Callable[[], Observer] | None = None,
    ) -> None:
        self._bandwidth = read_bytes_per_s
        self._later = read_bytes_per_s if later_bytes_per_s is None else later_bytes_per_s
        self._evictor, self._observer = evictor, observer
        self._reading = readings or ContentionReading(
            wall_s=1.0, usable_cpus=2, watched_cpus=2, threads=2, busy_cpu_s=2.0, own_cpu_s=2.0, steal_cpu_s=0.0
        )
        self._facts = facts or MachineFacts(
            cpu_model="Fake CPU",
            isa=("avx2", "fma"),
            llc_bytes=None,
            usable_cpus=2,
            thread_candidates=(1, 2),
            memory_usable_bytes=8 * GIB,
        )

    def facts(self) -> MachineFacts:
        """As given."""
        return self._facts

    def bandwidth(self, *, budget_s: float, progress: Callable[[str], None] | None = None) -> BandwidthRecord:
        """As given."""
        return self._reading_of(self._bandwidth)

    def bandwidth_again(self, first: BandwidthRecord) -> BandwidthRecord | None:
        """As given."""
        return self._reading_of(self._later)

    def cache_bandwidth(self, working_set_bytes: int, *, budget_s: float) -> BandwidthRecord | None:
        """As given."""
        return self._reading_of(self._bandwidth)

    def contention(self, threads: int) -> Contention:
        """Always the same reading."""
        return FakeContention([self._reading])

    def observer(self, pids: Sequence[int | None], threads: int) -> Observer | None:
        """As given; None: it watches no single repetition."""
        return None if self._observer is None else self._observer()

    def cache_evictor(self) -> Callable[[], None] | None:
        """As given; None: it has no cache."""
        return self._evictor

    def _reading_of(self, bytes_per_s: float) -> BandwidthRecord:
        return BandwidthRecord(
            read_bytes_per_s=bytes_per_s,
            interval_low_bytes_per_s=bytes_per_s,
            interval_high_bytes_per_s=bytes_per_s,
            interval_level=0.95,
            samples_bytes_per_s=(bytes_per_s,),
            kernel="fake",
            threads=2,
            buffer_bytes=256 * MIB,
            cache_resident=False,
            method="made up",
        )

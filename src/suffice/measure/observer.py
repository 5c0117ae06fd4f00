"""What a series does around each of its repetitions, so that it is known afterwards whether somebody disturbed it.

::

    with machine.observer([session.pid], threads) as observer:
        if observer.prepare():
            observer.woke(session.decode(1))  # the reading emptied the caches, and the engine's threads sleep
        observer.start()
        steps_s = session.decode(16)
        seen = observer.stop(worked_s=sum(steps_s), threads=8)
"""

from __future__ import annotations

import math
import time
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final, Self

from suffice.decide.disturbance import ContentionReading
from suffice.decide.reference import reference_level, reference_reasons
from suffice.measure.watch import summed
from suffice.records.schema import ReferenceRecord, RepetitionRecord
from suffice.stats.quiet import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from suffice.decide.reference import ReferenceReading
    from suffice.measure.reference_kernel import Reference
    from suffice.measure.repetition_watch import Repetitions

# Before a reading the engine's threads must sleep, which they do after 0.1 s, and behind it a step wakes them: with that it takes as long as a
# quarter of a repetition, and more where a neighbour makes one step last seconds. Of the time of a series it may take a tenth, so that
# readings come every second or so; a repetition is judged by those around it.
MAX_PREPARING_SHARE: Final = 0.10
# A reading lasts 0.015 s, a repetition 0.4 s: a moment that slows all of the one does little to the other. A slow reading is made again up to
# so often, and its fastest try counts: what is slow for 0.05 s is slow for longer.
MOST_READINGS_AGAIN: Final = 2


class Observer:
    """Readings of each repetition, and of the reference kernel between them. Leave the context, or :meth:`close` it, to free the kernel.

    ``readings`` are those of the reference kernel so far. Several sessions that have turns may share an observer.

    Args:
        watch: readings of repetitions.
        reference: the reference kernel; None: there is none, and nobody tells about the memory bus.
        settle: waits until the engine's threads sleep.
        clock_s: a monotonic clock.
    """

    def __init__(
        self,
        watch: Repetitions,
        reference: Reference | None = None,
        *,
        settle: Callable[[], object] | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._watch, self._reference, self._settle, self._clock_s = watch, reference, settle, clock_s
        self._opened_s, self._spent_s = clock_s(), 0.0
        self.readings: list[ReferenceRecord] = []
        self._kept: list[ReferenceReading] = []
        self._open = ExitStack()
        if isinstance(reference, AbstractContextManager):
            self._open.enter_context(reference)

    def settle(self) -> None:
        """Wait until the threads of all sessions sleep: those that had their turn before look for more work for a while, and would take CPUs."""
        if self._settle is not None:
            self._settle()

    def prepare(self, *, always: bool = False) -> bool:
        """Read the reference kernel before a repetition; False where there is none, or readings had their share of the time.

        ``always``: whatever it costs, as behind the last repetition.
        """
        begin_s = self._clock_s()
        spent = self._spent_s > MAX_PREPARING_SHARE * (begin_s - self._opened_s)
        if self._reference is None or (spent and not always):
            return False
        self.settle()
        reading = self._reference.read() if always else self._reference.read_if_cheap()
        if reading is not None:
            self._keep(self._confirmed(reading, self._reference))
        self._spent_s += self._clock_s() - begin_s
        return reading is not None

    def woke(self, steps_s: Sequence[float]) -> None:
        """Steps that were made only because of a reading: they are a part of what it costs."""
        self._spent_s += math.fsum(steps_s)

    def _confirmed(self, reading: ReferenceReading, reference: Reference) -> ReferenceReading:
        """A reading that is slower than those before it, made again: what lasts a few milliseconds is over, a neighbour is not."""
        level = reference_level(self._kept)
        for _ in range(MOST_READINGS_AGAIN):
            if not reference_reasons([reading], level):
                break
            reading = fastest_of(reading, reference.read())
        return reading

    def _keep(self, reading: ReferenceReading) -> None:
        self._kept.append(reading)
        self.readings.append(ReferenceRecord(**asdict(reading)))

    def start(self, pid: int | None = None) -> None:
        """The repetition begins; ``pid``: of the engine that makes it, where several have turns and the others rest. None: all count."""
        self._watch.start(pid)

    def stop(self, *, worked_s: float | None, threads: int) -> RepetitionRecord:
        """It is over: what was seen meanwhile, without a mark.

        Args:
            worked_s: the sum of its steps; None: several engines had turns, none of which worked all the time.
            threads: that it was made with.
        """
        seen = self._watch.stop(worked_s=worked_s)
        return RepetitionRecord(
            references_before=len(self.readings),
            start_s=seen.start_s,
            reading=_told(replace(seen.reading, threads=threads)),
            windows=joined(seen.windows),
        )

    def close(self) -> None:
        """Free the kernel; twice is harmless."""
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _told(reading: ContentionReading) -> dict[str, int | float]:
    return {name: value for name, value in asdict(reading).items() if value is not None and math.isfinite(value)}


def in_turns(turns: Sequence[RepetitionRecord]) -> RepetitionRecord:
    """A repetition that was made in turns, as one: what its turns say added up. Of several it has no windows, which would be of others' time as well.

    Raises:
        ValueError: no turns.
    """
    if len(turns) == 1 or not all(one.reading for one in turns):
        return turns[0]
    readings = [ContentionReading(**one.reading) for one in turns]  # type: ignore[arg-type]  # whole numbers were kept as such
    return replace(turns[-1], start_s=turns[0].start_s, reading=_told(summed(readings)), windows=())


def fastest_of(first: ReferenceReading, second: ReferenceReading) -> ReferenceReading:
    """Two readings as one of twice the tries, of which the fastest counts."""

    def least(one: float | None, other: float | None) -> float | None:
        return None if one is None or other is None else min(one, other)

    waited = first.waited_s, second.waited_s
    return replace(
        second,
        cost_s=first.cost_s + second.cost_s,
        memory_s=least(first.memory_s, second.memory_s),
        compute_s=least(first.compute_s, second.compute_s),
        waited_s=None if waited[0] is None or waited[1] is None else waited[0] + waited[1],
    )


def joined(windows: Sequence[Window]) -> tuple[Window, ...]:
    """Windows that follow each other and have the same mark as one: they say the same of every step."""
    found: list[Window] = []
    for window in windows:
        last = found[-1] if found else None
        if last is not None and (last.end_s, last.disturbed) == (window.begin_s, window.disturbed):
            found[-1] = Window(begin_s=last.begin_s, end_s=window.end_s, disturbed=window.disturbed)
        else:
            found.append(window)
    return tuple(found)

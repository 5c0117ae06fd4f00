"""Fixed work that is timed again and again between repetitions: reading memory, and computing without it.

No counter of this system shows a neighbour on the memory bus, on the other half of a core, or a lower clock rate. Fixed work does. Both parts
run on as many threads as the engine, for some milliseconds, by NumPy alone, on any system.

- *Memory*: each try reads the next stretch of a buffer that is larger than the last-level cache, so that it comes from memory.
- *Compute*: each thread multiplies one row, which stays in its first-level cache, into a result again and again: one call, without the
  interpreter's lock.

Of three tries the fastest counts: a neighbour on the bus slows all of them, a time slice of another process only one. Where all of them were
hit, the delays of the kernel's own threads say so. A reading empties the caches of what the engine had in them: it is made *before* the step that warms up a repetition, never
between that step and the repetition, and when the engine's threads sleep (:func:`suffice.measure.run_queue.wait_until_asleep`).
"""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, Self

import numpy as np

from suffice.decide.reference import ReferenceReading
from suffice.measure.run_queue import system_threads, use_between
from suffice.units import KIB, MIB, NANOSECONDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    import numpy.typing as npt

TRIES: Final = 3
# A try is a few milliseconds: hundreds of times what it takes to start threads (10 microseconds), about a time slice of the scheduler.
TRY_S: Final = 0.003
# A core that slept runs slower at first, and the hypervisor has to give it back: behind 0.1 s of sleep the same work took 1.4 times as long in the
# median and up to 15 times, on one thread of a 2-core VM; 1.05 and 1.4 times behind other work.
WAKE_S: Final = 0.010
# Of the time since the first reading, what all readings may take. A repetition lasts about 0.4 s, a reading 0.01 to 0.02 s.
MAX_COST_SHARE: Final = 0.05
# As large as the cache and a quarter of it: the oldest stretch has been pushed out when its turn comes, by the others and by the weights
# that the engine streams between readings.
LLC_MULTIPLE: Final = 1.25
LEAST_BUFFER_BYTES: Final = (
    128 * MIB
)  # where the cache is not told: above that of any desktop, with what the engine reads
MAX_MEMORY_SHARE: Final = 1 / 8  # of what may be used: the model is in there as well
LEAST_STRETCH_BYTES: Final = 4 * MIB
_PAGE_BYTES: Final = 4 * KIB
_ROW_WORDS: Final = 2048  # float32: 8 KiB, and as much for the result, in any first-level cache
_FIRST_ROUNDS: Final = 64


class Reference(Protocol):
    """What a series needs between its repetitions."""

    def read(self) -> ReferenceReading:
        """A reading now, whatever it costs."""

    def read_if_cheap(self) -> ReferenceReading | None:
        """A reading now, or None where readings have had their share of the time."""


def reference_buffer_bytes(llc_bytes: int | None, usable_bytes: int) -> int | None:
    """Bytes of the buffer; None where memory is too short for any."""
    wanted = max(LEAST_BUFFER_BYTES, int(LLC_MULTIPLE * (llc_bytes or 0)))
    size = min(wanted, int(MAX_MEMORY_SHARE * usable_bytes)) // _PAGE_BYTES * _PAGE_BYTES
    return size if size >= 2 * LEAST_STRETCH_BYTES else None


class ReferenceKernel:
    """The kernel with its buffer and threads; leaving the context (or :meth:`close`) frees both.

    How much work a try is gets fixed when it is opened, so that it takes about :data:`TRY_S` then; afterwards only times change.

    Args:
        threads: as many as the engine uses.
        llc_bytes: of the last-level cache; None: not known.
        usable_bytes: memory that may be used.
        clock_ns: a monotonic clock.
    """

    def __init__(
        self,
        threads: int,
        *,
        llc_bytes: int | None,
        usable_bytes: int,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        if threads < 1:
            raise ValueError("a reference kernel runs on one thread at least")
        self._threads, self._llc_bytes, self._clock_ns = threads, llc_bytes, clock_ns
        self._own_threads = system_threads((os.getpid(),))
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="suffice-reference")
        try:
            self._buffer = self._filled(reference_buffer_bytes(llc_bytes, usable_bytes))
            self._rows = [np.full(_ROW_WORDS, 1.0, dtype=np.float32) for _ in range(threads)]
            self._next_byte = 0
            self._rounds = _FIRST_ROUNDS
            self._stretch_bytes = LEAST_STRETCH_BYTES
            self._fix_work()
        except BaseException:
            self.close()
            raise
        self._opened_ns = clock_ns()
        self._spent_ns = 0

    @property
    def memory_bytes(self) -> int | None:
        """What a try reads; None without a buffer."""
        return None if self._buffer is None else self._stretch_bytes

    def read(self) -> ReferenceReading:
        """A reading now: three tries of each part."""
        before = self._own_threads.read(switches=False)
        begin_ns = self._clock_ns()
        self._wake(begin_ns)
        memory_ns = [self._memory_ns() for _ in range(TRIES)] if self._buffer is not None else []
        compute_ns = [self._compute_ns() for _ in range(TRIES)]
        end_ns = self._clock_ns()
        self._spent_ns += end_ns - begin_ns
        waited_s = use_between(before, self._own_threads.read(switches=False)).waited_s
        return ReferenceReading(
            time_s=end_ns / NANOSECONDS_PER_SECOND,
            cost_s=(end_ns - begin_ns) / NANOSECONDS_PER_SECOND,
            memory_s=min(memory_ns) / NANOSECONDS_PER_SECOND if memory_ns else None,
            compute_s=min(compute_ns) / NANOSECONDS_PER_SECOND,
            memory_bytes=self.memory_bytes,
            cache_resident=self._cache_resident(),
            waited_s=None if waited_s is None else waited_s / self._threads,
        )

    def read_if_cheap(self) -> ReferenceReading | None:
        """A reading now, or None where the readings so far have had 5 % of the time since the kernel was opened."""
        elapsed_ns = self._clock_ns() - self._opened_ns
        return self.read() if self._spent_ns <= MAX_COST_SHARE * elapsed_ns else None

    def _wake(self, begin_ns: int) -> None:
        """Compute on all threads until their cores are awake."""
        while self._clock_ns() - begin_ns < WAKE_S * NANOSECONDS_PER_SECOND:
            self._compute_ns()

    def _cache_resident(self) -> bool | None:
        if self._buffer is None or self._llc_bytes is None:
            return None
        return bool(self._buffer.nbytes <= self._llc_bytes)

    def _filled(self, size: int | None) -> npt.NDArray[np.int32] | None:
        """A buffer whose pages differ, so that none is merged with another; None where there is no memory for it."""
        if size is None:
            return None
        try:
            buffer = np.empty(size // 4, dtype=np.int32)
        except MemoryError:
            return None
        # Each thread fills the part of each stretch that it will read: its pages then lie on its NUMA node, as far as it stays there.
        self._together([partial(part.fill, 1) for part in np.array_split(buffer, self._threads)])
        words = _PAGE_BYTES // 4
        buffer[::words] = np.arange(len(buffer[::words]), dtype=np.int32)
        return buffer

    def _fix_work(self) -> None:
        """Choose the stretch and the rounds by the fastest of three tries each."""
        target_ns = TRY_S * NANOSECONDS_PER_SECOND
        self._wake(self._clock_ns())
        if self._buffer is not None:
            took_ns = min(self._memory_ns() for _ in range(TRIES))
            stretch = int(self._stretch_bytes * target_ns / took_ns) // _PAGE_BYTES * _PAGE_BYTES
            self._stretch_bytes = min(max(stretch, LEAST_STRETCH_BYTES), self._buffer.nbytes // 2)
        took_ns = min(self._compute_ns() for _ in range(TRIES))
        self._rounds = max(_FIRST_ROUNDS, int(self._rounds * target_ns / took_ns))

    def _memory_ns(self) -> int:
        """Read the next stretch, shared out over the threads."""
        assert self._buffer is not None  # noqa: S101  # callers ask before
        if self._next_byte + self._stretch_bytes > self._buffer.nbytes:
            self._next_byte = 0
        stretch = self._buffer[self._next_byte // 4 : (self._next_byte + self._stretch_bytes) // 4]
        self._next_byte += self._stretch_bytes
        return self._together([part.max for part in np.array_split(stretch, self._threads)])

    def _compute_ns(self) -> int:
        """Multiply a row into its result as often as fixed, on every thread."""
        # A view that repeats the row without copying it: one call then lasts milliseconds.
        repeated = [np.broadcast_to(row, (self._rounds, _ROW_WORDS)) for row in self._rows]
        return self._together([partial(np.multiply.reduce, rows, axis=0) for rows in repeated])

    def _together(self, work: Sequence[Callable[[], object]]) -> int:
        """Let each thread do its part at the same time; nanoseconds from the first start to the last end, 1 at least."""
        barrier = threading.Barrier(len(work))

        def job(part: Callable[[], object]) -> tuple[int, int]:
            barrier.wait()
            start_ns = self._clock_ns()
            part()
            return start_ns, self._clock_ns()

        try:
            times = [future.result() for future in [self._pool.submit(job, part) for part in work]]
        except BaseException:
            barrier.abort()  # a thread that waits for others would wait for ever
            raise
        return max(1, max(end for _, end in times) - min(start for start, _ in times))

    def close(self) -> None:
        """End the threads and free the buffer. May be called twice."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._buffer = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class FakeReference:
    """Gives prepared readings in turn, then the last one again; all are cheap."""

    def __init__(self, readings: Sequence[ReferenceReading]) -> None:
        if not readings:
            raise ValueError("FakeReference needs at least one reading")
        self._readings = list(readings)
        self.asked = 0

    def read(self) -> ReferenceReading:
        """The next prepared reading."""
        self.asked += 1
        return self._readings.pop(0) if len(self._readings) > 1 else self._readings[0]

    def read_if_cheap(self) -> ReferenceReading | None:
        """The same."""
        return self.read()

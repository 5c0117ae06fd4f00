"""Kernels that read memory and do next to nothing else, and the filled buffer that they read.

A kernel is a numpy reduction, which lets go of the GIL while it runs, so that plain threads read in parallel. On a quiet 2-core
VM (Sapphire Rapids class, numpy 2) the ``max`` kernels read 21 to 25 GB/s on 2 threads while nothing disturbed, an AVX-512 loop in C 22 to 26 GB/s,
``bitwise_or`` 17 and sums of float32 12 GB/s: their chain of additions is the limit. ``bitwise_or`` stays for processors on which
numpy's ``max`` is not vectorized. A slice is read by one call: cutting it into blocks was no faster for integers. No BLAS: it starts threads
of its own.
"""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from suffice.errors import SufficeError
from suffice.units import KIB, MIB, NANOSECONDS_PER_SECOND, format_memory

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    import numpy.typing as npt

_WORD_BYTES: Final = 8
_PAGE_BYTES: Final = (
    4 * KIB
)  # the smallest page in use: each holds other words, so that none can be merged with another
_FILL_BLOCK_BYTES: Final = MIB
# Two float32 in [1, 2): never zero, never a NaN, never denormal, whatever type a kernel takes the bytes for.
_ONES: Final = 0x3F800000_3F800000
_RANDOM_BITS: Final = 0x007FFFFF_007FFFFF
_SEED: Final = 20
# A repetition that is shorter measures the threads' wake-up (tens of microseconds) and the scheduler rather than memory.
MIN_REPETITION_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class Kernel:
    """A reduction over all bytes of a buffer, taken as numbers of ``dtype``."""

    name: str
    dtype: npt.DTypeLike
    reduce: Callable[[Any], object]


KERNELS: Final = (
    Kernel("numpy max int32", np.int32, np.maximum.reduce),
    Kernel("numpy max float32", np.float32, np.maximum.reduce),
    Kernel("numpy max uint8", np.uint8, np.maximum.reduce),
    Kernel("numpy max int64", np.int64, np.maximum.reduce),
    Kernel("numpy bitwise_or uint64", np.uint64, np.bitwise_or.reduce),
)


def kernel_named(name: str) -> Kernel:
    """The kernel of that name.

    Raises:
        SufficeError: there is none.
    """
    for kernel in KERNELS:
        if kernel.name == name:
            return kernel
    raise SufficeError(f"no bandwidth kernel is called {name!r}; there are {', '.join(k.name for k in KERNELS)}")


def _fill(words: npt.NDArray[np.uint64], first_page: int) -> None:
    """Random words, and the page's number mixed into the first word of each page."""
    random = np.random.default_rng(_SEED).integers(0, 2**63, _FILL_BLOCK_BYTES // _WORD_BYTES, dtype=np.uint64)
    block = (random & np.uint64(_RANDOM_BITS)) | np.uint64(_ONES)
    for start in range(0, len(words), len(block)):
        part = words[start : start + len(block)]
        part[:] = block[: len(part)]
    first_words = words[:: _PAGE_BYTES // _WORD_BYTES]
    numbers = np.arange(first_page, first_page + len(first_words), dtype=np.uint64)
    first_words ^= numbers & np.uint64(_RANDOM_BITS)


class BandwidthProbe:
    """A filled buffer and threads that read it; leaving the context (or :meth:`close`) frees both.

    The buffer is cut into one slice per thread, and a slice is filled by the thread that reads it, so that its pages lie in
    that thread's NUMA node (first touch) as far as the scheduler leaves the thread there.

    Raises:
        SufficeError: the memory cannot be had.
    """

    def __init__(
        self, buffer_bytes: int, max_threads: int, *, clock_ns: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        if max_threads < 1 or buffer_bytes < max_threads * _PAGE_BYTES:
            raise SufficeError(
                f"a bandwidth buffer of {buffer_bytes} bytes is too small for {max_threads} threads; "
                f"give at least {_PAGE_BYTES} bytes a thread",
            )
        self.max_threads = max_threads
        self._clock_ns = clock_ns
        pages = buffer_bytes // _PAGE_BYTES
        try:
            self._words = np.empty(pages * _PAGE_BYTES // _WORD_BYTES, dtype=np.uint64)
        except MemoryError as error:
            raise SufficeError(
                f"{format_memory(buffer_bytes)} for the bandwidth buffer cannot be allocated; free memory, or raise the limit",
            ) from error
        self._pool = ThreadPoolExecutor(max_threads, thread_name_prefix="suffice-bandwidth")
        self._barrier = threading.Barrier(1)
        try:
            self._run(max_threads, lambda part, first: _fill(part, first * _WORD_BYTES // _PAGE_BYTES))
        except BaseException:
            self.close()
            raise

    @property
    def buffer_bytes(self) -> int:
        """Bytes that one pass reads."""
        return int(self._words.nbytes)

    def read_once(self, kernel: Kernel, threads: int, passes: int = 1) -> float:
        """Bytes per second of ``passes`` passes over the whole buffer, from the first thread's start to the last one's end.

        Raises:
            SufficeError: more threads than the probe has, or none.
        """
        if not 1 <= threads <= self.max_threads:
            raise SufficeError(f"a bandwidth reading takes 1 to {self.max_threads} threads here, not {threads}")

        def read(part: npt.NDArray[np.uint64], _first: int) -> None:
            values = part.view(kernel.dtype)
            for _ in range(passes):
                kernel.reduce(values)

        elapsed_ns = self._run(threads, read)
        return passes * self.buffer_bytes * NANOSECONDS_PER_SECOND / max(1, elapsed_ns)

    def passes_for(self, bytes_per_s: float) -> int:
        """Passes that last at least ``MIN_REPETITION_S`` at this speed."""
        return max(1, -(-int(bytes_per_s * MIN_REPETITION_S) // self.buffer_bytes))

    def _slices(self, threads: int) -> list[tuple[npt.NDArray[np.uint64], int]]:
        """Whole pages, shared out as evenly as they can be; with each slice the number of its first word."""
        page_words = _PAGE_BYTES // _WORD_BYTES
        pages = len(self._words) // page_words
        edges = [pages * i // threads * page_words for i in range(threads + 1)]
        return [(self._words[low:high], low) for low, high in itertools.pairwise(edges)]

    def _run(self, threads: int, work: Callable[[npt.NDArray[np.uint64], int], None]) -> int:
        """Let each of ``threads`` work on its slice at the same time; nanoseconds from first start to last end."""
        barrier = self._barrier = threading.Barrier(threads)

        def job(part: npt.NDArray[np.uint64], first: int) -> tuple[int, int]:
            barrier.wait()
            start_ns = self._clock_ns()
            work(part, first)
            return start_ns, self._clock_ns()

        try:
            futures = [self._pool.submit(job, part, first) for part, first in self._slices(threads)]
            times = [future.result() for future in futures]
        except BaseException:
            barrier.abort()  # a thread that waits for others would wait for ever
            raise
        return max(end for _, end in times) - min(start for start, _ in times)

    def close(self) -> None:
        """End the threads and free the buffer. May be called twice."""
        self._barrier.abort()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._words = np.empty(0, dtype=np.uint64)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

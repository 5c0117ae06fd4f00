"""Several sessions used at the same time as if they were one: a server per NUMA node, all of them at work.

What is asked of it is asked of all sessions at once, so that whatever they share (power, links, a hypervisor's quota) shows. The times it
gives are those of the slowest: a service that is spread over the servers is no better than that for the users who are sent there.
"""

from __future__ import annotations

from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self, TypeVar

from suffice.errors import EngineError
from suffice.stats.intervals import median

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    from suffice.measure.engine.seam import ChunkTimings, ExpertUse, Session, SessionFacts

_Answer = TypeVar("_Answer")


class SideBySide:
    """A session made of others, one at least; implements the seam's Session. An error in one of them closes all.

    All hold equally many tokens: they are the same model, and do the same. Calls start together and last about as long, so the end of the
    slower ones is a moment in which the others rest already.
    """

    def __init__(self, sessions: Sequence[Session]) -> None:
        if not sessions:
            raise ValueError("nothing to use side by side")
        self.sessions = tuple(sessions)
        self._pool = ThreadPoolExecutor(len(self.sessions), thread_name_prefix="suffice-side-by-side")
        self._one_at_a_time = False
        self._open = True

    @contextmanager
    def one_at_a_time(self) -> Iterator[None]:
        """Within, the sessions work one after the other, each alone on the machine."""
        self._one_at_a_time = True
        try:
            yield
        finally:
            self._one_at_a_time = False

    @property
    def facts(self) -> SessionFacts:
        """Of the first."""
        return self.sessions[0].facts

    @property
    def pid(self) -> int | None:
        """None: there are several."""
        return None

    def set_threads(self, n_threads: int, n_threads_batch: int) -> None:
        """In each of them."""
        self._all(lambda session: session.set_threads(n_threads, n_threads_batch))

    def prefill(self, n_tokens: int, *, prompt: str | None = None) -> ChunkTimings:
        """In all; the chunks of the one that took longest."""
        timings = self._all(lambda session: session.prefill(n_tokens, prompt=prompt))
        return max(timings, key=lambda one: sum(one.seconds))

    def spread(self, batch: int) -> None:
        """In each of them."""
        self._all(lambda session: session.spread(batch))

    def decode(self, n_steps: int, *, batch: int = 1) -> tuple[float, ...]:
        """In all; the steps of the one whose median step took longest."""
        return max(self._all(lambda session: session.decode(n_steps, batch=batch)), key=median)

    def extend(self, n_tokens: int, *, n_chunks: int = 1) -> tuple[float, ...]:
        """In all; the chunks of the one whose median chunk took longest."""
        return max(self._all(lambda session: session.extend(n_tokens, n_chunks=n_chunks)), key=median)

    def experts_touched(self, n_steps: int, *, batch: int = 1) -> tuple[ExpertUse, ...] | None:
        """Of the first; the others make the same steps, so that all stay equally deep."""
        return self._all(lambda session: session.experts_touched(n_steps, batch=batch))[0]

    def rewind(self, depth: int) -> bool:
        """In all. They cannot differ; if they did, they would not be equally deep any more.

        Raises:
            EngineError: some could, others could not.
        """
        done = set(self._all(lambda session: session.rewind(depth)))
        if len(done) > 1:
            self.close()
            raise EngineError(
                f"engines side by side do not agree whether their caches can be cut back to {depth} tokens"
            )
        return done.pop()

    def count_tokens(self, text: str) -> int:
        """Of the first."""
        return self.sessions[0].count_tokens(text)

    def peak_rss_bytes(self) -> int | None:
        """Of all together; None when one of them does not tell."""
        peaks = self._all(lambda session: session.peak_rss_bytes())
        return None if None in peaks else sum(peak or 0 for peak in peaks)

    def cpu_time_s(self) -> float | None:
        """Of all together; None when one of them does not tell."""
        times = self._all(lambda session: session.cpu_time_s())
        return None if None in times else sum(used or 0.0 for used in times)

    def node_bytes(self) -> dict[int, int] | None:
        """Of all together; None when one of them does not tell."""
        total: dict[int, int] = {}
        for told in self._all(lambda session: session.node_bytes()):
            if told is None:
                return None
            for node, n_bytes in told.items():
                total[node] = total.get(node, 0) + n_bytes
        return total

    def rest(self) -> None:
        """Each of them."""
        for session in self.sessions:
            session.rest()

    def close(self) -> None:
        """End all sessions; twice is harmless."""
        self._open = False
        for session in self.sessions:
            session.close()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _all(self, ask: Callable[[Session], _Answer]) -> list[_Answer]:
        """The answers in the order of the sessions; after an error or an interruption no session is left."""
        if not self._open:
            raise EngineError("the engines' session is over: it was closed, or one of them has failed")
        try:
            if self._one_at_a_time:
                return [ask(session) for session in self.sessions]
            futures = [self._pool.submit(ask, session) for session in self.sessions]
            ended, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in ended:
                future.result()
            return [future.result() for future in futures]
        except BaseException:
            self.close()
            raise

"""Threads that compute beside the requests. They end with the process: nobody who presses Ctrl-C waits for a simulation."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from suffice.errors import SufficeError

if TYPE_CHECKING:
    from collections.abc import Callable

_Result = TypeVar("_Result")


class _Task(Generic[_Result]):
    """A function, and where its result goes."""

    def __init__(self, function: Callable[[], _Result]) -> None:
        self._function = function
        self.future: Future[_Result] = Future()

    def run(self) -> None:
        """Call it, unless it was called off. A refusal is a result; a defect is told in the terminal as well."""
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            self.future.set_result(self._function())
        except SufficeError as error:
            self.future.set_exception(error)
        except BaseException as error:
            self.future.set_exception(error)
            raise


class Lane:
    """Runs functions in their order, so many at once; a ThreadPoolExecutor would keep the process until the last of them ends.

    Args:
        name: of its threads.
        at_once: how many run at the same time.
    """

    def __init__(self, name: str, *, at_once: int) -> None:
        self._name = name
        self._free = at_once
        self._waiting: deque[_Task[Any]] = deque()
        self._lock = threading.Lock()
        self._closed = False

    def submit(self, function: Callable[[], _Result], *, after: Future[Any] | None = None) -> Future[_Result]:
        """Run a function when its turn comes; with ``after`` it joins the queue once that is done, well or not."""
        task = _Task(function)
        if after is None:
            self._enqueue(task)
        else:
            after.add_done_callback(lambda _after: self._enqueue(task))
        return task.future

    def close(self) -> None:
        """Begin nothing more."""
        with self._lock:
            self._closed = True
            self._waiting.clear()

    def _enqueue(self, task: _Task[Any]) -> None:
        with self._lock:
            if self._closed:
                return
            self._waiting.append(task)
        self._start()

    def _start(self) -> None:
        """The next one, where one waits and a thread is free."""
        with self._lock:
            if not self._free or not self._waiting:
                return
            task = self._waiting.popleft()
            self._free -= 1
        threading.Thread(target=self._run, args=(task,), name=self._name, daemon=True).start()

    def _run(self, task: _Task[Any]) -> None:
        try:
            task.run()
        finally:
            with self._lock:
                self._free += 1
            self._start()


def known(result: _Result) -> Future[_Result]:
    """A future that is done."""
    future: Future[_Result] = Future()
    future.set_result(result)
    return future


def done(part: Future[_Result] | None) -> _Result | None:
    """What came out; None: it is being computed, was called off, or is not computed at all.

    Raises:
        SufficeError: that is what came out.
    """
    return None if part is None or not part.done() or part.cancelled() else part.result()

"""A child process that answers one JSON line with another, and is killed when it takes too long.

For what may never end, may end the process it runs in, or may write to our output: patterns and score functions of the user's.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from suffice.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType


class ChildTimeoutError(EngineError):
    """The child took longer than it may, and was killed."""


class ChildEndedError(EngineError):
    """The child ended by itself; the message says how."""


class LineChild:
    """A running child; ``is_running`` until it ended, was killed or closed. Close it, or use ``with``."""

    def __init__(self, module: str, *arguments: str, shows_errors: bool = False) -> None:
        """Start ``python -m module``, without the current folder on its path: a file of that folder may have the name of a module of ours.

        Args:
            module: what answers the lines.
            arguments: for it.
            shows_errors: what it writes to stderr goes to ours; else it is lost.

        Raises:
            EngineError: no process could be started.
        """
        try:
            self._process = subprocess.Popen(  # noqa: S603  # a module of ours
                [sys.executable, "-P", "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if shows_errors else subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is ours to handle, and whoever it starts ends with it
            )
        except OSError as error:
            raise EngineError(f"no process could be started: {error.strerror or error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def is_running(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def ask(self, question: Mapping[str, object], limit_s: float) -> dict[str, Any]:
        """The child's answer. Whatever is raised, the child is gone then.

        Raises:
            ChildTimeoutError: none within the limit.
            ChildEndedError: it ended instead.
        """
        late = threading.Event()

        def stop() -> None:
            late.set()
            self._kill()

        timer = threading.Timer(limit_s, stop)
        timer.start()
        try:
            line = self._exchange(json.dumps(question).encode() + b"\n")
        except BaseException:  # Ctrl-C: its answer must not be taken for the next one's
            self.close()
            raise
        finally:
            timer.cancel()
            timer.join()
        if line.endswith(b"\n"):
            answer: dict[str, Any] = json.loads(line)
            return answer
        how = self._ending()
        if late.is_set():
            raise ChildTimeoutError(f"no answer within {limit_s:g} s")
        raise ChildEndedError(how)

    def _exchange(self, question: bytes) -> bytes:
        process = self._process
        assert process.stdin is not None  # noqa: S101  # a pipe was asked for
        assert process.stdout is not None  # noqa: S101
        try:
            process.stdin.write(question)
            process.stdin.flush()
            return process.stdout.readline()
        except OSError:  # it is gone
            return b""

    def _ending(self) -> str:
        """Kill what is left, and say how the child ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1.0)
        self.close()
        code = self._process.returncode
        if code >= 0:
            return f"it ended with exit code {code}"
        names = {one.value: one.name for one in signal.Signals}
        return f"it was ended by {names.get(-code, f'signal {-code}')}"

    def _kill(self) -> None:
        """End it and all that it started."""
        if sys.platform != "win32":
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()

    def close(self) -> None:
        """End it; twice is harmless."""
        if self._process.returncode is None:
            self._kill()
        with suppress(OSError), self._process:  # closes its pipes and waits; what it did not read is lost
            pass

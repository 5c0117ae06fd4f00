r"""Patterns of the user's on answers of a model, with a limit of time.

Python's ``re`` knows none, holds the interpreter while it tries, and an innocent-looking pattern can need years: ``(a+)+$`` on thirty
letters does. No check of the pattern finds all of these and refuses no good one, so the search runs in a child process that is killed
when it takes too long. The item is then not scorable, and says so.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Final, Self

from suffice.errors import EngineError

if TYPE_CHECKING:
    from types import TracebackType

    from suffice.model.items import Pick

LIMIT_S: Final = 5.0
_START_LIMIT_S: Final = 60.0  # a loaded machine, a cold disk


class PatternTimeoutError(EngineError):
    """A search took longer than it may."""


class PatternSearch:
    """A child process that searches; it is started when first needed and again after one that was killed. Close it, or use ``with``."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def find(self, pattern: str, text: str, pick: Pick | None = None) -> str | None:
        """What :func:`suffice.model.scoring.find_pattern` finds.

        Raises:
            PatternTimeoutError: it took longer than the limit.
            EngineError: the child process could not be started, or ended by itself.
        """
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = _started()
            self._ask("", "", None, _START_LIMIT_S)  # its start is not the search's time
        return self._ask(pattern, text, pick, self._limit_s)

    def _ask(self, pattern: str, text: str, pick: Pick | None, limit_s: float) -> str | None:
        process = self._process
        assert process is not None  # noqa: S101  # find() has started it
        assert process.stdin is not None  # noqa: S101  # a pipe was asked for
        assert process.stdout is not None  # noqa: S101
        late = threading.Event()

        def stop() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(limit_s, stop)
        timer.start()
        try:
            process.stdin.write(json.dumps({"pattern": pattern, "text": text, "pick": pick}).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError:  # it is gone
            line = b""
        finally:
            timer.cancel()
            timer.join()
        if line.endswith(b"\n"):
            found = json.loads(line)["found"]
            return None if found is None else str(found)
        self.close()
        if late.is_set():
            raise PatternTimeoutError(f"the pattern took longer than {limit_s:g} s on this answer")
        raise EngineError("the process that searches for patterns ended by itself")

    def close(self) -> None:
        """End the child."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with process:  # closes its pipes and waits
                pass


def _started() -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "suffice.loaders.pattern_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is ours to handle
        )
    except OSError as error:
        raise EngineError(f"no process could be started to search for patterns: {error.strerror or error}") from error

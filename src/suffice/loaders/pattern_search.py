r"""Patterns of the user's on answers of a model, with a limit of time.

Python's ``re`` knows none, holds the interpreter while it tries, and an innocent-looking pattern can need years: ``(a+)+$`` on thirty
letters does. No check of the pattern finds all of these and refuses no good one, so the search runs in a child process that is killed
when it takes too long. The item is then not scorable, and says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from suffice.errors import EngineError
from suffice.loaders.line_child import ChildEndedError, ChildTimeoutError, LineChild

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
        self._child: LineChild | None = None

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
        if self._child is None or not self._child.is_running:
            self.close()
            self._child = LineChild("suffice.loaders.pattern_child")
            self._ask("", "", None, _START_LIMIT_S)  # its start is not the search's time
        return self._ask(pattern, text, pick, self._limit_s)

    def _ask(self, pattern: str, text: str, pick: Pick | None, limit_s: float) -> str | None:
        assert self._child is not None  # noqa: S101  # find() has started it
        try:
            found = self._child.ask({"pattern": pattern, "text": text, "pick": pick}, limit_s)["found"]
        except ChildTimeoutError:
            raise PatternTimeoutError(f"the pattern took longer than {limit_s:g} s on this answer") from None
        except ChildEndedError as error:
            raise EngineError(f"the process that searches for patterns ended by itself: {error}") from None
        return None if found is None else str(found)

    def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is not None:
            child.close()

"""A browser that prints what it is told to, for tests without one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from suffice.report.pdf import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence


class FakeBrowser:
    """Prints ``content`` (None: nothing) and ends with ``outcome``; keeps the commands that it was given.

    ``program`` None: no browser is installed. ``fails``: it cannot be started.
    """

    def __init__(
        self,
        *,
        program: str | None = "/opt/fake/browser",
        content: bytes | None = b"%PDF-1.4 fake",
        outcome: Outcome | None = None,
        fails: OSError | None = None,
    ) -> None:
        self.commands: list[list[str]] = []
        self._program = program
        self._content = content
        self._outcome = Outcome(exit_code=0) if outcome is None else outcome
        self._fails = fails

    def find(self) -> str | None:
        return self._program

    def run(self, command: Sequence[str], timeout_s: float) -> Outcome:
        self.commands.append(list(command))
        if self._fails is not None:
            raise self._fails
        if self._content is not None:
            option = "--print-to-pdf="
            target = next(one.removeprefix(option) for one in command if one.startswith(option))
            Path(target).write_bytes(self._content)
        return self._outcome

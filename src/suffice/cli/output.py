"""Printing: results to stdout, progress and warnings to stderr."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self

from suffice.report.json_values import json_text
from suffice.report.tables import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from rich.status import Status


def print_json(document: object) -> None:
    """One JSON document on stdout; infinity and NaN never reach it."""
    sys.stdout.write(json_text(document) + "\n")


def print_text(text: str) -> None:
    """Text for a person on stdout. Characters that the terminal cannot show are replaced, never a crash."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, errors="replace").decode(encoding) + "\n")


def warn(messages: Iterable[str]) -> None:
    """Warnings on stderr, one a line."""
    for message in messages:
        sys.stderr.write(f"warning: {one_line(message)}\n")


class Progress:
    """Says on stderr what is being done: a spinner on a terminal, a line per step elsewhere."""

    def __init__(self) -> None:
        self._status: Status | None = None
        self._last = ""

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console  # only where a terminal shows it

            self._status = Console(stderr=True).status("starting")
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def __call__(self, step: str) -> None:
        """Show a step; in a log, steps that differ in their numbers only are one line."""
        if self._status is not None:
            from rich.markup import escape

            self._status.update(escape(step))
            return
        kind = "".join(character for character in step if not character.isdigit())
        if kind != self._last:
            sys.stderr.write(f"suffice: {one_line(step)}\n")
            sys.stderr.flush()
        self._last = kind

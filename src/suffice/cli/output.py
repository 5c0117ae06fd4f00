"""Printing: results to stdout, progress and warnings to stderr."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from suffice.errors import OutputError, SufficeError
from suffice.report.json_values import json_text
from suffice.report.tables import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from rich.status import Status


_BETWEEN_LINES_S = 10.0  # of one step in a log
_PLAIN_SIGNS = str.maketrans({"█": "#", "▏": "|", "…": "...", "×": "x", "–": "-", "−": "-", "→": "->"})


class ReaderLeftError(SufficeError):
    """Whoever read our output (head, less) has left; there is nothing to say and nobody to say it to."""

    exit_code = 141  # 128 + SIGPIPE; 1 would read as "not enough"


def _print(text: str) -> None:
    """Text on stdout, at once: what cannot be printed must not wait for the end to be noticed."""
    if sys.stdout is None:
        raise OutputError("the result could not be printed: stdout is closed")
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(printable(text, encoding) + "\n")
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise ReaderLeftError from error
    except OSError as error:
        raise OutputError(f"the result could not be printed: {error.strerror or error}") from error


def printable(text: str, encoding: str) -> str:
    """The text in what the terminal can show: our own signs by plain ones, what else it lacks by question marks, never a crash."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        plain = text.translate(_PLAIN_SIGNS)
        return plain.encode(encoding, errors="replace").decode(encoding)
    return text


def print_json(document: object) -> None:
    """One JSON document on stdout; infinity and NaN never reach it."""
    _print(json_text(document))


def print_text(text: str) -> None:
    """Text for a person on stdout."""
    _print(text)


def _note(line: str) -> None:
    """A line on stderr; one that cannot be written is no reason to lose a result."""
    with suppress(AttributeError, OSError, ValueError):
        sys.stderr.write(line)
        sys.stderr.flush()


def say(message: str) -> None:
    """A sentence on stderr that is no warning."""
    _note(f"suffice: {one_line(message)}\n")


def warn(messages: Iterable[str]) -> None:
    """Warnings on stderr, one a line."""
    for message in messages:
        _note(f"warning: {one_line(message)}\n")


class Progress:
    """Says on stderr what is being done: a spinner on a terminal, a line per step elsewhere.

    Args:
        clock: seconds, of any beginning.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._status: Status | None = None
        self._last = ""
        self._clock = clock
        self._said_s: float | None = None

    def __enter__(self) -> Self:
        if sys.stderr is not None and sys.stderr.isatty():
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
        """Show a step; in a log, steps that differ in their numbers only are a line every ten seconds."""
        if self._status is not None:
            from rich.markup import escape

            self._status.update(escape(step))
            return
        kind = "".join(character for character in step if not character.isdigit())
        now_s = self._clock()
        if kind != self._last or self._said_s is None or now_s - self._said_s >= _BETWEEN_LINES_S:
            _note(f"suffice: {one_line(step)}\n")
            self._said_s = now_s
        self._last = kind

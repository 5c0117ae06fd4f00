"""What benchmarks of many short measurements share: one series of decode, and a lock for whoever else works on the machine."""

from __future__ import annotations

import fcntl
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from suffice.measure.series import DecodeAt, SeriesPlan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class OneDepth(SeriesPlan):
    """One series of decode: the second depth of a run would double the time of a trial."""

    def decode_series(self) -> tuple[DecodeAt, ...]:
        """Only that of the run's depth."""
        return (DecodeAt(self.depth),)


@contextmanager
def locked(path: Path | None) -> Iterator[None]:
    """Nobody else who asks for the same lock works meanwhile."""
    with ExitStack() as stack:
        if path is not None:
            file = stack.enter_context(path.open("a"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield

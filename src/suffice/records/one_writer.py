"""One process at a time changes a file that is read, added to and replaced whole: of two that begin together none loses its line."""

from __future__ import annotations

import errno
import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from suffice.errors import OutputError

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WAIT_S: Final = 10.0  # a file of a thousand runs takes a tenth of a second
_LOOK_S: Final = 0.02
_HELD: Final = frozenset({errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK})


@contextmanager
def one_writer(path: Path, *, wait_s: float = WAIT_S) -> Iterator[None]:
    """Wait until no other process changes a file in the folder of ``path``, and keep others out meanwhile.

    It is the folder that is locked, since the file is replaced. Where there are no locks (Windows, some network file systems) nobody is kept out.

    Raises:
        OutputError: another process had it for longer than ``wait_s``.
    """
    descriptor = _opened(path.absolute().parent)
    try:
        end_s = time.monotonic() + wait_s
        while descriptor is not None and not take_lock(descriptor):
            if time.monotonic() >= end_s:
                raise OutputError(
                    f"cannot write {path}: another process has been changing a file in its folder for {wait_s:g} s; try again"
                )
            time.sleep(_LOOK_S)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _opened(folder: Path) -> int | None:
    if sys.platform == "win32":
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.open(folder, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return None  # writing will fail with its own message


def take_lock(descriptor: int) -> bool:
    """Lock an open file or folder for this process until the descriptor is closed; False where another has it. True as well where there are no locks."""
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in _HELD
    return True

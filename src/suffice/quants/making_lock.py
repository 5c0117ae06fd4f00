"""One process at a time makes a candidate; others that want the same wait for it.

The folder in which it is made holds a lock of the operating system, which ends with the process, however it ends. Where there are no locks
(Windows, some network file systems) each process makes its own, in a folder of its own, and the first one stays.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from suffice.slices.folder import remove
from suffice.slices.locks import LOCK_NAME

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_HELD: Final = frozenset({errno.EACCES, errno.EAGAIN})
_FLAGS: Final = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_LOCKS: Final = -1
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Turn:
    """It is this process's turn to make what belongs into ``folder``, which is empty but for the lock."""

    folder: Path


@contextmanager
def take_turn(
    folder: Path, look: Callable[[], _Found | None], progress: Callable[[str], None], *, wait_s: float
) -> Iterator[tuple[Turn, _Found | None]]:
    """Wait until ``look`` finds what is wanted, or until nobody else makes it in ``folder``.

    The lock is held while the ``with`` lasts, also when the folder is renamed meanwhile.
    """
    has_told = False
    while True:
        found = look()
        descriptor = None if found is not None else _lock(folder)
        if found is not None or descriptor is not None:
            break
        if not has_told:
            progress("another suffice is making the same candidate; waiting for it")
            has_told = True
        time.sleep(wait_s)
    try:
        if descriptor is not None:
            found = look()  # it may have become complete between the last look and the lock
            if found is not None:
                remove(folder)
            elif descriptor != _NO_LOCKS:
                _empty(folder)
        yield Turn(folder if descriptor != _NO_LOCKS else _own(folder)), found
    finally:
        if descriptor is not None and descriptor != _NO_LOCKS:
            os.close(descriptor)


def _own(folder: Path) -> Path:
    own = folder.with_name(f"{folder.name}-{os.getpid()}")
    own.mkdir(exist_ok=True)
    return own


def _lock(folder: Path) -> int | None:
    """A descriptor that holds the lock; ``_NO_LOCKS`` where there are none; None: another process has it."""
    if sys.platform == "win32":
        return _NO_LOCKS
    folder.mkdir(exist_ok=True)
    try:
        descriptor = os.open(folder / LOCK_NAME, _FLAGS, 0o666)
    except FileNotFoundError:
        return None  # renamed or removed in this moment: look again
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in _HELD:
            return None
        remove(folder)
        return _NO_LOCKS
    with suppress(OSError):
        if (folder / LOCK_NAME).stat().st_ino == os.fstat(descriptor).st_ino:
            return descriptor
    os.close(descriptor)  # of a folder that was renamed meanwhile
    return None


def _empty(folder: Path) -> None:
    """Remove what a killed process left."""
    for path in folder.iterdir():
        if path.name != LOCK_NAME:
            remove(path)

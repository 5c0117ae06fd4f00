"""Which folders of the cache are in use, by locks of the operating system: they end with the process, however it ends.

A folder in use has a file ``lock`` that a process holds. Locks are those of POSIX, per process: what this process holds never keeps
itself out. Where there are none (Windows, some network file systems), nothing is known to be in use, and age has to decide.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOCK_NAME: Final = "lock"
_HELD: Final = frozenset({errno.EACCES, errno.EAGAIN})
_FLAGS: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


def hold(folder: Path) -> int | None:
    """Say that this process uses ``folder``; until the descriptor that this returns is closed. None: it cannot be said.

    Nothing else in this process may open the lock's file meanwhile: closing it would end the lock.
    """
    if sys.platform == "win32":
        return None
    place = folder / LOCK_NAME
    try:
        descriptor = os.open(place, os.O_RDONLY | _FLAGS)
    except FileNotFoundError:
        return _hold_new(place)
    except OSError:
        return None
    if _is_locked(descriptor, exclusive=False):
        return descriptor
    os.close(descriptor)
    return None


def _hold_new(place: Path) -> int | None:
    """Lock first, then give it the name that others look at: none of them sees it without a holder."""
    draft = place.with_name(f".{LOCK_NAME}-{os.getpid()}")
    try:
        descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | _FLAGS, 0o666)
    except OSError:
        return None
    locked = _is_locked(descriptor, exclusive=False)
    with suppress(OSError):  # the folder has just gone: whoever asked will see that
        draft.replace(place)
    if locked:
        return descriptor
    os.close(descriptor)
    return None


def has_lock(folder: Path) -> bool:
    """Whether :func:`unused` can tell of this folder that nobody uses it."""
    return sys.platform != "win32" and os.path.lexists(folder / LOCK_NAME)


@contextmanager
def unused(folder: Path) -> Iterator[bool]:
    """Whether no other process uses ``folder``, as far as is known; nobody can begin to while this lasts."""
    try:
        descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | _FLAGS)
    except OSError:  # it has none, or belongs to another user
        yield True
        return
    try:
        yield _is_locked(descriptor, exclusive=True)
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int, *, exclusive: bool) -> bool:
    """Lock it; False when another process is in the way, or when there are no locks here and one was to be held."""
    if sys.platform == "win32":
        return exclusive
    try:
        fcntl.lockf(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError as error:
        return exclusive and error.errno not in _HELD
    return True

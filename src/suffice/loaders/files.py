"""Reading small files from users: bounded, regular files only, one clear sentence when it fails."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.errors import SufficeError


def read_small_file(path: Path, *, limit_bytes: int, error: type[SufficeError]) -> str:
    """The text of a regular UTF-8 file of at most ``limit_bytes``.

    Raises:
        SufficeError: of the type ``error``: missing, a folder, a pipe or device, too large, unreadable or not UTF-8.
    """
    try:
        # O_NONBLOCK: opening a named pipe without a writer must not hang; it has no effect on regular files.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        raise error(f"{path} does not exist") from None
    except (OSError, ValueError) as failure:
        raise error(f"{path} cannot be opened: {_reason(failure)}") from failure
    try:
        status = os.fstat(descriptor)  # before a file object is made of it: one of a folder cannot be
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise error(f"{path} is {kind}; give the path of a file")
        if status.st_size > limit_bytes:
            raise error(f"{path} has {status.st_size} bytes, more than the {limit_bytes} that such a file may have")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(limit_bytes + 1).decode("utf-8-sig")
    except OSError as failure:
        raise error(f"{path} cannot be read: {_reason(failure)}") from failure
    except UnicodeDecodeError as failure:
        raise error(f"{path} is not UTF-8 text (byte {failure.start}); save it as UTF-8") from failure
    finally:
        os.close(descriptor)


def _reason(failure: OSError | ValueError) -> str:
    return failure.strerror if isinstance(failure, OSError) and failure.strerror else str(failure)

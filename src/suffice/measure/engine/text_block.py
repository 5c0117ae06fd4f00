"""Memory that a text session shares with its worker: logits are far too many for a pipe of JSON."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Final

import numpy as np

from suffice.errors import EngineError

_MEMORY_FOLDER: Final = Path("/dev/shm")  # noqa: S108 - files of one user, made with mkstemp


class SharedBlock:
    """A block of float32 rows in a file that both processes map; ``rows`` is the view of this process.

    The file lies in memory (``/dev/shm``) where there is room, else in the temporary folder. It is unlinked as soon as both have it, so
    that nothing is left behind whoever is killed; the system frees it when the last one ends.
    """

    def __init__(self, n_rows: int, n_columns: int) -> None:
        shape = (n_rows, n_columns)
        self.n_bytes = n_rows * n_columns * np.dtype(np.float32).itemsize
        self.path = _reserved_file(self.n_bytes)
        self.rows = np.memmap(self.path, dtype=np.float32, mode="r", shape=shape)

    def unlink(self) -> None:
        """Take the file's name away; those who map it keep it. Where the system refuses, the file stays until it is cleaned up."""
        with contextlib.suppress(OSError):
            self.path.unlink()


def _reserved_file(n_bytes: int) -> Path:
    """A new file whose bytes are really there: a full memory folder would otherwise kill whoever writes."""
    problem: OSError | None = None
    folders = [_MEMORY_FOLDER] if _MEMORY_FOLDER.is_dir() else []
    for folder in (*folders, Path(tempfile.gettempdir())):
        try:
            descriptor, name = tempfile.mkstemp(prefix="suffice-logits-", dir=folder)
        except OSError as error:
            problem = error
            continue
        try:
            _reserve(descriptor, n_bytes)
        except OSError as error:
            problem = error
            Path(name).unlink()
        else:
            return Path(name)
        finally:
            os.close(descriptor)
    raise EngineError(
        f"no room for {n_bytes} bytes of logits in {_MEMORY_FOLDER} or {tempfile.gettempdir()}: {problem}; make room there, or set TMPDIR"
    )


def _reserve(descriptor: int, n_bytes: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, n_bytes)
    else:
        os.ftruncate(descriptor, n_bytes)

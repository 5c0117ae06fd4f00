"""Bounded reading of a model file: the one place where its bytes come in, from a disk or from elsewhere."""

from __future__ import annotations

import os
import stat
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from suffice.errors import ModelFileError
from suffice.units import KIB, MIB

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_WINDOW_BYTES: Final = 256 * KIB
# Far above the header of any model (Gemma 4: 30 MB), and read in a fraction of a second: a hostile file cannot keep us reading.
_MAX_READ_BYTES: Final = 256 * MIB
# Windows would translate line ends without O_BINARY; O_NONBLOCK keeps a FIFO from blocking the open. Each exists on one side only.
_OPEN_FLAGS: Final = (
    os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
)
_LENGTH: Final = {False: struct.Struct("<Q"), True: struct.Struct(">Q")}


@contextmanager
def open_model_file(path: Path) -> Iterator[ByteSource]:
    """The file at ``path``, open for bounded reading; closed afterwards.

    Raises:
        ModelFileError: not there, not a regular file, not allowed, empty, or it shrank while it was being read.
    """
    descriptor = _open_regular(path)
    try:
        source = ByteSource(FileBlocks(descriptor, path), path)
        if source.size == 0:
            raise ModelFileError(f"{path}: the file is empty; download it again")
        yield source
        source.raise_if_shrunk()
    except OSError as error:
        raise ModelFileError(f"{path}: reading failed ({error.strerror}); check the disk") from error
    finally:
        os.close(descriptor)


def _open_regular(path: Path) -> int:
    try:
        # Looked at before it is opened: opening a device can already do something.
        _raise_unless_regular(path, path.stat().st_mode)
        descriptor = os.open(path, _OPEN_FLAGS)
    except FileNotFoundError:
        raise ModelFileError(f"{path}: no such file; check the path") from None
    except PermissionError:
        raise ModelFileError(f"{path}: no permission to read it; change its permissions or run as its owner") from None
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{path}: cannot be opened ({error}); check the path") from None
    try:
        _raise_unless_regular(path, os.fstat(descriptor).st_mode)
    except ModelFileError:
        os.close(descriptor)
        raise
    return descriptor


def _raise_unless_regular(path: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise ModelFileError(f"{path}: is a directory; name the .gguf file in it")
    if not stat.S_ISREG(mode):
        raise ModelFileError(f"{path}: is a pipe, socket or device; name a regular .gguf file")


class Blocks(Protocol):
    """Where a :class:`ByteSource` gets its bytes: a file, or something that is read like one."""

    size: int  # of the whole file, in bytes

    def read_at(self, position: int, wanted: int, needed: int) -> bytes:
        """At least ``needed`` bytes from ``position`` on, ``wanted`` when they are at hand; never asked beyond ``size``.

        Raises:
            ModelFileError: there are fewer than ``needed``, or they cannot be had.
        """

    def raise_if_shrunk(self) -> None:
        """Raise ModelFileError when the file is known to be smaller now than when it was opened."""


class FileBlocks:
    """A regular file on a disk."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self.size = os.fstat(descriptor).st_size
        self._descriptor = descriptor
        self._path = path

    def read_at(self, position: int, wanted: int, needed: int) -> bytes:
        """As :class:`Blocks` says."""
        os.lseek(self._descriptor, position, os.SEEK_SET)
        parts: list[bytes] = []
        got = 0
        while got < needed:
            part = os.read(self._descriptor, wanted - got)
            if not part:
                self.raise_if_shrunk()
                raise ModelFileError(
                    f"{self._path}: the file ends before its size says; check the disk and download it again"
                )
            parts.append(part)
            got += len(part)
        return b"".join(parts)

    def raise_if_shrunk(self) -> None:
        """As :class:`Blocks` says."""
        if os.fstat(self._descriptor).st_size < self.size:
            raise ModelFileError(
                f"{self._path}: the file became smaller while it was being read; try again when nothing writes to it"
            )


class ByteSource:
    """Reads a file forwards through one small window and never beyond the size that the file had when opened."""

    def __init__(self, blocks: Blocks, path: Path | str) -> None:
        self.path = path  # what messages call the file
        self.size = blocks.size
        self._blocks = blocks
        self._window = b""
        self._window_start = 0
        self._position = 0  # in the file
        self._read_left = _MAX_READ_BYTES

    @property
    def position(self) -> int:
        """Bytes from the start of the file to the next byte to be read."""
        return self._position

    @property
    def remaining(self) -> int:
        """Bytes from here to the end of the file."""
        return self.size - self._position

    def read(self, n_bytes: int, what: str) -> bytes:
        """The next ``n_bytes`` bytes, which hold ``what``.

        Raises:
            ModelFileError: the file ends before.
        """
        self._need(n_bytes, what)
        start = self._position - self._window_start
        if start < 0 or start + n_bytes > len(self._window):
            self._fill(max(n_bytes, _WINDOW_BYTES), n_bytes)
            start = 0
        self._position += n_bytes
        return self._window[start : start + n_bytes]

    def skip(self, n_bytes: int, what: str) -> None:
        """Step over ``n_bytes`` bytes, which hold ``what``, without reading them."""
        self._need(n_bytes, what)
        self._position += n_bytes

    def rewind(self, position: int) -> None:
        """Go back to ``position``, which has been read before."""
        self._position = min(position, self._position)

    def skip_strings(self, count: int, *, big_endian: bool, what: str) -> None:
        """Step over ``count`` strings, each an 8-byte length and that many bytes."""
        # A vocabulary has hundreds of thousands of entries: this loop works on the window without a call per entry.
        length_of = _LENGTH[big_endian].unpack_from
        window, at = self._window, self._position - self._window_start
        for _ in range(count):
            if at < 0 or at + 8 > len(window):
                self._position = self._window_start + at
                self._need(8, what)
                self._fill(_WINDOW_BYTES, 8)
                window, at = self._window, 0
            at += 8 + length_of(window, at)[0]
        self._position = self._window_start + at
        self._need(0, what)

    def raise_if_shrunk(self) -> None:
        """Raise ModelFileError when the file is smaller now than when it was opened."""
        self._blocks.raise_if_shrunk()

    def _need(self, n_bytes: int, what: str) -> None:
        if n_bytes > self.remaining:
            raise ModelFileError(
                f"{self.path}: the file ends inside {what} ({n_bytes - self.remaining} bytes are missing there); "
                "it is cut off or damaged, download it again"
            )

    def _fill(self, wanted: int, needed: int) -> None:
        """Load a new window at the current position."""
        self._read_left -= wanted
        if self._read_left < 0:
            raise ModelFileError(
                f"{self.path}: its header is larger than that of any model; the file is damaged or made to harm"
            )
        self._window = self._blocks.read_at(self._position, wanted, needed)
        self._window_start = self._position

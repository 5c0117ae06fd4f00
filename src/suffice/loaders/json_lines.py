"""Files of JSON lines from users: streamed, bounded, every line either an object or one sentence that says what is wrong with it."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any, Final

from suffice.errors import RecordError
from suffice.loaders.strict_json import parse_json
from suffice.units import GIB, MIB

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from suffice.errors import SufficeError

MAX_LINE_BYTES: Final = 16 * MIB
MAX_LINES: Final = 2_000_000
MAX_FILE_BYTES: Final = GIB
_BLOCK_BYTES: Final = MIB
_BOM: Final = b"\xef\xbb\xbf"
_OTHER_BOMS: Final = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line that is not blank: ``document`` when it is a JSON object, else ``problem``; ``number`` counts from 1.

    ``torn``: it does not end with a line end, as the last line of a file may, and the last that a killed process wrote.
    """

    number: int
    document: dict[str, Any] | None = None
    problem: str | None = None
    torn: bool = False


class JsonLines:
    """The lines of a file, read one at a time; ``file_hash`` is the SHA-256 of all bytes that were read."""

    def __init__(self, path: Path, *, error: type[SufficeError]) -> None:
        self.path = path
        self._error = error
        self._hash = hashlib.sha256()

    @property
    def file_hash(self) -> str:
        """Of the whole file, once the last line was read."""
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[Line]:
        """The lines in order.

        Raises:
            SufficeError: of the type given: not a readable regular file, not UTF-8 from its first bytes on, or too many lines.
        """
        with open_regular(self.path, error=self._error) as file:
            size_bytes = os.fstat(file.fileno()).st_size
            if size_bytes > MAX_FILE_BYTES:
                raise self._error(
                    f"{self.path} has {size_bytes} bytes, more than the {MAX_FILE_BYTES} that it may have"
                )
            try:
                yield from self._lines(file)
            except OSError as failure:
                raise self._error(f"{self.path} cannot be read: {failure.strerror or failure}") from failure

    def _lines(self, file: IO[bytes]) -> Iterator[Line]:
        number = 0
        while raw := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            self._hash.update(raw)
            if number > MAX_LINES:
                raise self._error(f"{self.path} has more than {MAX_LINES} lines; split it")
            if number == 1:
                if raw.startswith(_OTHER_BOMS):
                    raise self._error(f"{self.path} is UTF-16 text; save it as UTF-8")
                raw = raw.removeprefix(_BOM)
            if len(raw) > MAX_LINE_BYTES and not raw.endswith(b"\n"):
                length_bytes = len(raw) + self._skip(file)
                what = f"the line has {length_bytes} bytes, more than the {MAX_LINE_BYTES} that one may have"
                yield Line(number=number, problem=what)
            elif raw.strip():
                line = parse_line(raw, number)
                yield line if raw.endswith(b"\n") else replace(line, torn=True)

    def _skip(self, file: IO[bytes]) -> int:
        """Read the rest of a line that is too long, and keep none of it."""
        skipped_bytes = 0
        while block := file.readline(_BLOCK_BYTES):
            self._hash.update(block)
            skipped_bytes += len(block)
            if block.endswith(b"\n"):
                break
        return skipped_bytes


def parse_line(raw: bytes, number: int) -> Line:
    """The object of one line, or what is wrong with it. Nothing raises."""
    try:
        document = parse_json(raw.rstrip(b"\r\n").decode("utf-8"))
    except UnicodeDecodeError as failure:
        return Line(number=number, problem=f"not UTF-8 text (byte {failure.start} of the line)")
    except RecordError as failure:
        return Line(number=number, problem=str(failure))
    if not isinstance(document, dict):
        return Line(number=number, problem=f"a JSON {_kind(document)}, not an object in braces")
    return Line(number=number, document=document)


def canonical_json(value: object) -> str:
    """The one text of a JSON value: names sorted, no spaces, characters as they are; what a content hash is taken of."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def open_regular(path: Path, *, error: type[SufficeError]) -> IO[bytes]:
    """A regular file, open for reading; a pipe or a device is refused and never waited for.

    Raises:
        SufficeError: of the type given, with the reason.
    """
    try:
        # O_NONBLOCK: opening a named pipe without a writer must not hang; it has no effect on regular files.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        raise error(f"{path} does not exist") from None
    except (OSError, ValueError) as failure:
        raise error(f"{path} cannot be opened: {getattr(failure, 'strerror', None) or failure}") from failure
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise error(f"{path} is {kind}; give the path of a file")
    return os.fdopen(descriptor, "rb")


def _kind(document: object) -> str:
    if isinstance(document, list):
        return "list"
    if isinstance(document, str):
        return "text"
    return "number" if isinstance(document, int | float) and not isinstance(document, bool) else "word"

"""Server-sent events out of bytes as they come: in any pieces, with any line ends.

After the HTML standard, section 9.2.6. The data is kept as bytes until a line is whole, so that a character of several bytes may
be cut anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from suffice.units import MIB

MAX_EVENT_BYTES: Final = 8 * MIB  # a server that never ends its line must not fill the memory


class EventTooLargeError(ValueError):
    """A line or an event is larger than any answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEvent:
    """One event: its data with the lines joined, its type (empty: "message"), and its id where it has one."""

    data: str
    kind: str = ""
    event_id: str | None = None


class EventParser:
    """Feeds on bytes and gives back the events that have become whole."""

    def __init__(self) -> None:
        self._rest = b""
        self._skip_newline = False
        self._data: list[str] = []
        self._data_bytes = 0
        self._kind = ""
        self._id: str | None = None
        self._first_line = True

    def feed(self, content: bytes) -> list[ServerEvent]:
        """The events that end within ``content``, in order.

        Raises:
            EventTooLargeError: more than MAX_EVENT_BYTES without an end.
        """
        if self._skip_newline and content:  # the second half of a CRLF that was cut in two
            content = content.removeprefix(b"\n")
            self._skip_newline = False
        if content.endswith(b"\r"):
            self._skip_newline = True
        pieces = (self._rest + content).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = pieces.pop()
        if len(self._rest) + self._data_bytes > MAX_EVENT_BYTES:
            raise EventTooLargeError("an event of the stream has no end")
        return [event for event in map(self._line, pieces) if event is not None]

    @property
    def inside_event(self) -> bool:
        """Whether bytes are waiting for the end of their event: at the end of a stream, they are lost."""
        return bool(self._rest.strip() or self._data)

    def _line(self, raw: bytes) -> ServerEvent | None:
        if self._first_line:
            raw = raw.removeprefix(b"\xef\xbb\xbf")
            self._first_line = False
        if not raw:
            return self._finish()
        if raw.startswith(b":"):  # a comment, sent to keep the connection alive
            return None
        name, _, value = raw.partition(b":")
        text = value.removeprefix(b" ").decode("utf-8", errors="replace")
        if name == b"data":
            self._data.append(text)
            self._data_bytes += len(value)
        elif name == b"event":
            self._kind = text
        elif name == b"id":
            self._id = text
        elif name == b"error":  # some servers write "error: {...}" as a field of its own
            self._data.append(text)
            self._kind = "error"
        return None

    def _finish(self) -> ServerEvent | None:
        data, kind, event_id = self._data, self._kind, self._id
        self._data, self._kind, self._data_bytes, self._id = [], "", 0, None
        return ServerEvent(data="\n".join(data), kind=kind, event_id=event_id) if data else None

"""HTTP/1.1 for one request on one connection, with as little as possible between the bytes and the clock.

A transport for httpx. httpx's own runs through four libraries for each piece of a body and costs three times the time; on one core that
is the difference between 200 requests a second that are timed to a millisecond and a client that measures itself.
"""

from __future__ import annotations

import asyncio
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import httpx

from suffice.units import KIB

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable

    Trace = Callable[[str, dict[str, Any]], Awaitable[None]]

_READ_BYTES: Final = 64 * KIB
_MAX_HEAD_BYTES: Final = 64 * KIB
_MAX_SIZE_LINE_BYTES: Final = 4 * KIB
_PORTS: Final = {"http": 80, "https": 443}
_STATUS: Final = re.compile(rb"[1-9][0-9]{2}")
_HEXADECIMAL: Final = 16
_BODILESS: Final = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)


class NotHttpError(httpx.RemoteProtocolError):
    """What came is not HTTP/1, or breaks its rules; the message is ours and repeats nothing of it."""


class WireTransport(httpx.AsyncBaseTransport):
    """A new connection for each request, closed after its answer. Calls the extension ``trace`` as httpcore does."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and read the head of its answer; the body comes as it arrives.

        Raises:
            httpx.ConnectError: no connection, or no TLS on it.
            httpx.ConnectTimeout: none within the time for connecting.
            httpx.ReadError: the connection broke.
            httpx.RemoteProtocolError: the server hung up.
            NotHttpError: it does not speak HTTP/1.
        """
        trace: Trace = request.extensions.get("trace", _no_trace)
        reader, writer = await self._connect(request, trace)
        try:
            await trace("http11.send_request_headers.started", {})
            writer.write(_head_of(request) + await request.aread())
            await writer.drain()
            status, headers = await _read_head(reader)
            await trace("http11.receive_response_headers.complete", {})
            decoder = _decoder(status, httpx.Headers(headers))
        except BaseException as error:
            writer.transport.abort()
            if isinstance(error, OSError):
                raise httpx.ReadError(type(error).__name__) from error
            raise
        return httpx.Response(status, headers=headers, request=request, stream=_Body(reader, writer, decoder))

    async def _connect(self, request: httpx.Request, trace: Trace) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        url = request.url
        secure = self._context if url.scheme == "https" else None
        await trace("connection.connect_tcp.started", {})
        try:
            async with asyncio.timeout(request.extensions.get("timeout", {}).get("connect")):
                return await asyncio.open_connection(
                    url.host, url.port or _PORTS[url.scheme], ssl=secure, limit=_MAX_HEAD_BYTES
                )
        except TimeoutError as error:
            raise httpx.ConnectTimeout("no connection in time") from error
        except (OSError, UnicodeError) as error:
            raise httpx.ConnectError(type(error).__name__) from error


async def _no_trace(_: str, __: dict[str, Any]) -> None:
    """Nobody wants to know."""


def _head_of(request: httpx.Request) -> bytes:
    lines = [f"{request.method} ".encode() + request.url.raw_path + b" HTTP/1.1"]
    lines += [name + b": " + value for name, value in request.headers.raw]
    return b"\r\n".join(lines) + b"\r\n\r\n"


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, list[tuple[bytes, bytes]]]:
    """Status and headers of the answer; interim answers (1xx) are passed over."""
    while True:
        lines = await _head_lines(reader)
        parts = lines[0].split(b" ", 2)
        if not parts[0].startswith(b"HTTP/1.") or len(parts) < 2 or not _STATUS.fullmatch(parts[1]):  # noqa: PLR2004  # version and status
            raise NotHttpError("the answer is not HTTP/1")
        status = int(parts[1])
        if status == HTTPStatus.SWITCHING_PROTOCOLS:
            raise NotHttpError("the server switches to another protocol, which was not asked for")
        if status >= HTTPStatus.OK:
            pairs = (line.split(b":", 1) for line in lines[1:] if b":" in line)
            return status, [(name.strip(), value.strip()) for name, value in pairs]


async def _head_lines(reader: asyncio.StreamReader) -> list[bytes]:
    """The lines of a head, the first of which is not empty; some servers end them without a carriage return."""
    lines: list[bytes] = []
    size = 0
    while True:
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            if error.partial and not lines and not error.partial.startswith(b"HTTP/"[: len(error.partial)]):
                raise NotHttpError("the answer is not HTTP/1") from error
            raise httpx.RemoteProtocolError("the server hung up") from error
        except asyncio.LimitOverrunError as error:
            raise NotHttpError("the head of the answer has no end") from error
        size += len(line)
        if size > _MAX_HEAD_BYTES:
            raise NotHttpError("the head of the answer has no end")
        line = line.rstrip(b"\r\n")
        if line:
            lines.append(line)
        elif lines:
            return lines


class Decoder:
    """A body without framing: it ends with the connection, and whether that was its end nobody knows."""

    done = False

    def feed(self, content: bytes) -> bytes:
        """What of the body is in these bytes of the connection."""
        return content

    def end(self) -> None:
        """The connection has ended.

        Raises:
            httpx.RemoteProtocolError: before the body had.
        """


class LengthDecoder(Decoder):
    """A body of a length that was announced."""

    def __init__(self, length: int) -> None:
        self._left = length
        self.done = length == 0

    def feed(self, content: bytes) -> bytes:
        """As :class:`Decoder` says."""
        content = content[: self._left]
        self._left -= len(content)
        self.done = self._left == 0
        return content

    def end(self) -> None:
        """As :class:`Decoder` says."""
        if not self.done:
            raise httpx.RemoteProtocolError("the body ended before its length")


class ChunkDecoder(Decoder):
    """A body in chunks (RFC 9112, section 7.1); extensions and trailers are passed over."""

    def __init__(self) -> None:
        self._rest = b""
        self._left = 0  # bytes of the present chunk, its line end among them
        self._trailer = False

    def feed(self, content: bytes) -> bytes:
        """As :class:`Decoder` says."""
        content, self._rest = self._rest + content, b""
        body = []
        while content and not self.done:
            if self._left:
                piece, content = content[: self._left], content[self._left :]
                body.append(piece[: max(0, self._left - 2)])
                self._left -= len(piece)
                continue
            line, found, after = content.partition(b"\n")
            if not found:
                self._keep(content)
                break
            content = after
            self._line(line.strip())
        return b"".join(body)

    def _keep(self, content: bytes) -> None:
        if len(content) > _MAX_SIZE_LINE_BYTES:
            raise NotHttpError("a chunk's size has no end")
        self._rest = content

    def _line(self, line: bytes) -> None:
        if self._trailer:
            self.done = not line
            return
        digits = line.partition(b";")[0].strip()
        try:
            size = int(digits, _HEXADECIMAL)
        except ValueError:
            size = -1
        if size < 0 or not digits.isalnum():
            raise NotHttpError("a chunk has no size")
        self._trailer = size == 0
        self._left = size + 2 if size else 0

    def end(self) -> None:
        """As :class:`Decoder` says."""
        if not self.done:
            raise httpx.RemoteProtocolError("the body ended before its last chunk")


def _decoder(status: int, headers: httpx.Headers) -> Decoder:
    if status in _BODILESS:
        return LengthDecoder(0)
    coding = headers.get("transfer-encoding", "").strip().lower()
    if coding not in ("", "chunked", "identity"):
        raise NotHttpError("the body has a transfer coding that was not asked for")
    if coding == "chunked":
        return ChunkDecoder()
    length = headers.get("content-length")
    if length is None:
        return Decoder()
    if not (length.isascii() and length.isdigit()):
        raise NotHttpError("the body's length is no number")
    return LengthDecoder(int(length))


class _Body(httpx.AsyncByteStream):
    """The body as it arrives."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, decoder: Decoder) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = decoder

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while not self._decoder.done:
                content = await self._reader.read(_READ_BYTES)
                if not content:
                    self._decoder.end()
                    return
                body = self._decoder.feed(content)
                if body:
                    yield body
        except OSError as error:
            raise httpx.ReadError(type(error).__name__) from error

    async def aclose(self) -> None:
        """Leave at once; nothing of ours is under way any more."""
        self._writer.transport.abort()

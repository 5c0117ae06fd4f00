"""Bytes of a file on a web server, by range requests, as few as possible; a server's answers are not trusted."""

from __future__ import annotations

import re
import socket
import threading
import time
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Self

import httpx

from suffice import __version__
from suffice.errors import ModelFileError
from suffice.units import KIB, MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

_FIRST_FETCH_BYTES: Final = 512 * KIB
_LARGEST_FETCH_BYTES: Final = 8 * MIB
_MAX_FETCH_BYTES: Final = 128 * MIB  # of all parts together; the largest known header has 30 MB
_MAX_REDIRECTS: Final = 5
_PATIENCE_S: Final = 15.0  # for one answer, or the next piece of it
_MAX_TOTAL_S: Final = 180.0
_SCHEMES: Final = frozenset({"http", "https"})
_CONNECTED: Final = ("connect_tcp.complete", "start_tls.complete")  # ends of the names of httpcore's events
_CONTENT_RANGE: Final = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})", re.ASCII)
_ADVICE: Final = "download the file yourself and give its path"
_STATUS_REASONS: Final = {
    HTTPStatus.UNAUTHORIZED: f"the server asks for a login; {_ADVICE}",
    HTTPStatus.FORBIDDEN: f"the server does not allow it, perhaps because the model is gated; {_ADVICE}",
    HTTPStatus.NOT_FOUND: "there is no such file; check the address",
    HTTPStatus.GONE: "the file is no longer there; check the address",
    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE: "the file is empty or shorter than the server said; try again later",
    HTTPStatus.TOO_MANY_REQUESTS: "the server answers no more requests for now; try again later",
}


class Fetcher:
    """One connection to whatever servers are asked, with bounds on bytes and time for all of them together."""

    def __init__(self, progress: Callable[[int], None] | None = None) -> None:
        self._progress = progress
        self._fetched_bytes = 0
        self._end_s = time.monotonic() + _MAX_TOTAL_S
        self._sockets: list[socket.socket] = []
        # A server that sends a byte now and then keeps httpx reading headers for days: no timeout of a single read ends that.
        self._guard = threading.Timer(_MAX_TOTAL_S, self._cut)
        self._guard.daemon = True
        try:
            self._client = httpx.Client(
                timeout=_PATIENCE_S,
                headers={"Accept-Encoding": "identity", "User-Agent": f"suffice/{__version__}"},
            )
        except (ImportError, OSError, ValueError):
            # Its message can hold the password of a proxy.
            raise ModelFileError(
                "the proxy or certificate settings of this environment (HTTPS_PROXY, SSL_CERT_FILE, ...) cannot be used; correct them"
            ) from None

    def __enter__(self) -> Self:
        self._guard.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._guard.cancel()
        self._client.close()

    def _watch(self, event: str, info: Mapping[str, object]) -> None:
        """Remember the socket of each new connection, so that it can be cut."""
        if not event.endswith(_CONNECTED):
            return
        found = getattr(info.get("return_value"), "get_extra_info", lambda _: None)("socket")
        if isinstance(found, socket.socket):
            self._sockets.append(found)
            if self._is_late():
                self._cut()

    def _cut(self) -> None:
        """End every read that is waiting; called from a thread of its own."""
        for one in self._sockets:
            with suppress(OSError):  # it is closed already
                one.shutdown(socket.SHUT_RDWR)

    def _is_late(self) -> bool:
        return time.monotonic() > self._end_s

    def open(self, url: httpx.URL | str, first: int, last: int, shown: str) -> httpx.Response:
        """The answer to a request for the bytes from ``first`` to ``last``: 200 or 206, its content not yet read, to be closed.

        Raises:
            ModelFileError: no such answer.
        """
        with self._in_words(shown):
            headers = {"Range": f"bytes={first}-{last}"}
            request = self._client.build_request("GET", url, headers=headers, extensions={"trace": self._watch})
            response = self._follow(request, shown)
        reason = _refusal(response)
        if reason is not None:
            response.close()
            raise ModelFileError(f"{shown}: {reason}")
        return response

    def pieces(self, response: httpx.Response, shown: str) -> Iterator[bytes]:
        """The content of an answer as it comes, within the bounds.

        Raises:
            ModelFileError: the connection broke, or the bounds are reached.
        """
        with self._in_words(shown):
            for piece in response.iter_raw():
                self._fetched_bytes += len(piece)
                self._raise_if_beyond(shown)
                if self._progress is not None:
                    self._progress(self._fetched_bytes)
                yield piece

    def _follow(self, request: httpx.Request, shown: str) -> httpx.Response:
        for _ in range(_MAX_REDIRECTS + 1):
            self._raise_if_beyond(shown)
            secure = request.url.scheme == "https"
            response = self._client.send(request, stream=True, follow_redirects=False)
            if response.next_request is None:
                return response
            response.close()
            request = response.next_request
            if request.url.scheme not in _SCHEMES or (secure and request.url.scheme != "https"):
                raise ModelFileError(
                    f"{shown}: the server redirects to an address that is not safe to follow; {_ADVICE}"
                )
        raise ModelFileError(f"{shown}: the server redirects more than {_MAX_REDIRECTS} times; check the address")

    def _raise_if_beyond(self, shown: str) -> None:
        if self._fetched_bytes > _MAX_FETCH_BYTES:
            raise ModelFileError(
                f"{shown}: its header is larger than that of any model; the file is damaged or made to harm"
            )
        if self._is_late():
            raise ModelFileError(
                f"{shown}: its header did not come within {_MAX_TOTAL_S:.0f} s; try a faster connection"
            )

    @contextmanager
    def _in_words(self, shown: str) -> Iterator[None]:
        try:
            with _in_words(shown):
                yield
        except ModelFileError:
            self._raise_if_beyond(shown)  # what broke off because it was cut did not just break off
            raise


class RemoteBlocks:
    """A file on a web server, read forwards; what :class:`~suffice.loaders.gguf_bytes.ByteSource` needs of a file."""

    def __init__(self, fetcher: Fetcher, url: str, shown: str) -> None:
        self._fetcher = fetcher
        self._shown = shown
        self._buffer = bytearray()
        self._start = 0  # of the buffer, in the file
        self._fetch_bytes = _FIRST_FETCH_BYTES
        self._stream: Iterator[bytes] | None = None
        response = fetcher.open(url, 0, _FIRST_FETCH_BYTES - 1, shown)
        self._response = response
        self._url = response.url  # behind the redirects
        self._mark = _mark(response)
        try:
            if response.status_code == HTTPStatus.OK:
                self.size = self._whole_size(response)
                self._stream = fetcher.pieces(response, shown)
            else:
                self.size = self._announced(response, 0, _FIRST_FETCH_BYTES - 1)
                self._take(response, min(_FIRST_FETCH_BYTES, self.size))
        except BaseException:
            response.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._response.close()

    def read_at(self, position: int, wanted: int, needed: int) -> bytes:
        """As :class:`~suffice.loaders.gguf_bytes.Blocks` says."""
        if position < self._start:
            raise ModelFileError(f"{self._shown}: cannot be read backwards; {_ADVICE}")
        if position + needed > self._start + len(self._buffer):
            if self._stream is None:
                self._fetch(position, needed)
            else:
                self._await(position, needed)
        at = position - self._start
        return bytes(self._buffer[at : at + wanted])

    def raise_if_shrunk(self) -> None:
        """Each answer was compared with the first one already."""

    def _fetch(self, position: int, needed: int) -> None:
        """Ask for more behind what is there; each request asks for twice as much as the one before."""
        self._forget(position)
        self._fetch_bytes = min(2 * self._fetch_bytes, _LARGEST_FETCH_BYTES)
        first = self._start + len(self._buffer)
        count = min(max(self._fetch_bytes, position + needed - first), self.size - first)
        response = self._fetcher.open(self._url, first, first + count - 1, self._shown)
        try:
            if response.status_code != HTTPStatus.PARTIAL_CONTENT:
                raise ModelFileError(f"{self._shown}: the server no longer sends parts of the file; try again later")
            size = self._announced(response, first, first + count - 1)
            if (size, _mark(response)) != (self.size, self._mark):
                raise ModelFileError(f"{self._shown}: the file changed while it was being read; try again")
            self._take(response, count)
        finally:
            response.close()

    def _await(self, position: int, needed: int) -> None:
        """Wait for more of the whole file; what was skipped is thrown away."""
        if self._stream is None:
            return
        while self._start + len(self._buffer) < position + needed:
            piece = next(self._stream, None)
            if piece is None:
                raise self._too_short()
            self._buffer += piece
            self._forget(position)

    def _forget(self, position: int) -> None:
        """Drop what lies before ``position``."""
        gone = min(position - self._start, len(self._buffer))
        del self._buffer[:gone]
        self._start += gone
        if not self._buffer and self._stream is None:
            self._start = position

    def _take(self, response: httpx.Response, count: int) -> None:
        """Append exactly ``count`` bytes, no more than were asked for."""
        end = len(self._buffer) + count
        for piece in self._fetcher.pieces(response, self._shown):
            self._buffer += piece[: end - len(self._buffer)]
            if len(self._buffer) == end:
                response.close()
                return
        raise self._too_short()

    def _whole_size(self, response: httpx.Response) -> int:
        text = response.headers.get("Content-Length", "")
        if not text.isdecimal() or not text.isascii():
            raise ModelFileError(f"{self._shown}: the server does not say how large the file is; {_ADVICE}")
        if int(text[:19]) == 0:
            raise ModelFileError(f"{self._shown}: the file is empty; check the address")
        return int(text[:19])

    def _announced(self, response: httpx.Response, first: int, last: int) -> int:
        """The size of the file, from an answer that must hold the bytes that were asked for."""
        match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if match is None:
            raise ModelFileError(f"{self._shown}: the server does not say which part of the file it sends; {_ADVICE}")
        got_first, got_last, size = (int(group) for group in match.groups())
        length = response.headers.get("Content-Length", str(got_last - got_first + 1))
        if (got_first, got_last, length) != (first, min(last, size - 1), str(got_last - got_first + 1)):
            raise ModelFileError(
                f"{self._shown}: the server sends another part of the file than it was asked for; {_ADVICE}"
            )
        return size

    def _too_short(self) -> ModelFileError:
        return ModelFileError(f"{self._shown}: the server sent less than it announced; try again, or {_ADVICE}")


def _mark(response: httpx.Response) -> tuple[str | None, str | None]:
    """What differs when the file was replaced; the time counts where there is no tag, for mirrors agree on tags only."""
    tag = response.headers.get("ETag")
    return tag, response.headers.get("Last-Modified") if tag is None else None


def _refusal(response: httpx.Response) -> str | None:
    status = response.status_code
    if status in {HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT}:
        coding = response.headers.get("Content-Encoding", "identity")
        return (
            None if coding == "identity" else f"the server compresses the file although it was asked not to; {_ADVICE}"
        )
    if status in _STATUS_REASONS:
        return f"{_STATUS_REASONS[HTTPStatus(status)]} (status {status})"
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return f"the server failed (status {status}); try again later"
    return f"the server answered with status {status} instead of the file; check the address"


@contextmanager
def _in_words(shown: str) -> Iterator[None]:
    """Errors of the network as one sentence, without what httpx writes of URLs and proxies."""
    try:
        yield
    except httpx.TimeoutException:
        raise ModelFileError(
            f"{shown}: no answer within {_PATIENCE_S:.0f} s; check the connection or try again later"
        ) from None
    except httpx.ConnectError as error:
        if "SSL" in str(error) or "certificate" in str(error).lower():
            raise ModelFileError(
                f"{shown}: no secure connection (TLS); check the address, the clock and SSL_CERT_FILE"
            ) from None
        raise ModelFileError(f"{shown}: no connection to the server; check the address and the network") from None
    except httpx.ProxyError:
        raise ModelFileError(
            f"{shown}: the proxy of this environment refused; check HTTPS_PROXY and NO_PROXY"
        ) from None
    except httpx.RemoteProtocolError:
        raise ModelFileError(f"{shown}: the server broke off or does not speak HTTP; try again later") from None
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, UnicodeError) as error:
        raise ModelFileError(f"{shown}: cannot be fetched ({type(error).__name__}); check the address") from None

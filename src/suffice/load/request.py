"""One request over HTTP: sent once, timed at the bytes, ended by its answer or its time-out."""

from __future__ import annotations

import asyncio
import errno
import json
import ssl
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import httpx

from suffice.load.answer import error_in
from suffice.load.transcript import MAX_DETAIL_CHARACTERS, Transcript
from suffice.load.wire import NotHttpError
from suffice.model.load_request import Outcome, RequestRow
from suffice.report.tables import one_line
from suffice.units import KIB

if TYPE_CHECKING:
    from suffice.load.endpoint import Endpoint

_CLOSING_S: Final = 1.0  # how long a server may keep the body open after [DONE]
_MAX_ERROR_BYTES: Final = 64 * KIB
_OUT_OF_FILES: Final = (errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENOMEM)


class _Stamps:
    """Times of the connection, from httpcore's trace: its events are the moments themselves, not their callers'."""

    def __init__(self, origin_ns: int) -> None:
        self._origin_ns = origin_ns
        self._connecting_ns: int | None = None
        self.connect_ns: int | None = None
        self.start_ns: int | None = None
        self.headers_ns: int | None = None

    async def __call__(self, name: str, _: dict[str, Any]) -> None:
        now_ns = time.perf_counter_ns() - self._origin_ns
        if name.endswith("send_request_headers.started"):
            self.start_ns = now_ns
            if self._connecting_ns is not None:
                self.connect_ns = now_ns - self._connecting_ns
        elif name.endswith("receive_response_headers.complete"):
            self.headers_ns = now_ns
        elif name == "connection.connect_tcp.started":
            self._connecting_ns = now_ns


class Exchange:
    """One request and what is known of it so far; its row can be had at any moment, also after an interruption."""

    def __init__(self, origin_ns: int, index: int, *, warm_up: bool, scheduled_ns: int | None = None) -> None:
        self._origin_ns = origin_ns
        self._stamps = _Stamps(origin_ns)
        self._transcript = Transcript()
        self._fixed: dict[str, Any] = {
            "index": index,
            "warm_up": warm_up,
            "scheduled_ns": scheduled_ns,
            "dispatched_ns": self._now_ns(),
        }
        self._status: int | None = None
        self._verdict: tuple[Outcome, str] = (Outcome.INTERRUPTED, "the run was interrupted")
        self._end_ns: int | None = None
        self._notes: list[str] = []

    def _now_ns(self) -> int:
        return time.perf_counter_ns() - self._origin_ns

    def lengths(self, prompt_tokens: int | None, output_tokens: int | None) -> None:
        """What was asked for, to be compared with what came."""
        self._fixed |= {"asked_prompt_tokens": prompt_tokens, "asked_output_tokens": output_tokens}
        self._transcript.asked_tokens = output_tokens

    async def run(
        self, client: httpx.AsyncClient, endpoint: Endpoint, body: dict[str, Any], timeout_s: float
    ) -> RequestRow:
        """Send the request, once, and read its answer to the end; every failure is a row, none is raised."""
        content = json.dumps(body).encode()  # ASCII: half a surrogate in a user's file has no UTF-8
        try:
            async with asyncio.timeout(timeout_s) as scope:
                await self._exchange(client, endpoint, content, scope)
        except TimeoutError:
            self._timed_out(timeout_s)
        except httpx.TimeoutException:
            self._verdict = (Outcome.NO_CONNECTION, "no connection within the time for connecting")
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            self._verdict = self._broken(error)
        self._end_ns = self._now_ns()
        outcome, detail = self._verdict
        self._verdict = (outcome, one_line(endpoint.without_secrets(detail))[:MAX_DETAIL_CHARACTERS])
        return self.row()

    async def _exchange(
        self, client: httpx.AsyncClient, endpoint: Endpoint, content: bytes, scope: asyncio.Timeout
    ) -> None:
        headers = {**endpoint.headers, "Content-Type": "application/json"}
        request = client.build_request(
            "POST", endpoint.url, content=content, headers=headers, extensions={"trace": self._stamps}
        )
        response = await client.send(request, stream=True)
        try:
            self._status = response.status_code
            if response.status_code >= HTTPStatus.MULTIPLE_CHOICES:
                detail = await _error_text(response, endpoint)
                self._verdict = (Outcome.HTTP_ERROR, f"status {response.status_code}: {detail}")
                return
            if (coding := _coding(response)) is not None:
                self._verdict = (
                    Outcome.GARBAGE,
                    f"the body is compressed ({coding}), which holds tokens back and was not asked for",
                )
                return
            if not self._streams(response):
                self._verdict = await _not_a_stream(response)
                return
            await self._read(response, scope)
        finally:
            await response.aclose()

    def _streams(self, response: httpx.Response) -> bool:
        """Whether the body is to be read as events: a wrong name for them is noted, another format is not taken for them."""
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind in ("application/json", "text/html", "application/problem+json"):
            return False
        if kind != "text/event-stream":
            self._notes.append(f"the content type was {kind[:40] or 'missing'}, not text/event-stream")
        return True

    async def _read(self, response: httpx.Response, scope: asyncio.Timeout) -> None:
        closing = False
        async for piece in response.aiter_raw():
            self._transcript.feed(piece, self._now_ns())
            if self._transcript.over and not closing:
                closing = True
                self._verdict = self._transcript.outcome(broken=False)
                loop_s = asyncio.get_running_loop().time()
                scope.reschedule(min(scope.when() or loop_s, loop_s + _CLOSING_S))
        self._verdict = self._transcript.outcome(broken=False)

    def _timed_out(self, timeout_s: float) -> None:
        if self._transcript.over:  # the answer was whole; only the end of its body was not
            return
        state = "before anything came" if self._status is None else "in the middle of its answer"
        self._verdict = (Outcome.TIMEOUT, f"not finished within {timeout_s:g} s, {state}")

    def _broken(self, error: Exception) -> tuple[Outcome, str]:
        """What a failed connection means; the library's own words can hold addresses and are not repeated."""
        if self._transcript.over:
            return self._transcript.outcome(broken=False)
        known = _resources_or_tls(error)
        if known is not None:
            return known
        if isinstance(error, NotHttpError):
            return Outcome.GARBAGE, str(error)
        if isinstance(error, httpx.ConnectError):
            return Outcome.NO_CONNECTION, "the connection was refused or the name is unknown"
        if self._status is None:
            again = "" if self._stamps.connect_ns is not None else ", on a connection that had been used before"
            return Outcome.CUT_OFF, f"the server hung up without an answer{again} ({type(error).__name__})"
        return self._transcript.outcome(broken=True)

    def row(self) -> RequestRow:
        """What is known now."""
        outcome, detail = self._verdict
        facts = self._transcript.facts()
        facts["notes"] = (*self._notes, *facts["notes"])
        return RequestRow(
            **self._fixed,
            **facts,
            outcome=outcome,
            detail=detail,
            end_ns=self._now_ns() if self._end_ns is None else self._end_ns,
            start_ns=self._stamps.start_ns,
            connect_ns=self._stamps.connect_ns,
            headers_ns=self._stamps.headers_ns,
            http_status=self._status,
        )


def _resources_or_tls(error: Exception) -> tuple[Outcome, str] | None:
    """What lies behind an error of the connection, when it is this machine's want of resources, or TLS."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in _OUT_OF_FILES:
            return Outcome.CLIENT, f"this machine has no more sockets or memory for them ({cause.strerror})"
        if isinstance(cause, ssl.SSLError):
            return (
                Outcome.NO_CONNECTION,
                f"no TLS with the server ({cause.reason}); name its certificate with --ca-file if it is to be trusted",
            )
        cause = cause.__cause__ or cause.__context__
    return None


def _coding(response: httpx.Response) -> str | None:
    """How a body is compressed; None when it is not."""
    coding = response.headers.get("content-encoding", "").strip().lower()
    return None if coding in ("", "identity") else coding[:20]


async def _error_text(response: httpx.Response, endpoint: Endpoint) -> str:
    """The server's complaint, as far as it is readable."""
    if response.has_redirect_location:
        return (
            f"it redirects to {endpoint.led_to(response.headers['location'])}, which is not followed; give that address"
        )
    if (coding := _coding(response)) is not None:
        return f"the explanation is compressed ({coding})"
    content = await start_of(response)
    text = content.decode("utf-8", errors="replace").strip()
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return text or "no explanation"
    return (error_in(document) if isinstance(document, dict) else None) or text


async def _not_a_stream(response: httpx.Response) -> tuple[Outcome, str]:
    content = await start_of(response)
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = None
    error = error_in(document) if isinstance(document, dict) else None
    if error is not None:
        return Outcome.ERROR_EVENT, error
    kind = response.headers.get("content-type", "")[:60]
    return Outcome.GARBAGE, f"the server did not stream: content type {kind}"


async def start_of(response: httpx.Response) -> bytes:
    """The first bytes of a body, bounded."""
    content = b""
    async for piece in response.aiter_raw():
        content += piece
        if len(content) > _MAX_ERROR_BYTES:
            break
    return content[:_MAX_ERROR_BYTES]

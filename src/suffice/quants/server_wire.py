"""One question to an OpenAI-compatible server and what came of it; nothing is raised, and nothing is followed elsewhere."""

from __future__ import annotations

import asyncio
import json
import ssl
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import httpx

from suffice.load.answer import Delta, NotTheProtocolError, error_in, read_event
from suffice.load.sse import ServerEvent
from suffice.load.transcript import MAX_DETAIL_CHARACTERS
from suffice.report.tables import one_line
from suffice.units import MIB

if TYPE_CHECKING:
    from suffice.load.endpoint import Endpoint

_MAX_BODY_BYTES: Final = 16 * MIB
_PATIENCE_S: Final = 10.0
_NOT_YET: Final = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)


class Trouble(StrEnum):
    """What kind of failure a reply is."""

    NO_CONNECTION = "no connection"  # or it broke: worth another try
    NOT_YET = "not yet"  # the server is loading, or has too much to do: worth another try
    STATUS = "status"
    TIMEOUT = "timeout"
    GARBAGE = "garbage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A server's answer, or what went wrong, in one line without secrets."""

    delta: Delta | None = None
    trouble: Trouble | None = None
    detail: str = ""
    status: int | None = None


async def ask_server(client: httpx.AsyncClient, endpoint: Endpoint, body: dict[str, Any], timeout_s: float) -> Reply:
    """Post a question and read the whole answer."""
    reply = await _exchange(client, endpoint, body, timeout_s)
    return Reply(
        delta=reply.delta,
        trouble=reply.trouble,
        detail=one_line(endpoint.without_secrets(reply.detail))[:MAX_DETAIL_CHARACTERS],
        status=reply.status,
    )


async def _exchange(client: httpx.AsyncClient, endpoint: Endpoint, body: dict[str, Any], timeout_s: float) -> Reply:
    headers = {**endpoint.headers, "Accept": "application/json", "Content-Type": "application/json"}
    content = json.dumps(body).encode()  # ASCII: half a surrogate in a user's file has no UTF-8
    try:
        async with (
            asyncio.timeout(timeout_s),
            client.stream("POST", endpoint.url, content=content, headers=headers) as response,
        ):
            text = await _body_of(response)
    except TimeoutError:
        return Reply(trouble=Trouble.TIMEOUT, detail=f"no answer within {timeout_s:g} s")
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        return _broken(error)
    if text is None:
        return Reply(trouble=Trouble.GARBAGE, detail=f"the answer has more than {_MAX_BODY_BYTES // MIB} MiB")
    return _reply(response.status_code, text)


async def _body_of(response: httpx.Response) -> str | None:
    """The body; None where it is larger than any answer."""
    pieces, size = [], 0
    async for piece in response.aiter_raw():
        size += len(piece)
        if size > _MAX_BODY_BYTES:
            return None
        pieces.append(piece)
    return b"".join(pieces).decode("utf-8", errors="replace")


def _broken(error: Exception) -> Reply:
    """A connection that failed; the library's own words can hold addresses and are not repeated."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return Reply(trouble=Trouble.GARBAGE, detail=f"no TLS with the server ({cause.reason})")
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx.ConnectTimeout):
        return Reply(trouble=Trouble.NO_CONNECTION, detail="no connection within the time for connecting")
    if isinstance(error, httpx.ConnectError):
        return Reply(trouble=Trouble.NO_CONNECTION, detail="the connection was refused or the name is unknown")
    return Reply(trouble=Trouble.NO_CONNECTION, detail=f"the connection broke ({type(error).__name__})")


def _reply(status: int, text: str) -> Reply:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    said = error_in(document) if isinstance(document, dict) else None
    if status >= HTTPStatus.MULTIPLE_CHOICES:
        kind = Trouble.NOT_YET if status in _NOT_YET else Trouble.STATUS
        return Reply(trouble=kind, detail=f"status {status}: {said or text.strip() or 'no explanation'}", status=status)
    if said is not None:
        return Reply(trouble=Trouble.STATUS, detail=said, status=status)
    delta = _delta_of(document)
    if delta is None:
        return Reply(trouble=Trouble.GARBAGE, detail="the answer is not one of the OpenAI interface", status=status)
    return Reply(delta=delta, status=status)


def _delta_of(document: object) -> Delta | None:
    """The answer in a document, read as the one event of a stream: fields and dialects are the same but for the name "message"."""
    choices = document.get("choices") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(choices, list) or not choices:
        return None
    first = choices[0]
    if not isinstance(first, dict) or not ("text" in first or isinstance(first.get("message"), dict)):
        return None
    event = {**document, "choices": [{**first, "delta": first.get("message")}]}
    try:
        return read_event(ServerEvent(data=json.dumps(event)))
    except NotTheProtocolError:
        return None


async def look_at(client: httpx.AsyncClient, endpoint: Endpoint, url: str) -> dict[str, Any] | None:
    """The JSON object at an address of the server; None where there is none."""
    headers = {**endpoint.headers, "Accept": "application/json"}
    try:
        async with asyncio.timeout(_PATIENCE_S), client.stream("GET", url, headers=headers) as response:
            text = await _body_of(response)
            document = json.loads(text or "") if response.status_code == HTTPStatus.OK else None
    except (TimeoutError, httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None

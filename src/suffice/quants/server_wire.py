"""One question to an OpenAI-compatible server and what came of it; nothing is raised, and nothing is followed elsewhere."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from dataclasses import dataclass, replace
from enum import StrEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote

import httpx

from suffice.load.answer import Delta, NotTheProtocolError, error_in, read_event
from suffice.load.sse import ServerEvent
from suffice.load.transcript import MAX_DETAIL_CHARACTERS
from suffice.loaders.strict_json import shown
from suffice.report.tables import one_line
from suffice.units import MIB

if TYPE_CHECKING:
    from suffice.load.endpoint import Endpoint

_MAX_BODY_BYTES: Final = 16 * MIB
_PATIENCE_S: Final = 10.0
_HIDDEN: Final = "[key]"
_LEAST_SECRET_CHARACTERS: Final = 6
_LEAST_SECRET_DIGITS: Final = 12
_SECRET_NAME: Final = re.compile("key|token|code|sig|secret|pass|auth", re.IGNORECASE)
_REASONING: Final = ("reasoning_content", "reasoning")
_THOUGHTS: Final = ("thinking", "reasoning")  # types of parts
_NOT_YET: Final = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)


class Trouble(StrEnum):
    """What kind of failure a reply is."""

    NO_CONNECTION = "no connection"  # or it broke: worth another try
    NOT_YET = "not yet"  # the server is loading, or has too much to do: worth another try
    STATUS = "status"
    TIMEOUT = "timeout"
    GARBAGE = "garbage"
    NO_TEXT = "no text"  # an answer of the interface that says nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A server's answer, or what went wrong, in one line without secrets. ``model`` is who answered, where it says so."""

    delta: Delta | None = None
    model: str | None = None
    trouble: Trouble | None = None
    detail: str = ""
    status: int | None = None


async def ask_server(client: httpx.AsyncClient, endpoint: Endpoint, body: dict[str, Any], timeout_s: float) -> Reply:
    """Post a question and read the whole answer."""
    reply = await _exchange(client, endpoint, body, timeout_s)
    return replace(reply, detail=one_line(endpoint.without_secrets(reply.detail))[:MAX_DETAIL_CHARACTERS])


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
    return _answered(document, status)


def _answered(document: object, status: int) -> Reply:
    """The answer in a document."""
    choices = document.get("choices") if isinstance(document, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    if (
        not isinstance(document, dict)
        or not isinstance(first, dict)
        or not ("text" in first or isinstance(first.get("message"), dict))
    ):
        return _garbage(status)
    message = first.get("message")
    source = message if isinstance(message, dict) else first
    text, thought = _parts(source.get("content", source.get("text")))
    thought = "".join(filter(None, (thought, *(_parts(source.get(name))[0] for name in _REASONING))))
    if text is None:
        text, _ = _parts(source.get("refusal"))
    if text is None and not thought and first.get("finish_reason") != "length":
        return Reply(trouble=Trouble.NO_TEXT, detail=_why_no_text(source), status=status)
    delta = {"content": text or "", "reasoning_content": thought}
    event = {**document, "choices": [{"delta": delta, "finish_reason": first.get("finish_reason")}]}
    model = document.get("model")
    try:
        found = read_event(ServerEvent(data=json.dumps(event)))  # its fields and dialects are those of a stream's event
    except NotTheProtocolError:
        return _garbage(status)
    return Reply(delta=found, model=model if isinstance(model, str) and model else None, status=status)


def _garbage(status: int) -> Reply:
    return Reply(trouble=Trouble.GARBAGE, detail="the answer is not one of the OpenAI interface", status=status)


def _parts(value: object) -> tuple[str | None, str]:
    """A text, whole or in a list of parts, and the thoughts among these; None where no text is there, which an empty one is not."""
    if isinstance(value, str):
        return value, ""
    texts, thoughts = [], []
    for part in value if isinstance(value, list) else ():
        kind = part.get("type", "text") if isinstance(part, dict) else None
        text = part if isinstance(part, str) else part.get("text") if isinstance(part, dict) else None
        if kind in _THOUGHTS:
            thoughts.append(_parts(part.get("thinking", part.get("text")))[0] or "")
        elif isinstance(text, str):
            texts.append(text)
    return "".join(texts) if texts else None, "".join(thoughts)


def _why_no_text(source: dict[str, Any]) -> str:
    if source.get("tool_calls"):
        return "the model called a tool instead of giving an answer"
    name = "content" if "content" in source or "role" in source else "text"
    value = source.get(name)
    kind = "null" if value is None else "a list without a text" if isinstance(value, list) else f"{shown(value)}"
    return f"the answer has no text: '{name}' is {kind}"


def without_key(text: str, endpoint: Endpoint) -> str:
    """A model's words with the key taken out, which some servers repeat; a word that only stands for a key is left where it stands.

    Servers that need no key are given one all the same (``none``, ``ollama``), and an answer may hold that word or number.
    """
    named = parse_qsl(endpoint.query)
    secrets = [value for name, value in named if _is_secret(value) and _SECRET_NAME.search(name)]
    if endpoint.key is not None:
        text = text.replace(f"Bearer {endpoint.key}", f"Bearer {_HIDDEN}")
        secrets += [endpoint.key] if _is_secret(endpoint.key) else []
    for secret in secrets:
        for form in (secret, quote(secret)):
            text = text.replace(form, _HIDDEN)
    return text


def _is_secret(value: str) -> bool:
    if len(value) < _LEAST_SECRET_CHARACTERS or value.isalpha():
        return False
    return not value.isdecimal() or len(value) >= _LEAST_SECRET_DIGITS


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

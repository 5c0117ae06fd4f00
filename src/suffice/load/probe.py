"""One look at the server before the load: is it there, what is its model called, which extra fields does it take?"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import httpx

from suffice.errors import UsageError
from suffice.load.endpoint import body_of
from suffice.load.request import Exchange, start_of
from suffice.load.settings import Accepted, Ask
from suffice.model.load_request import Outcome

if TYPE_CHECKING:
    from suffice.load.endpoint import Endpoint
    from suffice.model.load_request import RequestRow

_PATIENCE_S: Final = 10.0
_TOKENS: Final = 2
# From the most that is wanted to the standard's core; a server that refuses all three is asked for the core.
_VARIANTS: Final = (Accepted(), Accepted(exact_length=False), Accepted(usage=False, exact_length=False))
_REFUSALS: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What was found out, and with which requests: they are no part of the load and are shown."""

    endpoint: Endpoint
    accepted: Accepted
    rows: tuple[RequestRow, ...]
    warnings: tuple[str, ...]


async def probe(client: httpx.AsyncClient, endpoint: Endpoint, timeout_s: float, *, exact_length: bool = True) -> Probe:
    """Ask for the model's name where none was given, and send one small request in up to three forms.

    Raises:
        UsageError: nobody answers, the key is refused, or the address has no such interface.
    """
    if endpoint.model is None:
        endpoint = replace(endpoint, model=await _model_name(client, endpoint))
    rows: list[RequestRow] = []
    accepted = Accepted(exact_length=exact_length)
    ask = Ask(index=0, prompt="Count to three.", output_tokens=_TOKENS)
    for variant in _VARIANTS:
        if variant.exact_length and not exact_length:
            continue
        accepted = variant
        exchange = Exchange(time.perf_counter_ns(), len(rows), warm_up=True)
        rows.append(await exchange.run(client, endpoint, body_of(ask, endpoint, variant), timeout_s))
        if rows[-1].http_status not in _REFUSALS:
            break
    _refuse(rows[-1], endpoint)
    return Probe(
        endpoint=endpoint, accepted=accepted, rows=tuple(rows), warnings=_warnings(rows[-1], accepted, exact_length)
    )


def _warnings(last: RequestRow, accepted: Accepted, exact_length: bool) -> tuple[str, ...]:  # noqa: FBT001  # private
    found = []
    if not last.succeeded:
        found.append(f"the first look at the server failed ({last.outcome}: {last.detail})")
    if exact_length and not accepted.exact_length:
        found.append("the server refuses ignore_eos and min_tokens: answers may be shorter than asked for")
    if not accepted.usage:
        found.append("the server refuses stream_options: it may count no tokens")
    return tuple(found)


def _refuse(row: RequestRow, endpoint: Endpoint) -> None:
    if row.outcome is Outcome.NO_CONNECTION:
        hint = "" if "TLS" in row.detail else "; is it running?"
        raise UsageError(f"no server answers at {endpoint.shown}: {row.detail}{hint}")
    if row.http_status is not None and HTTPStatus.MULTIPLE_CHOICES <= row.http_status < HTTPStatus.BAD_REQUEST:
        raise UsageError(f"{endpoint.shown}: {row.detail}")
    if row.http_status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        raise UsageError(
            f"{endpoint.shown} refuses access ({row.detail}); put the key in an environment variable and name it with --api-key-env"
        )
    if row.http_status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
        raise UsageError(f"{endpoint.shown} does not exist there ({row.detail}); check the address, --api and --model")


async def _model_name(client: httpx.AsyncClient, endpoint: Endpoint) -> str | None:
    """The first model that the server lists; None when it lists none."""
    try:
        async with client.stream("GET", endpoint.models_url, headers=endpoint.headers, timeout=_PATIENCE_S) as response:
            document = json.loads(await start_of(response))
        name = document["data"][0]["id"]
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, IndexError, TypeError, RecursionError):
        return None
    return name if isinstance(name, str) else None

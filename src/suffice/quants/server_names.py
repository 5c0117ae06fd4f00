"""Names for servers that people know: the model that a server says it serves."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from suffice.load.runner import new_client
from suffice.quants.server import server_endpoint
from suffice.quants.server_look import served_by
from suffice.quants.server_wire import without_key
from suffice.report.tables import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from suffice.quants.parties import Party

_CONNECT_S: Final = 10.0
_MOST_CHARACTERS: Final = 80


def named_by_model(parties: Sequence[Party], *, ca_file: Path | None = None) -> tuple[Party, ...]:
    """The parties, servers among them called by the model that they serve; where two names are the same, host and port stand behind.

    A server that tells nothing, or does not answer, is called as before.

    Raises:
        UsageError: an address is none of a server.
    """
    served = [None if party.url is None else party.model or _served(party.url, ca_file) for party in parties]
    wanted = [party.name if name is None else _short(name) for party, name in zip(parties, served, strict=True)]
    counts = Counter(wanted)
    named: list[Party] = []
    for party, name in zip(parties, wanted, strict=True):
        is_alone = party.url is None or counts[name] == 1
        chosen = party.name if party.url is None else name if is_alone else f"{name} ({_place(party.url)})"
        named.append(replace(party, name=_unused(chosen, {one.name for one in named})))
    return tuple(named)


def _served(url: str, ca_file: Path | None) -> str | None:
    endpoint, _ = server_endpoint(url, ca_file=ca_file)

    async def ask() -> str | None:
        async with new_client(endpoint, _CONNECT_S) as client:
            return await served_by(client, endpoint)

    name = asyncio.run(ask())
    return None if name is None else without_key(name, endpoint)


def _short(name: str) -> str:
    return one_line(name)[:_MOST_CHARACTERS].strip() or "unnamed"


def _place(url: str) -> str:
    parts = urlsplit(url)
    return parts.hostname or "" if parts.port is None else f"{parts.hostname}:{parts.port}"


def _unused(name: str, taken: set[str]) -> str:
    number, chosen = 1, name
    while chosen in taken:
        number += 1
        chosen = f"{name} ({number})"
    return chosen

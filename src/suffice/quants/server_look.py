"""One look at a server before it is asked: which model it has, which of the two interfaces, and which settings it takes."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from suffice.errors import UsageError
from suffice.load.settings import Api
from suffice.loaders.json_lines import canonical_json
from suffice.quants.server_wire import Reply, Trouble, ask_server, look_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx

    from suffice.load.endpoint import Endpoint

SEED: Final = 0
_ENDING: Final = ".gguf"
_FINGERPRINT_CHARACTERS: Final = 12
_MISSING: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED)
_REFUSED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_NOT_TAKEN: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)
_OF_PROPS: Final = ("model_path", "build_info", "chat_template", "bos_token", "eos_token")
_OF_MODEL: Final = ("id", "root", "max_model_len", "meta", "owned_by")
_NO_NAMES: Final = frozenset(
    {"", "default", "gpt-3.5-turbo", "local-model", "model", "none"}
)  # what servers say that know none


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was found. ``fingerprint`` is of what the server tells of its model and build, None where it tells nothing."""

    endpoint: Endpoint
    has_chat: bool
    has_completions: bool
    takes_seed: bool
    is_llama_cpp: bool
    fingerprint: str | None


async def look(
    client: httpx.AsyncClient, endpoint: Endpoint, wanted: set[Api], timeout_s: float, pauses_s: Sequence[float]
) -> Look:
    """Ask for the model's name where none was given, and send one small request to each interface that is wanted.

    Raises:
        UsageError: nobody answers, the key is refused, or the address has no such interface.
    """
    models = await look_at(client, endpoint, endpoint.models_url)
    entry = _entry(models, endpoint.model)
    if endpoint.model is None and isinstance(entry.get("id"), str):
        endpoint = replace(endpoint, model=entry["id"])
    props = await _props(client, endpoint)
    is_llama_cpp = "build_info" in props and "default_generation_settings" in props
    found = {api: await _try(client, replace(endpoint, api=api), timeout_s, pauses_s) for api in sorted(wanted)}
    if wanted == {Api.COMPLETIONS} and found[Api.COMPLETIONS][0].status in _MISSING:
        found[Api.CHAT] = await _try(client, replace(endpoint, api=Api.CHAT), timeout_s, pauses_s)
    replies = [reply for reply, _ in found.values()]
    if all(reply.delta is None for reply in replies):
        _refuse(replies[0], endpoint)
    told: dict[str, Any] = {name: props[name] for name in _OF_PROPS if name in props} | {
        name: entry[name] for name in _OF_MODEL if name in entry
    }
    return Look(
        endpoint=endpoint,
        has_chat=Api.CHAT in found and found[Api.CHAT][0].status not in _MISSING,
        has_completions=Api.COMPLETIONS in found and found[Api.COMPLETIONS][0].status not in _MISSING,
        takes_seed=all(takes_seed for _, takes_seed in found.values()),
        is_llama_cpp=is_llama_cpp,
        fingerprint=_fingerprint(told),
    )


async def _props(client: httpx.AsyncClient, endpoint: Endpoint) -> dict[str, Any]:
    return await look_at(client, endpoint, f"{endpoint.base.removesuffix('/v1')}/props") or {}


async def served_by(client: httpx.AsyncClient, endpoint: Endpoint) -> str | None:
    """The name of the model that a server serves, the one of the endpoint or the first that it lists; None where it does not tell.

    Of a path the file is the name, without its ending.
    """
    entry = _entry(await look_at(client, endpoint, endpoint.models_url), endpoint.model)
    props = await _props(client, endpoint)
    for told in (entry.get("id"), entry.get("root"), props.get("model_alias"), props.get("model_path")):
        name = model_name(told) if isinstance(told, str) else ""
        if name.lower() not in _NO_NAMES:
            return name
    return None


def model_name(told: str) -> str:
    """What a server calls a model, without folders and the ending of a model file."""
    name = told.strip().replace("\\", "/").rstrip("/").rpartition("/")[2]
    return name[: -len(_ENDING)] if name.lower().endswith(_ENDING) else name


def _entry(models: dict[str, Any] | None, name: str | None) -> dict[str, Any]:
    """What the list of models says of the one of that name, or of the first."""
    data = (models or {}).get("data")
    entries = [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []
    named = [entry for entry in entries if name is None or entry.get("id") == name]
    return named[0] if named else {}


def _fingerprint(told: dict[str, Any]) -> str | None:
    if not told:
        return None
    return hashlib.sha256(canonical_json(told).encode("utf-8", "surrogatepass")).hexdigest()[:_FINGERPRINT_CHARACTERS]


async def _try(
    client: httpx.AsyncClient, endpoint: Endpoint, timeout_s: float, pauses_s: Sequence[float]
) -> tuple[Reply, bool]:
    """A small request's reply, and whether the seed was taken."""
    body: dict[str, Any] = {"max_tokens": 1, "temperature": 0, "seed": SEED, "stream": False}
    if endpoint.model is not None:
        body["model"] = endpoint.model
    if endpoint.api is Api.CHAT:
        body["messages"] = [{"role": "user", "content": "Hi"}]
    else:
        body["prompt"] = "Hi"
    reply, _ = await persistent(client, endpoint, body, timeout_s, pauses_s)
    if reply.status not in _NOT_TAKEN:
        return reply, True
    without = {name: value for name, value in body.items() if name != "seed"}
    second, _ = await persistent(client, endpoint, without, timeout_s, pauses_s)
    return (second, False) if second.delta is not None else (reply, True)


async def persistent(
    client: httpx.AsyncClient, endpoint: Endpoint, body: dict[str, Any], timeout_s: float, pauses_s: Sequence[float]
) -> tuple[Reply, int]:
    """A reply, after a further try behind each pause while there is no connection or the server is not ready; and how many there were."""
    reply = await ask_server(client, endpoint, body, timeout_s)
    for number, pause_s in enumerate(pauses_s):
        if reply.trouble not in (Trouble.NO_CONNECTION, Trouble.NOT_YET):
            return reply, number
        await asyncio.sleep(pause_s)
        reply = await ask_server(client, endpoint, body, timeout_s)
    return reply, len(pauses_s)


def _refuse(reply: Reply, endpoint: Endpoint) -> None:
    """Say what is wrong where no item could be asked; a server that only dislikes this request is given a chance.

    Raises:
        UsageError: no item could be asked.
    """
    if reply.trouble in (Trouble.NO_CONNECTION, Trouble.TIMEOUT):
        raise UsageError(f"no server answers at {endpoint.base}: {reply.detail}; is it running?")
    if reply.status in _REFUSED:
        raise UsageError(
            f"{endpoint.base} refuses access ({reply.detail}); put the key into the environment variable SUFFICE_API_KEY"
        )
    if reply.status in _MISSING or reply.trouble in (Trouble.GARBAGE, Trouble.NOT_YET):
        raise UsageError(f"{endpoint.base} cannot be asked ({reply.detail}); check the address and the model's name")

"""Where requests go: the address without secrets, the key from the environment, the body of a request."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, urljoin, urlsplit, urlunsplit

from suffice.errors import UsageError
from suffice.load.settings import Accepted, Api

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.load.settings import Ask

_PATHS: Final = {Api.CHAT: "/chat/completions", Api.COMPLETIONS: "/completions"}
_LEAST_SECRET_CHARACTERS: Final = 6  # of a query's value: shorter ones are versions, and their letters are everywhere
_HIDDEN: Final = "[key]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server's interface. ``repr`` and ``shown`` hold no credentials."""

    base: str  # up to and with /v1, credentials and fragment taken away
    api: Api
    model: str | None = None
    query: str = ""
    key: str | None = None
    keep_alive: bool = False
    ca_file: Path | None = None

    def __repr__(self) -> str:
        return f"Endpoint({self.shown})"

    @property
    def url(self) -> str:
        """The address that is posted to."""
        return self.base + _PATHS[self.api] + (f"?{self.query}" if self.query else "")

    @property
    def models_url(self) -> str:
        """The address that lists the models."""
        return f"{self.base}/models" + (f"?{self.query}" if self.query else "")

    @property
    def shown(self) -> str:
        """The address for records and messages: a query may hold a key and is left out."""
        return self.base + _PATHS[self.api]

    @property
    def is_here(self) -> bool:
        """Whether the address is this machine's own (loopback): server and client then share its CPUs."""
        host = urlsplit(self.base).hostname or ""
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost" or host.endswith(".localhost")

    @property
    def headers(self) -> dict[str, str]:
        """What goes with every request.

        Uncompressed answers: a compressor holds tokens back. Unless asked otherwise, a connection for each request: one that is used
        again may be closed by the server at that very moment, which is no failure of the request and cannot be told from one.
        """
        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity", "User-Agent": "suffice"}
        if not self.keep_alive:
            headers["Connection"] = "close"
        if self.key is not None:
            headers["Authorization"] = f"Bearer {self.key}"
        return headers

    def without_secrets(self, text: str) -> str:
        """A server's words with the key and the query taken out: some repeat them, whole or in parts, in their complaint."""
        values = [value for _, value in parse_qsl(self.query) if len(value) >= _LEAST_SECRET_CHARACTERS]
        for secret in (self.key, self.query, *values, *map(quote, values)):
            if secret:
                text = text.replace(secret, _HIDDEN)
        return text

    def led_to(self, location: str) -> str:
        """Where a redirect leads, without credentials and query; empty when its address cannot be read."""
        try:
            parts = urlsplit(urljoin(self.base + "/", location))
            place = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
            port = "" if parts.port is None else f":{parts.port}"
        except ValueError:
            return ""
        return self.without_secrets(f"{parts.scheme}://{place}{port}{parts.path}")


def endpoint_of(
    url: str,
    api: Api,
    model: str | None = None,
    key: str | None = None,
    *,
    keep_alive: bool = False,
    ca_file: Path | None = None,
) -> tuple[Endpoint, list[str]]:
    """The endpoint of an address as people write them (with or without /v1 or the whole path), and warnings.

    Raises:
        UsageError: no address of a server; the message does not repeat what could be a password.
    """
    if "://" not in url:
        url = f"http://{url}"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise UsageError("the URL cannot be read; write it as http://HOST:PORT or https://HOST/v1") from None
    if parts.scheme not in ("http", "https") or not host:
        raise UsageError("the URL is not one of a server; write it as http://HOST:PORT or https://HOST/v1")
    warnings = []
    if parts.username is not None or parts.password is not None:
        warnings.append("the name and password in the URL are not sent; give a key with --api-key-env NAME")
    place = f"[{host}]" if ":" in host else host
    path = parts.path.rstrip("/")
    for ending in _PATHS.values():
        path = path.removesuffix(ending)
    if not path:
        path = "/v1"
    base = urlunsplit((parts.scheme, place if port is None else f"{place}:{port}", path, "", ""))
    endpoint = Endpoint(
        base=base, api=api, model=model, query=parts.query, key=key, keep_alive=keep_alive, ca_file=ca_file
    )
    return endpoint, warnings


def key_from(variable: str | None) -> str | None:
    """The API key in an environment variable; None when none was named.

    Raises:
        UsageError: the variable is not set, empty, or holds what no header may hold. The value is never repeated.
    """
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UsageError(f"the environment variable {variable} is not set; it should hold the API key")
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"the environment variable {variable} holds characters that no API key has")
    return key


def body_of(ask: Ask, endpoint: Endpoint, accepted: Accepted, temperature: float | None = None) -> dict[str, Any]:
    """The JSON body of a request, with those extra fields that the server takes."""
    body: dict[str, Any] = {"stream": True}
    if endpoint.model is not None:
        body["model"] = endpoint.model
    if endpoint.api is Api.CHAT:
        body["messages"] = list(ask.messages) or [{"role": "user", "content": ask.prompt}]
    else:
        body["prompt"] = ask.prompt if ask.prompt is not None else "\n".join(item["content"] for item in ask.messages)
    if temperature is not None:
        body["temperature"] = temperature
    if accepted.usage:
        body["stream_options"] = {"include_usage": True}
    if ask.output_tokens is not None:
        body["max_tokens"] = ask.output_tokens
        if accepted.exact_length:
            body["min_tokens"] = ask.output_tokens
            body["ignore_eos"] = True
    return body

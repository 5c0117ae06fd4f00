"""Who may ask: checks of a request that no answer depends on. Pure functions of its headers, and the middleware that applies them.

A page on loopback is reached by every other page that the user's browser shows. So the name by which it is asked for must be its own (else a
stranger's name could be bound to 127.0.0.1 and read the answers), what changes something must come from the page itself, and a machine whose
page others reach asks for a token.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse

from suffice.units import KIB
from suffice.web.hosts import bracketed, is_address, is_every_address

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_QUERY_BYTES: Final = 8 * KIB
MOST_BODY_BYTES: Final = 16 * KIB
_READING: Final = ("GET", "HEAD")
_LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
_HTTP_PORT: Final = 80
_POLICY: Final = (
    "default-src 'none'",
    "style-src 'self'",
    "script-src 'self'",
    "connect-src 'self'",
    "img-src data:",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
)
SECURITY_HEADERS: Final = (
    ("Content-Security-Policy", "; ".join(_POLICY)),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)


@dataclass(frozen=True, slots=True)
class Door:
    """What a request has to show.

    Attributes:
        host: the address that was given to listen on, or a name of it.
        port: that is listened on.
        token: that a browser has to show once; None: nobody is asked.
        session: what the cookie of a browser that showed it holds; new with each process.
    """

    host: str
    port: int
    token: str | None = field(default=None, repr=False)
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def cookie(self) -> str:
        """Its name. Browsers share cookies among the ports of a machine, so that the port is in it."""
        return f"suffice_web_{self.port}"

    @property
    def url(self) -> str:
        """Where a browser of this machine finds the page."""
        host = self.host
        if is_every_address(host):  # "::" is reached by its own kind of addresses alone
            host = "::1" if ":" in host else "127.0.0.1"
        return f"http://{bracketed(host)}:{self.port}/"

    def is_own_name(self, host_header: str) -> bool:
        """Whether a request's ``Host`` is a name of this page.

        Where every address of the machine is listened on, any address in digits is: only names can be bound to an address by a stranger.
        """
        asked = host_header.strip().lower()
        name, port = _split(asked)
        if port != self.port or name is None:
            return False
        if name in _LOOPBACK_NAMES or name == bracketed(self.host.lower()):
            return True
        return is_every_address(self.host) and is_address(name)

    def is_open_for(self, cookie: str | None) -> bool:
        """Whether a browser with this cookie has shown the token, or need not."""
        return self.token is None or (cookie is not None and _equal(cookie, self.session))

    def takes(self, token: str) -> bool:
        """Whether it is the token."""
        return self.token is not None and _equal(token, self.token)


def _equal(shown: str, expected: str) -> bool:
    return hmac.compare_digest(shown.encode("utf-8", "replace"), expected.encode("utf-8", "replace"))


def _split(host: str) -> tuple[str | None, int | None]:
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        return host, _HTTP_PORT
    return (name, int(port)) if port.isascii() and port.isdigit() else (None, None)


def refusal(door: Door, method: str, path: str, headers: Headers) -> tuple[HTTPStatus, str] | None:
    """Why a request is not looked at any further; None: it is. Nothing of the request is in the sentence."""
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not door.is_own_name(hosts[0]):
        return (
            HTTPStatus.FORBIDDEN,
            "this page is asked for by a name that is not its own; use the address that suffice web printed",
        )
    site = headers.get("sec-fetch-site")
    if method in _READING:
        # A link may lead here; a picture or a frame of another page would have this machine simulate for it.
        is_link = path == "/" and headers.get("sec-fetch-dest") == "document"
        if site not in {None, "none", "same-origin"} and not is_link:
            return HTTPStatus.FORBIDDEN, "another page asked for a part of this one"
        return None
    if not _is_from_itself(headers, hosts[0], site):
        return HTTPStatus.FORBIDDEN, "only the page itself may send this; open it and press its button"
    return _body_refusal(headers)


def _is_from_itself(headers: Headers, host: str, site: str | None) -> bool:
    """Whether the page itself sends a form. Under our Referrer-Policy browsers send ``Origin: null`` with it, and say by Sec-Fetch-Site whose it is."""
    origins = headers.getlist("origin")
    if any(origin not in {"null", f"http://{host}"} for origin in origins):
        return False
    return site == "same-origin" if site is not None else origins == [f"http://{host}"]


def _body_refusal(headers: Headers) -> tuple[HTTPStatus, str] | None:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a form is expected"
    length = headers.get("content-length", "")
    if not (length.isascii() and length.isdigit()):
        return HTTPStatus.LENGTH_REQUIRED, "the length of the form has to be said"
    if int(length) > MOST_BODY_BYTES:
        return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a form has at most {MOST_BODY_BYTES} bytes"
    return None


class Guard:
    """Middleware: refuses what :func:`refusal` refuses, asks for the token, and puts the security headers on every answer.

    Args:
        app: what is guarded.
        door: what a request has to show.
        locked: the page for a browser that has not shown the token.
    """

    def __init__(self, app: ASGIApp, door: Door, locked: Callable[[], str]) -> None:
        self._app = app
        self._door = door
        self._locked = locked

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the class."""
        if scope["type"] != "http":
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(dict(SECURITY_HEADERS))
            await send(message)

        answer = self._answer(scope)
        await (answer or self._app)(scope, receive, send_safely)

    def _answer(self, scope: Scope) -> Response | None:
        """What to answer instead of the page."""
        headers = Headers(scope=scope)
        refused = refusal(self._door, scope["method"], scope["path"], headers)
        if refused is not None:
            return PlainTextResponse(f"suffice: {refused[1]}\n", status_code=refused[0])
        query: bytes = scope["query_string"]
        if len(query) > MOST_QUERY_BYTES:
            return PlainTextResponse("suffice: the address is too long\n", status_code=HTTPStatus.REQUEST_URI_TOO_LONG)
        if self._door.is_open_for(_cookie(headers, self._door.cookie)):
            return None
        return self._entry(scope, query)

    def _entry(self, scope: Scope, query: bytes) -> Response:
        shown = parse_qs(query.decode("latin-1")).get("token", []) if scope["path"] == "/" else []
        if len(shown) == 1 and self._door.takes(shown[0]):
            entered = RedirectResponse("/", status_code=HTTPStatus.SEE_OTHER)
            entered.set_cookie(self._door.cookie, self._door.session, httponly=True, samesite="strict", path="/")
            return entered
        return HTMLResponse(self._locked(), status_code=HTTPStatus.UNAUTHORIZED)


def _cookie(headers: Headers, name: str) -> str | None:
    """The cookie of this name; two of them are none."""
    pairs = [part.strip().partition("=") for line in headers.getlist("cookie") for part in line.split(";")]
    found = [value for key, _, value in pairs if key == name]
    return found[0] if len(found) == 1 else None

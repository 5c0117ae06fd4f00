"""Who may ask the what-if page for what."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from helpers.browser import Browser
from suffice.web.guard import MOST_BODY_BYTES, MOST_QUERY_BYTES, SECURITY_HEADERS, Door, Guard
from suffice.web.hosts import is_loopback

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TOKEN = "a-token-of-twenty-four-c"  # noqa: S105  # of a test
FORM = {"content-type": "application/x-www-form-urlencoded"}


def client(door: Door) -> Browser:
    """A browser before a guarded page that answers "in" to everything."""

    async def inside(_request: object) -> PlainTextResponse:  # Starlette awaits it
        return PlainTextResponse("in")

    routes = [Route(path, inside, methods=["GET", "POST"]) for path in ("/", "/result", "/save")]
    app = Starlette(routes=routes, middleware=[Middleware(Guard, door=door, locked=lambda: "locked")])
    return Browser(app, base_url=f"http://127.0.0.1:{door.port}")


@pytest.mark.parametrize("host", ["127.0.0.1:8321", "localhost:8321", "LOCALHOST:8321", "[::1]:8321"])
def test_its_own_names_are_answered(host: str) -> None:
    """The names of loopback with the port that is listened on."""
    assert client(Door(host="127.0.0.1", port=8321)).get("/", headers={"host": host}).text == "in"


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:8321",  # a name that a stranger has bound to 127.0.0.1
        "127.0.0.1:8322",
        "127.0.0.1",
        "localhost.evil.example:8321",
        "10.0.0.5:8321",
        "127.0.0.1:8321:8321",
        "",
    ],
)
def test_other_names_are_refused(host: str) -> None:
    """Whatever else a browser calls this machine: another page could read the answers."""
    answer = client(Door(host="127.0.0.1", port=8321)).get("/", headers={"host": host})

    assert answer.status_code == HTTPStatus.FORBIDDEN
    assert "evil" not in answer.text


def test_every_address_is_asked_for_in_digits() -> None:
    """Where all addresses are listened on, names are not known, and only digits cannot be bound by a stranger."""
    door = Door(host="0.0.0.0", port=8321)  # noqa: S104  # the case

    assert door.is_own_name("10.0.0.5:8321")
    assert door.is_own_name("[fd00::5]:8321")
    assert not door.is_own_name("box.example:8321")
    assert Door(host="box.example", port=8321).is_own_name("box.example:8321")


@pytest.mark.parametrize(
    ("headers", "passes"),
    [
        ({"sec-fetch-site": "same-origin", "origin": "null"}, True),  # a browser under our Referrer-Policy
        ({"sec-fetch-site": "same-origin", "origin": "http://127.0.0.1:8321"}, True),
        ({"origin": "http://127.0.0.1:8321"}, True),  # a browser without Sec-Fetch-Site
        ({"sec-fetch-site": "cross-site", "origin": "null"}, False),
        ({"sec-fetch-site": "same-site", "origin": "http://127.0.0.1:9999"}, False),
        ({"sec-fetch-site": "same-origin", "origin": "http://evil.example"}, False),
        ({"origin": "null"}, False),
        ({"origin": "http://127.0.0.1:8321.evil.example"}, False),
        ({}, False),
    ],
)
def test_only_the_page_itself_may_send_a_form(headers: dict[str, str], passes: bool) -> None:  # noqa: FBT001  # a table
    """Origin and Sec-Fetch-Site tell a form of ours from one of another page."""
    answer = client(Door(host="127.0.0.1", port=8321)).post("/save", headers=FORM | headers, content="a=1")

    assert (answer.status_code == HTTPStatus.OK) is passes


@pytest.mark.parametrize(
    ("path", "kind", "status"),
    [
        ("/", "document", HTTPStatus.OK),  # a link
        ("/", "image", HTTPStatus.FORBIDDEN),
        ("/", "iframe", HTTPStatus.FORBIDDEN),
        ("/", "empty", HTTPStatus.FORBIDDEN),
        ("/result", "document", HTTPStatus.FORBIDDEN),
    ],
)
def test_another_page_gets_no_part_of_the_page(path: str, kind: str, status: HTTPStatus) -> None:
    """A link of another page leads here; its pictures, frames and scripts get nothing, and nothing is simulated for them."""
    told = {"sec-fetch-site": "cross-site", "sec-fetch-dest": kind}

    assert client(Door(host="127.0.0.1", port=8321)).get(path, headers=told).status_code == status


def test_the_address_that_is_printed_is_listened_on() -> None:
    """All addresses of one kind are reached by loopback of that kind."""
    assert Door(host="0.0.0.0", port=8321).url == "http://127.0.0.1:8321/"  # noqa: S104  # the case
    assert Door(host="::", port=8321).url == "http://[::1]:8321/"
    assert Door(host="::1", port=8321).url == "http://[::1]:8321/"


def test_forms_and_addresses_are_bounded() -> None:
    """Long bodies, bodies of other kinds or of unknown length, and long addresses are refused before they are read."""
    browser = client(Door(host="127.0.0.1", port=8321))
    own = FORM | {"origin": "http://127.0.0.1:8321"}

    assert browser.post("/save", headers=own, content="a" * (MOST_BODY_BYTES + 1)).status_code == 413
    assert browser.post("/save", headers=own, content=_pieces()).status_code == 411
    assert browser.post("/save", headers=own | {"content-type": "application/json"}, content="{}").status_code == 415
    assert browser.get("/?a=" + "1" * MOST_QUERY_BYTES).status_code == 414


async def _pieces() -> AsyncIterator[bytes]:  # httpx wants them so
    """A body whose length nobody knows beforehand."""
    yield b"a"


def test_every_answer_has_the_headers_of_safety() -> None:
    """Answers of the page, refusals and the page that asks for a token alike."""
    browser = client(Door(host="127.0.0.1", port=8321, token=TOKEN))
    answers = [browser.get("/"), browser.get("/", headers={"host": "evil.example"}), browser.get(f"/?token={TOKEN}")]

    assert [answer.status_code for answer in answers] == [401, 403, 303]
    assert all(answer.headers[name] == value for answer in answers for name, value in SECURITY_HEADERS)
    assert "unsafe" not in answers[0].headers["content-security-policy"]


def test_a_token_opens_the_page_once_and_for_all() -> None:
    """The token is taken from the address, a cookie of another value takes its place, and nothing without it comes in."""
    browser = client(Door(host="127.0.0.1", port=8321, token=TOKEN))
    shut = browser.get("/")
    entered = browser.get(f"/?token={TOKEN}")
    cookie = entered.headers["set-cookie"]

    assert (shut.status_code, shut.text) == (HTTPStatus.UNAUTHORIZED, "locked")
    assert (entered.status_code, entered.headers["location"]) == (HTTPStatus.SEE_OTHER, "/")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert TOKEN not in cookie
    assert browser.get("/result").text == "in"


@pytest.mark.parametrize("query", ["", "?token=", "?token=another", f"?token={TOKEN}&token={TOKEN}", f"?Token={TOKEN}"])
def test_a_wrong_token_opens_nothing(query: str) -> None:
    """Neither an empty one, another one, nor the right one twice."""
    assert client(Door(host="127.0.0.1", port=8321, token=TOKEN)).get(f"/{query}").status_code == 401


def test_a_cookie_of_another_process_opens_nothing() -> None:
    """Cookies hold a secret of the process: they end with it."""
    door, later = (Door(host="127.0.0.1", port=8321, token=TOKEN) for _ in range(2))

    assert door.is_open_for(door.session)
    assert not later.is_open_for(door.session)
    assert not door.is_open_for(None)
    assert TOKEN not in repr(door)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.0.1", True),
        ("localhost", True),
        ("::1", True),
        ("0.0.0.0", False),  # noqa: S104  # the case
        ("::", False),
        ("192.168.1.4", False),
        ("localhost.example", False),
        ("", False),
    ],
)
def test_loopback_is_told_from_the_rest(host: str, expected: bool) -> None:  # noqa: FBT001  # a table
    """What only this machine reaches needs no token; a name that may mean anything does."""
    assert is_loopback(host) is expected

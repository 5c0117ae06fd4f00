"""The server behind the what-if page: connections that ask for nothing are closed, and others are answered meanwhile."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import TYPE_CHECKING

import pytest
import uvicorn

from suffice.web import punctual
from suffice.web.punctual import PunctualProtocol, PunctualServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import Receive, Scope, Send

SOON_S = 10.0
REQUEST = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"


async def page(_scope: Scope, _receive: Receive, send: Send) -> None:
    """Answers at once, and after some looks at its connection where it is asked to."""
    if _scope["path"] == "/slow":
        await asyncio.sleep(0.4)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """Of a server that looks at its connections ten times a second."""
    monkeypatch.setattr(punctual, "LOOK_S", 0.1)
    ended = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(page, lifespan="off", ws="none", http=PunctualProtocol, log_level="error")
    server = PunctualServer(config, ended.set)
    running = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    running.start()
    yield listening.getsockname()
    server.handle_exit(2, None)
    running.join(SOON_S)
    server._captured_signals.clear()
    assert ended.wait(SOON_S)
    assert not running.is_alive()


def heard(connection: socket.socket) -> bytes:
    """All until the server closes."""
    connection.settimeout(SOON_S)
    found = b""
    try:
        while piece := connection.recv(4096):
            found += piece
    except ConnectionResetError:
        pass
    return found


@pytest.mark.parametrize("said", [b"", b"GET / HT", REQUEST[:-2]])
def test_who_asks_for_nothing_is_let_go(address: tuple[str, int], said: bytes) -> None:
    """Neither silence nor half a request holds a connection."""
    with socket.create_connection(address) as connection:
        connection.sendall(said)

        assert heard(connection) == b""


def test_a_slow_answer_is_not_cut_off(address: tuple[str, int]) -> None:
    """Looks while an answer is computed do not close its connection; afterwards it is closed."""
    with socket.create_connection(address) as connection:
        connection.sendall(REQUEST.replace(b"/ ", b"/slow "))

        assert heard(connection).endswith(b"ok")

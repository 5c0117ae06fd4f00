"""A scriptable, hostile server for load generators: loopback only, known times, every way in which servers misbehave.

It ships with the package, so that anybody can check what a load generator makes of a server whose times are known::

    python -m suffice.load.mock_server --ttft 50ms --tpot 10ms --tokens 32 --port 8123
"""

from __future__ import annotations

import asyncio
import json
import selectors
import socket
import struct
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Self

from suffice.load.mock_script import Answer, Ending, Pace
from suffice.units import MIB, NANOSECONDS_PER_SECOND

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator
    from types import TracebackType

    Script = Callable[["MockRequest"], Answer]

_HOST: Final = "127.0.0.1"
_MAX_BODY_BYTES: Final = 64 * MIB
_HANG_S: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MockRequest:
    """One request as it came. ``index`` counts posts from 0."""

    index: int
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Served:
    """What was really done about a request: nanoseconds of the machine's monotonic clock, one ``wrote_ns`` a step."""

    request: MockRequest
    read_ns: int
    wrote_ns: list[int] = field(default_factory=list)


class MockServer:
    """Answers posts by a script and GET /v1/models by one model, with a ``context`` over TLS. An asynchronous context manager."""

    def __init__(
        self, script: Script, port: int = 0, model: str = "mock", context: ssl.SSLContext | None = None
    ) -> None:
        self._context = context
        self._script = script
        self._port = port
        self._model = model
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.served: list[Served] = []
        self.connections = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, _HOST, self._port, backlog=4096, ssl=self._context)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    @property
    def url(self) -> str:
        """The address."""
        return f"http{'' if self._context is None else 's'}://{_HOST}:{self._port}"

    def stop_listening(self) -> None:
        """Die: no new connections, all present ones cut."""
        if self._server is not None:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # a coroutine runs in a task
        self._tasks.add(task)
        writer.transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while await self._serve_one(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass  # the client left, or speaks no HTTP
        except asyncio.CancelledError:  # the server ends; there is nobody to tell
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort() if writer.transport.is_closing() else writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection may be used again."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        length = int(headers.get("content-length", "0"))
        if not 0 <= length <= _MAX_BODY_BYTES:
            return False
        content = await reader.readexactly(length)
        read_ns = time.perf_counter_ns()
        if method == "GET":
            await _plain(writer, {"object": "list", "data": [{"id": self._model, "object": "model"}]})
            return True
        body = json.loads(content) if content else {}
        request = MockRequest(index=len(self.served), path=path, headers=headers, body=body)
        served = Served(request=request, read_ns=read_ns)
        self.served.append(served)
        return await _play(self._script(request), served, writer)


async def _plain(writer: asyncio.StreamWriter, document: object) -> None:
    content = json.dumps(document).encode()
    writer.write(_head(HTTPStatus.OK, "application/json", f"Content-Length: {len(content)}") + content)
    await writer.drain()


def _head(status: int, content_type: str, framing: str) -> bytes:
    try:
        reason = HTTPStatus(status).phrase
    except ValueError:
        reason = "Strange"
    kind = f"Content-Type: {content_type}\r\n" if content_type else ""
    return f"HTTP/1.1 {status} {reason}\r\n{kind}{framing}\r\n\r\n".encode("latin-1")


async def _play(answer: Answer, served: Served, writer: asyncio.StreamWriter) -> bool:
    await _sleep_until(served.read_ns, answer.headers_at_s)
    writer.write(_head(answer.status, answer.content_type, "Transfer-Encoding: chunked"))
    for step in answer.steps:
        await _sleep_until(served.read_ns, step.at_s)
        served.wrote_ns.append(time.perf_counter_ns())
        writer.write(b"%x\r\n%b\r\n" % (len(step.content), step.content))
        await writer.drain()
    if answer.ending is Ending.CLEAN:
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True
    if answer.ending is Ending.HANG:
        await asyncio.sleep(_HANG_S)
    elif answer.ending is Ending.RESET:
        linger = struct.pack("ii", 1, 0)
        writer.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    return False


async def _sleep_until(read_ns: int, at_s: float) -> None:
    """Sleep until ``at_s`` after the request; steps that are due at once do not even yield a turn."""
    left_s = at_s - (time.perf_counter_ns() - read_ns) / NANOSECONDS_PER_SECOND
    if at_s > 0 and left_s > 0:
        await asyncio.sleep(left_s)


@contextmanager
def served_in_thread(script: Script, port: int = 0, context: ssl.SSLContext | None = None) -> Iterator[MockServer]:
    """A mock server with an event loop of its own, for programs that have none; over TLS with a context of a server's."""
    loop = precise_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = MockServer(script, port, context=context)
    try:
        asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result()
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def precise_loop() -> asyncio.AbstractEventLoop:
    """An event loop that sleeps to the microsecond: epoll, the usual one, rounds up to the next millisecond."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


def main(arguments: list[str] | None = None) -> None:
    """The command: serve one pace until interrupted, and print the address."""
    import argparse  # noqa: PLC0415  # only here
    import sys  # noqa: PLC0415  # only here

    from suffice.units import parse_duration_s  # noqa: PLC0415  # only here

    parser = argparse.ArgumentParser(prog="python -m suffice.load.mock_server", description=__doc__)
    parser.add_argument("--ttft", type=parse_duration_s, default=0.05, metavar="TIME", help="time to first token")
    parser.add_argument("--tpot", type=parse_duration_s, default=0.01, metavar="TIME", help="time per token after it")
    parser.add_argument("--tokens", type=int, default=32, help="tokens an answer")
    parser.add_argument("--tokens-per-event", type=int, default=1, help="tokens a text event")
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    asked = parser.parse_args(arguments)
    answer = Pace(
        ttft_s=asked.ttft,
        gap_s=asked.tpot * asked.tokens_per_event,
        tokens=asked.tokens,
        tokens_per_event=asked.tokens_per_event,
    ).answer()

    async def serve() -> None:
        async with MockServer(lambda _: answer, asked.port) as server:
            sys.stdout.write(f"{server.url}\n")
            sys.stdout.flush()
            await asyncio.Event().wait()

    with suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=precise_loop) as runner:
        runner.run(serve())


if __name__ == "__main__":
    main()

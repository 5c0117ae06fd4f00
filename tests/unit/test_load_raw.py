"""Answers byte by byte as a hostile server or proxy sends them: compressed, redirected, empty, cut through characters, with wild numbers."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import zlib
from typing import TYPE_CHECKING

import pytest

from suffice.errors import UsageError
from suffice.load import mock_script as script
from suffice.load.endpoint import endpoint_of
from suffice.load.mock_server import served_in_thread
from suffice.load.prompts import made_prompts
from suffice.load.runner import LoadRunner
from suffice.load.session import Content, run_session
from suffice.load.settings import Accepted, Api, LoadPlan, Loop
from suffice.model.load_checks import check_server
from suffice.model.load_metrics import Limits
from suffice.model.load_request import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.load.mock_script import Answer
    from suffice.load.mock_server import MockRequest
    from suffice.model.load_request import RequestRow

KEY = "sk-verysecret"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
BODY = script.text("héé") + script.text("大模型") + script.text("🙂") + script.finish() + script.usage(3) + script.DONE
PLAN = LoadPlan(loop=Loop.CLOSED, concurrency=1, requests=1, timeout_s=5.0)


def answered(pieces: Sequence[bytes], host: str = "127.0.0.1", *, keep_alive: bool = False) -> RequestRow:
    """What the client makes of these writes, after which the server hangs up."""

    async def work() -> RequestRow:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            (length,) = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
            await reader.readexactly(int(length.split(b":")[1]))
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
            writer.close()

        server = await asyncio.start_server(accept, host, 0)
        port = server.sockets[0].getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        url = f"http://{shown}:{port}/v1?api-key=query-secret&version=2"
        endpoint, _ = endpoint_of(url, Api.CHAT, "m", KEY, keep_alive=keep_alive)
        run = await LoadRunner(PLAN, endpoint, Accepted()).run(made_prompts(4, 3, seed=1), lambda *_: None)
        server.close()
        return run.rows[0]

    return asyncio.run(work())


@pytest.mark.parametrize("keep_alive", [False, True])
def test_text_that_is_cut_everywhere_is_whole(*, keep_alive: bool) -> None:
    """Each byte in a chunk of its own, through characters of two, three and four bytes: three events, seven characters."""
    chunks = [b"1\r\n%c\r\n" % byte for byte in BODY]
    found = answered([HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *chunks, b"0\r\n\r\n"], keep_alive=keep_alive)

    assert (found.outcome, found.text_events, found.answer_characters, found.output_tokens) == (
        Outcome.SUCCESS,
        3,
        7,
        3,
    )


@pytest.mark.parametrize(
    "content",
    [
        b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + BODY,
        HEAD + b"\r\n" + BODY.replace(b"data: ", b"data:"),
        HEAD + b"\r\n\xef\xbb\xbf" + BODY.replace(b"\n", b"\r"),
        HEAD + b"Content-Encoding: identity\r\n\r\n" + BODY,
    ],
)
def test_streams_in_unusual_forms_are_read(content: bytes) -> None:
    """HTTP/1.0 that ends with its connection, no blank after "data:", a byte order mark and carriage returns, a coding that is none."""
    assert answered([content]).outcome is Outcome.SUCCESS


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_a_server_with_an_address_of_the_sixth_version_is_reached() -> None:
    """In brackets, as in every URL."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            pass
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    assert answered([HEAD + b"\r\n" + BODY], "::1").outcome is Outcome.SUCCESS


@pytest.mark.parametrize("keep_alive", [False, True])
@pytest.mark.parametrize(
    ("coding", "body"), [("gzip", gzip.compress(BODY)), ("deflate", zlib.compress(BODY)), ("br", b"?")]
)
def test_a_compressed_stream_is_refused_by_name(coding: str, body: bytes, *, keep_alive: bool) -> None:
    """Nobody asked for it, and times of tokens that a compressor held back are none."""
    found = answered([HEAD + f"Content-Encoding: {coding}\r\n\r\n".encode() + body], keep_alive=keep_alive)

    assert found.outcome is Outcome.GARBAGE
    assert f"compressed ({coding})" in found.detail


@pytest.mark.parametrize(
    "status", [b"204 No Content", b"205 Reset Content\r\nContent-Length: 0", b"200 OK\r\nContent-Length: 0"]
)
def test_an_answer_without_a_body_is_empty(status: bytes) -> None:
    """No text was cut off: there was none."""
    found = answered([b"HTTP/1.1 " + status + b"\r\n\r\n"])

    assert (found.outcome, found.detail) == (Outcome.EMPTY, "the answer has no body")


def test_a_redirect_is_not_followed_and_repeats_no_secret() -> None:
    """The row says where it leads, without the name, password and query in it."""
    location = b"Location: https://user:hunter2@other.example/v1/chat/completions?api-key=query-secret"
    found = answered([b"HTTP/1.1 308 Permanent Redirect\r\n" + location + b"\r\nContent-Length: 0\r\n\r\n"])

    assert found.outcome is Outcome.HTTP_ERROR
    assert "https://other.example/v1/chat/completions" in found.detail
    assert not any(secret in repr(found) for secret in ("hunter2", "user", "query-secret"))


def test_a_complaint_that_repeats_secrets_is_kept_without_them() -> None:
    """The key, the query, and a value of it alone; what is no secret stays."""
    words = f"bad key {KEY} in api-key=query-secret&version=2: query-secret is of version 2"
    content = json.dumps({"error": {"message": words}}).encode()
    found = answered([b"HTTP/1.1 400 No\r\nContent-Type: application/json\r\n\r\n" + content])

    assert "secret" not in found.detail
    assert found.detail.endswith("is of version 2")


@pytest.mark.parametrize("number", ["9" * 400, "1e999", "-1", "NaN", "true", '"3"', "2.5"])
def test_numbers_that_nobody_counted_are_unknown(number: str) -> None:
    """Counts and times beyond all measure, negative, or no numbers: the answer is a success, nothing is made of them, nothing crashes."""
    wild = (
        f'{{"prompt_n": {number}, "prompt_ms": {number}, "predicted_n": {number}, "predicted_ms": {number}}}'.encode()
    )
    usage = f'{{"prompt_tokens": {number}, "completion_tokens": {number}}}'.encode()
    last = b'data: {"choices": [], "timings": ' + wild + b', "usage": ' + usage + b"}\n\n"
    found = answered([HEAD + b"\r\n" + script.text("ab") + script.finish() + last + script.DONE])
    checked = check_server([found])

    assert found.outcome is Outcome.SUCCESS
    assert (found.output_tokens, found.prompt_tokens) == (None, None)
    assert checked is None or checked.requests == 1


def test_a_whole_number_with_a_point_is_a_count() -> None:
    """Some languages write 3 as 3.0."""
    found = answered([HEAD + b"\r\n" + BODY.replace(b'"completion_tokens": 3', b'"completion_tokens": 3.0')])

    assert found.output_tokens == 3


def test_more_tokens_than_text_can_have_is_no_count() -> None:
    """A thousand million tokens for seven characters would make any TPOT good; where so many were asked for they may be."""
    huge = BODY.replace(b'"completion_tokens": 3', b'"completion_tokens": 1000000000')
    found = answered([HEAD + b"\r\n" + huge])

    assert (found.output_tokens, found.stated_output_tokens) == (None, 1_000_000_000)
    assert found.tpot_s is None


def test_a_redirect_at_the_first_look_ends_the_run() -> None:
    """The wrong scheme, usually: one sentence says where it leads, and nothing more is sent."""

    def answer(_: MockRequest) -> Answer:
        return script.error_answer(307)

    with served_in_thread(answer) as server:
        endpoint, _ = endpoint_of(server.url, Api.CHAT)
        with pytest.raises(UsageError, match="status 307"):
            run_session(PLAN, Content(prompt_tokens=4), endpoint, Limits(), lambda _: None)
        assert len(server.served) == 1

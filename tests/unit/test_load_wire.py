"""HTTP/1.1 as it comes over the wire: framing in any pieces, and servers that get it wrong."""

from __future__ import annotations

import asyncio
import socket
import threading

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.load.wire import ChunkDecoder, LengthDecoder, NotHttpError, WireTransport


@settings(max_examples=150)
@given(st.lists(st.binary(min_size=1, max_size=40), max_size=5), st.data())
def test_chunks_do_not_depend_on_how_they_are_cut(chunks: list[bytes], data: st.DataObject) -> None:
    """Any cut of the bytes, through sizes and line ends, gives the body; extensions and trailers are no part of it."""
    content = b"".join(b"%X;name=x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\nTrailer: x\r\n\r\n"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=8)))
    decoder = ChunkDecoder()

    body = b"".join(
        decoder.feed(content[start:end]) for start, end in zip([0, *cuts], [*cuts, len(content)], strict=True)
    )

    assert body == b"".join(chunks)
    assert decoder.done


@settings(max_examples=100)
@given(st.binary(max_size=60))
def test_no_bytes_break_the_chunks(content: bytes) -> None:
    """Whatever comes is a body, or refused as no HTTP."""
    decoder = ChunkDecoder()
    try:
        assert len(decoder.feed(content)) <= len(content)
    except httpx.RemoteProtocolError:
        return


def test_a_body_that_is_cut_short_is_an_error() -> None:
    """By length as well as by chunks; the end itself is none."""
    short, whole, chunks = LengthDecoder(4), LengthDecoder(4), ChunkDecoder()
    short.feed(b"abc")
    assert whole.feed(b"abcde") == b"abcd"
    chunks.feed(b"4\r\nabcd\r\n")

    whole.end()
    for decoder in (short, chunks):
        with pytest.raises(httpx.RemoteProtocolError):
            decoder.end()


def answer_of(content: bytes) -> httpx.Response | Exception:
    """What the transport makes of these bytes, sent by a server that then hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(content)

        thread = threading.Thread(target=serve)
        thread.start()

        async def ask() -> httpx.Response | Exception:
            async with httpx.AsyncClient(transport=WireTransport(None)) as client:
                try:
                    return await client.post(f"http://127.0.0.1:{listener.getsockname()[1]}/x?y=1", content=b"{}")
                except httpx.HTTPError as error:
                    return error

        found = asyncio.run(ask())
        thread.join()
        return found


@pytest.mark.parametrize(
    ("content", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", b"ok"),
        (b"HTTP/1.1 200\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", b"ok"),
        (b"HTTP/1.0 200 OK\r\n\r\nok", b"ok"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length:2\r\n\r\nok", b"ok"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    ],
)
def test_answers_in_every_framing(content: bytes, body: bytes) -> None:
    """By length, in chunks, until the end, after an interim answer, and without a body."""
    found = answer_of(content)

    assert isinstance(found, httpx.Response)
    assert found.content == body


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 \xff\xff\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 10_000,
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000,
    ],
)
def test_what_is_no_http_is_an_error_of_the_server(content: bytes) -> None:
    """Nothing hangs, nothing crashes, and nothing is taken for an answer."""
    assert isinstance(answer_of(content), httpx.TransportError)


@pytest.mark.parametrize(
    "content",
    [
        b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        b"\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nok",
    ],
)
def test_heads_of_careless_servers_are_read(content: bytes) -> None:
    """Lines that end without a carriage return, an empty line before the status, and a coding that is none (RFC 9112, 2.2)."""
    found = answer_of(content)

    assert isinstance(found, httpx.Response)
    assert found.content == b"ok"


@pytest.mark.parametrize(
    "content",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"\x00\x00\x12\x04\x00",
        b"HTTP/1.1 99999999999 X\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 500\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000,
    ],
)
def test_what_is_no_http_is_told_from_a_server_that_hangs_up(content: bytes) -> None:
    """Another protocol, impossible statuses and lengths, codings that nobody asked for, heads without an end."""
    assert isinstance(answer_of(content), NotHttpError)
    hung_up = answer_of(b"HTTP/1.1 200 OK\r\nContent-Le")
    assert isinstance(hung_up, httpx.RemoteProtocolError)
    assert not isinstance(hung_up, NotHttpError)

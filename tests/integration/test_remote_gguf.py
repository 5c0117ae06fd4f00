"""Remote headers against a real web server on this machine, friendly and hostile."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, ClassVar

import pytest

from helpers.gguf_writer import ToyLlama, ToyTensor, Typed, encode_header
from suffice.errors import ModelFileError
from suffice.loaders import remote_fetch
from suffice.loaders.remote import is_remote_gguf, read_remote_gguf_header
from suffice.model.gguf_header import LongArray
from suffice.units import GIB, KIB, MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SECRET = "hunter2"  # noqa: S105  # must not appear anywhere
VOCABULARY = 200_000


@dataclass
class Site:
    """What the server has and how it behaves; every request is noted."""

    files: dict[str, tuple[bytes, int]] = field(
        default_factory=dict
    )  # path -> (start of the file, its size; the rest is zeros)
    ranges: bool = True
    behave: Callable[[Handler, str], bool] | None = None  # True: the request is answered
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    sent_bytes: int = 0
    url: str = ""


class Handler(BaseHTTPRequestHandler):
    """Serves the files of a :class:`Site`."""

    site: ClassVar[Site]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer with the part that was asked for, or with all of it."""
        path = self.path.partition("?")[0]
        self.site.requests.append((self.path, {key.lower(): value for key, value in self.headers.items()}))
        if self.site.behave is not None and self.site.behave(self, path):
            return
        if path not in self.site.files:
            self.answer(404)
            return
        start, size = self.site.files[path]
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if match is None or not self.site.ranges:
            self.answer(200, size=size)
            self.send(start)
            self.send_zeros(size - len(start))
            return
        first, last = int(match[1]), min(int(match[2]), size - 1)
        self.answer(206, {"Content-Range": f"bytes {first}-{last}/{size}"}, size=last - first + 1)
        part = start[first : last + 1]
        self.send(part + bytes(last - first + 1 - len(part)))

    def answer(self, status: int, headers: dict[str, str] | None = None, *, size: int | None = 0) -> None:
        """Status and headers."""
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        if size is not None:
            self.send_header("Content-Length", str(size))
        self.end_headers()

    def send(self, content: bytes) -> None:
        """Part of the content; a client that has left is no error."""
        try:
            self.wfile.write(content)
            self.site.sent_bytes += len(content)
        except OSError:
            self.close_connection = True

    def send_zeros(self, count: int) -> None:
        """Weights."""
        while count > 0 and not self.close_connection:
            self.send(bytes(min(count, MIB)))
            count -= MIB

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name in the library
        """Stay silent."""


class Server(ThreadingHTTPServer):
    """A server to which it is no error that a client leaves early."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Stay silent."""


@contextmanager
def serve() -> Iterator[Site]:
    """A running server."""
    site = Site()
    handler = type("SiteHandler", (Handler,), {"site": site})
    with Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        site.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield site
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A running server, reached without the proxies of this environment."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "*")
    with serve() as running:
        yield running


def large_model() -> tuple[bytes, int]:
    """A model of 8 GiB with a header of about 3 MB: its start and its size."""
    model = ToyLlama()
    vocabulary = {"tokenizer.ggml.tokens": [f"tok{n:06d}" for n in range(VOCABULARY)], "x.last": 7}
    tensors = [*model.tensors(), ToyTensor("blk.9.weight", (2**16, 2**16))]
    return encode_header(model.metadata() | vocabulary, tensors)


def small_model() -> tuple[bytes, int]:
    """A model whose header fits into the first request."""
    return encode_header(ToyLlama().metadata(), ToyLlama().tensors())


def refusal(url: str) -> str:
    """The one sentence with which a URL is refused; the secret is not in it."""
    with pytest.raises(ModelFileError) as caught:
        read_remote_gguf_header(url)
    message = str(caught.value)
    assert SECRET not in message
    assert "\n" not in message
    assert caught.value.__cause__ is None
    return message


@pytest.mark.parametrize("ranges", [True, False])
def test_only_the_header_of_a_large_file_is_fetched(site: Site, *, ranges: bool) -> None:
    """Of 8 GiB a few megabytes are sent, with range requests and without, and the header is whole."""
    start, size = large_model()
    site.files["/m.gguf"], site.ranges = (start, size), ranges
    seen: list[int] = []

    header = read_remote_gguf_header(f"{site.url}/m.gguf", progress=seen.append)

    assert header.metadata["tokenizer.ggml.tokens"] == LongArray(element_type="string", length=VOCABULARY)
    assert header.metadata["x.last"] == 7
    assert header.tensors[-1].name == "blk.9.weight"
    assert header.file_bytes == size > 8 * GIB
    assert header.source == "m.gguf"
    assert len(start) < seen[-1] < len(start) + 8 * MIB
    assert seen == sorted(seen)
    assert len(site.requests) == (3 if ranges else 1)
    assert site.sent_bytes < 64 * MIB


def test_small_header_takes_one_request(site: Site) -> None:
    """A header within the first part is read from it, and is what the local reader gives."""
    site.files["/dir/m%20x.gguf"] = small_model()

    header = read_remote_gguf_header(f"{site.url}/dir/m%20x.gguf?download=true#part")

    assert [tensor.name for tensor in header.tensors] == [tensor.name for tensor in ToyLlama().tensors()]
    assert header.source == "m x.gguf"
    assert [path for path, _ in site.requests] == ["/dir/m%20x.gguf?download=true"]


def test_all_parts_of_a_split_model(site: Site) -> None:
    """Whichever part is named, the headers of all are fetched and joined."""
    tensors = ToyLlama().tensors()
    for index, part in enumerate((tensors[:5], tensors[5:9], tensors[9:])):
        split: dict[str, object] = {
            "split.no": Typed("uint16", index),
            "split.count": Typed("uint16", 3),
            "split.tensors.count": Typed("int32", len(tensors)),
        }
        metadata = ToyLlama().metadata() | split if index == 0 else split
        site.files[f"/m-{index + 1:05d}-of-00003.gguf"] = encode_header(metadata, part)

    header = read_remote_gguf_header(f"{site.url}/m-00002-of-00003.gguf?a=b")

    assert [tensor.name for tensor in header.tensors] == [tensor.name for tensor in tensors]
    assert (header.n_files, header.source) == (3, "m-00001-of-00003.gguf")
    assert header.file_bytes == sum(size for _, size in site.files.values())
    del site.files["/m-00003-of-00003.gguf"]
    assert f"{site.url}/m-00003-of-00003.gguf: there is no such file" in refusal(f"{site.url}/m-00001-of-00003.gguf")


def test_redirects_are_followed_and_forget_the_password(site: Site) -> None:
    """A file behind redirects to another server is read; the password stays with the server that it was meant for."""
    with serve() as other:
        other.files["/blob"] = small_model()

        def behave(handler: Handler, path: str) -> bool:
            if path == "/m.gguf":
                handler.answer(302, {"Location": "/next"})
            elif path == "/next":
                handler.answer(307, {"Location": f"{other.url}/blob"})
            return True

        site.behave = behave
        header = read_remote_gguf_header(f"{site.url}/m.gguf".replace("://", f"://me:{SECRET}@"))

    assert header.source == "m.gguf"
    assert [path for path, _ in site.requests] == ["/m.gguf", "/next"]
    assert site.requests[0][1]["authorization"].startswith("Basic ")
    assert other.requests
    assert all("authorization" not in headers and "range" in headers for _, headers in other.requests)


def test_nothing_of_this_machine_is_sent(site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither a token in the environment nor a login in .netrc goes to a server."""
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine 127.0.0.1 login me password {SECRET}\n", encoding="utf-8")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HF_TOKEN", SECRET)
    site.files["/m.gguf"] = small_model()

    read_remote_gguf_header(f"{site.url}/m.gguf")

    assert all("authorization" not in headers and "cookie" not in headers for _, headers in site.requests)
    assert SECRET not in repr(site.requests)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "asks for a login"),
        (403, "gated"),
        (404, "no such file"),
        (410, "no longer there"),
        (416, "empty or shorter"),
        (418, "status 418 instead of the file"),
        (429, "no more requests"),
        (500, "the server failed (status 500)"),
        (503, "the server failed (status 503)"),
        (204, "status 204 instead of the file"),
    ],
)
def test_refusals_of_a_server(site: Site, status: int, words: str) -> None:
    """Every status has its sentence, with the address but without its secrets."""

    def behave(handler: Handler, _path: str) -> bool:
        handler.answer(status)
        return True

    site.behave = behave
    url = f"{site.url}/a/m.gguf?token={SECRET}#{SECRET}".replace("://", f"://{SECRET}:{SECRET}@")

    assert refusal(url).startswith(f"{site.url}/a/m.gguf: ")
    assert words in refusal(url)


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("/m.gguf", "redirects more than 5 times"),
        ("ftp://127.0.0.1/m.gguf", "not safe to follow"),
        ("file:///etc/passwd", "not safe to follow"),
        (f"http://{SECRET}@127.0.0.1:1/m.gguf", "no connection"),
        ("http://h:99999999/m.gguf", "check the address"),
    ],
)
def test_bad_redirects(site: Site, location: str, words: str) -> None:
    """Circles, other schemes and nonsense are refused."""

    def behave(handler: Handler, _path: str) -> bool:
        handler.answer(302, {"Location": location})
        return True

    site.behave = behave

    assert words in refusal(f"{site.url}/m.gguf")
    assert len(site.requests) <= 6


@pytest.mark.parametrize(
    ("headers", "size", "words"),
    [
        ({}, 64, "does not say which part"),
        ({"Content-Range": "bytes 0-63/*"}, 64, "does not say which part"),
        ({"Content-Range": "items 0-63/64"}, 64, "does not say which part"),
        ({"Content-Range": "bytes 5-63/64"}, 59, "another part of the file"),
        ({"Content-Range": "bytes 0-63/100000000"}, 64, "another part of the file"),
        ({"Content-Range": "bytes 0-63/32"}, 64, "another part of the file"),
        ({"Content-Range": "bytes 0-63/64"}, 65, "another part of the file"),
        ({"Content-Range": f"bytes 0-63/{'9' * 40}"}, 64, "does not say which part"),
        ({"Content-Range": "bytes 0-63/64", "Content-Encoding": "gzip"}, 64, "compresses the file"),
    ],
)
def test_lies_about_parts(site: Site, headers: dict[str, str], size: int, words: str) -> None:
    """An answer that is not the part that was asked for is refused."""

    def behave(handler: Handler, _path: str) -> bool:
        handler.answer(206, headers, size=size)
        handler.send(b"GGUF".ljust(size, b"\x00"))
        return True

    site.behave = behave

    assert words in refusal(f"{site.url}/m.gguf")


@pytest.mark.parametrize("status", [200, 206])
def test_connection_that_breaks(site: Site, status: int) -> None:
    """Less than was announced is an error, not a short header."""

    def behave(handler: Handler, _path: str) -> bool:
        handler.answer(status, {"Content-Range": "bytes 0-999/1000"} if status == 206 else {}, size=1000)
        handler.send(small_model()[0][:300])
        handler.close_connection = True
        return True

    site.behave = behave

    assert "broke off" in refusal(f"{site.url}/m.gguf")


def test_size_that_is_not_told(site: Site) -> None:
    """Without ranges the length must be known: tensors are checked against it."""

    def behave(handler: Handler, _path: str) -> bool:
        handler.answer(200, size=None)
        handler.send(b"GGUF")
        handler.close_connection = True
        return True

    site.behave = behave

    assert "how large the file is" in refusal(f"{site.url}/m.gguf")


def test_file_that_changes(site: Site) -> None:
    """Parts of two files are never joined."""
    start, size = large_model()
    site.files["/m.gguf"] = (start, size)

    def behave(_handler: Handler, path: str) -> bool:
        site.files[path] = (start, size + len(site.requests))
        return False

    site.behave = behave

    assert "the file changed while it was being read" in refusal(f"{site.url}/m.gguf")


@pytest.mark.parametrize("mark", ["ETag", "Last-Modified"])
def test_file_that_is_replaced_by_one_of_the_same_size(site: Site, mark: str) -> None:
    """What the server says of the version counts as well."""
    start, size = large_model()

    def behave(handler: Handler, _path: str) -> bool:
        first, last = (int(number) for number in handler.headers["Range"].removeprefix("bytes=").split("-"))
        told = {"Content-Range": f"bytes {first}-{last}/{size}", mark: f'"{len(site.requests)}"'}
        handler.answer(206, told, size=last - first + 1)
        handler.send(start[first : last + 1])
        return True

    site.behave = behave

    assert "the file changed while it was being read" in refusal(f"{site.url}/m.gguf")


def test_cut_off_file_is_refused_like_a_local_one(site: Site) -> None:
    """All checks of the local reader hold: tensors must end within the size that the server states."""
    start, size = small_model()
    site.files["/m.gguf"] = (start, size - 1000)
    site.files["/page.gguf"] = (b"<!DOCTYPE html><html>", 21)
    site.files["/empty.gguf"] = (b"", 0)

    assert f"1000 of {size} bytes are missing at its end" in refusal(f"{site.url}/m.gguf")
    assert "a web page" in refusal(f"{site.url}/page.gguf")
    site.ranges = False
    assert "the file is empty" in refusal(f"{site.url}/empty.gguf")


@pytest.mark.parametrize("ranges", [True, False])
def test_endless_header_is_stopped(site: Site, monkeypatch: pytest.MonkeyPatch, *, ranges: bool) -> None:
    """A header that asks for ever more bytes is refused at the bound."""
    monkeypatch.setattr(remote_fetch, "_MAX_FETCH_BYTES", 2 * MIB)
    start, _ = encode_header({"k": [f"{n:064d}" for n in range(40 * KIB)]})
    site.files["/m.gguf"], site.ranges = (start, 8 * GIB), ranges

    assert "larger than that of any model" in refusal(f"{site.url}/m.gguf")
    assert site.sent_bytes < 64 * MIB


def test_server_that_keeps_silent(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not answer is given up."""
    monkeypatch.setattr(remote_fetch, "_PATIENCE_S", 0.1)
    release = threading.Event()

    def behave(_handler: Handler, _path: str) -> bool:
        release.wait(10)
        return True

    site.behave = behave

    assert "no answer within" in refusal(f"{site.url}/m.gguf")
    release.set()


def test_slow_server_is_given_up(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """All time together is bounded as well."""
    monkeypatch.setattr(remote_fetch, "_MAX_TOTAL_S", -1.0)
    site.files["/m.gguf"] = small_model()

    assert "did not come within" in refusal(f"{site.url}/m.gguf")


@pytest.mark.parametrize(
    ("start", "drop"),
    [
        (b"HTTP/1.1 200 OK\r\nX-Slow: ", b"a"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 206 OK\r\nContent-Range: bytes 0-9/10\r\nTransfer-Encoding: chunked\r\n\r\n5;", b"x"),
    ],
    ids=["headers", "interim answers", "chunk extension"],
)
def test_server_that_drips_is_cut_off(site: Site, monkeypatch: pytest.MonkeyPatch, start: bytes, drop: bytes) -> None:
    """Answers that never begin are bounded in time too, though each byte comes soon after the one before."""
    monkeypatch.setattr(remote_fetch, "_MAX_TOTAL_S", 0.3)
    left = threading.Event()

    def behave(handler: Handler, _path: str) -> bool:
        try:
            handler.wfile.write(start)
            while not left.wait(0.01):
                handler.wfile.write(drop)
        except OSError:
            left.set()  # the client has gone, as it should
        handler.close_connection = True
        return True

    site.behave = behave

    assert "did not come within" in refusal(f"{site.url}/m.gguf")
    assert left.wait(5)


def test_no_server_and_no_tls(site: Site) -> None:
    """A closed port and a server without TLS are told apart."""
    assert "no connection to the server" in refusal("http://127.0.0.1:1/m.gguf")
    assert "TLS" in refusal(f"{site.url}/m.gguf".replace("http", "https", 1))


def test_proxy_settings_stay_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that cannot be used is refused without its password."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ALL_PROXY", f"nonsense://me:{SECRET}@proxy:1")

    assert "proxy or certificate settings" in refusal("http://example.invalid/m.gguf")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://huggingface.co/a/b/resolve/main/m.gguf", True),
        ("http://h/m.GGUF?download=true", True),
        ("HTTPS://h/m.gguf", True),
        ("https://h/m.safetensors", False),
        ("https://h/?file=m.gguf", False),
        ("https:///m.gguf", False),
        ("ftp://h/m.gguf", False),
        ("file:///m.gguf", False),
        ("m.gguf", False),
        ("https://[/m.gguf", False),
        ("https://h/" + "a" * 10_000 + ".gguf", False),
        ("", False),
    ],
)
def test_urls_of_gguf_files(text: str, *, expected: bool) -> None:
    """An http or https address whose path ends in .gguf is one; nothing else is, and nothing else is fetched."""
    assert is_remote_gguf(text) is expected
    if not expected:
        assert "not the http or https URL" in refusal(text)

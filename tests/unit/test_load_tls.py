"""TLS: a certificate that nobody vouches for is refused, and trusted when the user names it."""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers.load_runs import plan
from suffice.errors import UsageError
from suffice.load.endpoint import endpoint_of
from suffice.load.mock_script import Pace
from suffice.load.mock_server import served_in_thread
from suffice.load.session import Content, run_session
from suffice.load.settings import Api
from suffice.model.load_metrics import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from suffice.load.result import LoadResult

# For 127.0.0.1, signed by itself, from 2020 to 2120. The key guards nothing.
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBYjCCAQigAwIBAgIBATAKBggqhkjOPQQDAjAXMRUwEwYDVQQDDAxzdWZmaWNl
IHRlc3QwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBcxFTATBgNV
BAMMDHN1ZmZpY2UgdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABESY7DLy
S/s6KfdEQi2IDT071HdXDC44QqsXY1GRghI4KQaAURn2zHlmFPzLYBt7BDdY+1gV
sNxD2nNYmnvOKg+jQzBBMA8GA1UdEQQIMAaHBH8AAAEwDwYDVR0TAQH/BAUwAwEB
/zAdBgNVHQ4EFgQUJX/bI0E/sJY+H0jLnuBV5DGuG/8wCgYIKoZIzj0EAwIDSAAw
RQIge9hidS5savgqWMipt+7H2g8qgjXg8i4UxE0Bn0avItkCIQCEcWcsefBcjwZe
q9xNDHFEQ6NcZdZUS6OyN1C6TNcetA==
-----END CERTIFICATE-----
"""
KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg4aVAGoc3TBJEVLbC
DCORRN0+/FMNjZ0CgYsS7Qg88XyhRANCAAREmOwy8kv7Oin3REItiA09O9R3Vwwu
OEKrF2NRkYISOCkGgFEZ9sx5ZhT8y2AbewQ3WPtYFbDcQ9pzWJp7zioP
-----END PRIVATE KEY-----
"""


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """The certificate as a file."""
    path = tmp_path / "server.pem"
    path.write_text(CERTIFICATE, encoding="ascii")
    return path


@pytest.fixture
def server(certificate: Path, tmp_path: Path) -> Iterator[str]:
    """The address of a mock server that speaks TLS with it."""
    key = tmp_path / "key.pem"
    key.write_text(KEY, encoding="ascii")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with served_in_thread(lambda _: Pace(gap_s=0.001).answer(), context=context) as found:
        yield found.url


def loaded(url: str, ca_file: Path | None = None, *, keep_alive: bool = False) -> LoadResult:
    """Three requests to a server."""
    endpoint, _ = endpoint_of(url, Api.CHAT, ca_file=ca_file, keep_alive=keep_alive)
    return run_session(plan(requests=3), Content(prompt_tokens=4), endpoint, Limits(), lambda _: None)


def test_an_unknown_certificate_is_refused_with_what_to_do(server: str) -> None:
    """Nothing is sent, and the message names the flag."""
    with pytest.raises(UsageError, match="--ca-file") as caught:
        loaded(server)

    assert "CERTIFICATE_VERIFY_FAILED" in str(caught.value)
    assert "is it running" not in str(caught.value)


@pytest.mark.parametrize("keep_alive", [False, True])
def test_a_certificate_that_is_named_is_trusted(server: str, certificate: Path, *, keep_alive: bool) -> None:
    """With --ca-file all requests are answered, over both transports, and the time of the handshake is in none of their times."""
    result = loaded(server, certificate, keep_alive=keep_alive)

    assert server.startswith("https://")
    assert result.summary.succeeded == 3
    assert result.rows[0].connect_s is not None or keep_alive
    assert result.rows[0].start_ns is not None
    assert result.rows[0].start_ns >= result.rows[0].dispatched_ns + (result.rows[0].connect_ns or 0)


def test_the_variable_of_openssl_is_obeyed(server: str, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SSL_CERT_FILE names what is trusted, as for other programs."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))

    assert loaded(server).summary.succeeded == 3


def test_a_certificate_for_another_name_is_refused(server: str, certificate: Path) -> None:
    """Trusted as it is, it is the address's only: localhost is another name."""
    with pytest.raises(UsageError, match="TLS"):
        loaded(server.replace("127.0.0.1", "localhost"), certificate)


def test_a_file_without_certificates_is_refused(server: str, tmp_path: Path) -> None:
    """The flag and the file are named."""
    path = tmp_path / "empty.pem"
    path.write_text("nothing", encoding="ascii")

    with pytest.raises(UsageError, match=r"--ca-file .*empty\.pem"):
        loaded(server, path)


@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "nothing"])
def test_certificates_come_from_a_regular_file_only(server: str, kind: str, tmp_path: Path) -> None:
    """A pipe without a writer, a folder, a device without an end, a path that is not there: one sentence, and nobody waits."""
    path = {"pipe": tmp_path / "pipe", "folder": tmp_path, "device": Path("/dev/zero"), "nothing": tmp_path / "no"}[
        kind
    ]
    if kind == "pipe":
        os.mkfifo(path)

    with pytest.raises(UsageError, match=str(path)):
        loaded(server, path)


def test_comments_between_certificates_may_be_in_any_script(server: str, tmp_path: Path) -> None:
    """Bundles name their issuers in their own letters."""
    path = tmp_path / "bundle.pem"
    path.write_text(f"# Főtanúsítvány\n{CERTIFICATE}", encoding="utf-8")

    assert loaded(server, path).summary.succeeded == 3

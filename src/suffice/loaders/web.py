"""One small file from the web: the seam between price lists and the network. Answers are not trusted."""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Protocol

from suffice import __version__
from suffice.errors import SufficeError

if TYPE_CHECKING:
    import httpx

_PATIENCE_S: Final = 15.0  # for one answer, or the next piece of it
_MAX_TOTAL_S: Final = 120.0
_MAX_REDIRECTS: Final = 3


class WebError(SufficeError):
    """A file could not be had. ``str(error)`` is the reason, to be put behind the file's name."""


class UnreachableError(WebError):
    """Nobody answered: other files of the same web will not come either."""


class Web(Protocol):
    """Where files come from."""

    def get(self, url: str, *, limit_bytes: int) -> str:
        """The text of a file.

        Raises:
            UnreachableError: no connection.
            WebError: no such file, too large, not UTF-8, a web page instead of a file, or too slow.
        """


class HttpWeb:
    """The web itself. Nothing of this machine is sent but the request: no token, no .netrc, no cookie."""

    def get(self, url: str, *, limit_bytes: int) -> str:
        """As :class:`Web` says."""
        import httpx  # slow to import, and only this needs it  # noqa: PLC0415

        headers = {"User-Agent": f"suffice/{__version__}", "Accept-Encoding": "identity"}
        try:
            with (
                httpx.Client(timeout=_PATIENCE_S, headers=headers, max_redirects=_MAX_REDIRECTS) as client,
                client.stream("GET", url, follow_redirects=True) as response,
            ):
                _check(response)
                content = _content(response, limit_bytes)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
            raise UnreachableError("no connection to the server; is this machine online?") from error
        except httpx.TimeoutException as error:
            raise WebError(f"the server did not answer within {_PATIENCE_S:.0f} s") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise WebError(f"the connection failed: {type(error).__name__}") from error
        except (ImportError, OSError, ValueError):  # its message can hold the password of a proxy
            raise WebError(
                "the proxy or certificate settings of this environment cannot be used; correct them"
            ) from None
        return _decoded(content)


def _check(response: httpx.Response) -> None:
    if response.url.scheme != "https" and response.history and response.history[0].url.scheme == "https":
        raise WebError("the server redirects to an address that is not safe to follow")
    if response.status_code != HTTPStatus.OK:
        raise WebError(f"the server answers with status {response.status_code}")
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise WebError("the server compresses the file although it was asked not to")
    if response.headers.get("Content-Type", "").lower().startswith("text/html"):
        raise WebError("the server sends a web page instead of the file; a login or a proxy may stand in between")


def _content(response: httpx.Response, limit_bytes: int) -> bytes:
    end_s = time.monotonic() + _MAX_TOTAL_S
    content = bytearray()
    for piece in response.iter_bytes():
        content += piece
        if len(content) > limit_bytes:
            raise WebError(f"it has more than the {limit_bytes} bytes that such a file may have")
        if time.monotonic() > end_s:
            raise WebError(f"it did not come within {_MAX_TOTAL_S:.0f} s")
    return bytes(content)


def _decoded(content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise WebError("it is not UTF-8 text") from error
    if text.lstrip()[:1] == "<":
        raise WebError("the server sends a web page instead of the file; a login or a proxy may stand in between")
    return text

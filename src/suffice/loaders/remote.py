"""The header of a GGUF file on a web server: a few megabytes of it, however large the file is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote, urlsplit

from suffice.errors import ModelFileError
from suffice.loaders.gguf import joined_header, part_names
from suffice.loaders.gguf_bytes import ByteSource
from suffice.loaders.gguf_parse import parse_file
from suffice.loaders.gguf_values import ReadBudget

if TYPE_CHECKING:
    from collections.abc import Callable
    from urllib.parse import SplitResult

    from suffice.model.gguf_header import GgufHeader

_SCHEMES: Final = frozenset({"http", "https"})
_ENDING: Final = ".gguf"
_LONGEST_URL: Final = 8192
_LONGEST_SHOWN: Final = 300
_UNRESERVED: Final = "/%:@!$&'()*+,;=~-._[]"


def is_remote_gguf(text: str) -> bool:
    """Whether this is the URL of a GGUF file: http or https, with a host, and a path that ends in ``.gguf``."""
    url = _split(text)
    return url is not None and url.path.lower().endswith(_ENDING)


def shown_url(text: str) -> str:
    """A URL for messages: without user, password, query and fragment, which can hold secrets.

    Of an address with a slip, such as a password with a slash in it, only the scheme is left: what is what in it is not known.
    """
    try:
        url = urlsplit(text.strip())
        known = url.hostname is not None and (url.port or 0) >= 0
    except ValueError:  # a port that is no number, half a bracket
        known = False
    if not known:
        return f"{text.strip().partition(':')[0].lower()}://..."[:_LONGEST_SHOWN]
    host = url.netloc.rpartition("@")[2]
    return f"{url.scheme}://{quote(host, safe=_UNRESERVED)}{quote(url.path, safe=_UNRESERVED)}"[:_LONGEST_SHOWN]


def read_remote_gguf_header(url: str, *, progress: Callable[[int], None] | None = None) -> GgufHeader:
    """The header of the GGUF model at ``url``; of all its parts together when it is split, whichever part is named.

    Only the header is fetched, by range requests; from a server that has none the download is stopped behind the header. User and
    password in the URL are sent to its own host only, and nothing that this machine keeps (tokens, .netrc) is sent at all.
    ``source`` of the header is the file's name. ``progress`` is called with the number of bytes fetched so far.

    Raises:
        ModelFileError: no such URL, no answer, not allowed, or what is there is damaged, unsupported or hostile.
    """
    if not is_remote_gguf(url):
        raise ModelFileError("this is not the http or https URL of a .gguf file; check the address")
    from suffice.loaders.remote_fetch import Fetcher, RemoteBlocks  # httpx is slow to import  # noqa: PLC0415

    parts = _parts(url)
    shown = [shown_url(part) for part in parts]
    budget = ReadBudget()
    files = []
    with Fetcher(progress) as fetcher:
        for index, (part, name) in enumerate(zip(parts, shown, strict=True)):
            with RemoteBlocks(fetcher, part, name) as blocks:
                files.append(parse_file(ByteSource(blocks, name), index, budget))
    return joined_header(shown, files, source=unquote(shown[0].rpartition("/")[2]))


def _split(text: str) -> SplitResult | None:
    try:
        url = urlsplit(text)
        usable = len(text) <= _LONGEST_URL and url.scheme in _SCHEMES and bool(url.hostname)
    except ValueError:
        return None
    return url if usable else None


def _parts(text: str) -> list[str]:
    """The URLs of all parts: the same but for the file's name."""
    url = urlsplit(text)
    path = url.path
    if (url.hostname or "").endswith("huggingface.co"):
        path = path.replace("/blob/", "/resolve/", 1)  # the address of its web page about the file
    folder, _, name = path.rpartition("/")
    names = part_names(unquote(name), shown_as=shown_url(text))
    if len(names) == 1:
        return [url._replace(path=path, fragment="").geturl()]
    return [url._replace(path=f"{folder}/{quote(name)}", fragment="").geturl() for name in names]

"""Where the cache is and how large it may become: from the environment, else what the operating system suggests."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from suffice.errors import UsageError
from suffice.units import GIB, GIGA, KIB, KILO, MEGA, MIB, TERA

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT_VARIABLE: Final = "SUFFICE_CACHE_DIR"
LIMIT_VARIABLE: Final = "SUFFICE_CACHE_LIMIT"
DEFAULT_LIMIT_BYTES: Final = 8 * GIB

_SIZE: Final = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[a-z]*)", re.IGNORECASE)
_UNITS: Final = {
    "": 1, "b": 1, "kb": KILO, "mb": MEGA, "gb": GIGA, "tb": TERA,
    "kib": KIB, "mib": MIB, "gib": GIB, "tib": GIB * KIB,
}  # fmt: skip


def default_root(environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """The cache's folder; it need not exist."""
    if environment.get(ROOT_VARIABLE):
        try:
            return Path(environment[ROOT_VARIABLE]).expanduser()
        except RuntimeError as error:  # ~somebody who is not known here
            raise UsageError(
                f"{ROOT_VARIABLE}: {environment[ROOT_VARIABLE]!r} is in no home folder; write the whole path"
            ) from error
    if platform == "win32" and environment.get("LOCALAPPDATA"):
        return Path(environment["LOCALAPPDATA"]) / "suffice"
    given = environment.get("XDG_CACHE_HOME", "")
    if Path(given).is_absolute():  # the XDG specification: relative ones are to be ignored
        return Path(given) / "suffice"
    try:
        home = Path.home()
    except RuntimeError as error:
        raise UsageError(f"there is no home folder for the cache; set {ROOT_VARIABLE} to a folder") from error
    return home / ("Library/Caches" if platform == "darwin" else ".cache") / "suffice"


def default_limit_bytes(environment: Mapping[str, str] = os.environ) -> int:
    """How many bytes the cache may take.

    Raises:
        UsageError: the variable holds no size.
    """
    text = environment.get(LIMIT_VARIABLE)
    if not text:
        return DEFAULT_LIMIT_BYTES
    try:
        return parse_size_bytes(text)
    except ValueError as error:
        raise UsageError(f"{LIMIT_VARIABLE}: {error}") from None


def parse_size_bytes(text: str) -> int:
    """Bytes from ``8GiB``, ``500 MB`` or a bare number of bytes.

    Raises:
        ValueError: the text is no positive size; the message says what is accepted.
    """
    match = _SIZE.fullmatch(text.strip())
    factor = None if match is None else _UNITS.get(match["unit"].lower())
    n_bytes = 0 if match is None or factor is None else int(float(match["number"]) * factor)
    if n_bytes < 1:
        raise ValueError(f"{text!r} is not a size; write for example 8GiB, 500MB or a number of bytes")
    return n_bytes

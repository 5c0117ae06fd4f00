"""Texts from outside (names, paths, addresses) made safe for each kind of file that they are written to.

A text with control characters is refused before it comes here (:func:`check_text`): no path needs a line break, and a comment, a unit and a
script would each be ended by one. Everything else is quoted, never dropped.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from typing import Final

from suffice.errors import UsageError
from suffice.report.tables import one_line

_MOST_NAME: Final = 40  # with a suffix it stays under the 63 that Kubernetes allows
_UNSEEN: Final = frozenset(
    {"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"}
)  # control, format (they turn the direction of text), line ends
_UNSAFE_IN_UNITS: Final = frozenset("\\\"'")


def check_text(text: str, what: str) -> str:
    """The text, when each target can hold it.

    Raises:
        UsageError: it is empty, or has control characters, line breaks, marks that turn the direction of text, or half a surrogate pair.
    """
    bad = next((c for c in text if unicodedata.category(c) in _UNSEEN), None)
    if bad is not None:
        raise UsageError(
            f"{what} holds the character U+{ord(bad):04X}, which nobody sees who reads the file; give another one"
        )
    if not text.strip():
        raise UsageError(f"{what} is empty")
    return text


def comment_text(text: str) -> str:
    """A text as a comment: on one line, nothing in it that ends the comment. A backslash at its end would join the next line to it."""
    return one_line(text).rstrip().rstrip("\\")


def slug(text: str, *, fallback: str = "llm") -> str:
    """A name for services, units and pods: RFC 1123, lower case, ``slug("Llama 3.1 (8B).gguf") == "llama-3-1-8b-gguf"``."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    parts = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:_MOST_NAME].strip("-")
    if not parts:
        return fallback
    return parts if parts[0].isalpha() else f"{fallback}-{parts}"[:_MOST_NAME].strip("-")


def shell(text: str) -> str:
    """One word of a POSIX shell."""
    return shlex.quote(text)


def yaml_string(text: str) -> str:
    """A double-quoted YAML scalar: printable characters as they are, the others escaped as YAML, not JSON, spells them."""
    return '"' + "".join(_yaml_character(c) for c in text) + '"'


def _yaml_character(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    code = ord(character)
    if unicodedata.category(character)[0] not in "CZ" or character == " ":
        return character
    if code <= 0xFF:  # noqa: PLR2004  # what two digits hold
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004  # what four digits hold


def compose_text(text: str) -> str:
    """A value of a compose file, where ``$`` begins a variable."""
    return text.replace("$", "$$")


def kubernetes_argument(text: str) -> str:
    """An argument of a container, where ``$(NAME)`` is a variable and ``$$`` a dollar."""
    return text.replace("$", "$$")


def unit_argument(text: str) -> str:
    """One argument of ``ExecStart=``: ``%`` is a specifier, ``$`` a variable, quotes and backslashes are C's (systemd.service(5))."""
    return unit_value(text.replace("$", "$$"))


def unit_value(text: str) -> str:
    """One quoted item of another list in a unit, where ``%`` is a specifier."""
    return '"' + "".join(f"\\{c}" if c in _UNSAFE_IN_UNITS else c for c in text).replace("%", "%%") + '"'


def unit_text(text: str) -> str:
    """Free text of a unit (``Description=``)."""
    return comment_text(text).replace("%", "%%")

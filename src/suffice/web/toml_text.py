"""One table of numbers, words and tables of numbers as TOML: the standard library reads it and does not write it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

Value = str | int | float | bool | list["Value"] | dict[str, "Value"]

_WHOLE: Final = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?", re.ASCII)
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_LAST_CONTROL: Final = 0x1F
_DELETE: Final = 0x7F


def value_of(text: str) -> int | float | str:
    """What somebody typed, as TOML would read it: a number where it is one, else the text, of which the demand's reader says what is wrong."""
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def table_text(name: str, values: Mapping[str, Value]) -> str:
    """A table under its name in brackets, one key a line: ``margin = 1.5``."""
    lines = [f"{_key(key)} = {_text(value)}" for key, value in values.items()]
    return "\n".join([f"[{name}]", *lines]) + "\n"


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _quoted(key)


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_text(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    return _quoted(value) if isinstance(value, str) else repr(value)


def _quoted(text: str) -> str:
    """A basic string: quotes, backslashes and control characters escaped, so that one line stays one line."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(_escaped(character) for character in escaped) + '"'


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= _LAST_CONTROL or code == _DELETE else character

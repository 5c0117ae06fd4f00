"""YAML with a comment beside each value, which no dumper at hand writes. Parsers read it back in the tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.deploy.quote import comment_text, yaml_string

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from suffice.deploy.setting import Setting

_INDENT: Final = "  "
_PLAIN_KEY: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./")
# Words that YAML 1.1 takes for true, false or nothing; a machine or a model may be called so.
_WORDS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


@dataclass(frozen=True, slots=True)
class Noted:
    """A value with a comment: behind a scalar, above a list or a mapping."""

    value: object
    comment: str


@dataclass(frozen=True, slots=True)
class Block:
    """Lines of a script, kept as they are (a literal block)."""

    text: str


def noted(setting: Setting[str] | Setting[int] | Setting[float]) -> Noted:
    """A setting as a value with its origin."""
    return Noted(setting.value, setting.comment)


def yaml_document(head: list[str], document: Mapping[str, object]) -> str:
    """One document: comment lines, then the mapping."""
    lines = [*(f"# {comment_text(line)}".rstrip() for line in head), *_mapping(document, 0)]
    return "\n".join(lines) + "\n"


def _mapping(values: Mapping[str, object], depth: int) -> Iterator[str]:
    for key, value in values.items():
        yield from _entry(f"{_INDENT * depth}{_key(key)}:", value, depth)


def _key(text: str) -> str:
    is_plain = set(text) <= _PLAIN_KEY and text[0].isalpha() and text.lower() not in _WORDS
    return text if is_plain else yaml_string(text)


def _entry(start: str, value: object, depth: int) -> Iterator[str]:
    """``start`` is the key with its colon, at ``depth``."""
    if isinstance(value, Noted):
        comment = comment_text(value.comment)
        if isinstance(value.value, dict | list):
            yield f"{_INDENT * depth}# {comment}"
            yield from _entry(start, value.value, depth)
        else:
            yield f"{start} {_scalar(value.value)}  # {comment}"
    elif isinstance(value, Block):
        yield f"{start} |"
        yield from (f"{_INDENT * (depth + 1)}{line}".rstrip() for line in value.text.splitlines())
    elif isinstance(value, dict):
        yield start if value else f"{start} {{}}"
        yield from _mapping(value, depth + 1)
    elif isinstance(value, list):
        yield start if value else f"{start} []"
        yield from (line for item in value for line in _item(item, depth + 1))
    else:
        yield f"{start} {_scalar(value)}"


def _item(value: object, depth: int) -> Iterator[str]:
    """One item of a list; the first key of a mapping stands beside the dash."""
    dash = f"{_INDENT * depth}- "
    if isinstance(value, Noted) and isinstance(value.value, dict):
        yield f"{_INDENT * depth}# {comment_text(value.comment)}"
        value = value.value
    if isinstance(value, Noted):
        yield f"{dash}{_scalar(value.value)}  # {comment_text(value.comment)}"
    elif isinstance(value, dict):
        plain = _INDENT * (depth + 1)
        lines = list(_mapping(value, depth + 1))
        first = next(place for place, line in enumerate(lines) if not line.lstrip().startswith("#"))
        yield from lines[:first]
        yield f"{dash}{lines[first].removeprefix(plain)}"
        yield from lines[first + 1 :]
    else:
        yield f"{dash}{_scalar(value)}"


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{value:g}" if isinstance(value, float) else str(value)
    return yaml_string(str(value))

"""The TOML of a demand file as one table, and what is wrong with it as one sentence."""

from __future__ import annotations

import tomllib
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from pydantic import ConfigDict

from suffice.errors import DemandError
from suffice.loaders.files import read_small_file
from suffice.units import MIB

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from pydantic import ValidationError

MAX_TOKENS: Final = 100_000_000  # over a hundred million tokens in one request is a typing error
STRICT: Final = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True, frozen=True)
_MAX_DEMAND_FILE_BYTES: Final = MIB
_MAX_SHOWN: Final = 60  # characters of what somebody wrote


def read_demand_file(path: Path) -> str:
    """The text of a demand file.

    Raises:
        DemandError: see :func:`suffice.loaders.files.read_small_file`.
    """
    return read_small_file(path, limit_bytes=_MAX_DEMAND_FILE_BYTES, error=DemandError)


def demand_table(text: str, source: str) -> dict[str, Any]:
    """The table ``[demand]`` of a TOML text; ``source`` names it in error messages.

    Raises:
        DemandError: it is not TOML, has no such table, or others beside it.
    """
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a ValueError that is no TOMLDecodeError: a number of 5000 digits
        raise DemandError(f"{source} is not valid TOML: {error}") from error
    table = document.get("demand")
    if not isinstance(table, dict):
        raise DemandError(f"{source} has no table [demand]; docs/demand.md shows one to start from")
    other_tables = sorted(key for key in document if key != "demand")
    if other_tables:
        raise DemandError(f"{source} has {quoted(other_tables)} outside of [demand]; move or remove it")
    return table


def quoted(names: Iterable[str]) -> str:
    """Names for a sentence, each quoted."""
    return ", ".join(shortened(name) for name in names)


def shortened(value: object) -> str:
    """What somebody wrote, as much of it as a sentence can hold."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print whole numbers of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"


def explained(error: ValidationError, fields: Iterable[str], aliases: Mapping[str, str], kinds: str) -> str:
    """The first complaint as one sentence, with the field and, for an unknown one, the nearest known name.

    Args:
        error: of the table.
        fields: names that it may have.
        aliases: other names of some fields.
        kinds: what to write for a kind that is missing.
    """
    first = error.errors(include_url=False)[0]
    field = str(first["loc"][0]) if first["loc"] else "[demand]"
    known = tuple(fields)
    if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
        if field in aliases:
            return f"'{field}' and '{aliases[field]}' are two names of one field; give one"
        near = get_close_matches(field, (*known, *aliases), n=1)
        hint = f"; did you mean '{near[0]}'?" if near else f"; known fields: {', '.join(known)}"
        return f"unknown field {shortened(field)}{hint}"
    if first["type"] == "missing" and field == "kind":
        return f"field 'kind' is missing; write kind = {kinds}"
    return f"field '{field}': {first['msg']} (found {shortened(first['input'])})"

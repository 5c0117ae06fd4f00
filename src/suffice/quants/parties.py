"""Who is compared: files, servers, and quantizations that are still to be made, from what the user wrote."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from suffice.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_CANDIDATES: Final = 16
_SCHEMES: Final = ("http://", "https://")
_MAX_NAME_CHARACTERS: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Party:
    """One that takes part; exactly one of ``path``, ``url`` and ``recipe`` is there.

    Attributes:
        name: no other party's, short, without secrets.
        path: a GGUF file.
        url: of a server, without what stands behind ``#``.
        model: of a server, the name of the model to ask; None: the first that it lists.
        recipe: of a quantization of the reference that is to be made.
    """

    name: str
    path: Path | None = None
    url: str | None = None
    model: str | None = None
    recipe: str | None = None


def parties(reference: str, candidates: Sequence[str], recipes: Sequence[str] = ()) -> tuple[Party, ...]:
    """The reference and all that are compared with it, each with a name of its own.

    An address may name a model behind ``#``: ``http://localhost:11434/v1#qwen2.5:7b``.

    Raises:
        UsageError: nothing to compare with, too much, an address that is none, or quantizations of a model that is no file here.
    """
    first = _party(reference)
    others = [*map(_party, candidates), *(Party(name=recipe, recipe=recipe) for recipe in recipes)]
    if not others:
        raise UsageError(
            "what is compared with the reference? Give one candidate or more, or --make q8_0,q4_k_m to quantize the reference here"
        )
    if len(others) > MOST_CANDIDATES:
        raise UsageError(f"{len(others)} candidates; a comparison takes {MOST_CANDIDATES} at most")
    if recipes and first.path is None:
        raise UsageError(f"--make {','.join(recipes)}: the reference is a server; quantizing needs its GGUF file here")
    return _named((first, *others))


def _party(word: str) -> Party:
    if word.lower().startswith(_SCHEMES):
        address, _, model = word.partition("#")
        return Party(name=_server_name(address, model), url=address, model=model or None)
    if "://" in word:
        raise UsageError(
            f"{_short(word.partition('://')[0])}://...: the address of a server begins with http:// or https://"
        )
    path = Path(word)
    return Party(name=_short(path.stem), path=path)


def _server_name(address: str, model: str) -> str:
    """Host and port, or the model that is asked; never a password."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
        name = host if parts.port is None else f"{host}:{parts.port}"
    except ValueError as error:
        raise UsageError(f"an address of a server is not usable: {error}") from error
    return _short(model or name)


def _short(name: str) -> str:
    plain = "".join(letter if letter.isprintable() else "?" for letter in name)
    return plain[:_MAX_NAME_CHARACTERS] or "unnamed"


def _named(found: Sequence[Party]) -> tuple[Party, ...]:
    """With a number behind names that come again, so that a model can be compared with itself."""
    taken = {party.name for party in found}
    seen: Counter[str] = Counter()
    named = []
    for party in found:
        seen[party.name] += 1
        name, number = party.name, seen[party.name]
        while number > 1 and (name := f"{party.name} ({number})") in taken:
            number += 1
        taken.add(name)
        named.append(replace(party, name=name))
    return tuple(named)

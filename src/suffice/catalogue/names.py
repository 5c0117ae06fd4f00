"""Names as people write them: spellings that count as one, corrections of names that mislead, and what may have been meant."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

from suffice.catalogue.table import table_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_MOST_NEAR: Final = 4
_NEAR_CUTOFF: Final = 0.5
_LONGEST_SHOWN: Final = 80
_LONGEST_NAME: Final = 300
_NAMES_REMEMBERED: Final = 16_384  # a look-up compares with some thousands, again and again


class Kind(StrEnum):
    """The parts of the catalogue, by the word that sentences use for one entry."""

    DEVICE = "device"
    INSTANCE = "instance"
    API = "api"


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """A name that people ask for and that misleads, and what is to be said to them."""

    kind: Kind
    asked: tuple[str, ...]  # in plain spelling
    answer: str
    source: str


def plain(name: str) -> str:
    """A name with one spelling: lower case, and one dash for dots, blanks, underscores, slashes and dashes; its beginning if it is long."""
    return _plain(name[:_LONGEST_NAME])


@lru_cache(maxsize=_NAMES_REMEMBERED)
def _plain(name: str) -> str:
    return re.sub(r"[\s._/-]+", "-", name.strip().lower()).strip("-")


@cache
def all_corrections() -> tuple[Correction, ...]:
    """Every correction of ``corrections.csv``."""
    return tuple(
        Correction(
            kind=Kind(row["catalogue"]),
            asked=tuple(plain(text) for text in row["asked"].split("|")),
            answer=row["answer"],
            source=row["source"],
        )
        for row in table_rows("corrections.csv")
    )


def correction_of(kind: Kind, name: str) -> Correction | None:
    """The correction of a name, in any spelling; None when nothing is known against it."""
    wanted = plain(name)
    return next((item for item in all_corrections() if item.kind is kind and wanted in item.asked), None)


def shown(name: str) -> str:
    """A name for a message, however long it was."""
    return repr(name if len(name) <= _LONGEST_SHOWN else name[: _LONGEST_SHOWN - 1] + "…")


def did_you_mean(name: str, known: Mapping[str, str], otherwise: str) -> str:
    """``did you mean A, B?``, or ``otherwise`` where nothing is near.

    Args:
        name: what was asked for.
        known: plain spelling -> name to suggest.
        otherwise: what to say then.
    """
    wanted = plain(name)[:_LONGEST_SHOWN]
    if not wanted:
        return otherwise
    inside = [key for key in known if wanted in key]
    near = [*inside, *get_close_matches(wanted, known, n=_MOST_NEAR, cutoff=_NEAR_CUTOFF)]
    names = list(dict.fromkeys(known[key] for key in near))[:_MOST_NEAR]
    return f"did you mean {', '.join(names)}?" if names else otherwise


def matches(words: Iterable[str], texts: Iterable[str | None]) -> bool:
    """Whether every word stands in one of the texts, in any spelling."""
    haystack = " ".join(plain(text) for text in texts if text)
    return all(plain(word) in haystack for word in words)

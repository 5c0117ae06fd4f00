"""Keeps the demand in the one file that was named at the start; what is there is replaced only when somebody who saw it says so."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from suffice.errors import OutputError
from suffice.loaders.files import read_small_file
from suffice.records.store import write_atomically
from suffice.units import MIB

if TYPE_CHECKING:
    from pathlib import Path

_MOST_BYTES: Final = MIB


class Outcome(StrEnum):
    """What became of it. The values are those of the words ``save.<value>``."""

    SAVED = "saved"
    SAME = "same"  # it was there already
    EXISTS = "exists"  # another one is there: asked for first
    CHANGED = "changed"  # what is there is not what was asked about

    @property
    def asks(self) -> bool:
        """Whether nothing was written, and somebody has to say whether it should be."""
        return self in {Outcome.EXISTS, Outcome.CHANGED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """What became of it, and the mark of what is in the file now, with which it can be replaced."""

    outcome: Outcome
    seen: str


def save_demand(path: Path, text: str, seen: str) -> Saving:
    """Write a demand, or say what has to be asked first.

    Args:
        path: of the start; no request names one.
        text: TOML.
        seen: the mark of the file that somebody agreed to replace; empty: nobody was asked.

    Raises:
        OutputError: it cannot be read or written.
    """
    there = _content(path)
    if there == text:
        return Saving(outcome=Outcome.SAME, seen=_mark(text))
    if there is not None and seen != _mark(there):
        return Saving(outcome=Outcome.CHANGED if seen else Outcome.EXISTS, seen=_mark(there))
    write_atomically(path, text)
    return Saving(outcome=Outcome.SAVED, seen=_mark(text))


def _content(path: Path) -> str | None:
    return read_small_file(path, limit_bytes=_MOST_BYTES, error=OutputError) if path.exists() else None


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

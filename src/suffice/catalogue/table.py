"""Rows of the CSV files that ship with the package, and the reading of their cells: an empty cell is None."""

from __future__ import annotations

import csv
import gzip
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from suffice.catalogue.entries import Sourced

if TYPE_CHECKING:
    from collections.abc import Iterator

Row = dict[str, str]


def table_rows(name: str) -> Iterator[Row]:
    """The rows of a table, in its order. The name of a compressed one ends in ``.gz``."""
    content = files("suffice.catalogue").joinpath("data", name).read_bytes()
    text = (gzip.decompress(content) if name.endswith(".gz") else content).decode()
    return csv.DictReader(text.splitlines())


def number(text: str) -> float | None:
    """A number, or None for an empty cell."""
    return float(text) if text.strip() else None


def whole(text: str) -> int | None:
    """A whole number, or None for an empty cell."""
    return int(text) if text.strip() else None


def scaled(text: str, factor: int) -> float | None:
    """A number in base units: ``scaled("1.5", GIGA) == 1.5e9``; None for an empty cell."""
    value = number(text)
    return None if value is None else value * factor


def sourced(text: str, factor: int, *, kind: str, source: str, seen: str) -> Sourced | None:
    """A number in base units with where it is from; None for an empty cell."""
    value = scaled(text, factor)
    return None if value is None else Sourced(value=value, kind=kind, source=source, seen=seen)


@cache
def source_text(key: str) -> str:
    """What ``sources.csv`` writes out for a key, with the licence; a text that is no key is the source itself."""
    for row in table_rows("sources.csv"):
        if row["key"] == key:
            return f"{row['text']}, {row['licence']}"
    return key

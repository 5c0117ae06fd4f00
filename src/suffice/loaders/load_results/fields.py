"""Fields of a foreign JSON document: present and plausible, or absent, or one clear error that names the place."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, Final

from suffice.errors import RecordError
from suffice.units import KILO, LARGEST_FIGURE, MEGA

if TYPE_CHECKING:
    from collections.abc import Iterable

_LARGEST: Final = LARGEST_FIGURE * KILO  # tokens of the longest run, or milliseconds of the slowest request, stay below
MAX_REQUESTS: Final = MEGA  # more than any such tool keeps or counts in one run
_SHOWN: Final = 40


class Node:
    """A JSON object at a place in a file. A field that is missing or null is None; one of the wrong kind is an error."""

    def __init__(self, value: object, source: str, place: str = "") -> None:
        self.source = source
        self.place = place
        if not isinstance(value, dict):
            raise RecordError(f"{source}: '{place or 'the document'}' is {_shown(value)}, not an object")
        self.fields: dict[str, Any] = value

    def _at(self, name: str) -> str:
        return f"{self.place}.{name}" if self.place else name

    def wrong(self, name: str, wanted: str) -> RecordError:
        """The error of a field that is not what it has to be."""
        return RecordError(f"{self.source}: '{self._at(name)}' is {_shown(self.fields.get(name))}, not {wanted}")

    def node(self, name: str) -> Node:
        """An object; an empty one when it is missing."""
        value = self.fields.get(name)
        return Node({} if value is None else value, self.source, self._at(name))

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self.fields.get(name) is not None

    def number(self, name: str) -> float | None:
        """A finite number of at least 0."""
        value = self.fields.get(name)
        if value is None:
            return None
        if not _is_number(value):
            raise self.wrong(name, "a number that a time, a rate or a count can be")
        return float(value)

    def signed(self, name: str) -> float | None:
        """A finite number of either sign: a difference of two times."""
        value = self.fields.get(name)
        if value is None:
            return None
        if not _is_number(value, signed=True):
            raise self.wrong(name, "a number of seconds")
        return float(value)

    def positive(self, name: str) -> float | None:
        """A number above 0; 0 is what several tools write for "nothing"."""
        return self.number(name) or None

    def count(self, name: str) -> int | None:
        """A whole number of at least 0, of requests."""
        value = self.number(name)
        if value is None:
            return None
        if value != math.floor(value) or value > MAX_REQUESTS:
            raise self.wrong(name, f"a whole number up to {MAX_REQUESTS}")
        return int(value)

    def text(self, name: str) -> str | None:
        """A text; other things are left alone, because nothing is computed from it."""
        value = self.fields.get(name)
        return value if isinstance(value, str) and value else None

    def flag(self, name: str) -> bool | None:
        """True or false."""
        value = self.fields.get(name)
        return value if isinstance(value, bool) else None

    def nodes(self, name: str) -> list[Node]:
        """A list of objects; empty when it is missing."""
        return [Node(value, self.source, f"{self._at(name)}[{i}]") for i, value in enumerate(self.values(name) or ())]

    def numbers(self, name: str) -> list[float] | None:
        """A list of numbers of at least 0; None when it is missing."""
        values = self.values(name)
        if values is None:
            return None
        for value in values:
            if not _is_number(value):
                raise RecordError(f"{self.source}: '{self._at(name)}' holds {_shown(value)}, which is no time or count")
        return [float(value) for value in values]

    def values(self, name: str) -> list[Any] | None:
        """A list of anything, of bounded length; None when it is missing."""
        value = self.fields.get(name)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.wrong(name, "a list")
        if len(value) > MAX_REQUESTS:
            raise RecordError(f"{self.source}: '{self._at(name)}' has {len(value)} entries, more than {MAX_REQUESTS}")
        return value


def all_numbers(rows: Iterable[Node], name: str) -> list[float] | None:
    """A field of every row; None when one lacks it."""
    values = [row.number(name) for row in rows]
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None


def ascending(pairs: Iterable[tuple[float, float | None]], node: Node) -> tuple[tuple[float, float], ...]:
    """The known percentiles in order of their fraction.

    Raises:
        RecordError: a higher percentile is smaller than a lower one.
    """
    known = sorted((share, value) for share, value in pairs if value is not None)
    for (low, smaller), (high, larger) in itertools.pairwise(known):
        if larger < smaller and not math.isclose(larger, smaller):
            raise RecordError(
                f"{node.source}: the percentiles of '{node.place}' contradict themselves: {high:g} is below {low:g}"
            )
    return tuple(known)


def _is_number(value: object, *, signed: bool = False) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_LARGEST <= value <= _LARGEST:
        return False
    return signed or value >= 0


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"

"""Typed, bounded access to the fields of a ``config.json``: whatever stands there becomes a sensible value or one clear sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.errors import ModelFileError
from suffice.loaders.gguf_values import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_LAYERS: Final = 512  # LLAMA_MAX_LAYERS of llama.cpp
# Several times the largest published value of each kind; a number above is a typing error or made to harm.
_LARGEST_COUNT: Final = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """One table of a config. A field that is there and null has no value, as in Hugging Face's library."""

    source: str  # what messages call the file
    values: Mapping[str, object]
    path: str = ""  # of this table within the file: "text_config."

    def count(self, *keys: str, largest: int = _LARGEST_COUNT, least: int = 1) -> int | None:
        """The first of these fields that is there, a whole number; None when none is.

        Raises:
            ModelFileError: something else stands there, or a number that no model has.
        """
        for key in keys:
            value = self.values.get(key)
            if value is not None:
                return self._checked_count(key, value, least, largest)
        return None

    def needed(self, *keys: str, largest: int = _LARGEST_COUNT) -> int:
        """The first of these fields that is there, a whole number from 1 on.

        Raises:
            ModelFileError: none is there, or :meth:`count` raises.
        """
        value = self.count(*keys, largest=largest)
        if value is None:
            raise self.error(keys[0], "is missing; get the complete config.json of the model")
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        """A yes or no.

        Raises:
            ModelFileError: something else stands there.
        """
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(key, f"must be true or false, but is {shown(value)}")
        return value

    def text(self, key: str) -> str | None:
        """A text, or None.

        Raises:
            ModelFileError: something else stands there.
        """
        value = self.values.get(key)
        if value is None or isinstance(value, str):
            return value
        raise self.error(key, f"must be a text, but is {shown(value)}")

    def share(self, key: str) -> float | None:
        """A part of a whole, above 0 and at most 1, or None.

        Raises:
            ModelFileError: something else stands there.
        """
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
            raise self.error(key, f"must be a number above 0 and at most 1, but is {shown(value)}")
        return float(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; empty when it is absent.

        Raises:
            ModelFileError: something else stands there, or more entries than a model has layers.
        """
        value = self.values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or len(value) > MAX_LAYERS:
            raise self.error(key, f"must be a list of at most {MAX_LAYERS} texts, but is {shown(value)}")
        found = tuple(item for item in value if isinstance(item, str))
        if len(found) != len(value):
            raise self.error(key, "must be a list of texts, and holds something else")
        return found

    def table(self, key: str) -> Fields | None:
        """A table within this one, or None.

        Raises:
            ModelFileError: something else stands there.
        """
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(key, f"must be a table, but is {shown(value)}")
        return Fields(source=self.source, values=value, path=f"{self.path}{key}.")

    def error(self, key: str, problem: str) -> ModelFileError:
        """The sentence: file, field, what is wrong."""
        return ModelFileError(f"{self.source}: field '{self.path}{key}' {problem}")

    def _checked_count(self, key: str, value: object, least: int, largest: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(key, f"must be a whole number, but is {shown(value)}")
        if not least <= value <= largest:
            raise self.error(key, f"must be from {least} to {largest}, but is {_digits(value)}; check the file")
        return value


def _digits(value: int) -> str:
    """Python refuses to print whole numbers of thousands of digits."""
    return str(value) if value.bit_length() <= 64 else "a far larger number"  # noqa: PLR2004  # a machine word

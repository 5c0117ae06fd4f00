"""Numbers, texts and arrays of a GGUF header, read within bounds."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.errors import ModelFileError
from suffice.model.gguf_header import LongArray, LongText, MetadataValue
from suffice.units import KIB, MIB

if TYPE_CHECKING:
    from collections.abc import Mapping

    from suffice.loaders.gguf_bytes import ByteSource

# Bounds on what a header may ask for: several times what the largest published models have, and small enough to keep
# the worst file under a second. DeepSeek-V3 has 1,025 tensors and 60 keys; Gemma 4 has 262,144 tokens and 514,906 merges.
_MAX_TENSORS: Final = 16_384
_MAX_KEYS: Final = 16_384
_MAX_STRINGS: Final = 1_250_000
_MAX_NESTED_ARRAYS: Final = 16_384
_MAX_KEPT_ITEMS: Final = 262_144
_MAX_KEPT_TEXT_BYTES: Final = 32 * MIB
_MAX_NAME_BYTES: Final = 64 * KIB  # the format allows 65,535 for keys
_MAX_KEPT_VALUE_BYTES: Final = MIB
_MAX_KEPT_ARRAY: Final = 4096
_MAX_NESTING: Final = 4

_SCALARS: Final[Mapping[int, tuple[str, str]]] = {
    0: ("uint8", "B"),
    1: ("int8", "b"),
    2: ("uint16", "H"),
    3: ("int16", "h"),
    4: ("uint32", "I"),
    5: ("int32", "i"),
    6: ("float32", "f"),
    7: ("bool", "?"),
    10: ("uint64", "Q"),
    11: ("int64", "q"),
    12: ("float64", "d"),
}
_STRING: Final = 8
_ARRAY: Final = 9


@dataclass(slots=True)
class ReadBudget:
    """What is left of the bounds; shared by all parts of a split model."""

    strings: int = _MAX_STRINGS
    nested_arrays: int = _MAX_NESTED_ARRAYS
    kept_items: int = _MAX_KEPT_ITEMS
    text_bytes: int = _MAX_KEPT_TEXT_BYTES
    tensors: int = _MAX_TENSORS
    keys: int = _MAX_KEYS


class HeaderReader:
    """Numbers, texts and values of a GGUF header in one byte order."""

    def __init__(self, source: ByteSource, budget: ReadBudget, *, big_endian: bool) -> None:
        self.source = source
        self._budget = budget
        self._big_endian = big_endian
        order = ">" if big_endian else "<"
        self._structs = {code: struct.Struct(order + code) for _, code in _SCALARS.values()}
        self._order = order

    def unsigned(self, code: str, what: str) -> int:
        """The next unsigned number: ``I`` is 4 bytes, ``Q`` is 8."""
        packed = self._structs[code]
        return int(packed.unpack(self.source.read(packed.size, what))[0])

    def name(self, what: str) -> str:
        """The next text, which names something and so must be short."""
        n_bytes = self.unsigned("Q", what)
        self._raise_if_too_long(n_bytes, what)
        if n_bytes > _MAX_NAME_BYTES:
            raise ModelFileError(
                f"{self.source.path}: {what} is {n_bytes} bytes long; the file is damaged, download it again"
            )
        return self._text(n_bytes, what)

    def value(self, kind: int, what: str) -> MetadataValue:
        """The next value, of the type with the id ``kind``."""
        if kind == _STRING:
            n_bytes = self.unsigned("Q", what)
            self._raise_if_too_long(n_bytes, what)
            if n_bytes > _MAX_KEPT_VALUE_BYTES:
                self.source.skip(n_bytes, what)
                return LongText(n_bytes=n_bytes)
            return self._text(n_bytes, what)
        if kind == _ARRAY:
            return self._array(what, _MAX_NESTING)
        return self._scalars(kind, 1, what)[0]

    def _array(self, what: str, depth: int) -> MetadataValue:
        kind, length = self.unsigned("I", what), self.unsigned("Q", what)
        if kind in _SCALARS:
            return self._number_array(kind, length, what)
        if kind not in (_STRING, _ARRAY):
            raise self._unknown_type(kind, what)
        if kind == _STRING:
            self._raise_if_too_long(length * 8, what)
            return self._string_array(length, what)
        self._raise_if_too_long(length * 12, what)
        return self._nested_array(length, what, depth)

    def _nested_array(self, length: int, what: str, depth: int) -> LongArray:
        """Arrays in arrays: no model has many, and none is kept."""
        self._budget.nested_arrays -= length
        if depth <= 1 or self._budget.nested_arrays < 0:
            raise ModelFileError(
                f"{self.source.path}: {what} has too many arrays in arrays; the file is damaged or made to harm"
            )
        for _ in range(length):
            self._array(what, depth - 1)
        return LongArray(element_type="array", length=length)

    def _number_array(self, kind: int, length: int, what: str) -> MetadataValue:
        element_type, code = _SCALARS[kind]
        n_bytes = length * self._structs[code].size
        self._raise_if_too_long(n_bytes, what)
        if length > min(_MAX_KEPT_ARRAY, self._budget.kept_items):
            self.source.skip(n_bytes, what)
            return LongArray(element_type=element_type, length=length)
        self._budget.kept_items -= length
        return self._scalars(kind, length, what)

    def _string_array(self, length: int, what: str) -> MetadataValue:
        self._spend_strings(length, what)
        if length > min(_MAX_KEPT_ARRAY, self._budget.kept_items):
            self.source.skip_strings(length, big_endian=self._big_endian, what=what)
            return LongArray(element_type="string", length=length)
        self._budget.kept_items -= length
        values = []
        for _ in range(length):
            n_bytes = self.unsigned("Q", what)
            self._raise_if_too_long(n_bytes, what)
            values.append(self._text(n_bytes, what))
        return tuple(values)

    def _scalars(self, kind: int, length: int, what: str) -> tuple[int | float | bool, ...]:
        if kind not in _SCALARS:
            raise self._unknown_type(kind, what)
        packed = struct.Struct(f"{self._order}{length}{_SCALARS[kind][1]}")
        return packed.unpack(self.source.read(packed.size, what))

    def _text(self, n_bytes: int, what: str) -> str:
        self._budget.text_bytes -= n_bytes
        if self._budget.text_bytes < 0:
            raise ModelFileError(
                f"{self.source.path}: the header holds far more text than any model has; the file is damaged or made to harm"
            )
        try:
            return self.source.read(n_bytes, what).decode("utf-8")
        except UnicodeDecodeError:
            raise ModelFileError(
                f"{self.source.path}: {what} is not valid UTF-8; the file is damaged, download it again"
            ) from None

    def _spend_strings(self, count: int, what: str) -> None:
        self._budget.strings -= count
        if self._budget.strings < 0:
            raise ModelFileError(
                f"{self.source.path}: {what} has {count} entries; suffice reads {_MAX_STRINGS} texts at most, the file is damaged"
            )

    def _raise_if_too_long(self, n_bytes: int, what: str) -> None:
        if n_bytes > self.source.remaining:
            raise ModelFileError(
                f"{self.source.path}: {what} is said to take {n_bytes} bytes, but only {self.source.remaining} are left in the file; "
                "it is cut off or damaged, download it again"
            )

    def _unknown_type(self, kind: int, what: str) -> ModelFileError:
        return ModelFileError(
            f"{self.source.path}: {what} has the unknown type {kind}; the file is damaged or newer than suffice"
        )


def shown(value: object) -> str:
    """A name from a file, safe and short enough for a message."""
    text = repr(value)
    longest = 80
    return text if len(text) <= longest else f"{text[:longest]}..."

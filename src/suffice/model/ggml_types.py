"""The number formats of ggml tensors: their ids in a GGUF file and the exact bytes of their blocks.

Bits per weight follow from the block, never from the name: ``q4_0`` packs 32 elements in 18 bytes, which is 4.5 bits.
Source: ``ggml_type`` and ``type_traits`` in ggml.h and ggml.c; equal to ``GGML_QUANT_SIZES`` of the gguf package 0.19.
Ids 4, 5, 31-33 and 36-38 were formats that ggml removed; files that hold them cannot be run any more, so they are unknown here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from suffice.units import BITS_PER_BYTE

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class GgmlType:
    """One number format: ``block_elements`` numbers are stored in ``block_bytes`` bytes."""

    type_id: int
    name: str  # as ggml prints it
    block_elements: int
    block_bytes: int

    @property
    def bits_per_element(self) -> float:
        """Exact bits per number, block scales included: 4.5 for ``q4_0``."""
        return self.block_bytes * BITS_PER_BYTE / self.block_elements

    def row_bytes(self, elements: int) -> int:
        """Bytes of a row of ``elements`` numbers.

        Raises:
            ValueError: the row is negative or not a whole number of blocks.
        """
        blocks, rest = divmod(elements, self.block_elements)
        if rest or elements < 0:
            raise ValueError(
                f"a row of {elements} numbers is not a whole number of {self.name} blocks of {self.block_elements}"
            )
        return blocks * self.block_bytes


# id, name, elements per block, bytes per block
_TABLE: Final = (
    (0, "f32", 1, 4),
    (1, "f16", 1, 2),
    (2, "q4_0", 32, 18),
    (3, "q4_1", 32, 20),
    (6, "q5_0", 32, 22),
    (7, "q5_1", 32, 24),
    (8, "q8_0", 32, 34),
    (9, "q8_1", 32, 40),
    (10, "q2_K", 256, 84),
    (11, "q3_K", 256, 110),
    (12, "q4_K", 256, 144),
    (13, "q5_K", 256, 176),
    (14, "q6_K", 256, 210),
    (15, "q8_K", 256, 292),
    (16, "iq2_xxs", 256, 66),
    (17, "iq2_xs", 256, 74),
    (18, "iq3_xxs", 256, 98),
    (19, "iq1_s", 256, 50),
    (20, "iq4_nl", 32, 18),
    (21, "iq3_s", 256, 110),
    (22, "iq2_s", 256, 82),
    (23, "iq4_xs", 256, 136),
    (24, "i8", 1, 1),
    (25, "i16", 1, 2),
    (26, "i32", 1, 4),
    (27, "i64", 1, 8),
    (28, "f64", 1, 8),
    (29, "iq1_m", 256, 56),
    (30, "bf16", 1, 2),
    (34, "tq1_0", 256, 54),
    (35, "tq2_0", 256, 66),
    (39, "mxfp4", 32, 17),
    (40, "nvfp4", 64, 36),
    (41, "q1_0", 128, 18),
)

TYPES_BY_ID: Final[Mapping[int, GgmlType]] = MappingProxyType(
    {
        type_id: GgmlType(type_id=type_id, name=name, block_elements=elements, block_bytes=n_bytes)
        for type_id, name, elements, n_bytes in _TABLE
    }
)
_TYPES_BY_NAME: Final = {kind.name.lower(): kind for kind in TYPES_BY_ID.values()}
_KNOWN_ROWS: Final = 500


def type_by_name(name: str) -> GgmlType:
    """The format called ``name``, in any case: ``type_by_name("Q4_K").name == "q4_K"``.

    Raises:
        ValueError: ggml has no such format; the message lists those it has.
    """
    try:
        return _TYPES_BY_NAME[name.lower()]
    except KeyError:
        known = ", ".join(kind.name for kind in TYPES_BY_ID.values())
        raise ValueError(f"{name!r} is not a ggml type; known are {known}") from None


@lru_cache(maxsize=_KNOWN_ROWS)  # asked for by each layer, of each machine of a catalogue
def row_bytes(type_name: str, elements: int) -> int:
    """Bytes of a row of ``elements`` numbers in the format ``type_name``: ``row_bytes("q8_0", 128) == 136``.

    Raises:
        ValueError: no such format, or the row is not a whole number of its blocks.
    """
    return type_by_name(type_name).row_bytes(elements)

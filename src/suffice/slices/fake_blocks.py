"""Blocks without an engine, for tests: the right sizes, no sensible numbers."""

from __future__ import annotations

import random

from suffice.model.ggml_types import type_by_name

_PATTERN_BLOCKS = 251  # a prime number, so that rows differ


class FakeBlocks:
    """A BlockSource whose blocks are a pattern of bytes that mean nothing; it counts what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, float]] = []

    def blocks(self, type_name: str, n_elements: int, *, sigma: float, seed: int) -> bytes:
        """See :class:`suffice.slices.contents.BlockSource`; every type that ggml knows."""
        self.asked.append((type_name, sigma))
        if n_elements < 1:
            raise ValueError(f"at least one block must be made, not {n_elements} elements")
        kind = type_by_name(type_name)
        chance = random.Random(f"{kind.name}/{sigma}/{seed}")  # noqa: S311 - reproducible filler
        pattern = chance.randbytes(kind.block_bytes * _PATTERN_BLOCKS)
        n_bytes = kind.row_bytes(n_elements)
        return (pattern * (n_bytes // len(pattern) + 1))[:n_bytes]

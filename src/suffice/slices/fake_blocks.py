"""Blocks without an engine, for tests: the right sizes, no sensible numbers."""

from __future__ import annotations

from suffice.model.ggml_types import row_bytes


class FakeBlocks:
    """A BlockSource whose blocks are a pattern of bytes; it counts what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, float]] = []

    def blocks(self, type_name: str, n_elements: int, *, sigma: float, seed: int) -> bytes:
        self.asked.append((type_name, sigma))
        n_bytes = row_bytes(type_name, n_elements)
        pattern = bytes(range(251))  # a prime number of bytes, so that blocks differ
        return (pattern * (n_bytes // len(pattern) + 1))[:n_bytes]

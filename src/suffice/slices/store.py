"""What a run needs of slices: a file for a header."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from suffice.model.gguf_header import GgufHeader
    from suffice.slices.cache import SliceCache
    from suffice.slices.contents import BlockSource


class SliceStore(Protocol):
    """Gives files for headers of slices. Its fake is the real cache in a temporary folder, with fake blocks."""

    def obtain(self, header: GgufHeader, *, progress: Callable[[str], None]) -> Path:
        """The first part file of a slice with this header, written if it is not there yet. Errors as of the cache."""


@dataclass(frozen=True, slots=True)
class CachedSlices:
    """Slices from a cache, filled with blocks of one source."""

    cache: SliceCache
    blocks: BlockSource

    def obtain(self, header: GgufHeader, *, progress: Callable[[str], None]) -> Path:
        """See :class:`SliceStore`."""
        return self.cache.obtain(header, self.blocks, progress=progress)

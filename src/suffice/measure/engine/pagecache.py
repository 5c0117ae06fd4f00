"""Drop a model's files from the page cache, and look whether they are gone, so that a load counts as cold only if it was."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

COLD_AT_MOST: Final = 0.1  # share of the pages that may stay resident in a load that is called cold
# The kernel drops pages of a file in large runs, so that pages side by side tell little more than one of them.
SAMPLED_STRETCHES: Final = 128
SAMPLED_PAGES: Final = 8
_PART: Final = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$")


def split_parts(model: Path) -> tuple[Path, ...]:
    """All parts of a split model (``name-00001-of-00003.gguf``) that exist, or the file itself."""
    match = _PART.match(model.name)
    if match is None:
        return (model,)
    parts = sorted(model.parent.glob("*.gguf"))
    return tuple(part for part in parts if _same_split(part.name, match))


def evict(paths: tuple[Path, ...]) -> bool | None:
    """Ask the system to forget the files' pages. True: at most :data:`COLD_AT_MOST` stayed; None: it cannot be told."""
    if not hasattr(os, "posix_fadvise"):
        return None
    try:
        for path in paths:
            _forget(path)
        shares = [resident_share(path) for path in paths]
    except OSError:
        return None
    known = [share for share in shares if share is not None]
    return max(known) <= COLD_AT_MOST if len(known) == len(shares) and known else None


def resident_share(path: Path) -> float | None:
    """Share of a file's pages that are in memory, by mincore(2); None where the system does not tell.

    Linux tells it only of files that the caller owns or may write, and calls all others fully resident.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    size = path.stat().st_size
    if not hasattr(libc, "mincore") or size == 0:
        return None
    pages = (size + mmap.PAGESIZE - 1) // mmap.PAGESIZE
    flags = (ctypes.c_ubyte * pages)()
    with path.open("rb") as file, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) as mapping:
        anchor = ctypes.c_char.from_buffer(mapping)
        status = libc.mincore(ctypes.c_void_p(ctypes.addressof(anchor)), ctypes.c_size_t(size), flags)
        del anchor  # the mapping cannot be closed while something points into it
    if status != 0:
        return None
    return bytes(flag & 1 for flag in flags).count(1) / pages


def resident_share_sampled(path: Path) -> float | None:
    """As :func:`resident_share`, of :data:`SAMPLED_STRETCHES` stretches of pages spread evenly: a tenth of a millisecond for any size.

    None also where the file cannot be read.
    """
    libc = ctypes.CDLL(None, use_errno=True) if os.name == "posix" else None
    if libc is None or not hasattr(libc, "mincore"):
        return None
    flags = (ctypes.c_ubyte * SAMPLED_PAGES)()
    seen: list[int] = []
    try:
        size = path.stat().st_size
        with path.open("rb") as file, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) as mapping:
            anchor = ctypes.c_char.from_buffer(mapping)
            start = ctypes.addressof(anchor)
            pages = (size + mmap.PAGESIZE - 1) // mmap.PAGESIZE
            for first, count in _stretches(pages):
                place = ctypes.c_void_p(start + first * mmap.PAGESIZE)
                status = libc.mincore(place, ctypes.c_size_t(count * mmap.PAGESIZE), flags)
                seen += [-1] if status else [flag & 1 for flag in flags[:count]]
            del anchor  # the mapping cannot be closed while something points into it
    except (OSError, ValueError):  # an empty file cannot be mapped
        return None
    return None if not seen or -1 in seen else sum(seen) / len(seen)


def _stretches(pages: int) -> list[tuple[int, int]]:
    """First page and number of pages of each stretch; all pages where there are few."""
    if pages <= SAMPLED_STRETCHES * SAMPLED_PAGES:
        return [(first, min(SAMPLED_PAGES, pages - first)) for first in range(0, pages, SAMPLED_PAGES)]
    last = pages - SAMPLED_PAGES
    return [(last * number // (SAMPLED_STRETCHES - 1), SAMPLED_PAGES) for number in range(SAMPLED_STRETCHES)]


def _same_split(name: str, wanted: re.Match[str]) -> bool:
    found = _PART.match(name)
    return found is not None and (found["stem"], found["count"]) == (wanted["stem"], wanted["count"])


def _forget(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)  # pages that still wait to be written cannot be dropped
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)

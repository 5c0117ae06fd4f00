"""The cache of slices: a slice that was written once is used again, and all of them together stay below a limit.

Several processes may use one cache at the same time. What appears under its final name is complete: it was written under ``tmp``,
flushed to disk and renamed. A slice keeps its parts by links of its own, so that nobody can remove them from under it; and a slice that
a process uses is locked (:mod:`suffice.slices.locks`), so that no other process removes it to make room.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from suffice.errors import OutputError
from suffice.slices.contents import Contents
from suffice.slices.folder import CacheFolder, own_prefix, remove
from suffice.slices.gguf_write import write_gguf
from suffice.slices.locks import hold, unused
from suffice.slices.parts import plan_files
from suffice.slices.place import LIMIT_VARIABLE, ROOT_VARIABLE, default_limit_bytes, default_root
from suffice.units import KIB, MIB, format_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from suffice.model.gguf_header import GgufHeader
    from suffice.slices.contents import BlockSource
    from suffice.slices.parts import PartPlan, SliceFiles

_INFO_NAME: Final = "slice.json"
_MAX_INFO_BYTES: Final = 64 * KIB
_MAX_NAME_CHARACTERS: Final = 200
_SPARE_DISK_BYTES: Final = 64 * MIB  # never fill a disk to its last byte


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheEntry:
    """One slice in the cache."""

    key: str
    name: str | None  # the model's; None when the note beside the slice cannot be read
    layers: int | None
    n_bytes: int  # its parts, whether it shares them or not
    last_used_s: float  # since the epoch
    path: Path  # its folder


class SliceCache:
    """Slices on disk.

    Args:
        root: the cache's folder; None: SUFFICE_CACHE_DIR, else the user's cache folder of the operating system.
        limit_bytes: what all slices together may take; None: SUFFICE_CACHE_LIMIT, else 8 GiB.
    """

    def __init__(self, root: Path | None = None, limit_bytes: int | None = None) -> None:
        self.limit_bytes = default_limit_bytes() if limit_bytes is None else limit_bytes
        self._folder = CacheFolder(default_root() if root is None else root)
        self._in_use: set[str] = set()  # obtained through this object

    @property
    def root(self) -> Path:
        """The cache's folder; it need not exist yet."""
        return self._folder.root

    def obtain(self, header: GgufHeader, blocks: BlockSource, *, progress: Callable[[str], None]) -> Path:
        """The first part file of a slice with this header, written if it is not there yet.

        While this object lives, neither it nor another process removes what it gave out.

        Raises:
            OutputError: the cache cannot be written, the disk or the cache's limit is too small, or something strange is there.
            ModelFileError: the header is not that of a complete model.
            EngineError: the engine cannot make blocks of a type.
        """
        plan = plan_files(header)
        self._folder.create()
        with self._folder.errors("write"):
            target = self._folder.slices / plan.key
            self._hold(target)  # first: what is complete then stays complete
            if not self._is_complete(target, plan):
                remove(target)
                self._make_room(plan)
                self._build(target, plan, Contents(blocks), progress)
            with suppress(OSError):  # a cache that can only be read is still good for reading
                os.utime(target)
        self._in_use.add(plan.key)
        return target / plan.file_name(0)

    def entries(self) -> tuple[CacheEntry, ...]:
        """The slices, last used first.

        Raises:
            OutputError: the folder cannot be read or is not ours.
        """
        if not self._folder.exists():
            return ()
        with self._folder.errors("read"):
            entries = [entry for path in self._folder.slice_folders() if (entry := _entry(path)) is not None]
        return tuple(sorted(entries, key=lambda entry: -entry.last_used_s))

    def total_bytes(self) -> int:
        """What the cache takes on disk; a part that several slices share counts once.

        Raises:
            OutputError: the folder cannot be read or is not ours.
        """
        if not self._folder.exists():
            return 0
        with self._folder.errors("read"):
            return self._folder.total_bytes()

    def clear(self, older_than_s: float | None = None) -> int:
        """Remove all slices, or those not used for ``older_than_s``; returns the bytes that this freed. What another process uses stays.

        Raises:
            OutputError: the folder is not ours, or something in it cannot be removed.
        """
        before = self.total_bytes()
        if not self._folder.exists():
            return 0
        now_s = time.time()
        with self._folder.errors("clear"):
            for entry in self.entries():
                if older_than_s is None or now_s - entry.last_used_s >= older_than_s:
                    _remove_unused(entry.path)
            if older_than_s is None:
                self._folder.sweep(older_than_s=0)
            else:
                self._folder.sweep()
            self._folder.remove_unused_parts()
        return before - self.total_bytes()

    def _is_complete(self, target: Path, plan: SliceFiles) -> bool:
        if target.is_symlink() or not target.is_dir():
            return False
        return all(
            self._folder.link_is_intact(target / plan.file_name(index), part.key, part.layout)
            for index, part in enumerate(plan.parts)
        )

    def _make_room(self, plan: SliceFiles) -> None:
        """Remove what is oldest until the new slice fits below the limit, then see whether it fits on the disk."""
        self._folder.sweep()
        keep = frozenset(part.key for part in plan.parts)
        needed = sum(part.n_bytes for part in plan.parts if not self._folder.part_is_intact(part.key, part.layout))
        oldest_first = [entry for entry in reversed(self.entries()) if entry.key not in self._in_use]
        over = self._folder.total_bytes() + needed - self.limit_bytes
        if over > 0:
            self._folder.remove_unused_parts(keep)
        for entry in oldest_first:
            if self._folder.total_bytes() + needed <= self.limit_bytes:
                break
            _remove_unused(entry.path)
            self._folder.remove_unused_parts(keep)
        self._raise_if_too_large(plan, needed)

    def _raise_if_too_large(self, plan: SliceFiles, needed: int) -> None:
        total = self._folder.total_bytes() + needed
        if total > self.limit_bytes:
            raise OutputError(
                f"{plan.name}: with what is in use beside it that takes {format_memory(total)}, but the cache "
                f"may take {format_memory(self.limit_bytes)}; raise {LIMIT_VARIABLE} (8GiB, for example)"
            )
        free = self._folder.free_bytes()
        if needed + _SPARE_DISK_BYTES > free:
            raise OutputError(
                f"{plan.name}: needs {format_memory(needed)} in {self.root}, where {format_memory(free)} are "
                f"free; free some space, or set {ROOT_VARIABLE} to a folder on another disk (or in memory: /dev/shm/suffice)"
            )

    def _build(self, target: Path, plan: SliceFiles, contents: Contents, progress: Callable[[str], None]) -> None:
        building = Path(tempfile.mkdtemp(dir=self._folder.temporary, prefix=own_prefix()))
        self._hold(building)
        try:
            for index, part in enumerate(plan.parts):
                self._place_part(building / plan.file_name(index), part, contents, progress)
            _write_info(building / _INFO_NAME, plan)
            self._rename(building, target, plan)
        finally:
            remove(building)

    def _hold(self, folder: Path) -> None:
        """Keep other processes from removing a folder, wherever it is renamed to, while this object lives."""
        descriptor = hold(folder) if folder.is_dir() and not folder.is_symlink() else None
        if descriptor is not None:
            weakref.finalize(self, os.close, descriptor)

    def _place_part(self, link: Path, part: PartPlan, contents: Contents, progress: Callable[[str], None]) -> None:
        if self._links_to_part(link, part):
            return
        if part.role != "empty":
            progress(f"writing {part.role} ({format_memory(part.n_bytes)})")
        written = link.with_name(f"new-{link.name}")
        write_gguf(written, part.layout, contents.fill)
        if self._links_to_part(link, part):  # another process wrote the same meanwhile: one copy is enough
            remove(written)
            return
        written.replace(link)
        self._folder.publish(link, part.key)

    def _links_to_part(self, link: Path, part: PartPlan) -> bool:
        """Make ``link`` lead to the part if there is one; False when there is none, or it is just being removed."""
        if not self._folder.part_is_intact(part.key, part.layout):
            return False
        try:
            self._folder.link_part(part.key, link)
        except FileNotFoundError:
            return False
        return True

    def _rename(self, building: Path, target: Path, plan: SliceFiles) -> None:
        if not self._is_complete(building, plan):
            raise OutputError(f"{plan.name}: its parts in {self.root} changed while it was written; try again")
        try:
            building.rename(target)
        except OSError:
            self._hold(target)
            if not self._is_complete(target, plan):  # else another process was quicker, with the same slice
                raise


def _remove_unused(folder: Path) -> None:
    """Remove a slice unless another process uses it."""
    with unused(folder) as free:
        if free:
            remove(folder)


def _write_info(path: Path, plan: SliceFiles) -> None:
    note = {"name": plan.name[:_MAX_NAME_CHARACTERS], "architecture": plan.architecture, "layers": plan.layers}
    path.write_text(json.dumps(note) + "\n", encoding="utf-8")


def _entry(path: Path) -> CacheEntry | None:
    """What is known of a slice's folder; None when it has just gone."""
    try:
        files = [file for file in path.iterdir() if file.suffix == ".gguf"]
        n_bytes = sum(file.stat().st_size for file in files if file.exists())
        last_used_s = path.stat().st_mtime
    except FileNotFoundError:
        return None
    note = _info(path / _INFO_NAME)
    name, layers = note.get("name"), note.get("layers")
    return CacheEntry(
        key=path.name,
        name=name[:_MAX_NAME_CHARACTERS] if isinstance(name, str) else None,
        layers=layers if isinstance(layers, int) and not isinstance(layers, bool) else None,
        n_bytes=n_bytes,
        last_used_s=last_used_s,
        path=path,
    )


def _info(path: Path) -> dict[str, object]:
    """The note beside a slice; empty when it is missing or damaged, for nothing depends on it."""
    try:
        if path.is_symlink() or path.stat().st_size > _MAX_INFO_BYTES:
            return {}
        note = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return note if isinstance(note, dict) else {}

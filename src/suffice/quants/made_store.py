"""The cache of candidates that were made here: beside the slices, under ``made`` in the same folder.

::

    made/KEY/NAME.gguf         a candidate; KEY is a hash of all that decides what is in it
    made/KEY/made.json         its size and hash, and what it was made from
    made/KEY/lock              held by those who use it
    made/.building-KEY/        what is being made; renamed when it is complete, so a killed process leaves nothing that counts

Two processes that want the same candidate make it once: the second waits. Candidates do not count in the limit of the slices, as they were
asked for by name; only the disk has to have room. ``suffice cache`` lists them, and removes them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import time
import weakref
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from suffice.errors import ModelFileError, OutputError
from suffice.loaders.model_file import open_model_file
from suffice.quants.identity import file_identity
from suffice.quants.making_lock import Turn, take_turn
from suffice.slices.folder import CacheFolder, remove
from suffice.slices.locks import has_lock, hold, unused
from suffice.slices.place import ROOT_VARIABLE, default_root
from suffice.units import KIB, MIB, SECONDS_PER_DAY, format_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SPARE_DISK_BYTES: Final = 64 * MIB  # never fill a disk to its last byte
_FOLDER: Final = "made"
_NOTE: Final = "made.json"
_BUILDING: Final = ".building-"
_NAME: Final = re.compile(rf"[0-9a-f]{{64}}|{re.escape(_BUILDING)}[0-9a-f]{{64}}(-\d+)?")
_MAX_NOTE_BYTES: Final = 64 * KIB
_WAIT_S: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeNote:
    """What is kept beside a candidate.

    Attributes:
        file: name of the GGUF file.
        n_bytes: its size.
        identity: its hash, as run records have it.
        recipe: what it was made to.
        reference: name of the file that it was made from.
        reference_identity: the hash of that.
        imatrix: SHA-256 of the importance matrix; None: made without one.
        engine: whose quantizer made it.
    """

    file: str
    n_bytes: int
    identity: str
    recipe: str
    reference: str
    reference_identity: str
    imatrix: str | None
    engine: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeEntry:
    """One candidate in the cache; ``note`` is None where it cannot be read."""

    key: str
    note: MadeNote | None
    n_bytes: int
    last_used_s: float  # since the epoch
    path: Path  # its folder


class MadeStore:
    """Candidates on disk.

    Args:
        root: the cache's folder; None: SUFFICE_CACHE_DIR, else the user's cache folder of the operating system.
    """

    def __init__(self, root: Path | None = None) -> None:
        self._folder = CacheFolder(default_root() if root is None else root)

    @property
    def root(self) -> Path:
        """The cache's folder; it need not exist yet."""
        return self._folder.root

    @property
    def made(self) -> Path:
        """The folder of candidates."""
        return self.root / _FOLDER

    def obtain(
        self, key: str, needed_bytes: int, make: Callable[[Path], MadeNote], progress: Callable[[str], None]
    ) -> tuple[Path, MadeNote, bool]:
        """A candidate's file with its note, and whether ``make`` was called for it, which writes into the folder that it gets.

        While this object lives, no other process removes it.

        Raises:
            OutputError: the cache cannot be written, or the disk has no room for ``needed_bytes``.
        """
        self._folder.create()
        with self._folder.errors("write"):
            if not os.path.lexists(self.made):
                self.made.mkdir(exist_ok=True)
            self._raise_if_planted()
            target, building = self.made / key, self.made / f"{_BUILDING}{key}"
            with take_turn(building, lambda: self._found(target, progress), progress, wait_s=_WAIT_S) as (turn, found):
                is_new = found is None
                note = self._build(turn, target, needed_bytes, make) if found is None else found
            self._hold(target)  # not before: a lock ends when the process closes another one on the same file
            with suppress(OSError):  # a cache that can only be read is still good for reading
                os.utime(target)
        return target / note.file, note, is_new

    def entries(self) -> tuple[MadeEntry, ...]:
        """The candidates, last used first.

        Raises:
            OutputError: the folder cannot be read or is not ours.
        """
        with self._reading() as exists:
            folders = self._folders() if exists else []
            entries = [entry for path in folders if not path.name.startswith(_BUILDING) and (entry := _entry(path))]
        return tuple(sorted(entries, key=lambda entry: -entry.last_used_s))

    def total_bytes(self) -> int:
        """What candidates take on disk, those that are being made included.

        Raises:
            OutputError: the folder cannot be read or is not ours.
        """
        with self._reading() as exists:
            return sum(map(_bytes_of, self._folders())) if exists else 0

    def clear(self, older_than_s: float | None = None) -> int:
        """Remove all candidates, or those not used for ``older_than_s``; returns the bytes that this freed. What another process uses stays.

        Raises:
            OutputError: the folder is not ours, or something in it cannot be removed.
        """
        before = self.total_bytes()
        now_s = time.time()
        with self._reading() as exists:
            for path in self._folders() if exists else []:
                with suppress(FileNotFoundError):
                    is_old = older_than_s is None or now_s - path.lstat().st_mtime >= older_than_s
                    if is_old or path.name.startswith(_BUILDING):
                        _remove_unused(path)
        return before - self.total_bytes()

    def _found(self, target: Path, progress: Callable[[str], None]) -> MadeNote | None:
        """The note of what is there, if it is whole."""
        if not os.path.lexists(target):
            return None
        note = _intact(target)
        if note is None:
            progress(f"{target.name[:12]} in the cache of candidates is damaged and is made again")
            remove(target)
        return note

    def _build(self, turn: Turn, target: Path, needed_bytes: int, make: Callable[[Path], MadeNote]) -> MadeNote:
        self._sweep(turn.folder)
        self._raise_if_full(needed_bytes)
        try:
            note = make(turn.folder)
            (turn.folder / _NOTE).write_text(json.dumps(asdict(note), indent=2) + "\n", encoding="utf-8")
            return self._publish(turn.folder, target, note)
        except BaseException:
            remove(turn.folder)
            raise

    @staticmethod
    def _publish(folder: Path, target: Path, note: MadeNote) -> MadeNote:
        try:
            folder.rename(target)
        except OSError:  # where there are no locks, another process may have been quicker
            theirs = _intact(target)
            if theirs is None:
                raise
            remove(folder)
            return theirs
        return note

    def _raise_if_full(self, needed_bytes: int) -> None:
        free = shutil.disk_usage(self.root).free
        if needed_bytes + SPARE_DISK_BYTES > free:
            raise OutputError(
                f"the candidate needs {format_memory(needed_bytes)} in {self.root}, where {format_memory(free)} are free; free some space, "
                f"or set {ROOT_VARIABLE} to a folder on another disk"
            )

    def _sweep(self, mine: Path) -> None:
        """Remove what killed processes left half-made."""
        now_s = time.time()
        for path in self._folders():
            with suppress(FileNotFoundError):
                is_old = now_s - path.lstat().st_mtime >= SECONDS_PER_DAY  # where no lock tells
                if path.name.startswith(_BUILDING) and path != mine and (has_lock(path) or is_old):
                    _remove_unused(path)

    def _hold(self, target: Path) -> None:
        descriptor = hold(target)
        if descriptor is not None:
            weakref.finalize(self, os.close, descriptor)

    @contextmanager
    def _reading(self) -> Iterator[bool]:
        """Whether there is anything of ours."""
        exists = self._folder.exists() and os.path.lexists(self.made)
        if exists:
            self._raise_if_planted()
        with self._folder.errors("read"):
            yield exists

    def _raise_if_planted(self) -> None:
        """A folder of ours must be one: following a link would write, and delete, somewhere else."""
        if not stat.S_ISDIR(self.made.lstat().st_mode):
            raise OutputError(f"{self.made} is a file or a link, where the cache needs a folder; remove it")

    def _folders(self) -> list[Path]:
        """The folders of candidates, whole or being made, and nothing else that may lie there."""
        return [path for path in sorted(self.made.iterdir()) if _is_ours(path)]


def _is_ours(path: Path) -> bool:
    return _NAME.fullmatch(path.name) is not None and path.is_dir() and not path.is_symlink()


def _remove_unused(folder: Path) -> None:
    """Remove a folder unless another process uses it."""
    with unused(folder) as free:
        if free:
            remove(folder)


def _bytes_of(folder: Path) -> int:
    total = 0
    with suppress(FileNotFoundError):
        for path in folder.iterdir():
            with suppress(FileNotFoundError):
                total += path.lstat().st_size
    return total


def _entry(folder: Path) -> MadeEntry | None:
    """What is known of a candidate; None when it has just gone."""
    try:
        last_used_s = folder.stat().st_mtime
    except FileNotFoundError:
        return None
    return MadeEntry(
        key=folder.name,
        note=_note(folder / _NOTE),
        n_bytes=_bytes_of(folder),
        last_used_s=last_used_s,
        path=folder,
    )


def _intact(folder: Path) -> MadeNote | None:
    """The note of a candidate whose file is as the note says, by size and hash; else None."""
    note = None if folder.is_symlink() or not folder.is_dir() else _note(folder / _NOTE)
    if note is None:
        return None
    path = folder / note.file
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size != note.n_bytes:
            return None
        return note if file_identity(open_model_file(path)) == note.identity else None
    except (OSError, ModelFileError):
        return None


def _note(path: Path) -> MadeNote | None:
    """The note beside a candidate; None when it is missing or damaged."""
    try:
        if path.is_symlink() or path.stat().st_size > _MAX_NOTE_BYTES:
            return None
        values = json.loads(path.read_text(encoding="utf-8"))
        return _checked(MadeNote(**values))
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def _checked(note: MadeNote) -> MadeNote:
    """The note itself, if its values are of their types and its file lies beside it."""
    values: dict[str, Any] = asdict(note)
    texts = [value for name, value in values.items() if name not in {"n_bytes", "imatrix"}]
    is_whole = isinstance(note.n_bytes, int) and not isinstance(note.n_bytes, bool)
    if not is_whole or not all(isinstance(text, str) for text in texts) or not isinstance(note.imatrix, str | None):
        raise ValueError(note)
    if os.path.basename(note.file) != note.file or not note.file.endswith(".gguf"):  # noqa: PTH119 - of a text
        raise ValueError(note.file)
    return note

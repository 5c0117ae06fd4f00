"""The cache's folder on disk: what is ours in it, how files get there whole, and how they go.

::

    CACHEDIR.TAG            says that the folder is a cache, and that it is ours
    parts/KEY.gguf          part files, each once
    slices/KEY/             a slice: links to its parts, and slice.json
    tmp/                    what is being written; renamed when complete

Nothing outside these four names is touched. Links are hard links; where the file system has none, they are symbolic ones.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from suffice.errors import OutputError
from suffice.slices.locks import has_lock, unused
from suffice.slices.place import ROOT_VARIABLE
from suffice.units import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from suffice.slices.gguf_write import GgufLayout

TAG_NAME: Final = "CACHEDIR.TAG"
_TAG_DRAFT: Final = f".{TAG_NAME}."
_TAG: Final = (
    b"Signature: 8a477f597d28d172789f06886806bc55\n"  # https://bford.info/cachedir/
    b"# This folder is a cache of suffice (`suffice cache`). It can be deleted at any time.\n"
)
_ABANDONED_AFTER_S: Final = SECONDS_PER_HOUR  # no slice takes as long to write
_NO_HARD_LINKS: Final = frozenset(
    {errno.EPERM, errno.EACCES, errno.EMLINK, errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL}
)
_PART_SUFFIX: Final = ".gguf"
_KEY_CHARACTERS: Final = 64


class CacheFolder:
    """The files of a cache. Every method raises OutputError where the folder cannot be used."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.parts = root / "parts"
        self.slices = root / "slices"
        self.temporary = root / "tmp"

    @property
    def _folders(self) -> tuple[Path, Path, Path]:
        return (self.parts, self.slices, self.temporary)

    def exists(self) -> bool:
        """Whether there is a cache of ours; False when there is nothing at all.

        Raises:
            OutputError: something else is there.
        """
        with self.errors("read"):
            if not os.path.lexists(self.root):
                return False
            if not self.root.is_dir():
                raise OutputError(
                    f"{self.root} is not a folder, so it cannot be the cache; set {ROOT_VARIABLE} to another one"
                )
            tag = self.root / TAG_NAME
            if not os.path.lexists(tag):
                # The start of a tag: another process is creating the same cache right now.
                if any(not path.name.startswith(_TAG_DRAFT) for path in self.root.iterdir()):
                    raise OutputError(
                        f"{self.root} is not empty and no cache of suffice; set {ROOT_VARIABLE} to a folder of its own, "
                        f"such as {self.root / 'suffice'}"
                    )
                return False
            if not _is_regular(tag) or tag.read_bytes()[: len(_TAG)] != _TAG:
                raise OutputError(
                    f"{tag} was not written by suffice, so nothing in {self.root} is touched; set {ROOT_VARIABLE} to another folder"
                )
            self._raise_if_planted()
        return True

    def create(self) -> None:
        """Make the folder ready for writing.

        Raises:
            OutputError: no permission, read-only, or something else is there.
        """
        known = self.exists()
        with self.errors("create"):
            if not known:
                self.root.mkdir(parents=True, exist_ok=True)
                self._write_tag()
            for folder in self._folders:
                folder.mkdir(exist_ok=True)
        self._raise_if_planted()

    def _write_tag(self) -> None:
        descriptor, name = tempfile.mkstemp(dir=self.root, prefix=_TAG_DRAFT)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_TAG)
        Path(name).replace(self.root / TAG_NAME)

    def _raise_if_planted(self) -> None:
        """A folder of ours must be one: following a link would write, and delete, somewhere else."""
        for folder in self._folders:
            if os.path.lexists(folder) and not stat.S_ISDIR(folder.lstat().st_mode):
                raise OutputError(f"{folder} is a file or a link, where the cache needs a folder; remove it")

    @contextmanager
    def errors(self, doing: str) -> Iterator[None]:
        """Errors of the operating system as one sentence of ours."""
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            advice = f"set {ROOT_VARIABLE} to a folder that you can write to"
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                advice = f"free some space, or set {ROOT_VARIABLE} to a folder on another disk (or in memory: /dev/shm/suffice)"
            raise OutputError(f"cannot {doing} the cache {self.root}: {reason}; {advice}") from error

    # Parts

    def part(self, key: str) -> Path:
        """Where the part with this key is kept."""
        return self.parts / f"{key}{_PART_SUFFIX}"

    def part_is_intact(self, key: str, layout: GgufLayout) -> bool:
        """Whether the part is there, whole, and says of itself what it should."""
        return _is_intact(self.part(key), layout)

    def link_is_intact(self, link: Path, key: str, layout: GgufLayout) -> bool:
        """Whether a slice's link leads to an intact part: a file itself, or a symbolic link into ``parts`` and nowhere else."""
        if link.is_symlink():
            return link.readlink() == self._target(key) and self.part_is_intact(key, layout)
        return _is_intact(link, layout)

    def _target(self, key: str) -> Path:
        return Path(os.pardir, os.pardir, self.parts.name, f"{key}{_PART_SUFFIX}")

    def link_part(self, key: str, link: Path) -> None:
        """Make ``link`` lead to the part ``key``."""
        try:
            os.link(self.part(key), link)  # not of a link: the part was seen to be a file
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            link.symlink_to(self._target(key))

    def publish(self, written: Path, key: str) -> None:
        """Keep a file, which is complete, as the part ``key``; ``written`` leads to it afterwards."""
        place = self.part(key)
        beside = self.temporary / f"{key}-{os.getpid()}{_PART_SUFFIX}"
        remove(beside)
        try:
            os.link(written, beside)
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            written.replace(place)
            written.symlink_to(self._target(key))
            return
        if _is_folder(place):
            remove(place)
        # Renaming replaces what is damaged, or a link that somebody planted, without ever writing through it.
        beside.replace(place)

    # Slices

    def slice_folders(self) -> list[Path]:
        """The folders of slices, and nothing else that may lie there."""
        return [path for path in _children(self.slices) if _is_key(path.name) and _is_folder(path)]

    def part_files(self) -> list[Path]:
        """The part files, and nothing else that may lie there."""
        return [path for path in _children(self.parts) if _is_key(path.stem) and path.suffix == _PART_SUFFIX]

    def used_parts(self) -> set[str]:
        """Names of the parts that a slice, whole or being made, links to by a symbolic link; hard links count themselves."""
        folders = [*self.slice_folders(), *(path for path in _children(self.temporary) if _is_folder(path))]
        return {link.readlink().name for folder in folders for link in _children(folder) if link.is_symlink()}

    def remove_unused_parts(self, keep: frozenset[str] = frozenset()) -> None:
        """Delete the parts that no slice links to, except those with the keys ``keep``."""
        used = self.used_parts()
        for path in self.part_files():
            with suppress(FileNotFoundError):
                if path.stem not in keep and path.name not in used and path.lstat().st_nlink <= 1:
                    remove(path)

    def sweep(self, older_than_s: float = _ABANDONED_AFTER_S) -> None:
        """Delete what a killed process left half-written: at once where a lock tells that nobody writes it, else when it is old."""
        now_s = time.time()
        for path in _children(self.temporary):
            with suppress(FileNotFoundError), unused(path) as free:
                # Locks tell nothing of this process.
                telling = has_lock(path) and not path.name.startswith(own_prefix())
                if free and (telling or now_s - path.lstat().st_mtime >= older_than_s):
                    remove(path)

    def total_bytes(self) -> int:
        """Bytes of all our files; what has several links counts once."""
        folders = [self.parts, self.temporary, *self.slice_folders()]
        folders += [path for path in _children(self.temporary) if _is_folder(path)]
        sizes: dict[tuple[int, int], int] = {}
        for folder in folders:
            for path in _children(folder):
                with suppress(FileNotFoundError):
                    status = path.lstat()
                    if stat.S_ISREG(status.st_mode):
                        sizes[status.st_dev, status.st_ino] = status.st_size
        return sum(sizes.values())

    def free_bytes(self) -> int:
        """Free space of the disk."""
        return shutil.disk_usage(self.root).free


def own_prefix() -> str:
    """How the names begin of what this process writes under ``tmp``."""
    return f"{os.getpid()}-"


def remove(path: Path) -> None:
    """Delete a file, a link (not what it leads to) or a folder of ours; a file that Windows holds open stays."""
    try:
        if _is_folder(path):
            shutil.rmtree(path)
        else:
            path.unlink()
    except FileNotFoundError:
        return
    except PermissionError:
        if os.name != "nt":
            raise


def _children(folder: Path) -> list[Path]:
    """What a folder holds; nothing when it is not there, or has just gone."""
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []


def _is_intact(path: Path, layout: GgufLayout) -> bool:
    try:
        if not _is_regular(path) or path.lstat().st_size != layout.file_bytes:
            return False
        with path.open("rb") as file:
            return file.read(len(layout.header)) == layout.header
    except FileNotFoundError:
        return False


def _is_regular(path: Path) -> bool:
    return stat.S_ISREG(path.lstat().st_mode)


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except FileNotFoundError:
        return False


def _is_key(name: str) -> bool:
    return len(name) == _KEY_CHARACTERS and all(character in "0123456789abcdef" for character in name)

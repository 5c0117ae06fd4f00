"""Writing the files of a deployment: all of them or, where something stands in the way, none."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from suffice.errors import OutputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def check_folder(folder: Path, files: Mapping[str, str], *, force: bool, inputs: Sequence[Path]) -> None:
    """Refuse, before anything is written, what would replace a file.

    Raises:
        UsageError: a file is there and --force is not given, or it is one that the command read, or the folder is a file.
    """
    _check_is_folder(folder)
    read = {path.resolve() for path in inputs}
    for name in files:
        path = folder / name
        if path.resolve() in read:
            raise UsageError(f"{path} is what the command reads; give another folder with --out")
        if path.is_symlink() or path.exists():
            if not force:
                raise UsageError(f"{path} is there already; give --force to replace it, or another folder")
            if not path.is_file():
                raise UsageError(f"{path} is no file; remove it or give another folder")


def _check_is_folder(folder: Path) -> None:
    """The folder is one, or can become one."""
    try:
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"--out {folder} is a file; give the name of a folder")
        if folder.is_symlink() and not folder.exists():
            raise UsageError(f"--out {folder} is a link that leads nowhere; give the name of a folder")
    except OSError as error:
        raise UsageError(f"--out cannot be used: {error.strerror or error}; give another folder") from error


def write_files(folder: Path, files: Mapping[str, str]) -> Mapping[str, Path]:
    """Each file in one piece; scripts can be run by those who may read them.

    Raises:
        OutputError: no permission, or the disk is full.
    """
    from suffice.records.store import write_atomically  # Pydantic, slow to import

    written: dict[str, Path] = {}
    for name, text in files.items():
        path = folder / name
        write_atomically(path, text)
        if name.endswith(".sh"):
            _let_run(path)
        written[name] = path
    return written


def _let_run(path: Path) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    try:
        path.chmod(mode | (mode & 0o444) >> 2)  # whoever may read it may run it
    except OSError as error:
        raise OutputError(f"{path} cannot be made runnable: {error.strerror or error}") from error

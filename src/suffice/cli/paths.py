"""Outputs must not destroy anything: no input, no other output, no file that suffice did not write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from suffice.errors import UsageError
from suffice.report.quants_csv import CSV_MARK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SNIFF_BYTES: Final = 4096
MARKDOWN_MARK: Final = "<!-- suffice quants -->"
"""The first line of a report in Markdown; no reader shows it."""
# How what suffice writes begins; an existing file that begins otherwise is somebody's and is not replaced.
OURS: Final = {
    "--out": (b"{",),
    "--memo": (b"# Verdict:",),
    "--junit": (b"<?xml", b"<testsuite"),
    "--chart": (b"<?xml", b"\x89PNG"),
    "--chart-users": (b"<?xml",),
    "--prometheus": (b"# HELP suffice_",),
    "--csv": (f'"{CSV_MARK}: '.encode(),),
    "--flips": (f'"{CSV_MARK}: '.encode(),),
    "--markdown": (MARKDOWN_MARK.encode(),),
}
# And what stands somewhere in its first bytes: there are many pictures that begin like ours.
_MARKS: Final = {"--chart": b"suffice chart", "--chart-users": b"suffice chart"}


def check_outputs(outputs: Mapping[str, Path | None], inputs: Sequence[Path | None]) -> None:
    """Refuse, before anything is measured, outputs that would replace an input, each other, or a stranger's file.

    Args:
        outputs: flag (``--out``, ``--memo``, ``--junit``) -> path, None when it is not asked for.
        inputs: files that the command reads.

    Raises:
        UsageError: with the flag and what stands in its way.
    """
    wanted = {flag: path for flag, path in outputs.items() if path is not None}
    for flag, path in wanted.items():
        for other in inputs:
            if other is not None and _same(path, other):
                raise UsageError(f"{flag} {path} is the file {other} that this command reads; give another name")
        for other_flag, other_path in wanted.items():
            if other_flag != flag and _same(path, other_path):
                raise UsageError(f"{flag} and {other_flag} would both write {path}; give two names")
        _check_existing(flag, path)


def _same(first: Path, second: Path) -> bool:
    try:
        return first.samefile(second)
    except (OSError, ValueError):  # one of the two is not there (yet)
        return _resolved(first) == _resolved(second)


def _resolved(path: Path) -> Path:
    """As the file system will read it, or at least absolute."""
    try:
        return Path(path).resolve()
    except (OSError, ValueError, RuntimeError):
        return Path(path).absolute()


def check_places(outputs: Mapping[str, Path | None]) -> None:
    """Refuse, before anything is measured, outputs that could not be written in the end.

    Raises:
        UsageError: with the flag and what stands in its way.
    """
    for flag, path in outputs.items():
        problem = None if path is None else _unwritable(path)
        if problem is not None:
            raise UsageError(f"{flag} {path} cannot be written: {problem}; give another name")


def _unwritable(path: Path) -> str | None:
    try:
        if path.is_dir():
            return "it is a folder"
        if path.exists() and not path.is_file():
            return "it is a device or a pipe"
        place = next(parent for parent in path.absolute().parents if parent.exists())
        if not place.is_dir():
            return f"{place} is no folder"
        return None if os.access(place, os.W_OK | os.X_OK) else f"nothing can be written in {place}"
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)


def _check_existing(flag: str, path: Path) -> None:
    try:
        if not path.is_file():
            return
        with path.open("rb") as file:
            start = file.read(_SNIFF_BYTES)
    except (OSError, ValueError):
        return  # writing it will fail with its own message
    ours = start.startswith(OURS[flag]) and _MARKS.get(flag, b"") in start
    if start.strip() and not ours:
        raise UsageError(f"{flag} {path} exists and is no file that suffice wrote; remove it or give another name")

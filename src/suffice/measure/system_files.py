"""Small readers of ``/proc`` and ``/sys``: a missing, unreadable or garbled file is None, never an error.

Each takes the root of the tree, so that a test can write one under a temporary folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def read_text(path: Path) -> str | None:
    """Content of a small text file without surrounding blanks; None when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except (OSError, ValueError):
        return None


def to_int(text: str | None) -> int | None:
    """A decimal whole number, or None of anything else."""
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        return None


def read_int(path: Path) -> int | None:
    """The one whole number that a file holds, or None."""
    return to_int(read_text(path))


def read_counters(path: Path) -> dict[str, int]:
    """Lines of ``name value`` such as ``memory.stat`` or ``cpu.stat``; lines of another form are left out."""
    counters: dict[str, int] = {}
    for line in (read_text(path) or "").splitlines():
        words = line.replace(":", " ").split()
        value = to_int(words[1]) if len(words) > 1 else None
        if value is not None:
            counters[words[0]] = value
    return counters


def parse_cpu_list(text: str | None) -> tuple[int, ...]:
    """The kernel's list format: ``"0-3,8"`` -> ``(0, 1, 2, 3, 8)``; empty when it is garbled."""
    cpus: list[int] = []
    for part in (text or "").split(","):
        first, dash, last = part.strip().partition("-")
        low, high = to_int(first), to_int(last if dash else first)
        if low is None or high is None:
            return ()
        cpus.extend(range(low, high + 1))
    return tuple(cpus)

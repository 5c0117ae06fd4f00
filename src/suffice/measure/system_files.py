"""Small readers of ``/proc`` and ``/sys``: a missing, unreadable or garbled file is None, never an error.

Each takes the root of the tree, so that a test can write one under a temporary folder.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from suffice.units import KIB

if TYPE_CHECKING:
    from collections.abc import Iterable
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


def format_cpu_list(cpus: Iterable[int]) -> str:
    """The reverse of :func:`parse_cpu_list`: ``(0, 1, 2, 3, 8)`` -> ``"0-3,8"``."""
    runs = []
    for _, members in itertools.groupby(enumerate(sorted(set(cpus))), key=lambda pair: pair[1] - pair[0]):
        run = [cpu for _, cpu in members]
        runs.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ",".join(runs)


def read_node_bytes(path: Path) -> dict[int, int] | None:
    """Resident bytes of a process by NUMA node, from its ``numa_maps`` (numa(7)); None where there is none.

    Its lines end in words such as ``N0=512 N1=3 kernelpagesize_kB=4``: pages on each node, and their size.
    """
    text = read_text(path)
    if text is None:
        return None
    found: dict[int, int] = {}
    for line in text.splitlines():
        words = dict(word.split("=", 1) for word in line.split() if "=" in word)
        page_kib = to_int(words.get("kernelpagesize_kB"))
        for name, value in words.items():
            node, pages = to_int(name[1:]) if name.startswith("N") else None, to_int(value)
            if node is not None and pages is not None and page_kib is not None:
                found[node] = found.get(node, 0) + pages * page_kib * KIB
    return found or None

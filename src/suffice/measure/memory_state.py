"""Reads where the memory of the engine's process lies (proc_pid_smaps(5), numa(7), mincore(2)). Milliseconds: once before and after a series."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from suffice.decide.memory_state import MemoryState
from suffice.measure.engine.pagecache import resident_share_sampled
from suffice.measure.system_files import read_counters, read_node_bytes
from suffice.units import KIB

if TYPE_CHECKING:
    from collections.abc import Sequence

_HUGE: Final = ("AnonHugePages", "ShmemPmdMapped", "FilePmdMapped", "Shared_Hugetlb", "Private_Hugetlb")


def read_memory_state(pid: int, files: Sequence[Path] = (), *, root: Path = Path("/")) -> MemoryState:
    """The state now of process ``pid``, and of the model's ``files`` in the page cache. What cannot be read is None."""
    rollup = read_counters(root / f"proc/{pid}/smaps_rollup")  # in KiB; one walk of the page tables
    nodes = read_node_bytes(root / f"proc/{pid}/numa_maps")
    resident = rollup["Rss"] * KIB if "Rss" in rollup else _psutil_resident(pid, root)
    return MemoryState(
        resident_bytes=resident,
        swapped_bytes=rollup["Swap"] * KIB if "Swap" in rollup else None,
        huge_bytes=KIB * sum(rollup.get(name, 0) for name in _HUGE) if "AnonHugePages" in rollup else None,
        local_share=max(nodes.values()) / sum(nodes.values()) if nodes and sum(nodes.values()) else None,
        file_resident_share=_resident(files),
    )


def _resident(files: Sequence[Path]) -> float | None:
    """Of all files together; None where one of them is not told."""
    shares = [(resident_share_sampled(file), file) for file in files]
    known = [(share, file.stat().st_size) for share, file in shares if share is not None]
    if not known or len(known) != len(shares):
        return None
    return sum(share * size for share, size in known) / sum(size for _, size in known)


def _psutil_resident(pid: int, root: Path) -> int | None:
    if root != Path(root.anchor):
        return None  # another tree than that of this machine
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return None

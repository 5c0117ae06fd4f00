"""Where the engine's memory lies: rules on what is read once before and once after a series, since reading it takes milliseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# The kernel swaps a few pages of idle libraries out on any long-lived machine; a hundredth of the engine's memory is a layer of a model.
MAX_SWAPPED_SHARE: Final = 0.01
# Weights that are read from a file must all be in the page cache to be read at memory's speed. A hundredth from an SSD of 2 GB/s beside
# memory of 20 GB/s makes a step 10 % longer.
LEAST_RESIDENT_SHARE: Final = 0.99
# As for a run that is placed on a node (suffice.measure.numa): every tenth byte over a link that is half as fast makes a step 10 % longer.
LEAST_LOCAL_SHARE: Final = 0.90


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryState:
    """Memory of the engine's process at one moment. None: this system does not tell.

    Attributes:
        resident_bytes: in memory, mapped files included.
        swapped_bytes: moved out to swap.
        huge_bytes: of the memory that is no file, what lies in huge pages. Fewer cost address translation; a fact, not a disturbance.
        local_share: of the resident memory, what lies on the NUMA node that holds most of it; 1 on a machine with one node.
        file_resident_share: of the pages of the model's files, what is in the page cache.
    """

    resident_bytes: int | None = None
    swapped_bytes: int | None = None
    huge_bytes: int | None = None
    local_share: float | None = None
    file_resident_share: float | None = None


def memory_reasons(state: MemoryState, *, use_mmap: bool, on_one_node: bool) -> tuple[str, ...]:
    """What disturbs in where the memory lies; empty when nothing, or nothing is told.

    Args:
        state: while the model is open, after it was evaluated once.
        use_mmap: weights are read from the mapped file; otherwise they are copied, and the page cache does not matter.
        on_one_node: all threads of the engine run on one NUMA node; with threads on several, memory on several is right.
    """
    found = []
    if state.swapped_bytes and state.resident_bytes is not None:
        share = state.swapped_bytes / (state.swapped_bytes + state.resident_bytes)
        if share > MAX_SWAPPED_SHARE:
            found.append(f"{share:.0%} of the engine's memory is swapped out")
    if use_mmap and state.file_resident_share is not None and state.file_resident_share < LEAST_RESIDENT_SHARE:
        found.append(
            f"only {state.file_resident_share:.0%} of the model's file is in memory: the rest is read from a disk"
        )
    if on_one_node and state.local_share is not None and state.local_share < LEAST_LOCAL_SHARE:
        found.append(f"only {state.local_share:.0%} of the engine's memory lies on one NUMA node")
    return tuple(found)

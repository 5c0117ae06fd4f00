"""Ceilings: what physics allows, from bytes and operations alone.

The roofline model (Williams, Waterman and Patterson, CACM 52(4), 2009): a phase takes at least the time to move its bytes
and at least the time to do its operations; the longer of the two binds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class Bound(StrEnum):
    """Which of the two roofs is lower."""

    MEMORY = "memory bandwidth"
    COMPUTE = "compute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofs:
    """What a machine can do at most. ``peak_flop_per_s`` None: unknown, so only the memory roof is applied."""

    bandwidth_bytes_per_s: float
    peak_flop_per_s: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.bandwidth_bytes_per_s < math.inf:
            raise ValueError("bandwidth must be a positive number of bytes per second")
        if self.peak_flop_per_s is not None and not 0 < self.peak_flop_per_s < math.inf:
            raise ValueError("peak compute must be a positive number of FLOP per second")


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseWork:
    """Bytes that a phase must read and operations that it must do."""

    read_bytes: float
    flop: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseFloor:
    """The least time of a phase and what binds it."""

    seconds: float
    bound: Bound


def least_time(work: PhaseWork, roofs: Roofs) -> PhaseFloor:
    """The least time for some work: ``max(bytes / bandwidth, FLOP / peak)``.

    >>> least_time(PhaseWork(read_bytes=3.5e9), Roofs(bandwidth_bytes_per_s=40e9)).seconds
    0.0875
    """
    memory_s = work.read_bytes / roofs.bandwidth_bytes_per_s
    compute_s = 0.0 if roofs.peak_flop_per_s is None else work.flop / roofs.peak_flop_per_s
    if compute_s > memory_s:
        return PhaseFloor(seconds=compute_s, bound=Bound.COMPUTE)
    return PhaseFloor(seconds=memory_s, bound=Bound.MEMORY)


def decode_work(*, weight_bytes: float, kv_bytes: float, flop_per_token: float = 0.0, batch: int = 1) -> PhaseWork:
    """One decode step: the weights once for the whole batch, the KV cache and the operations of each sequence.

    Args:
        weight_bytes: weights read by this batch (for a mixture of experts, of all experts that the batch touches).
        kv_bytes: KV cache read per sequence at its depth.
        flop_per_token: operations per token at that depth.
        batch: sequences in the step.
    """
    return PhaseWork(read_bytes=weight_bytes + batch * kv_bytes, flop=batch * flop_per_token)


def prefill_work(*, weight_bytes: float, flop: float, n_tokens: int, n_ubatch: int) -> PhaseWork:
    """A prompt: all its operations, and the weights streamed once per micro-batch.

    Args:
        weight_bytes: weights read in one micro-batch.
        flop: operations of the whole prompt, with the attention among its tokens.
        n_tokens: length of the prompt.
        n_ubatch: tokens that share one pass over the weights.
    """
    return PhaseWork(read_bytes=math.ceil(n_tokens / n_ubatch) * weight_bytes, flop=flop)

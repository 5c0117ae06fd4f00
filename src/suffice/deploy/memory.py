"""How much memory one engine takes with all its slots: what was seen, and what the slots add."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.deploy.setting import Setting, computed
from suffice.units import GIB, MIB, format_memory

if TYPE_CHECKING:
    from suffice.decide.evidence import MachineEvidence
    from suffice.deploy.server_settings import ServerSettings
    from suffice.records.schema import RunRecord

HEADROOM: Final = 1.2
"""Factor over the greatest memory that is expected: requests in flight, the HTTP server and the allocator are in no record."""
SERVER_BYTES: Final = 256 * MIB
"""llama-server itself: 126 MB over weights, cache and buffers for a vocabulary of 49,000 (build of 2026-08, docs/deploy.md), and as much again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """Of one engine.

    Attributes:
        needed: bytes that it is expected to take at most.
        limit: bytes with headroom: over it, it is ended.
        usable_bytes: that the machine, or the demand, has for it; None: not known.
    """

    needed: Setting[int]
    limit: Setting[int]
    usable_bytes: float | None

    @property
    def can_be_locked(self) -> bool:
        """Whether all of it may be kept from being swapped or dropped: it fits, with headroom."""
        return self.usable_bytes is not None and self.limit.value <= self.usable_bytes


def memory_plan(
    record: RunRecord,
    evidence: MachineEvidence,
    settings: ServerSettings,
    stated_bytes: float | None,
    encoder_bytes: float = 0.0,
) -> MemoryPlan | None:
    """The memory of one engine; None: the record does not say, or the layers were on a GPU.

    The greater of two: weights, caches and buffers by arithmetic, and the largest resident memory that was seen, with the run's cache
    exchanged for that of the slots. The server itself is added to either.

    Args:
        record: of the run.
        evidence: in it.
        settings: of the server.
        stated_bytes: what the demand leaves to the model on the whole machine; None: not stated.
        encoder_bytes: of the encoder of images beside the model.
    """
    context, slots = settings.context.value, settings.slots.value
    bare, whole = (evidence.memory_needed_bytes(context, count) for count in (0, slots))
    if evidence.is_gpu or bare is None or whole is None:
        return None
    copies = _checkpoint_bytes(record, settings)
    seen = _seen_bytes(record)
    grown = None if seen is None else seen + (whole - bare)
    needed = _up_to_mib(max(whole, grown or 0.0) + copies + encoder_bytes + SERVER_BYTES)
    how = "weights, caches and buffers by arithmetic"
    if grown is not None and grown >= whole:
        how = f"measured peak of {(record.measurement.peak_rss_bytes or 0) / GIB:.2f} GiB, its cache exchanged for that of the slots"
    if encoder_bytes:
        how += f"; {format_memory(encoder_bytes)} for the encoder of images"
    # What a record of several engines has is one engine's already (:func:`suffice.measure.numa.facts_on`); what is stated is of all.
    usable = record.memory_usable_bytes if stated_bytes is None else stated_bytes / evidence.engines
    return MemoryPlan(
        needed=computed(
            needed, f"{how}; {slots} slots of {context} tokens; {format_memory(SERVER_BYTES)} for the server itself"
        ),
        limit=computed(_up_to_mib(needed * HEADROOM), f"{HEADROOM:g} times the memory that is expected"),
        usable_bytes=usable,
    )


def _seen_bytes(record: RunRecord) -> float | None:
    """The peak without the run's cache; None where it is of slices or not known."""
    peak, cache = record.measurement.peak_rss_bytes, record.settings.get("kv_cache_bytes")
    if peak is None or record.measurement.extrapolation is not None or isinstance(cache, bool):
        return None
    return float(peak) - cache if isinstance(cache, int | float) and 0 <= cache < peak else None


def _checkpoint_bytes(record: RunRecord, settings: ServerSettings) -> float:
    if settings.checkpoints is None:
        return 0.0
    model = record.model
    windows = sum(one.count * one.bytes_per_token * one.window for one in model.kv_layers if one.window is not None)
    return settings.checkpoints.value * settings.slots.value * (windows + model.kv_state_bytes)


def _up_to_mib(value: float) -> int:
    return -(-round(value) // MIB) * MIB

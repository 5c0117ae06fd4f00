"""Catalogue entries. Pure: the loader is :mod:`suffice.catalogue.devices`."""

from __future__ import annotations

from dataclasses import dataclass

from suffice.units import BITS_PER_BYTE, MEGA

_DDR_BUS_BITS = 64  # a channel of DDR4, DDR5 (two halves of 32) or of the platforms that count in 64-bit channels


@dataclass(frozen=True, slots=True, kw_only=True)
class Sourced:
    """A number with where and when it was seen, and of what kind it is ("datasheet", "derived", ...)."""

    value: float
    kind: str
    source: str
    seen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A processor or accelerator. None: not found, or not trusted.

    ``bandwidth_bytes_per_s`` is rated, not measured: a virtual machine, or a single process, gets less.
    """

    id: str
    name: str
    kind: str  # "gpu", "npu", "cpu", "platform", "apple", ...
    bandwidth_bytes_per_s: Sourced | None
    dense_bf16_flop_per_s: Sourced | None
    memory_bytes: float | None
    channels: int | None
    mega_transfers_per_s: float | None

    @property
    def channel_bandwidth_bytes_per_s(self) -> float | None:
        """Channels x transfers/s x bus width, where both are known: a check of the rated figure."""
        if self.channels is None or self.mega_transfers_per_s is None:
            return None
        return self.channels * self.mega_transfers_per_s * MEGA * _DDR_BUS_BITS / BITS_PER_BYTE
